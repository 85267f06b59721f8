#!/usr/bin/env bash
# Installs what the tests of the report's page need, on Debian or Ubuntu, as root:
# Chromium, which draws the page without a screen, and poppler's pdftotext, which reads what it prints.
# Both come from the distribution's own packages. Nothing else is changed.
set -euo pipefail
if [ "$(id -u)" -ne 0 ]; then
    echo "Run this as root: it installs the packages chromium and poppler-utils." >&2
    exit 1
fi
apt-get update
apt-get install --yes --no-install-recommends chromium poppler-utils
chromium --version

#!/usr/bin/env bash
# Installs the programs that the tests of the report page need, on Debian or Ubuntu, as root:
# Chromium, which renders the page without a screen, and poppler's pdftotext, which reads the printed page.
# Both come from the distribution's packages. Nothing else is changed.
set -euo pipefail
if [ "$(id -u)" -ne 0 ]; then
    echo "Run this as root: it installs the packages chromium and poppler-utils." >&2
    exit 1
fi
apt-get update
apt-get install --yes --no-install-recommends chromium poppler-utils
chromium --version

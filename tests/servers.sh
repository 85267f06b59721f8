#!/usr/bin/env bash
# Installs the servers that `make test-all` starts, on Debian or Ubuntu, as root: PostgreSQL and Redis; and a C
# compiler, for the adjustable clock of a test.
# They come from the distribution's packages. No service is started and no database is created: the tests start their
# own servers, in their own folders, and stop them. The S3 server and MLflow come with the Python packages.
set -euo pipefail
if [ "$(id -u)" -ne 0 ]; then
    echo "Run this as root: it installs the packages postgresql, redis-server and gcc." >&2
    exit 1
fi
policy=/usr/sbin/policy-rc.d # 101: do not start installed services
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
apt-get update
apt-get install --yes --no-install-recommends postgresql-common
mkdir -p /etc/postgresql-common/createcluster.d
echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/babelray-tests.conf
apt-get install --yes --no-install-recommends postgresql redis-server gcc libc6-dev
redis-server --version

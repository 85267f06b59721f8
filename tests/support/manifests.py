"""The manifests under k8s/: as they are written, and as kubectl renders an overlay."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from conftest import ROOT

FASTEST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
K8S = ROOT / "k8s"
TOOLS = ROOT / ".tools"
OVERLAYS = ("local", "gpu", "production")


def read(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader=FASTEST) if document]


def base() -> list[dict[str, Any]]:
    """All of base/, unrendered; its jobs have no cluster yet."""
    (index,) = read(K8S / "base/kustomization.yaml")
    return [manifest for name in index["resources"] for manifest in read(K8S / "base" / name)]


def kubectl() -> str | None:
    return str(TOOLS / "kubectl") if (TOOLS / "kubectl").exists() else shutil.which("kubectl")


@functools.cache
def rendered(overlay: str) -> str:
    command = [str(kubectl()), "kustomize", str(K8S / "overlays" / overlay)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def overlay(name: str) -> list[dict[str, Any]]:
    return list(yaml.load_all(rendered(name), Loader=FASTEST))


def one(manifests: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    (found,) = [m for m in manifests if m["kind"] == kind and name in (None, m["metadata"]["name"])]
    return found

"""Manifests against schemas: KubeRay's custom resource definitions, Kubernetes' own. An unknown field is an error."""

from __future__ import annotations

import functools
import json
import os
import re
from pathlib import Path
from typing import Any

import yaml

from conftest import ROOT
from support.manifests import FASTEST, TOOLS

KUBERAY = Path(os.environ.get("BABELRAY_KUBERAY_CRDS") or ROOT.parent / "shared/kuberay-crds")


def missing(version: str = "ray.io/v1") -> str:
    """Why manifests of this version cannot be checked here; empty: they can."""
    if not (TOOLS / "schemas").exists():
        return "Kubernetes' schemas are not installed: tests/k8s/install.sh"
    if version.startswith("ray.io/") and not list(KUBERAY.glob("*rayclusters.yaml")):
        return "BABELRAY_KUBERAY_CRDS is not a folder with KubeRay's custom resource definitions"
    return ""


def complaints(manifest: dict[str, Any]) -> list[str]:
    validator = _validator(manifest["apiVersion"], manifest["kind"])
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(manifest)]


@functools.cache
def _validator(version: str, kind: str) -> Any:
    import jsonschema
    from referencing import Registry, Resource

    if version.startswith("ray.io/"):
        (path,) = KUBERAY.glob(f"*{kind.lower()}s.yaml")
        definition = yaml.load(path.read_text(encoding="utf-8"), Loader=FASTEST)
        (found,) = [v for v in definition["spec"]["versions"] if f"ray.io/{v['name']}" == version]
        return jsonschema.Draft202012Validator(_strict(found["schema"]["openAPIV3Schema"], root=True))
    group = re.sub(r"^([^./]*)(\.[^/]*)?/", r"\1-", version)
    schemas = [
        json.loads((TOOLS / "schemas" / n).read_text()) for n in (f"{kind.lower()}-{group}.json", "_definitions.json")
    ]
    registry = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in schemas)
    return jsonschema.Draft202012Validator(schemas[0], registry=registry)


def _strict(schema: dict[str, Any], root: bool = False) -> dict[str, Any]:
    """A structural schema as JSON Schema: numbers may be strings where it says so; what it does not name is refused."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"], **{k: schema[k] for k in ("pattern",) if k in schema}}
    strict = {k: v for k, v in schema.items() if k in ("type", "enum", "pattern", "minimum", "maximum", "minItems")}
    # A default fills in what is required.
    with_default = {name for name, below in schema.get("properties", {}).items() if "default" in below}
    strict["required"] = [name for name in schema.get("required", []) if name not in with_default]
    if "properties" in schema:
        strict["properties"] = {name: _strict(below) for name, below in schema["properties"].items()}
        if root:
            strict["properties"]["metadata"] = {"type": "object"}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            strict["additionalProperties"] = False
    if isinstance(schema.get("additionalProperties"), dict):
        strict["additionalProperties"] = _strict(schema["additionalProperties"])
    if "items" in schema:
        strict["items"] = _strict(schema["items"])
    return strict

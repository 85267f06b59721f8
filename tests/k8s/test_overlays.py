"""Each overlay as kubectl renders it: valid by KubeRay's and Kubernetes' schemas, by the rules, and complete in itself.

Needs kubectl and schemas (tests/k8s/install.sh) and KubeRay's definitions (BABELRAY_KUBERAY_CRDS).
"""

import copy
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import ROOT
from support import manifest_references as references
from support import manifest_rules as rules
from support import manifest_schemas as schemas
from support import manifests

NO_SCHEMA = ("PodMonitor",)  # the Prometheus operator's

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(manifests.kubectl() is None, reason="kubectl is not installed: tests/k8s/install.sh"),
]
each_overlay = pytest.mark.parametrize("name", manifests.OVERLAYS)


@pytest.fixture(scope="module")
def secrets() -> dict[str, set[str]]:
    made = subprocess.run([ROOT / "k8s/make-secrets.sh"], capture_output=True, text=True, check=True).stdout
    return {document["metadata"]["name"]: set(document["data"]) for document in yaml.safe_load_all(made) if document}


def complaints(manifest: dict[str, Any]) -> list[str]:
    """By the schema of a manifest's kind, if it is here."""
    if why := schemas.missing(manifest["apiVersion"]):
        pytest.skip(why)
    return schemas.complaints(manifest)


@each_overlay
@pytest.mark.parametrize("whose", ["KubeRay", "Kubernetes"])
def test_an_overlay_is_valid(name: str, whose: str) -> None:
    there = [m for m in manifests.overlay(name) if m["kind"] not in NO_SCHEMA]
    theirs = [m for m in there if m["apiVersion"].startswith("ray.io/") == (whose == "KubeRay")]
    found = [(m["kind"], complaints(m)) for m in theirs]
    assert len(found) > 3 and [complaint for complaint in found if complaint[1]] == []


@each_overlay
def test_an_overlay_keeps_the_rules(name: str) -> None:
    assert [text for m in manifests.overlay(name) for text in rules.complaints(m)] == []


@each_overlay
def test_an_overlay_names_nothing_that_is_missing(name: str, secrets: dict[str, set[str]]) -> None:
    assert references.complaints(manifests.overlay(name), secrets) == []


@each_overlay
def test_an_overlay_has_everything_and_each_part_can_be_applied_alone(name: str) -> None:
    found = manifests.overlay(name)
    parts = [m["metadata"]["labels"]["babelray.io/part"] for m in found]
    kinds = {part: sorted(m["kind"] for m, p in zip(found, parts, strict=True) if p == part) for part in set(parts)}
    assert kinds.pop("services").count("Deployment") == 1
    assert kinds == {"cluster": ["RayCluster"], "run": ["RayJob"], "sweep": ["RayJob"], "evaluation": ["RayCronJob"]}
    cluster_wide = {"Namespace", "PriorityClass"}
    assert all(m["kind"] in cluster_wide or m["metadata"]["namespace"] == "babelray" for m in found)


@each_overlay
def test_jobs_run_on_the_cluster_that_the_overlay_describes(name: str) -> None:
    found = manifests.overlay(name)
    cluster = manifests.one(found, "RayCluster")["spec"]
    jobs = [m["spec"].get("jobTemplate", m["spec"]) for m in found if m["kind"] in ("RayJob", "RayCronJob")]
    assert len(jobs) == 3
    for job in jobs:
        assert job["rayClusterSpec"] == cluster
        assert job["submitterPodTemplate"] == jobs[0]["submitterPodTemplate"]


def test_local_keeps_its_artifacts_on_a_volume_that_outlives_the_cluster() -> None:
    found = manifests.overlay("local")
    data = manifests.one(found, "ConfigMap", "storage")["data"]
    for pod in (
        list(rules.pods(manifests.one(found, "RayCluster")))[1],
        next(rules.pods(manifests.one(found, "Deployment"))),
    ):
        (mount,) = [m["mountPath"] for m in pod.containers[0]["volumeMounts"] if m["name"] == "storage"]
        assert data["BABELRAY_STORAGE"].startswith(f"{mount}/")
        assert data["MLFLOW_ARTIFACTS_DESTINATION"].startswith(f"{mount}/")
    assert not any("s3://" in value for value in data.values())


@pytest.mark.parametrize("name", ["gpu", "production"])
def test_gpu_workers_come_from_nothing(name: str) -> None:
    found = manifests.overlay(name)
    spec = manifests.one(found, "RayCluster")["spec"]
    assert spec["enableInTreeAutoscaling"] is True
    (group,) = [g for g in spec["workerGroupSpecs"] if g["groupName"] == "gpu"]
    assert group["minReplicas"] == group["replicas"] == 0 < group["maxReplicas"]
    pod = group["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert pod["containers"][0]["image"].endswith("-gpu")
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]
    (shared,) = [v for v in pod["volumes"] if v.get("emptyDir", {}).get("medium") == "Memory"]
    assert {"name": shared["name"], "mountPath": "/dev/shm"} in pod["containers"][0]["volumeMounts"]
    assert manifests.one(found, "ConfigMap", "storage")["data"]["BABELRAY_STORAGE"].startswith("s3://")
    # The autoscaler, and it alone, speaks to Kubernetes.
    tokens = {pod.name: pod.spec["automountServiceAccountToken"] for m in found for pod in rules.pods(m)}
    assert {name for name, given in tokens.items() if given} == {name for name in tokens if name.endswith(" head")}


def test_production_survives_its_head_and_keeps_its_doors_closed() -> None:
    found = manifests.overlay("production")
    options = manifests.one(found, "RayCluster")["spec"]["gcsFaultToleranceOptions"]
    assert options["redisAddress"] == "redis:6379"
    assert manifests.one(found, "NetworkPolicy", "nothing")["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
    }
    labels = manifests.one(found, "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    submitters = {"babelray-run submitter", "babelray-sweep submitter", "babelray-evaluation submitter"}
    without = {pod.name for m in found for pod in rules.pods(m) if "priorityClassName" not in pod.spec}
    assert without == submitters


def amount(text: str) -> float:
    units = {"m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    for unit, size in units.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * size
    return float(text)


def most(spec: dict[str, Any], part: str, resource: str) -> float:
    """What a Ray cluster takes at its largest, with the autoscaler; init containers take less than their pods."""
    groups = [
        (1, spec["headGroupSpec"]["template"]),
        *((g["maxReplicas"], g["template"]) for g in spec["workerGroupSpecs"]),
    ]
    taken = [n * amount(t["spec"]["containers"][0]["resources"][part].get(resource, "0")) for n, t in groups]
    return sum(taken) + amount(spec["autoscalerOptions"]["resources"][part].get(resource, "0"))


@pytest.mark.parametrize("part", ["requests", "limits"])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_the_quota_has_room_for_a_run_at_its_largest_beside_an_idle_cluster(part: str, resource: str) -> None:
    found = manifests.overlay("production")
    hard = manifests.one(found, "ResourceQuota")["spec"]["hard"]
    spec = manifests.one(found, "RayCluster")["spec"]
    idle = copy.deepcopy(spec)
    for group in idle["workerGroupSpecs"]:
        group["maxReplicas"] = group["minReplicas"]
    services = [pod for m in found if m["kind"] in ("Deployment", "StatefulSet") for pod in rules.pods(m)]
    needed = most(spec, part, resource) + most(idle, part, resource)
    needed += sum(amount(c["resources"][part][resource]) for pod in services for c in pod.containers)
    assert needed <= amount(hard[f"{part}.{resource}"])
    assert most(spec, "requests", "nvidia.com/gpu") <= amount(hard["requests.nvidia.com/gpu"])


def spoilt(name: str, kind: str, spoil: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    broken = copy.deepcopy(manifests.one(manifests.overlay(name), kind, "babelray-run" if kind == "RayJob" else None))
    spoil(broken["spec"])
    return broken


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("RayCluster", lambda s: s.update(headGroup={})),
        ("RayCluster", lambda s: s["headGroupSpec"]["rayStartParams"].update({"num-cpus": 0})),
        ("RayCluster", lambda s: s["headGroupSpec"]["template"]["spec"].update(runAsUser=1)),
        ("RayCluster", lambda s: s["authOptions"].update(mode="password")),
        ("RayCluster", lambda s: s["workerGroupSpecs"][0].pop("groupName")),
        ("RayJob", lambda s: s.update(backOffLimit=3)),
        ("RayJob", lambda s: s.update(activeDeadlineSeconds="1h")),
        ("RayJob", lambda s: s["deletionStrategy"]["deletionRules"][0].update(policy="DeleteAll")),
        ("RayCronJob", lambda s: s.pop("schedule")),
        ("RayCronJob", lambda s: s["jobTemplate"].update(schedule="* * * * *")),
        ("Deployment", lambda s: s["template"]["spec"]["containers"][0].update(command="mlflow server")),
        ("Deployment", lambda s: s["template"]["spec"]["containers"][0].update(livenesProbe={})),
        ("ResourceQuota", lambda s: s.update(hards={})),
    ],
)
def test_a_schema_refuses_what_it_does_not_know(kind: str, spoil: Callable[[dict[str, Any]], object]) -> None:
    assert complaints(spoilt("production", kind, lambda spec: None)) == []
    assert complaints(spoilt("production", kind, spoil)) != []


def removed(kind: str, name: str) -> Callable[[list[dict[str, Any]]], object]:
    return lambda found: found.remove(manifests.one(found, kind, name))


@pytest.mark.parametrize(
    ("complaint", "spoil"),
    [
        ("configMapRef storage is not there", removed("ConfigMap", "storage")),
        ("its ConfigMap is not there", removed("ConfigMap", "mlflow-auth")),
        ("ServiceAccount babelray is not there", removed("ServiceAccount", "babelray")),
        ("PriorityClass babelray-training is not there", removed("PriorityClass", "babelray-training")),
        ("nothing answers at mlflow:5000", removed("Service", "mlflow")),
        ("nothing answers at postgres:5432", removed("Service", "postgres")),
        ("nothing answers at redis:6379", removed("Service", "redis")),
        ("no pod has the labels", removed("StatefulSet", "redis")),
        (
            "no pod listens on http",
            lambda found: next(rules.pods(manifests.one(found, "Deployment"))).containers[0].pop("ports"),
        ),
        (
            "a pod has no port metrics",
            lambda found: list(rules.pods(manifests.one(found, "RayCluster")))[1].containers[0].pop("ports"),
        ),
        (
            "there is no volume shared-memory",
            lambda found: list(rules.pods(manifests.one(found, "RayCluster")))[1].spec.pop("volumes"),
        ),
        (
            "no Secret other with auth_token",
            lambda found: manifests.one(found, "RayCluster")["spec"]["authOptions"].update(secretName="other"),
        ),
    ],
)
def test_a_missing_piece_is_noticed(
    complaint: str, spoil: Callable[[list[dict[str, Any]]], object], secrets: dict[str, set[str]]
) -> None:
    found = manifests.overlay("production")
    spoil(found)
    assert any(complaint in text for text in references.complaints(found, secrets))


def test_a_missing_secret_is_noticed(secrets: dict[str, set[str]]) -> None:
    found = manifests.overlay("production")
    for name in ("postgres", "redis", "mlflow-user", "mlflow-server"):
        without = {other: keys for other, keys in secrets.items() if other != name}
        assert any(name in text for text in references.complaints(found, without)), name


def test_an_image_from_a_registry_reaches_every_pod(tmp_path: Path) -> None:
    """What README.md tells people to do: an overlay of their own, with `images`."""
    gpu = os.path.relpath(ROOT / "k8s/overlays/gpu", tmp_path)
    images = [{"name": "babelray", "newName": "registry.example/team/babelray"}]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [gpu], "images": images}))
    command = [str(manifests.kubectl()), "kustomize", str(tmp_path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = {c["image"] for m in yaml.safe_load_all(text) for pod in rules.pods(m) for c in pod.containers}
    ours = {image for image in used if "babelray" in image}
    assert ours == {f"registry.example/team/babelray:0.1.0-{target}" for target in ("cpu", "gpu", "mlflow")}

"""The rules themselves: what is written passes, and each way to break it is refused, by the rule that is meant."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from support import manifest_rules as rules
from support import manifests

Break = Callable[[dict[str, Any]], object]


def cluster() -> dict[str, Any]:
    return copy.deepcopy(manifests.one(manifests.base(), "RayCluster"))


def job(kind: str = "RayJob", name: str = "babelray-run") -> dict[str, Any]:
    """A job as the overlays make it: with the cluster's spec."""
    found = copy.deepcopy(manifests.one(manifests.base(), kind, name))
    (found["spec"]["jobTemplate"] if kind == "RayCronJob" else found["spec"])["rayClusterSpec"] = cluster()["spec"]
    return found


def autoscaling() -> dict[str, Any]:
    found = cluster()
    (patch,) = manifests.read(manifests.K8S / "overlays/gpu/cluster.yaml")
    head = found["spec"]["headGroupSpec"]
    found["spec"] |= patch["spec"] | {"headGroupSpec": head}
    return found


@pytest.mark.parametrize("make", [cluster, autoscaling, job, lambda: job("RayCronJob", "babelray-evaluation")])
def test_what_is_written_passes(make: Callable[[], dict[str, Any]]) -> None:
    assert rules.complaints(make()) == []


def test_everything_in_base_that_has_pods_passes() -> None:
    checked = [m for m in manifests.base() if list(rules.pods(m)) and m["kind"] in ("Deployment", "StatefulSet")]
    assert {m["metadata"]["name"] for m in checked} == {"mlflow", "postgres"}
    assert [text for m in checked for text in rules.complaints(m)] == []


def head(spec: dict[str, Any]) -> dict[str, Any]:
    return spec["headGroupSpec"]["template"]["spec"]


def worker(spec: dict[str, Any]) -> dict[str, Any]:
    return spec["workerGroupSpecs"][0]


BROKEN_CLUSTERS: list[tuple[str, Break]] = [
    ("do not ascend", lambda s: worker(s).update(minReplicas=2)),
    ("do not ascend", lambda s: worker(s).update(minReplicas=-1)),
    ("do not ascend", lambda s: worker(s).update(replicas=5)),
    ("no container", lambda s: head(s).update(containers=[])),
    ("both in rayStartParams", lambda s: s["headGroupSpec"].update(resources={"CPU": "1"})),
    ("labels belong", lambda s: worker(s).update(rayStartParams={"labels": "a=b"})),
    ("autoscaler v2 only", lambda s: worker(s).update(idleTimeoutSeconds=60)),
    ("priority is for autoscaler v2", lambda s: worker(s).update(priority=1)),
    (
        "Redis is configured",
        lambda s: head(s)["containers"][0].update(env=[{"name": "RAY_REDIS_ADDRESS", "value": "r"}]),
    ),
    ("Redis is configured", lambda s: s["headGroupSpec"]["rayStartParams"].update({"redis-password": "x"})),
    ("Redis needs an address", lambda s: s.update(gcsFaultToleranceOptions={})),
    (
        "not in a Secret",
        lambda s: s.update(gcsFaultToleranceOptions={"redisAddress": "redis:6379", "redisPassword": {"value": "x"}}),
    ),
    ("anyone could submit", lambda s: s.pop("authOptions")),
    ("anyone could submit", lambda s: s["authOptions"].update(mode="disabled")),
    ("at least 2.52", lambda s: s.pop("rayVersion")),
    ("at least 2.52", lambda s: s.update(rayVersion="2.9.0")),
    ("not for jobs", lambda s: s["authOptions"].update(enableK8sTokenAuth=True)),
    ("the head does work", lambda s: s["headGroupSpec"].update(rayStartParams={})),
]
BROKEN_AUTOSCALING: list[tuple[str, Break]] = [
    ("restartPolicy", lambda s: head(s).update(restartPolicy="Always")),
    ("restartPolicy", lambda s: worker(s)["template"]["spec"].update(restartPolicy="OnFailure")),
    ("cannot be suspended", lambda s: worker(s).update(suspend=True)),
    ("idleTimeoutSeconds is negative", lambda s: s["autoscalerOptions"].update(idleTimeoutSeconds=-1)),
    ("autoscaler v2 only", lambda s: s["autoscalerOptions"].update(version="v1")),
    ("no securityContext", lambda s: s["autoscalerOptions"].pop("securityContext")),
]
BROKEN_JOBS: list[tuple[str, Break]] = [
    ("neither rayClusterSpec nor", lambda s: s.pop("rayClusterSpec")),
    ("the head does work", lambda s: s["rayClusterSpec"]["headGroupSpec"].update(rayStartParams={})),
    ("activeDeadlineSeconds is not positive", lambda s: s.update(activeDeadlineSeconds=0)),
    ("preRunningDeadlineSeconds is not positive", lambda s: s.update(preRunningDeadlineSeconds=-5)),
    ("backoffLimit is negative", lambda s: s.update(backoffLimit=-1)),
    ("a cluster of the job's own", lambda s: s.update(clusterSelector={"ray.io/cluster": "babelray"})),
    ("a cluster of the job's own", lambda s: s.update(submissionMode="InteractiveMode")),
    ("SidecarMode has no submitter", lambda s: s.update(submissionMode="SidecarMode")),
    ("not YAML", lambda s: s.update(runtimeEnvYAML="a: [")),
    ("tried again", lambda s: s.pop("backoffLimit")),
    ("tried again", lambda s: s.pop("activeDeadlineSeconds")),
    ("would run on the head", lambda s: s.pop("entrypointNumCpus")),
    ("would stay", lambda s: s.pop("deletionStrategy")),
    ("needs shutdownAfterJobFinishes", lambda s: s.update(ttlSecondsAfterFinished=60)),
    ("suspend needs", lambda s: s.update(suspend=True)),
    ("exclude shutdownAfterJobFinishes", lambda s: s.update(shutdownAfterJobFinishes=True)),
    ("not empty", lambda s: s["deletionStrategy"].update(deletionRules=[])),
    ("exclude", lambda s: s["deletionStrategy"].update(onSuccess={"policy": "DeleteSelf"})),
    ("one of jobStatus", lambda s: s["deletionStrategy"]["deletionRules"][0]["condition"].pop("jobStatus")),
    (
        "one of jobStatus",
        lambda s: s["deletionStrategy"]["deletionRules"][0]["condition"].update(jobDeploymentStatus="Failed"),
    ),
    (
        "is there already",
        lambda s: s["deletionStrategy"]["deletionRules"].append(s["deletionStrategy"]["deletionRules"][0]),
    ),
    (
        "the cluster before the job",
        lambda s: s["deletionStrategy"]["deletionRules"][0]["condition"].update(ttlSeconds=10**9),
    ),
    (
        "the cluster before the job",
        lambda s: s["deletionStrategy"]["deletionRules"][0]["condition"].update(ttlSeconds=-1),
    ),
]
BROKEN_SCHEDULES: list[tuple[str, Break]] = [
    *(
        ("is not minute, hour", lambda s, text=text: s.update(schedule=text))
        for text in (
            "",
            "0 3 * *",
            "60 3 * * 1",
            "0 24 * * 1",
            "0 3 0 * 1",
            "0 3 * 13 1",
            "0 3 * * 7",
            "TZ=UTC 0 3 * * 1",
            "a b c d e",
        )
    ),
    ("is unknown", lambda s: s.update(timeZone="Mars/Olympus")),
    ("is unknown", lambda s: s.update(timeZone="")),
    ("activeDeadlineSeconds is not positive", lambda s: s["jobTemplate"].update(activeDeadlineSeconds=-1)),
]


@pytest.mark.parametrize(
    ("make", "complaint", "spoil"),
    [
        *((cluster, *case) for case in BROKEN_CLUSTERS),
        *((autoscaling, *case) for case in BROKEN_AUTOSCALING),
        *((job, *case) for case in BROKEN_JOBS),
        *((lambda: job("RayCronJob", "babelray-evaluation"), *case) for case in BROKEN_SCHEDULES),
    ],
)
def test_what_the_operator_would_refuse_is_refused(make: Any, complaint: str, spoil: Break) -> None:
    broken = make()
    spoil(broken["spec"])
    assert any(complaint in text for text in rules.complaints(broken)), rules.complaints(broken)


def test_workers_are_not_deleted_under_the_autoscaler() -> None:
    broken = job()
    broken["spec"]["rayClusterSpec"] = autoscaling()["spec"]
    assert rules.complaints(broken) == []
    condition = {"jobStatus": "FAILED", "ttlSeconds": 1}
    broken["spec"]["deletionStrategy"]["deletionRules"].append({"policy": "DeleteWorkers", "condition": condition})
    assert any("does not go with the autoscaler" in text for text in rules.complaints(broken))


@pytest.mark.parametrize("name", ["Run", "1run", "run-", "run_1", "x" * 48])
def test_names_that_the_operator_refuses(name: str) -> None:
    broken = job()
    broken["metadata"]["name"] = name
    assert any("a name has at most" in text for text in rules.complaints(broken))


@pytest.mark.parametrize("schedule", ["0 3 * * 1", "*/15 * * * *", "0,30 8-18/2 1 1-6 0"])
def test_schedules_that_cron_reads(schedule: str) -> None:
    assert list(rules.schedule_rules({"schedule": schedule})) == []


BROKEN_PODS: list[tuple[str, Break]] = [
    ("hostNetwork", lambda p: p.update(hostNetwork=True)),
    ("hostPID", lambda p: p.update(hostPID=True)),
    ("volume host", lambda p: p.update(volumes=[{"name": "host", "hostPath": {"path": "/"}}])),
    ("sysctls", lambda p: p["securityContext"].update(sysctls=[{"name": "kernel.msgmax", "value": "1"}])),
    ("privileges can grow", lambda p: p["containers"][0]["securityContext"].pop("allowPrivilegeEscalation")),
    ("privileges can grow", lambda p: p["containers"][0]["securityContext"].update(privileged=True)),
    ("capabilities", lambda p: p["containers"][0]["securityContext"].pop("capabilities")),
    ("capabilities", lambda p: p["containers"][0]["securityContext"]["capabilities"].update(add=["SYS_ADMIN"])),
    ("runAsNonRoot", lambda p: p["securityContext"].pop("runAsNonRoot")),
    ("runAsNonRoot", lambda p: p["containers"][0]["securityContext"].update(runAsNonRoot=False)),
    ("runs as root", lambda p: p["securityContext"].update(runAsUser=0)),
    ("seccompProfile", lambda p: p["securityContext"].pop("seccompProfile")),
    ("seccompProfile", lambda p: p["containers"][0]["securityContext"].update(seccompProfile={"type": "Unconfined"})),
    ("procMount", lambda p: p["containers"][0]["securityContext"].update(procMount="Unmasked")),
    ("hostPort", lambda p: p["containers"][0].update(ports=[{"containerPort": 80, "hostPort": 80}])),
    ("privileges can grow", lambda p: p.update(initContainers=[{"name": "first", "image": "a:1"}])),
    ("no limits", lambda p: p["containers"][0]["resources"].pop("limits")),
    ("no requests", lambda p: p["containers"][0]["resources"]["requests"].pop("memory")),
    ("no readinessProbe", lambda p: p["containers"][0].pop("livenessProbe")),
    ("no fixed tag", lambda p: p["containers"][0].update(image="babelray")),
    ("no fixed tag", lambda p: p["containers"][0].update(image="babelray:latest")),
    ("no fixed tag", lambda p: p["containers"][0].update(image="host:5000/babelray")),
    ("is not decided", lambda p: p.pop("automountServiceAccountToken")),
]


@pytest.mark.parametrize("kind", ["Deployment", "RayCluster"])
@pytest.mark.parametrize(("complaint", "spoil"), BROKEN_PODS)
def test_a_pod_that_is_not_restricted_or_not_careful_is_refused(kind: str, complaint: str, spoil: Break) -> None:
    broken = copy.deepcopy(manifests.one(manifests.base(), kind))
    pod = next(rules.pods(broken))
    spoil(pod.spec)
    assert any(complaint in text for text in rules.complaints(broken)), rules.complaints(broken)


def test_a_feature_that_is_off_by_default_is_named() -> None:
    assert rules.features(job("RayCronJob", "babelray-evaluation")) == {"RayCronJob", "RayJobDeletionPolicy"}
    with_policy = cluster()
    with_policy["spec"]["networkPolicy"] = {"mode": "DenyAll"}
    assert rules.features(with_policy) == {"RayClusterNetworkPolicy"}

"""What schemas do not see: the KubeRay operator's rules (1.7), PodSecurity `restricted`, and this project's.

A rule takes a manifest, or a part of one, and yields complaints; none: it is as it should be.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

Manifest = dict[str, Any]
CRON = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]
DELETION_ORDER = ["DeleteWorkers", "DeleteCluster", "DeleteSelf"]
HARMLESS_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"),
}


@dataclass(frozen=True)
class Pod:
    """A pod that a manifest asks for. `lasting`: it serves until it is stopped, so it needs probes."""

    name: str
    template: Manifest
    lasting: bool = True

    @property
    def spec(self) -> Manifest:
        return self.template["spec"]

    @property
    def containers(self) -> list[Manifest]:
        return [*self.spec.get("initContainers", []), *self.spec.get("containers", [])]


def pods(manifest: Manifest) -> Iterator[Pod]:
    """All pods of a manifest, those of Ray's groups among them."""
    kind, name, spec = manifest["kind"], manifest["metadata"]["name"], manifest.get("spec", {})
    if kind in ("Deployment", "StatefulSet"):
        yield Pod(name, spec["template"])
    job = spec["jobTemplate"] if kind == "RayCronJob" else spec if kind == "RayJob" else {}
    cluster = spec if kind == "RayCluster" else job.get("rayClusterSpec")
    if "submitterPodTemplate" in job:
        yield Pod(f"{name} submitter", job["submitterPodTemplate"], lasting=False)
    if cluster:
        yield Pod(f"{name} head", cluster["headGroupSpec"]["template"])
        for group in cluster.get("workerGroupSpecs", []):
            yield Pod(f"{name} {group['groupName']}", group["template"])


def complaints(manifest: Manifest) -> list[str]:
    """Everything that is wrong with one manifest."""
    kind, spec = manifest["kind"], manifest.get("spec", {})
    found: list[str] = []
    if kind == "RayCluster":
        found += [*name_of(manifest, 53), *cluster_rules(spec)]
    if kind == "RayJob":
        found += [*name_of(manifest, 47), *job_rules(spec)]
    if kind == "RayCronJob":
        # The operator adds a suffix to make the job's name.
        found += [*name_of(manifest, 36), *schedule_rules(spec), *job_rules(spec["jobTemplate"])]
    for pod in pods(manifest):
        found += [f"{pod.name}: {text}" for text in (*restricted(pod.spec), *careful(pod))]
    return found


def name_of(manifest: Manifest, longest: int) -> Iterator[str]:
    name = manifest["metadata"].get("name", "")
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) or len(name) > longest:
        yield f"{manifest['kind']} {name!r}: a name has at most {longest} lower-case letters, digits and hyphens"


def cluster_rules(spec: Manifest) -> Iterator[str]:
    """What the operator asks of a RayCluster's spec; then what we ask of its head."""
    head = spec["headGroupSpec"]
    groups = spec.get("workerGroupSpecs", [])
    options = spec.get("autoscalerOptions", {})
    second = bool(spec.get("enableInTreeAutoscaling")) and options.get("version") == "v2"
    for group in [{"groupName": "head", **head}, *groups]:
        yield from _group_rules(group, second)
    for group in groups:
        least, now, most = (group.get(key, 0) for key in ("minReplicas", "replicas", "maxReplicas"))
        if not 0 <= least <= now <= most:
            yield f"{group['groupName']}: minReplicas {least}, replicas {now}, maxReplicas {most} do not ascend from 0"
        if group.get("suspend") and spec.get("enableInTreeAutoscaling"):
            yield f"{group['groupName']}: a group cannot be suspended under the autoscaler"
    if options.get("idleTimeoutSeconds", 0) < 0:
        yield "autoscalerOptions.idleTimeoutSeconds is negative"
    if spec.get("enableInTreeAutoscaling") and not options.get("securityContext"):
        yield "the autoscaler, a container beside the head, has no securityContext"
    yield from _fault_tolerance_rules(spec, head)
    yield from _token_rules(spec)
    if head.get("rayStartParams", {}).get("num-cpus") != "0":
        yield "the head does work: rayStartParams.num-cpus is not 0"


def _group_rules(group: Manifest, second_autoscaler: bool) -> Iterator[str]:
    name, parameters = group["groupName"], group.get("rayStartParams", {})
    pod = group["template"]["spec"]
    if not pod.get("containers"):
        yield f"{name}: no container"
    if group.get("resources") and {"num-cpus", "num-gpus", "memory", "resources"} & parameters.keys():
        yield f"{name}: resources both in rayStartParams and in resources"
    if "labels" in parameters:
        yield f"{name}: labels belong to the group, not to rayStartParams"
    if second_autoscaler and pod.get("restartPolicy", "Never") != "Never":
        yield f"{name}: restartPolicy is Never or unset under autoscaler v2"
    if "idleTimeoutSeconds" in group and (group["idleTimeoutSeconds"] < 0 or not second_autoscaler):
        yield f"{name}: idleTimeoutSeconds is not negative, and for autoscaler v2 only"
    if group.get("priority") and not second_autoscaler:
        yield f"{name}: priority is for autoscaler v2 only"


def _fault_tolerance_rules(spec: Manifest, head: Manifest) -> Iterator[str]:
    variables = {variable["name"] for pod in head["template"]["spec"]["containers"] for variable in pod.get("env", [])}
    options = spec.get("gcsFaultToleranceOptions")
    theirs = variables & {"RAY_REDIS_ADDRESS", "REDIS_PASSWORD", "REDIS_USERNAME"}
    if theirs or head.get("rayStartParams", {}).keys() & {"redis-password", "redis-username"}:
        yield "Redis is configured in gcsFaultToleranceOptions, and nowhere else"
    redis = options is not None and options.get("backend", "redis") == "redis"
    if redis and ("storage" in options or "redisAddress" not in options):
        yield "gcsFaultToleranceOptions: Redis needs an address, and has no storage here"
    if options and "value" in options.get("redisPassword", {}):
        yield "gcsFaultToleranceOptions: the password is not in a Secret"


def _token_rules(spec: Manifest) -> Iterator[str]:
    options = spec.get("authOptions", {})
    if options.get("mode") != "token" or not options.get("secretName"):
        yield "authOptions: anyone could submit jobs; mode is token, secretName a Secret"
    version = re.match(r"(\d+)\.(\d+)", str(spec.get("rayVersion", "")))
    if not version or tuple(map(int, version.groups())) < (2, 52):
        yield "authOptions: tokens need a rayVersion of at least 2.52"
    if options.get("enableK8sTokenAuth"):
        yield "authOptions: Kubernetes' own tokens are not for jobs, and not beside secretName"


def job_rules(spec: Manifest) -> Iterator[str]:
    """What the operator asks of a RayJob's spec; then what makes a retry resume."""
    selected = spec.get("clusterSelector")
    if "rayClusterSpec" in spec:
        yield from cluster_rules(spec["rayClusterSpec"])
    elif not (selected or {}).get("ray.io/cluster"):
        yield "neither rayClusterSpec nor clusterSelector"
    for key in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        if key in spec and spec[key] <= 0:
            yield f"{key} is not positive"
    if spec.get("backoffLimit", 0) < 0:
        yield "backoffLimit is negative"
    if spec.get("backoffLimit", 0) > 0 and (selected or spec.get("submissionMode") == "InteractiveMode"):
        yield "backoffLimit needs a cluster of the job's own, and is not interactive"
    if spec.get("submissionMode") == "SidecarMode" and spec.keys() & {"submitterPodTemplate", "submitterConfig"}:
        yield "SidecarMode has no submitter"
    try:
        yaml.safe_load(spec.get("runtimeEnvYAML", ""))
    except yaml.YAMLError:
        yield "runtimeEnvYAML is not YAML"
    yield from _deletion_rules(spec)
    if not spec.get("backoffLimit") or not spec.get("activeDeadlineSeconds"):
        yield "a job is tried again (backoffLimit), but not for ever (activeDeadlineSeconds)"
    if not spec.get("entrypointNumCpus"):
        yield "the driver would run on the head: entrypointNumCpus is not set"
    if "deletionStrategy" not in spec and not spec.get("shutdownAfterJobFinishes"):
        yield "the cluster would stay when the job is done"


def _deletion_rules(spec: Manifest) -> Iterator[str]:
    shutdown = spec.get("shutdownAfterJobFinishes", False)
    if spec.get("ttlSecondsAfterFinished", 0) < 0 or (spec.get("ttlSecondsAfterFinished") and not shutdown):
        yield "ttlSecondsAfterFinished is not negative, and needs shutdownAfterJobFinishes"
    if spec.get("suspend") and not shutdown:
        yield "suspend needs shutdownAfterJobFinishes"
    if "deletionStrategy" not in spec:
        return
    strategy = spec["deletionStrategy"]
    rules = strategy.get("deletionRules", [])
    if not rules or shutdown or strategy.keys() & {"onSuccess", "onFailure"}:
        yield "deletionRules are not empty, and exclude shutdownAfterJobFinishes, onSuccess and onFailure"
    after: dict[str, dict[str, int]] = {}
    for number, rule in enumerate(rules):
        condition = rule["condition"]
        statuses = [f"{key} {condition[key]}" for key in ("jobStatus", "jobDeploymentStatus") if condition.get(key)]
        if len(statuses) != 1:
            yield f"deletionRules[{number}]: one of jobStatus and jobDeploymentStatus"
            continue
        seconds = after.setdefault(statuses[0], {})
        if rule["policy"] in seconds:
            yield f"deletionRules[{number}]: {rule['policy']} on {statuses[0]} is there already"
        if rule["policy"] == "DeleteWorkers" and spec.get("rayClusterSpec", {}).get("enableInTreeAutoscaling"):
            yield f"deletionRules[{number}]: DeleteWorkers does not go with the autoscaler"
        seconds[rule["policy"]] = condition.get("ttlSeconds", 0)
    for status, seconds in after.items():
        times = [seconds[policy] for policy in DELETION_ORDER if policy in seconds]
        if min(times, default=0) < 0 or times != sorted(times):
            yield f"deletionRules on {status}: workers go before the cluster, the cluster before the job"


def schedule_rules(spec: Manifest) -> Iterator[str]:
    """Five fields, as cron has them; the time zone in its own field."""
    fields = str(spec.get("schedule", "")).split()
    if len(fields) != len(CRON) or not all(_in_cron(text, *span) for text, span in zip(fields, CRON, strict=True)):
        yield f"schedule {spec.get('schedule')!r} is not minute, hour, day, month, weekday"
    if "timeZone" in spec and spec["timeZone"] not in zoneinfo.available_timezones():
        yield f"timeZone {spec['timeZone']!r} is unknown"


def _in_cron(text: str, first: int, last: int) -> bool:
    for part in text.split(","):
        match = re.fullmatch(r"(\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", part)
        if not match or not all(first <= int(number) <= last for number in match.group(2, 3) if number):
            return False
    return True


def features(manifest: Manifest) -> set[str]:
    """The operator's feature gates, off unless set, that a manifest needs."""
    kind, spec = manifest["kind"], manifest.get("spec", {})
    needed = {"RayCronJob"} if kind == "RayCronJob" else set()
    job = spec["jobTemplate"] if kind == "RayCronJob" else spec if kind == "RayJob" else {}
    cluster = spec if kind == "RayCluster" else job.get("rayClusterSpec", {})
    gates = {
        "networkPolicy": "RayClusterNetworkPolicy",
        "tlsOptions": "RayClusterMTLS",
        "historyServerOptions": "RayClusterHistoryServer",
    }
    needed |= {gate for key, gate in gates.items() if key in cluster}
    return needed | ({"RayJobDeletionPolicy"} if "deletionStrategy" in job else set())


def restricted(pod: Manifest) -> Iterator[str]:
    """PodSecurity's profile `restricted`, as Kubernetes describes it."""
    whole = pod.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield f"{key} is set"
    for volume in pod.get("volumes", []):
        if not volume.keys() <= {"name", *HARMLESS_VOLUMES}:
            yield f"volume {volume['name']} is of a kind that is not allowed"
    if whole.get("sysctls"):
        yield "sysctls are set"
    for container in [*pod.get("initContainers", []), *pod.get("containers", [])]:
        own = container.get("securityContext", {})
        name = container["name"]
        if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: privileges can grow: allowPrivilegeEscalation is not false"
        capabilities = own.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or not set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"}:
            yield f"{name}: capabilities are not all dropped"
        if own.get("runAsNonRoot", whole.get("runAsNonRoot")) is not True:
            yield f"{name}: runAsNonRoot is not true"
        if own.get("runAsUser", whole.get("runAsUser", 1)) == 0:
            yield f"{name}: runs as root"
        profile = own.get("seccompProfile", whole.get("seccompProfile", {})).get("type")
        if profile not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: seccompProfile is not RuntimeDefault"
        if own.get("procMount", "Default") != "Default":
            yield f"{name}: procMount is set"
        if any("hostPort" in port for port in container.get("ports", [])):
            yield f"{name}: hostPort is set"


def careful(pod: Pod) -> Iterator[str]:
    """What this project asks of each pod: limits, probes, a fixed image, and no token that nobody needs."""
    for container in pod.containers:
        name, resources = container["name"], container.get("resources", {})
        for part in ("requests", "limits"):
            if not {"cpu", "memory"} <= resources.get(part, {}).keys():
                yield f"{name}: no {part} of cpu and memory"
        if not re.fullmatch(r"[^:@]+(:\d+/[^:@]+)?:[\w.-]+", container["image"]) or container["image"].endswith(
            ":latest"
        ):
            yield f"{name}: the image {container['image']} has no fixed tag"
        if pod.lasting and not {"readinessProbe", "livenessProbe"} <= container.keys():
            yield f"{name}: no readinessProbe and livenessProbe"
    if "automountServiceAccountToken" not in pod.spec:
        yield "automountServiceAccountToken is not decided"

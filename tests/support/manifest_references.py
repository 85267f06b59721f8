"""What the manifests of an overlay name must be there: each other, Secrets, and what addresses point to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from support.manifest_rules import Pod, pods

Manifest = dict[str, Any]


def complaints(manifests: list[Manifest], secrets: dict[str, set[str]]) -> list[str]:
    """`secrets`: the keys of each Secret that make-secrets.sh makes."""
    found: list[str] = []
    for manifest in manifests:
        for pod in pods(manifest):
            found += [f"{pod.name}: {text}" for text in _pod(pod, manifests, secrets)]
        cluster = _cluster(manifest)
        if (
            cluster
            and (token := cluster["authOptions"]["secretName"])
            and "auth_token" not in secrets.get(token, set())
        ):
            found.append(f"{manifest['metadata']['name']}: no Secret {token} with auth_token")
    found += [*_services(manifests), *_addresses(manifests), *_policies(manifests)]
    return found


def _cluster(manifest: Manifest) -> Manifest | None:
    spec = manifest.get("spec", {})
    return spec if manifest["kind"] == "RayCluster" else spec.get("jobTemplate", spec).get("rayClusterSpec")


def _named(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {manifest["metadata"]["name"]: manifest for manifest in manifests if manifest["kind"] == kind}


def _pod(pod: Pod, manifests: list[Manifest], secrets: dict[str, set[str]]) -> Iterator[str]:
    maps = {name: set(manifest["data"]) for name, manifest in _named(manifests, "ConfigMap").items()}
    for source in [s for container in pod.containers for s in container.get("envFrom", [])]:
        for kind, known in (("configMapRef", maps), ("secretRef", secrets)):
            if kind in source and source[kind]["name"] not in known and not source[kind].get("optional"):
                yield f"{kind} {source[kind]['name']} is not there"
    for variable in [v for container in pod.containers for v in container.get("env", [])]:
        for kind, known in (("configMapKeyRef", maps), ("secretKeyRef", secrets)):
            if (ref := variable.get("valueFrom", {}).get(kind)) and ref["key"] not in known.get(ref["name"], set()):
                yield f"{variable['name']}: {kind} {ref['name']}.{ref['key']} is not there"
    claims = _named(manifests, "PersistentVolumeClaim")
    volumes = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
    for volume in volumes.values():
        if "configMap" in volume and volume["configMap"]["name"] not in maps:
            yield f"volume {volume['name']}: its ConfigMap is not there"
        if "persistentVolumeClaim" in volume and volume["persistentVolumeClaim"]["claimName"] not in claims:
            yield f"volume {volume['name']}: its claim is not there"
    owner = [m for m in manifests if m["kind"] == "StatefulSet" and m["metadata"]["name"] == pod.name]
    claimed = {c["metadata"]["name"] for m in owner for c in m["spec"].get("volumeClaimTemplates", [])}
    for mount in [m for container in pod.containers for m in container.get("volumeMounts", [])]:
        if mount["name"] not in volumes.keys() | claimed:
            yield f"{mount['mountPath']}: there is no volume {mount['name']}"
    for key, kind in (("serviceAccountName", "ServiceAccount"), ("priorityClassName", "PriorityClass")):
        if key in pod.spec and pod.spec[key] not in _named(manifests, kind):
            yield f"{kind} {pod.spec[key]} is not there"


def _labels(manifests: list[Manifest]) -> list[tuple[dict[str, str], list[Manifest]]]:
    """Labels and ports of every pod."""
    found = [pod for manifest in manifests for pod in pods(manifest)]
    return [
        (p.template["metadata"]["labels"], [port for c in p.containers for port in c.get("ports", [])]) for p in found
    ]


def _services(manifests: list[Manifest]) -> Iterator[str]:
    for name, service in _named(manifests, "Service").items():
        behind = [
            ports for labels, ports in _labels(manifests) if service["spec"]["selector"].items() <= labels.items()
        ]
        for port in service["spec"]["ports"]:
            if not behind or not all(port["targetPort"] in [p["name"] for p in ports] for ports in behind):
                yield f"Service {name}: no pod listens on {port['targetPort']}"
    for name, monitor in _named(manifests, "PodMonitor").items():
        wanted = monitor["spec"]["selector"]["matchLabels"]
        behind = [ports for labels, ports in _labels(manifests) if wanted.items() <= labels.items()]
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            if not behind or not all(endpoint["port"] in [p["name"] for p in ports] for ports in behind):
                yield f"PodMonitor {name}: a pod has no port {endpoint['port']}"


def _addresses(manifests: list[Manifest]) -> Iterator[str]:
    """host:port in settings, variables and arguments is a Service and its port."""
    ports = {name: {p["port"] for p in s["spec"]["ports"]} for name, s in _named(manifests, "Service").items()}
    texts = [text for m in manifests if m["kind"] == "ConfigMap" for text in m["data"].values()]
    for container in [c for m in manifests for pod in pods(m) for c in pod.containers]:
        texts += [v.get("value", "") for v in container.get("env", [])] + container.get("args", [])
    texts += [c.get("gcsFaultToleranceOptions", {}).get("redisAddress", "") for m in manifests if (c := _cluster(m))]
    for host, port in {match for text in texts for match in re.findall(r"(?:^|[/@=,])([a-z][\w.-]*):(\d+)", text)}:
        if host != "localhost" and int(port) not in ports.get(host.split(".")[0], set()):
            yield f"nothing answers at {host}:{port}"


def _policies(manifests: list[Manifest]) -> Iterator[str]:
    """A policy for labels that no pod has protects nothing."""
    for name, policy in _named(manifests, "NetworkPolicy").items():
        rules = [*policy["spec"].get("ingress", []), *policy["spec"].get("egress", [])]
        peers = [peer for rule in rules for peer in (*rule.get("from", []), *rule.get("to", []))]
        ours = [peer["podSelector"] for peer in peers if "podSelector" in peer and "namespaceSelector" not in peer]
        for selector in [policy["spec"]["podSelector"], *ours]:
            wanted = selector.get("matchLabels", {}).items()
            if not any(wanted <= labels.items() for labels, _ in _labels(manifests)):
                yield f"NetworkPolicy {name}: no pod has the labels {dict(wanted)}"

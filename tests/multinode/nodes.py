"""A Ray cluster on this machine whose nodes are isolated like machines: own networks, own processes, own files.

    with Nodes(folder) as nodes:
        nodes.start_head()
        nodes.start_worker("w1", cpus=1)
        nodes.start_worker("w2", cpus=1)
        use(nodes.address, **nodes.env)      # the dashboard; the variables of a client: address and token
        nodes.kill("w1")                     # like a power failure
        nodes.link("w2", up=False)           # like an unplugged cable
        nodes.link("w2", up=True)
        nodes.start_worker("w1", cpus=1)     # the same machine, switched on again

A node runs in a network namespace, connected to the others by a bridge whose address on this machine is `nodes.host`:
the nodes can reach servers that listen there, other machines cannot. It has its own process namespace, so that no
process survives it, and its own /tmp/ray and /dev/shm. Needs root and iproute2: `available()` returns what is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

HEAD = "head"
RAY_FILES = "/tmp/ray"
INSIDE = f"""
mount --bind "$OWN_FILES" {RAY_FILES}
mount -t tmpfs -o size=1g tmpfs /dev/shm
exec "$@"
"""


def available() -> str:
    """Empty if such nodes can be created here; otherwise the reason why not."""
    if os.geteuid() != 0:
        return "network namespaces with a bridge need root"
    missing = [program for program in ("ip", "unshare", "mount") if not shutil.which(program)]
    if missing:
        return f"{', '.join(missing)} is not installed (iproute2, util-linux)"
    probe = f"babelray-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces are not permitted here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return ""


class Nodes:
    """The nodes; `with` creates the network, and at the end kills the nodes and removes it."""

    def __init__(self, folder: Path, label: str = "brt", subnet: str = "10.198.0") -> None:
        """`label` (at most 8 letters) and `subnet` distinguish this cluster from others on the machine."""
        self.folder, self.label, self.subnet = folder, label, subnet
        self.host = f"{subnet}.1"
        """The address of this machine, as seen by the nodes."""
        self.address = f"http://{subnet}.2:8265"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._addresses = {HEAD: f"{subnet}.2"}
        self._token = ""

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that a client of the cluster needs."""
        token = str(self.folder / "token")
        return {"RAY_ADDRESS": self.address, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token}

    def __enter__(self) -> Nodes:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._token = secrets.token_hex(32)
        (self.folder / "token").touch(mode=0o600)
        (self.folder / "token").write_text(self._token)
        remove(self.label)
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("address", "add", f"{self.host}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self._processes):
            self.kill(name)
        remove(self.label)

    def start_head(
        self, cpus: float = 0, redis: tuple[str, str] | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        """Start or restart the head; `redis`, an address and its password, stores the head's state."""
        settings = dict(env or {})
        options = ["--head", "--port=6379", f"--dashboard-host={self._addresses[HEAD]}", "--dashboard-port=8265"]
        if redis is not None:
            options.append(f"--redis-password={redis[1]}")
            settings |= {"RAY_REDIS_ADDRESS": redis[0], "RAY_external_storage_namespace": self.label}
        self._start(HEAD, cpus, options, settings)

    def start_worker(self, name: str, cpus: float, env: Mapping[str, str] | None = None) -> None:
        """Start or restart a worker; its name has at most 6 letters."""
        self._addresses.setdefault(name, f"{self.subnet}.{2 + len(self._addresses)}")
        self._start(name, cpus, [f"--address={self._addresses[HEAD]}:6379"], dict(env or {}))

    def address_of(self, name: str) -> str:
        return self._addresses[name]

    def alive(self) -> set[str]:
        """Names of the nodes that the head considers alive; empty if it does not answer."""
        return set(self._known().values())

    def _known(self) -> dict[str, str]:
        """Names of the nodes that the head considers alive, by Ray's ID; each start has a new ID."""
        names = {address: name for name, address in self._addresses.items()}
        found = self.ask("/nodes?view=summary")
        nodes = [node["raylet"] for node in found["data"]["summary"]] if found else []
        return {node["nodeId"]: names[node["nodeManagerAddress"]] for node in nodes if node["state"] == "ALIVE"}

    def ask(self, path: str) -> Any:
        """The answer of the dashboard; None without one."""
        request = urllib.request.Request(self.address + path, headers={"Authorization": f"Bearer {self._token}"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return json.load(answer)
        except (OSError, ValueError, urllib.error.URLError):
            return None

    def processes(self, name: str, command: str = "") -> list[psutil.Process]:
        """A node's processes whose command line contains a text, such as `gcs_server`."""
        found = []
        for process in psutil.Process(self._processes[name].pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if command in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def ended(self, name: str) -> bool:
        return self._processes[name].poll() is not None

    def kill(self, name: str) -> None:
        """Kill a node and all its processes at once (SIGKILL)."""
        process = self._processes.pop(name)
        everyone = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()  # this ends the first process of its namespace, and so all others
        process.wait(timeout=30)
        psutil.wait_procs(everyone, timeout=30)

    def link(self, name: str, up: bool) -> None:
        """Connect or disconnect a node's network cable."""
        _ip("link", "set", self._cable(name), "up" if up else "down")

    def log(self, name: str) -> Path:
        return self.folder / name / "log"

    @property
    def _bridge(self) -> str:
        return f"{self.label}0"

    def _cable(self, name: str) -> str:
        return f"{self.label}-{name}"

    def _start(self, name: str, cpus: float, options: list[str], env: dict[str, str]) -> None:
        own = self.folder / name
        for folder in (own / "ray", own / "home", Path(RAY_FILES)):
            folder.mkdir(parents=True, exist_ok=True)
        if not Path(f"/run/netns/{self._cable(name)}").exists():
            self._connect(name)
        settings = {
            **os.environ,
            **self.env,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(own / "home"),
            "OWN_FILES": str(own / "ray"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "GLOO_SOCKET_IFNAME": "eth0",  # the machine's name resolves to 127.0.0.1 in the namespace too
            "RAY_gcs_rpc_server_reconnect_timeout_s": "300",
            **env,
        }
        del settings["RAY_ADDRESS"]
        command = ["ip", "netns", "exec", self._cable(name)]
        command += ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-ec", INSIDE, "sh"]
        command += ["ray", "start", *options, f"--node-ip-address={self._addresses[name]}", f"--num-cpus={cpus:g}"]
        command += ["--object-store-memory=300000000", "--disable-usage-stats", "--block"]
        before = self._known()
        for _ in range(3):  # on a busy machine Ray may exceed its own limit of half a minute
            with self.log(name).open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    command, env=settings, cwd=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            if self._joined(name, before):
                return
            self.kill(name)
        raise RuntimeError(f"{name} did not start:\n{self.log(name).read_text(errors='replace')[-3000:]}")

    def _connect(self, name: str) -> None:
        space = self._cable(name)
        _ip("netns", "add", space)
        _ip("link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", space, "master", self._bridge)
        _ip("link", "set", space, "up")
        _ip("-n", space, "address", "add", f"{self._addresses[name]}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "link", "set", "lo", "up")

    def _joined(self, name: str, before: Mapping[str, str], patience: float = 300) -> bool:
        deadline = time.monotonic() + patience
        while self._processes[name].poll() is None and time.monotonic() < deadline:
            if name in {found for node, found in self._known().items() if node not in before}:
                return True
            time.sleep(0.5)
        return False


def remove(label: str) -> None:
    """Delete the network of a cluster if it exists: its namespaces, cables and bridge."""
    for space in Path("/run/netns").glob(f"{label}-*"):
        _ip("netns", "delete", space.name)
    interfaces = Path("/sys/class/net")  # a cable outlives its namespace while a process still uses that
    for interface in (*interfaces.glob(f"{label}-*"), *interfaces.glob(f"{label}0")):
        try:
            _ip("link", "delete", interface.name)
        except RuntimeError:
            if interface.exists():  # otherwise it was just removed with its namespace
                raise


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")

"""A head and two workers in separate namespaces: where the driver runs, who may submit, which versions must agree."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from conftest import ROOT
from multinode import keeper
from multinode.nodes import Nodes, available, remove

pytestmark = [
    pytest.mark.slow,
    pytest.mark.fault,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(available()), reason=available()),
]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with Nodes(tmp_path_factory.mktemp("nodes")) as nodes:
        nodes.start_head()
        for name in ("w1", "w2"):
            nodes.start_worker(name, cpus=1)
        yield nodes


def submit(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "babelray.commands.app", "submit", "jobs/recipes/quickstart.yaml", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "platform"), **env},
        capture_output=True,
        text=True,
        timeout=600,
    )


def wait_until(there: object, patience: float = 120) -> None:
    deadline = time.monotonic() + patience
    while not there():  # type: ignore[operator]
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.3)


def finished(nodes: Nodes, name: str) -> set[str]:
    """Ray's names of the tasks that a node has finished since its start."""
    (there,) = (node for node, found in nodes._known().items() if found == name)
    tasks = nodes.ask("/api/v0/tasks?limit=10000&detail=true")["data"]["result"]["result"]
    return {task["name"] for task in tasks if task["node_id"] == there and task["state"] == "FINISHED"}


def test_the_driver_runs_on_a_worker(nodes: Nodes, tmp_path: Path) -> None:
    done = submit(nodes.env, f"storage={tmp_path}/runs", "languages=[en, de]", "--stage=corpus")
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = (job for job in nodes.ask("/api/jobs/") if job["submission_id"])
    assert job["submission_id"] in done.stdout
    workers = {nodes.address_of(name) for name in ("w1", "w2")}
    assert job["driver_info"]["node_ip_address"] in workers
    assert len(list((tmp_path / "runs/corpus").glob("*/manifest.json"))) == 1


def test_without_the_token_nothing_is_submitted(nodes: Nodes, tmp_path: Path) -> None:
    before = nodes.ask("/api/jobs/")
    (tmp_path / "wrong").write_text("0" * 64)
    for env in (
        {**nodes.env, "RAY_AUTH_MODE": "disabled"},
        {**nodes.env, "RAY_AUTH_TOKEN_PATH": str(tmp_path / "wrong")},
    ):
        done = submit(env, f"storage={tmp_path}/runs", "seed=3", "--stage=corpus")
        assert done.returncode == 2
        assert "no token, or a wrong one" in done.stderr
        assert "RAY_AUTH_TOKEN" in done.stderr
    assert nodes.ask("/api/jobs/") == before


def test_a_killed_node_is_missed_and_comes_back(nodes: Nodes) -> None:
    raylets = nodes.processes("w2", "raylet/raylet")
    assert raylets
    nodes.kill("w2")
    assert not any(process.is_running() for process in raylets)
    wait_until(lambda: nodes.alive() == {"head", "w1"})
    nodes.start_worker("w2", cpus=1)
    assert nodes.alive() == {"head", "w1", "w2"}


def test_a_node_without_its_cable_is_missed(nodes: Nodes) -> None:
    nodes.link("w2", up=False)
    try:
        assert nodes.processes("w2"), "it is cut off, not switched off; after a while Ray may give itself up there"
        wait_until(lambda: "w2" not in nodes.alive(), 240)  # five times ten seconds, longer on a busy machine
    finally:
        nodes.link("w2", up=True)
    nodes.kill("w2")
    nodes.start_worker("w2", cpus=1)
    assert "w2" in nodes.alive()


def test_a_node_without_the_package_gets_it_with_the_job(nodes: Nodes, tmp_path: Path) -> None:
    """A node on which Babelray cannot be imported takes its part of the work."""
    instead = tmp_path / "other/babelray/__init__.py"
    instead.parent.mkdir(parents=True)
    instead.write_text("raise ImportError('not installed here')\n")
    nodes.kill("w2")
    wait_until(lambda: "w2" not in nodes.alive())
    nodes.start_worker("w2", cpus=1, env={"PYTHONPATH": str(instead.parent.parent)})
    try:
        (raylet,) = nodes.processes("w2", "raylet/raylet ")
        alone = [sys.executable, "-c", "import babelray"]
        found = subprocess.run(alone, cwd=tmp_path, env=raylet.environ(), capture_output=True, text=True)
        assert found.returncode == 1 and "not installed here" in found.stderr, "by itself it has no Babelray"
        # Enough chunks for both nodes: the driver and one task occupy one node each.
        small = ["languages=[en, de]", "corpus.chunk_bytes=2000", "seed=5", "--stage=corpus"]
        done = submit(nodes.env, f"storage={tmp_path}/runs", *small)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(list((tmp_path / "runs/corpus").glob("*/manifest.json"))) == 1
        wait_until(lambda: "versions" in finished(nodes, "w2"), 30)  # Ray records it with a delay
        wait_until(lambda: finished(nodes, "w2") & {"Map(apply)", "_guarded"}, 30)
    finally:
        nodes.kill("w2")
        wait_until(lambda: "w2" not in nodes.alive())
        nodes.start_worker("w2", cpus=1)


def test_a_node_with_another_version_is_refused_by_name(nodes: Nodes, tmp_path: Path) -> None:
    other = tmp_path / "other/deepspeed-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: deepspeed\nVersion: 0.0.1\n")
    nodes.kill("w2")
    wait_until(lambda: "w2" not in nodes.alive())  # otherwise the driver may be placed on the lost node
    nodes.start_worker("w2", cpus=0, env={"PYTHONPATH": str(other.parent)})  # the driver runs on the other node
    done = submit(nodes.env, f"storage={tmp_path}/runs", "seed=4", "--stage=corpus")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"node {nodes.address_of('w2')}" in done.stdout
    assert "has deepspeed 0.0.1" in done.stdout
    assert f"node {nodes.address_of('w1')}" not in done.stdout
    assert not (tmp_path / "runs/corpus").exists()


def test_nothing_is_left(tmp_path: Path) -> None:
    with Nodes(tmp_path, label="brl", subnet="10.197.0") as nodes:
        nodes.start_head()
        processes = nodes.processes("head")
    assert len(processes) > 5
    assert not any(process.is_running() for process in processes)
    assert not [*Path("/sys/class/net").glob("brl*"), *Path("/run/netns").glob("brl*")]
    remove("brl")


def test_down_ends_what_was_noted_and_no_one_else(tmp_path: Path) -> None:
    ours = subprocess.Popen(["sleep", "600"])
    other = subprocess.Popen(["sleep", "600"])
    try:
        theirs = psutil.Process(other.pid)
        known = [(ours.pid, psutil.Process(ours.pid).create_time()), (other.pid, theirs.create_time() - 5)]
        (tmp_path / keeper.STATE).write_text(json.dumps({"processes": known, "network": ""}))
        keeper.stop(tmp_path)
        assert not psutil.pid_exists(ours.pid)
        assert theirs.is_running(), "its number was once that of another process"
        assert not (tmp_path / keeper.STATE).exists()
        keeper.stop(tmp_path)
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()

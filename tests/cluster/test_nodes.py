import platform
import time
from pathlib import Path

import pytest

from babelray.cluster import nodes
from babelray.errors import ClusterError
from conftest import ROOT


def test_the_digest_is_that_of_the_code(tmp_path: Path) -> None:
    def digest() -> str:
        nodes.code_digest.cache_clear()
        return nodes.code_digest(tmp_path)

    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "below").mkdir()
    (tmp_path / "below/b.py").write_text("y = 1\n")
    before = digest()
    (tmp_path / "notes.txt").write_text("not code")
    assert digest() == before
    (tmp_path / "below/b.py").write_text("y = 2\n")
    assert digest() != before
    (tmp_path / "below/b.py").write_text("y = 1\n")
    assert digest() == before
    (tmp_path / "below/b.py").rename(tmp_path / "below/c.py")
    assert digest() != before


def test_the_versions_are_the_pinned_ones() -> None:
    found = nodes.versions()
    assert found["python"] == platform.python_version()
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    for name in ("ray", "torch", "deepspeed"):
        assert found[name] == pinned[name]


def test_builds_of_one_version_for_cpu_and_gpu_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for version in ("2.13.0+cpu", "2.13.0", "2.13.1"):
        monkeypatch.setattr(nodes.metadata, "version", lambda name, version=version: version)
        found.append(nodes.versions())
    assert found[0] == found[1] != found[2]


def test_a_node_that_differs_is_named(local_ray: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    nodes.check_nodes()
    (node,) = ray.nodes()
    here = nodes.versions()
    task = ray.remote(lambda: here | {"torch": "1.0"})
    monkeypatch.setattr(nodes, "versions", lambda: here)
    monkeypatch.setattr(ray, "remote", lambda **options: lambda function: task)
    with pytest.raises(ClusterError) as refused:
        nodes.check_nodes()
    assert f"node {node['NodeManagerAddress']}" in refused.value.problem
    assert f"has torch 1.0, the driver {here['torch']}" in refused.value.problem
    assert "babelray" not in refused.value.problem


def test_a_node_that_joins_late_and_differs_is_named_when_it_is_given_work(local_ray: None) -> None:
    (here,) = nodes._alive()
    other = {**nodes.versions(), "torch": "1.0"}
    nodes.Driver.this().check()
    nodes.Driver("another node", nodes.versions()).check()
    nodes.Driver(here, other).check()  # its own node, where code may be changed while a run goes on
    with pytest.raises(ClusterError, match=r"node \S+ has torch \S+, the driver 1.0"):
        nodes.Driver("another node", other).check()


@pytest.fixture
def silent(local_ray: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that do not answer for a minute."""
    import ray

    def sleep() -> None:
        import time

        time.sleep(60)

    task = ray.remote(num_cpus=0)(sleep)
    monkeypatch.setattr(ray, "remote", lambda **options: lambda function: task)


def test_a_node_that_does_not_answer_is_named(silent: None) -> None:
    with pytest.raises(ClusterError, match="no answer in 1 s"):
        nodes.check_nodes(patience=1)


def test_a_node_that_dies_is_not_waited_for(silent: None, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = iter([nodes._alive()])
    monkeypatch.setattr(nodes, "_alive", lambda: next(alive, {}))
    began = time.monotonic()
    nodes.check_nodes(patience=40)
    assert time.monotonic() - began < 20


def test_nodes_that_come_and_go_are_said(local_ray: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    here, other = ray.nodes(), {"NodeID": "b", "Alive": True, "NodeManagerAddress": "10.0.0.2", "Resources": {"CPU": 4}}
    cores = int(here[0]["Resources"]["CPU"])
    seen = iter([here, [*here, other], None, [*here, {**other, "Alive": False}]])

    def look() -> list[dict[str, object]]:
        found = next(seen, here)
        if found is None:
            raise ray.exceptions.RayError("the head is away")
        return found

    monkeypatch.setattr(ray, "nodes", look)
    said: list[str] = []
    with nodes.monitor(said.append, every=0.01):
        deadline = time.monotonic() + 30
        while len(said) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert said == [
        f"node 10.0.0.2 has joined; cores now: {cores + 4}",
        f"node 10.0.0.2 is lost; cores now: {cores}",
    ]


def test_a_clock_that_is_set_back_is_said(local_ray: None, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = iter([1000.0, 1000.5, 1000.5, 1100.0, 1100.0])
    monkeypatch.setattr(nodes, "_clock", lambda: next(clocks, 90.0))
    said: list[str] = []
    with nodes.monitor(said.append, every=0.01):
        deadline = time.monotonic() + 30
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
    (text,) = said
    assert "the clock went back by 1,010 s" in text
    assert "run the same command again" in text

"""`make cluster` stops what it has started, whatever happens, and nothing else."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from babelray.errors import INTERRUPTED
from multinode import keeper, up
from support import servers


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of clusters that were stopped."""
    found: list[Path] = []
    monkeypatch.setattr(servers, "available", lambda name: "")
    monkeypatch.setattr(up, "start", lambda folder: found.clear())
    monkeypatch.setattr(up, "run", lambda folder: 0)
    monkeypatch.setattr(keeper, "stop", found.append)
    monkeypatch.setattr(keeper, "LABEL", "none")
    return found


def raising(error: BaseException) -> object:
    def fail(*_: object) -> int:
        raise error

    return fail


def test_without_a_terminal_it_ends_after_the_run(tmp_path: Path, ended: list[Path], monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(up, "run", lambda folder: 3)
    assert up.main(tmp_path) == 3, "the exit code of the run"
    assert ended == [tmp_path]


def test_at_a_terminal_it_waits(tmp_path: Path, ended: list[Path], monkeypatch) -> None:
    terminal = io.StringIO("\n")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    assert up.main(tmp_path) == 0
    assert terminal.read() == "", "it waited for Enter"
    assert ended == [tmp_path]


def test_ctrl_c_is_how_the_waiting_ends(tmp_path: Path, ended: list[Path], monkeypatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    terminal.readline = raising(KeyboardInterrupt())  # type: ignore[method-assign, assignment]
    monkeypatch.setattr(sys, "stdin", terminal)
    assert up.main(tmp_path) == 0, "the exit code of the run"
    assert ended == [tmp_path]


@pytest.mark.parametrize("during", ["start", "run"])
def test_ctrl_c_ends_it(tmp_path: Path, ended: list[Path], monkeypatch, during: str) -> None:
    monkeypatch.setattr(up, during, raising(KeyboardInterrupt()))
    assert up.main(tmp_path) == INTERRUPTED
    before = [tmp_path] if during == "start" else []  # the remains of an earlier one
    assert ended == [*before, tmp_path]


def test_one_of_another_terminal_is_left_alone(tmp_path: Path, ended: list[Path], monkeypatch) -> None:
    (tmp_path / keeper.READY).touch()
    monkeypatch.setattr(keeper, "running", lambda folder: ["someone"])
    assert up.main(tmp_path) == 0
    assert ended == []


@pytest.mark.skipif(bool(servers.available("s3")), reason=servers.available("s3"))
def test_the_bucket_is_there_the_next_time(tmp_path: Path) -> None:
    import boto3

    def client(server: servers.Server) -> Any:
        keys = {name.lower(): server.env[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        return boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", **keys)

    with servers.s3(tmp_path) as server:
        client(server).put_object(Bucket="bucket", Key="kept", Body=b"1")
    with servers.s3(tmp_path) as server:
        assert client(server).get_object(Bucket="bucket", Key="kept")["Body"].read() == b"1"

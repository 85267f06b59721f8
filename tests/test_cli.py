"""What a user sees when something is wrong: one clear message, exit code 2, no traceback, nothing written."""

import socket
from pathlib import Path

import pytest


def failed(process, *expected: str) -> None:
    assert process.returncode == 2, process.stderr
    for text in expected:
        assert text in process.stderr
    assert "Traceback" not in process.stderr + process.stdout


@pytest.mark.parametrize("command", [[], ["run"], ["corpus"], ["extract"], ["align"], ["pretrain"], ["evaluate"],
                                     ["report"], ["vectors"], ["vectors", "neighbours"], ["vectors", "export"],
                                     ["languages"], ["doctor"], ["dashboard"]])  # fmt: skip
def test_help_of_every_command(babelray, command: list[str]) -> None:
    process = babelray(*command, "--help")
    assert process.returncode == 0 and "Usage" in process.stdout


def test_unknown_key_and_command(babelray, recipe_file, tmp_path: Path) -> None:
    failed(
        babelray("run", str(recipe_file()), "pretrain.stepz=1"), "pretrain.stepz: unknown key; did you mean 'steps'?"
    )
    failed(babelray("run", str(tmp_path / "none.yaml")), "there is no recipe at")
    failed(babelray("walk"), "No such command")
    assert not (tmp_path / "runs").exists()


def test_debug_shows_the_traceback(babelray, tmp_path: Path) -> None:
    process = babelray("--debug", "run", str(tmp_path / "none.yaml"))
    assert process.returncode != 0 and "Traceback" in process.stderr


def test_missing_text(babelray, recipe_file, tmp_path: Path) -> None:
    process = babelray("run", str(recipe_file()), f"corpus.text={tmp_path}/{{lang}}.txt")
    failed(process, f"no file for language 'en' at {tmp_path}/en.txt")
    assert not (tmp_path / "runs").exists()


def test_a_ray_address_that_does_not_answer(babelray, recipe_file) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        failed(babelray("run", str(recipe_file()), RAY_ADDRESS=address), f"the Ray address {address} does not answer")
    failed(babelray("run", str(recipe_file()), RAY_ADDRESS="nonsense"), "the Ray address nonsense does not answer")


def test_storage_that_cannot_be_written(babelray, recipe_file, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed(babelray("run", str(recipe_file()), f"storage={tmp_path}/file/runs"), "a part of the path is a file")


def test_dry_run_shows_the_plan_and_writes_nothing(babelray, recipe_file, tmp_path: Path) -> None:
    process = babelray("run", str(recipe_file()), "pretrain.steps=77", "--dry-run")
    assert process.returncode == 0
    assert "steps: 77" in process.stdout
    assert process.stdout.count("to do") == 7
    assert not (tmp_path / "runs").exists()


def test_doctor(babelray, tmp_path: Path) -> None:
    process = babelray("doctor", "--storage", str(tmp_path), MLFLOW_TRACKING_URI="http://user:secret@127.0.0.1:9")
    assert process.returncode == 0
    for name in ("python", "memory", "devices", "ray", "deepspeed", "disk", "storage", "tracking"):
        assert name in process.stdout
    assert "does not answer" in process.stdout and "secret" not in process.stdout
    (tmp_path / "file").write_text("")
    process = babelray("doctor", "--storage", str(tmp_path / "file/x"))
    assert process.returncode == 2 and "a part of the path is a file" in process.stdout


def test_dashboard_without_runs(babelray, tmp_path: Path) -> None:
    failed(babelray("dashboard", "--storage", str(tmp_path)), "there are no tracked runs")

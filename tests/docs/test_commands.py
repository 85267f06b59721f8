"""The commands in README and documentation run, or fail at the placeholder that stands for the reader's own data."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from babelray.commands.app import app
from babelray.pipeline.plan import ordered_stages
from conftest import ROOT
from support.documents import command_lines
from support.small_vectors import write_small_vectors

LINES = command_lines()
OWN = [line for line in LINES if line.startswith("babelray ")]
OF_FILES = [line for line in OWN if "--source" in line]
OF_ENCODERS = [line for line in OWN if re.match("babelray (compare|.*--model)", line)]
UNTRIED = ("dashboard", "doctor", "init")
"""Commands that serve, start Ray or write into the present folder; their own tests run them."""
RUNNABLE = [line for line in OWN if line not in (*OF_FILES, *OF_ENCODERS) and line.split()[1] not in UNTRIED]
PLANNED = ("run", "submit", *ordered_stages(), "simulate", "sweep")
"""Commands that take minutes: they are given `--dry-run`."""
PLACEHOLDERS = ("FINGERPRINT", "FOLDER")
OTHER = r"(make|pip install|kind|kubectl|helm|docker|python) ?"


@pytest.mark.parametrize("line", RUNNABLE)
def test_commands_run(cli, line: str) -> None:
    arguments = shlex.split(line)[1:]
    if arguments[0] in PLANNED and arguments[1] != "inspect" and "--dry-run" not in arguments:
        arguments.append("--dry-run")
    process = cli(*arguments)
    if placeholder := next((name for name in PLACEHOLDERS if name in line), None):
        assert process.returncode == 0 or placeholder in process.stderr, process.stderr
    else:
        assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("line", [line for line in OWN if line.split()[1] in UNTRIED])
def test_untried_commands_exist(cli, line: str) -> None:
    assert cli(line.split()[1], "--help").returncode == 0


def test_commands_on_two_files_run_one_after_the_other(babelray, tmp_path: Path) -> None:
    write_small_vectors(tmp_path)
    assert len(OF_FILES) == 5
    for line in OF_FILES:
        process = babelray(*shlex.split(line)[1:], cwd=tmp_path)
        assert process.returncode == 0, process.stderr
        assert "100.0" in process.stdout or "--test" not in line


def test_commands_that_judge_encoders_run_one_after_the_other(babelray, tiny_encoder: str, tmp_path: Path) -> None:
    for code in ("de", "en"):
        (tmp_path / f"de-en.{code}").write_text("the cat\na dog\nmy garden\n")
    assert len(OF_ENCODERS) == 4
    outputs = []
    for line in OF_ENCODERS:
        if "a-third" in line:
            shutil.copytree(tmp_path / "after", tmp_path / "a-third")
        complete = line.replace("--model DIR", f"--model {tiny_encoder}").replace("--data DIR", f"--data {tmp_path}")
        process = babelray(*shlex.split(complete)[1:], cwd=tmp_path)
        assert process.returncode == 0, process.stderr
        outputs.append(process.stdout)
    assert "difference" in outputs[2] and "●" in outputs[3]


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("make")])
def test_make_targets_exist(line: str) -> None:
    assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_other_commands_are_few() -> None:
    assert [line for line in LINES if line not in OWN and not re.match(OTHER, line)] == []


def test_every_stage_is_in_the_pipeline_and_has_a_job_script() -> None:
    page = (ROOT / "docs/concepts/pipeline.md").read_text(encoding="utf-8")
    assert app.registered_commands
    for stage in ("corpus", "encoder", "extract", "align", "expose", "stitch", "map", "pretrain", "evaluate", "report"):
        assert f"`babelray {stage} RECIPE`" in page
        assert (ROOT / "jobs" / f"{stage}.py").exists()

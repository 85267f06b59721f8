"""The light installation: vectors, mappings, encoders and the Python API without a cluster, a tracker or a bucket."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from babelray.packages import LEFT_OUT, MissingPackageError, explain_missing
from conftest import ROOT
from support.layers import PACKAGE

CORE = PACKAGE / "requirements-core.txt"
HIDE = f"import sys; sys.modules.update(dict.fromkeys({sorted(LEFT_OUT)}, None))\n"
SCRIPT = """
import babelray as br

encoder = br.load_encoder("babelray-mini")
words = {"de": ["hund", "katze", "wasser", "haus"], "en": ["dog", "cat", "water", "house"]}
de, en = (br.load_vectors(encoder.encode_words(own, language=code), own) for code, own in words.items())
pairs = list(zip(*words.values()))
result = br.align(de, en, pairs, progress=False)
print("bli", br.bli(result.source, result.target, pairs)["words"])
result.save("out")
assert br.load_mapping("out/mapping/source")(de).matrix.shape == de.matrix.shape
print("encode", encoder.encode(["A dog barks.", "Ein Hund bellt."]).shape[0])
sentences = ["The cat sleeps on the bed.", "The dog sleeps."]
print("extract", len(br.extract(encoder, sentences, "en", min_steps=5, subsample=None, progress=False)))
print("links", br.word_align(encoder, "A dog", "A dog").to_pharaoh())
print("loss", br.losses.contrastive(de.matrix, en.matrix).ndim)
"""
COMMANDS = """
from babelray.commands.app import main

sys.argv = ["babelray", *sys.argv[1:]]
main()
"""


def run(script: str, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform"), "COLUMNS": "140"}
    command = [sys.executable, "-c", HIDE + script, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def test_the_core_works_with_the_other_packages_hidden(tmp_path: Path) -> None:
    process = run(SCRIPT, tmp_path)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == ["bli", "4", "encode", "2", "extract", "6", "links", "0-0", "1-1", "loss", "0"]


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        (["corpus", str(ROOT / "jobs/recipes/quickstart.yaml")], "ray"),
        (["bli", "--source", "s3://b/a.vec", "--target", "s3://b/b.vec", "--test", "t.txt"], "boto3"),
    ],
)
def test_a_command_that_needs_a_package_says_so(tmp_path: Path, arguments: list[str], package: str) -> None:
    process = run(COMMANDS, tmp_path, *arguments)
    assert process.returncode == 2, process.stderr
    assert f"needs the package {package}, which is not installed" in process.stderr
    assert "pip install" in process.stderr and "Traceback" not in process.stderr


@pytest.mark.parametrize("arguments", [["recipes"], ["init", "project"], ["components"], ["languages"]])
def test_commands_that_start_nothing_need_nothing(tmp_path: Path, arguments: list[str]) -> None:
    process = run(COMMANDS, tmp_path, *arguments)
    assert process.returncode == 0 and process.stdout, process.stderr


def test_other_missing_modules_are_defects() -> None:
    with pytest.raises(ModuleNotFoundError), explain_missing("this"):
        import nowhere_at_all  # noqa: F401
    with pytest.raises(MissingPackageError, match="this needs the package botocore"), explain_missing("this"):
        raise ModuleNotFoundError(name="botocore.config")


def requirements(lines: list[str]) -> dict[str, str]:
    lines = [line for line in lines if line and not line.startswith("#")]
    return {re.split(r"[\[<>=~]", line)[0]: line for line in lines}


def test_the_core_is_a_part_of_the_default_installation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    everything = requirements(project["project"]["dependencies"])
    core = requirements(CORE.read_text().splitlines())
    assert core.items() <= everything.items()
    assert not {*core} & {re.split(r"\[", name)[0] for name in LEFT_OUT.values()}
    assert "requirements-core.txt" in project["tool"]["setuptools"]["package-data"]["babelray"]

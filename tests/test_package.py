"""The wheel is complete: in a new environment and an empty folder, it does what a clone does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ROOT

pytestmark = pytest.mark.slow
SOURCES = ("platform", "jobs", "tune", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
Run = Callable[..., str]
PYTHON = """
import babelray as br

encoder = br.load_encoder("babelray-mini")
assert encoder.encode(["A dog barks.", "Ein Hund bellt."]).shape[0] == 2
words = {"de": ["hund", "katze", "wasser", "haus"], "en": ["dog", "cat", "water", "house"]}
de, en = (br.load_vectors(encoder.encode_words(own, language=code), own) for code, own in words.items())
pairs = list(zip(*words.values()))
result = br.align(de, en, pairs, progress=False)
assert br.bli(result.source, result.target, pairs)["words"] == 4
small = {"languages": ["en", "de"], "pretrain.steps": 2, "pretrain.workers": 1}
print(br.__file__, *br.run("quickstart", small, progress=False))
"""


def process(*command: str, cwd: Path) -> str:
    """Run a command, without the clone on its path; returns its output."""
    environment = os.environ | {"COLUMNS": "120", "PYTHONPATH": ""}
    finished = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=550)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, so that nothing is built in it."""
    folder = tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    process(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", "dist", ".", cwd=sources)
    (built,) = (sources / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a program of a new environment, which has the wheel and sees the packages that it depends on."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin/python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet")
    process(*pip, "--no-deps", "--no-index", "--ignore-installed", str(wheel), cwd=folder)

    def run(program: str, *arguments: str, cwd: Path) -> str:
        return process(str(folder / "bin" / program), *arguments, cwd=cwd)

    return run


def test_everything_that_is_shipped_is_in_the_wheel(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "platform/babelray"
    tracked = process("git", "ls-files", "-z", "--", ".", cwd=package).split("\0")[:-1]
    expected = {f"babelray/{name}" for name in tracked}
    expected |= {f"babelray/shipped/recipes/{path.name}" for path in (ROOT / "jobs/recipes").glob("*.yaml")}
    expected |= {f"babelray/shipped/spaces/{path.name}" for path in (ROOT / "tune/spaces").glob("*.yaml")}
    assert expected - names == set() and all(name.endswith(".py") for name in names - expected), "and nothing else"


def test_a_source_distribution_builds_the_same_wheel(sources: Path, wheel: Path) -> None:
    build = "from setuptools.build_meta import build_sdist; build_sdist('dist')"
    process(sys.executable, "-c", build, cwd=sources)
    (archive,) = (sources / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(sources / "unpacked", filter="data")
    (unpacked,) = (sources / "unpacked").iterdir()
    build = "from setuptools.build_meta import build_wheel; build_wheel('../../again')"
    process(sys.executable, "-c", build, cwd=unpacked)
    (again,) = (sources / "again").glob("*.whl")
    assert {*zipfile.ZipFile(again).namelist()} == {*zipfile.ZipFile(wheel).namelist()}


def test_shipped_recipes_and_spaces_have_names(installed: Run, tmp_path: Path) -> None:
    assert "From text to report" in installed("babelray", "recipes", cwd=tmp_path)
    for command in (["run", "quickstart"], ["extract", "quickstart"], ["sweep", "alignment"]):
        assert "extract" in installed("babelray", *command, "--dry-run", cwd=tmp_path)
    storage = "storage=s3://bucket/runs"
    plan = installed("babelray", "submit", "quickstart", storage, "--dry-run", cwd=tmp_path)
    assert "babelray.commands.app run quickstart" in plan


def test_the_python_api_runs_a_shipped_recipe(installed: Run, tmp_path: Path) -> None:
    file, *stages = installed("python", "-c", PYTHON, cwd=tmp_path).split()[-8:]
    assert not Path(file).is_relative_to(ROOT)
    assert stages == ["corpus", "encoder", "extract", "align", "pretrain", "evaluate", "report"]
    assert [*(tmp_path / "runs/report").glob("*/*.html")]


def test_a_notebook_runs(installed: Run, tmp_path: Path) -> None:
    installed(
        "python", str(ROOT / "tests/support/notebook.py"), str(ROOT / "examples/word_vectors.ipynb"), cwd=tmp_path
    )
    assert [*tmp_path.glob("aligned-*/mapping/source")]


def test_a_project_runs(installed: Run, tmp_path: Path) -> None:
    installed("babelray", "init", "my-project", cwd=tmp_path)
    output = installed("babelray", "extract", "recipe.yaml", "languages=[en, de]", cwd=tmp_path / "my-project")
    assert "en" in output and [*(tmp_path / "my-project/runs/extract").glob("*/vectors/de*")]

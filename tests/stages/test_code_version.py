from pathlib import Path

import pytest

from babelray.stages import code_version as module
from babelray.stages.code_version import code_version, reachable
from babelray.stages.pipeline import STAGES


def test_a_stage_reaches_what_it_uses_and_no_more() -> None:
    corpus, report = reachable("babelray.stages.corpus"), reachable("babelray.stages.report")
    assert {"babelray.text.segment", "babelray.lexicon.pairs", "babelray.errors"} <= corpus
    assert not {"babelray.training.loop", "babelray.evaluation.report", "babelray.recipe"} & corpus
    assert "babelray.evaluation.plots" in report


def test_no_stage_depends_on_the_recipe_or_the_command() -> None:
    for stage in STAGES:
        assert not {"babelray.recipe", "babelray.cli", "babelray.stages.pipeline"} & reachable(type(stage).__module__)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "babelray"
    root.mkdir()
    (root / "__init__.py").write_text("")
    (root / "a.py").write_text("from babelray.b import f\n")
    (root / "b.py").write_text('"""Doc."""\n\n\ndef f():\n    """Doc."""\n    return 1\n')
    (root / "c.py").write_text("x = 1\n")
    monkeypatch.setattr(module, "ROOT", root)
    return root


def version(package: Path) -> str:
    for cached in (module._file, module._imports, module._tree, module._content):
        cached.cache_clear()
    return code_version("babelray.a")


def test_code_counts_and_comments_do_not(package: Path) -> None:
    before = version(package)
    (package / "b.py").write_text("# why\ndef f():\n    return 1  # because\n")
    assert version(package) == before
    (package / "c.py").write_text("x = 2\n")
    assert version(package) == before, "a module that cannot be reached"
    (package / "b.py").write_text("def f():\n    return 2\n")
    assert version(package) != before


@pytest.fixture(autouse=True)
def forget() -> object:
    yield
    for cached in (module._file, module._imports, module._tree, module._content):
        cached.cache_clear()

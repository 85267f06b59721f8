from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from babelray.mapping.method import MAPPING_METHODS
from babelray.pipeline import code_version as module
from babelray.pipeline.code_version import code_version, reachable
from babelray.pipeline.plan import plan
from babelray.pipeline.stage import STAGES
from babelray.recipe.load import load_recipe
from support.layers import PACKAGE


def forget() -> None:
    for cached in (module._file, module._imports, module._content, module._code):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


def test_a_stage_reaches_what_it_uses_and_no_more() -> None:
    corpus, report = reachable("babelray.stages.corpus"), reachable("babelray.stages.report")
    assert {"babelray.text.segment", "babelray.lexicon.pairs", "babelray.errors"} <= corpus
    assert not {"babelray.training.loop", "babelray.report.run", "babelray.recipe.recipe"} & corpus
    assert "babelray.report.plots" in report


def test_no_stage_depends_on_the_recipe_or_the_command() -> None:
    above = {"babelray.recipe.recipe", "babelray.commands.app", "babelray.pipeline.execution"}
    for stage in STAGES.values():
        assert not above & reachable(stage.__module__), stage.name


@pytest.mark.parametrize("name", [name for name in STAGES if name != "report"])
def test_no_stage_but_report_reaches_a_page(name: str) -> None:
    pages = {module for module in reachable(STAGES[name].__module__) if module.startswith("babelray.report")}
    assert not pages


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, whose files a test may change."""
    root = tmp_path / "babelray"
    shutil.copytree(PACKAGE, root, ignore=lambda folder, files: [f for f in files if f in ("starter", "mini")])
    monkeypatch.setattr(module, "ROOT", root)
    return root


def versions() -> dict[str, str]:
    forget()
    return {name: code_version(stage.__module__) for name, stage in STAGES.items()}


def test_a_change_of_a_page_changes_the_report_alone(copy: Path) -> None:
    before = versions()
    for page in (copy / "report").glob("*.py"):
        page.write_text(page.read_text() + "\nCHANGED = True\n")
    after = versions()
    assert [name for name in before if before[name] != after[name]] == ["report"]


def test_a_change_of_a_mapping_method_reaches_only_recipes_that_use_it(copy: Path, recipe_file) -> None:
    def fingerprints(method: str) -> dict[str, str]:
        forget()
        steps = plan(load_recipe(recipe_file(align={"mapping": method})), "align")
        return {step.name: step.fingerprint for step in steps}

    before = {method: fingerprints(method) for method in ("vecmap", "procrustes")}
    file = copy.joinpath(*MAPPING_METHODS["vecmap"].__module__.split(".")[1:]).with_suffix(".py")
    file.write_text(file.read_text() + "\nCHANGED = True\n")
    after = {method: fingerprints(method) for method in ("vecmap", "procrustes")}
    assert after["procrustes"] == before["procrustes"]
    assert {n for n, key in before["vecmap"].items() if after["vecmap"][n] != key} == {"align"}


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


def version(settings: Any = None) -> str:
    forget()
    return code_version("babelray.a", settings)


def test_code_counts_and_comments_do_not(package: Path) -> None:
    before = version()
    (package / "b.py").write_text("# why\ndef f():\n    return 1  # because\n")
    assert version() == before
    (package / "c.py").write_text("x = 2\n")
    assert version() == before, "a module that cannot be reached"
    (package / "b.py").write_text("def f():\n    return 2\n")
    assert version() != before


STAGE = """
from babelray.b import f
from babelray.c import x

class A({base}):
    def run(self, job):
        return f()

    def summary(self, artifact, settings):
        from babelray.d import y
        return x + {number}
"""


def test_the_summary_of_a_stage_does_not_count(package: Path) -> None:
    (package / "d.py").write_text("y = 1\n")
    (package / "a.py").write_text(STAGE.format(base="Stage[int]", number=1))
    before = version()
    (package / "a.py").write_text(STAGE.format(base="Stage[int]", number=2))
    (package / "c.py").write_text("x = 2\n")
    (package / "d.py").write_text("y = 2\n")
    assert version() == before, "neither the method, nor what only it imports"
    (package / "b.py").write_text("def f():\n    return 2\n")
    assert version() != before
    (package / "a.py").write_text(STAGE.format(base="Other", number=1))
    other = version()
    (package / "a.py").write_text(STAGE.format(base="Other", number=2))
    assert version() != other, "other classes may use a method of that name"


def test_functions_that_make_tables_do_not_count(copy: Path) -> None:
    before = versions()
    file = copy / "pipeline/summary.py"
    file.write_text(file.read_text() + "\nCHANGED = True\n")
    tables = {"pretrain": "training_summary", "align": "_summary_row", "stitch": "_score_table", "expose": "_tables"}
    for name, table in tables.items():
        file = copy / f"stages/{name}.py"
        head, start, body = file.read_text().partition(f"def {table}(")
        assert body
        signature, colon, rest = body.partition(":\n")
        file.write_text(f"{head}{start}{signature}{colon}    print()\n{rest}")
    assert versions() == before


def test_type_only_imports_do_not_count(package: Path) -> None:
    (package / "a.py").write_text("if TYPE_CHECKING:\n    from babelray.c import x\n")
    before = version()
    (package / "c.py").write_text("x = 2\n")
    assert version() == before

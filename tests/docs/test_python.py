"""The Python in README and documentation runs: all blocks of a page, one after the other, in a folder with vectors."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from babelray.registry import REGISTRIES
from support.documents import PAGES, README, blocks
from support.small_vectors import write_small_vectors

LONGEST_REASON = 60


@pytest.fixture
def unchanged_registries() -> Iterator[None]:
    """Forget the components that a page registers."""
    before = [(registry, {*registry}) for registry in REGISTRIES]
    yield
    for registry, names in before:
        for name in {*registry} - names:
            registry.remove(name)


def is_run(page: Path) -> bool:
    return any(block.reason is None for block in blocks("python", page))


@pytest.mark.parametrize("page", [page for page in PAGES if is_run(page)], ids=lambda page: page.stem)
@pytest.mark.usefixtures("unchanged_registries")
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_small_vectors(tmp_path)
    script = tmp_path / f"documented_{page.stem.replace('-', '_').lower()}.py"
    script.write_text("\n".join(block.text for block in blocks("python", page) if block.reason is None))
    monkeypatch.chdir(tmp_path)
    specification = importlib.util.spec_from_file_location(script.stem, script)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, script.stem, module)
    specification.loader.exec_module(module)


def test_what_is_not_run_has_a_reason_and_is_at_least_python() -> None:
    for block in blocks("python"):
        compile(block.text, block.page.name, "exec")
        assert block.reason is None or 0 < len(block.reason) < LONGEST_REASON


def test_the_readme_has_no_python_that_is_not_run() -> None:
    assert all(block.reason is None for block in blocks("python", README))

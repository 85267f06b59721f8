"""The parts of recipes and the sweep spaces in README and documentation are valid."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from babelray.recipe.recipe import Recipe
from babelray.sweeping.space import Space
from conftest import ROOT
from support.documents import PAGES, blocks


@pytest.mark.parametrize("page", [page for page in PAGES if blocks("yaml", page)], ids=lambda page: page.stem)
def test_yaml_is_valid(page: Path) -> None:
    quickstart = yaml.safe_load((ROOT / "jobs/recipes/quickstart.yaml").read_text(encoding="utf-8"))
    for block in blocks("yaml", page):
        part = yaml.safe_load(block.text)
        if "parameters" in part:
            Space.model_validate(part)
        else:
            Recipe.model_validate(quickstart | part)

"""Shipped recipes by their names: in a clone, and in an installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

from babelray.errors import RecipeError
from babelray.recipe.load import load_any_run, load_recipe
from babelray.recipe.shipped import RECIPES, SPACES, ShippedFiles, description
from conftest import ROOT


@pytest.fixture
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", RECIPES.names())
def test_a_name_is_the_recipe_of_the_clone(in_an_empty_folder: Path, name: str) -> None:
    assert load_any_run(name, ["seed=7"]) == load_any_run(ROOT / f"jobs/recipes/{name}.yaml", ["seed=7"])


def test_all_files_have_names() -> None:
    assert RECIPES.names() == sorted(path.stem for path in (ROOT / "jobs/recipes").glob("*.yaml"))
    assert SPACES.names() == sorted(path.stem for path in (ROOT / "tune/spaces").glob("*.yaml"))


def test_a_file_comes_before_a_name_and_a_folder_does_not(in_an_empty_folder: Path) -> None:
    Path("quickstart").mkdir()
    assert load_recipe("quickstart").name == "quickstart"
    Path("forty").write_text(RECIPES.read("quickstart").replace("name: quickstart", "name: mine"))
    assert load_recipe("forty").name == "mine"


def test_a_name_that_is_not_shipped(in_an_empty_folder: Path) -> None:
    with pytest.raises(RecipeError, match="there is no recipe at quikstart; did you mean 'quickstart'") as raised:
        load_recipe("quikstart")
    assert all(name in raised.value.remedy for name in RECIPES.names())
    with pytest.raises(RecipeError, match=r"there is no recipe at \.\./quickstart"):
        load_recipe("../quickstart")


def test_an_installed_package_has_its_own_copies(tmp_path: Path) -> None:
    files = ShippedFiles("recipe", tmp_path / "installed", tmp_path / "edited")
    for folder, text in (("edited", "# In the clone: x"), ("installed", "# In the package: x")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.yaml").write_text(text)
        assert description(files.read("one")) == text.strip("# ").removesuffix(": x")
    assert files.locate("one") == tmp_path / "installed/one.yaml" and files.locate("two") == Path("two")


@pytest.mark.parametrize("files", [RECIPES, SPACES], ids=["recipes", "spaces"])
def test_every_description_is_one_phrase(files: ShippedFiles) -> None:
    texts = {name: description(files.read(name)) for name in files.names()}
    assert len({*texts.values()}) == len(texts)
    assert all(20 < len(text) < 200 and "babelray sweep" not in text for text in texts.values()), texts

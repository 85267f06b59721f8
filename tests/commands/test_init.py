"""The commands `recipes` and `init`: what is shipped, and a copy to edit."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from babelray.commands.init import HINTS, RECIPE
from babelray.recipe.load import load_any_run, load_recipe
from babelray.recipe.recipe import Recipe
from babelray.recipe.shipped import RECIPES, SPACES


def test_recipes_and_spaces_are_listed_with_what_they_need(cli) -> None:
    process = cli("recipes")
    assert process.returncode == 0, process.stderr
    first = [line.split()[0] for line in process.stdout.splitlines() if line.strip() and not line.startswith(" ")]
    assert first == ["recipe", *RECIPES.names(), "space", *SPACES.names()]
    listed = json.loads(cli("recipes", "--json").stdout)
    assert listed["recipe"]["quickstart"]["needs"] == [] == listed["space"]["quickstart"]["needs"]
    assert listed["recipe"]["x2s-ma"]["needs"] == ["data", "xlm-roberta-base"] == listed["space"]["extraction"]["needs"]
    assert listed["recipe"]["forty"] == {"needs": ["data"], "description": "All 40 languages from real text"}


@pytest.mark.parametrize("name", RECIPES.names())
def test_a_copy_is_the_shipped_recipe_with_its_comments(cli, tmp_path: Path, name: str) -> None:
    process = cli("init", "my-project", "--recipe", name, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    text = (tmp_path / "my-project" / RECIPE).read_text()
    assert RECIPES.read(name).replace(f"\nname: {name}\n", "\nname: my-project\n") in text
    shipped = load_any_run(name)
    assert load_any_run(tmp_path / "my-project" / RECIPE) == shipped.model_copy(update={"name": "my-project"})
    assert (tmp_path / "my-project" / ".gitignore").read_text() == "runs/\n"


def test_the_printed_command_runs(cli, tmp_path: Path) -> None:
    process = cli("init", "a/my project", cwd=tmp_path)
    words = shlex.split(process.stdout.partition("then: ")[2])
    assert words[:3] == ["cd", "a/my project", "&&"] and words[3] == "babelray"
    planned = cli(*words[4:], "--dry-run", cwd=tmp_path / words[1])
    assert planned.returncode == 0 and f"{tmp_path}/a/my project/runs/STAGE" in planned.stdout


@pytest.mark.parametrize("purpose", HINTS)
def test_hints_are_parts_of_recipes(cli, tmp_path: Path, purpose: str) -> None:
    cli("init", str(tmp_path / "project"))
    text = (tmp_path / "project" / RECIPE).read_text()
    assert all(f"# {line}".rstrip() in text.splitlines() for line in HINTS[purpose].splitlines())
    Recipe.model_validate(yaml.safe_load(text) | yaml.safe_load(HINTS[purpose]))


def test_nothing_is_overwritten(cli, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    assert cli("init", ".", cwd=tmp_path).returncode == 0
    (tmp_path / RECIPE).write_text("edited")
    process = cli("init", ".", cwd=tmp_path)
    assert process.returncode == 2 and f"{RECIPE} exists" in process.stderr
    assert (tmp_path / RECIPE).read_text() == "edited" and (tmp_path / ".gitignore").read_text() == "mine\n"


def test_what_cannot_be_written_is_said(cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = cli("init", "file/x", cwd=tmp_path)
    assert process.returncode == 2 and "cannot write file/x/recipe.yaml: Not a directory" in process.stderr
    process = cli("init", "new", "--recipe", "quikstart", cwd=tmp_path)
    assert process.returncode == 2 and "did you mean 'quickstart'?" in process.stderr
    assert not (tmp_path / "new").exists()


def test_a_folder_whose_name_is_no_name_of_a_run(cli, tmp_path: Path) -> None:
    assert cli("init", "my project", cwd=tmp_path).returncode == 0
    assert load_recipe(tmp_path / "my project" / RECIPE).name == "quickstart"

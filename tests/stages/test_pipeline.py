"""Planning needs no cluster; what runs on one is in integration/."""

from pathlib import Path

import pytest

from babelray.errors import DataError, RecipeError
from babelray.recipe import load_recipe
from babelray.stages import pipeline

NAMES = ["corpus", "encoder", "extract", "align", "pretrain", "evaluate", "report"]


def keys(path: Path, *overrides: str) -> dict[str, str]:
    return {step.stage.name: step.fingerprint for step in pipeline.plan(load_recipe(path, overrides))}


def changed(path: Path, *overrides: str) -> list[str]:
    before, after = keys(path), keys(path, *overrides)
    return [name for name in NAMES if before[name] != after[name]]


def test_a_change_reaches_only_what_depends_on_it(recipe_file) -> None:
    path = recipe_file()
    assert list(keys(path)) == NAMES
    assert changed(path, "corpus.cleaning.min_tokens=5") == NAMES
    assert changed(path, "extract.layer=1") == ["extract", "align", "pretrain", "evaluate", "report"]
    assert changed(path, "pretrain.steps=9") == ["pretrain", "evaluate", "report"]
    assert changed(path, "seed=2") == NAMES
    assert changed(path, "storage=elsewhere") == changed(path, "experiment=x") == []


def test_content_of_the_sources_counts_not_their_place(recipe_file, tmp_path: Path) -> None:
    import shutil

    from babelray.storage.place import STARTER

    shutil.copytree(STARTER, tmp_path / "copy")
    path = recipe_file()
    corpus = {"text": f"{tmp_path}/copy/text/{{lang}}.txt"}
    steps = pipeline.plan(load_recipe(path, [f"corpus.text={corpus['text']}"]), "corpus")
    digests = sorted(steps[0].sources.values())
    with (tmp_path / "copy/text/de.txt").open("a", encoding="utf-8") as file:
        file.write("\nNoch ein Satz.\n")
    again = pipeline.plan(load_recipe(path, [f"corpus.text={corpus['text']}"]), "corpus")
    assert sorted(again[0].sources.values()) != digests and again[0].fingerprint != steps[0].fingerprint


def test_until_a_stage(recipe_file) -> None:
    steps = pipeline.plan(load_recipe(recipe_file()), "extract")
    assert [step.stage.name for step in steps] == ["corpus", "encoder", "extract"]


def test_bad_stage_names_and_missing_files(recipe_file, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file())
    with pytest.raises(RecipeError, match="there is no stage 'extrakt'"):
        pipeline.plan(recipe, "extrakt")
    steps = pipeline.plan(recipe, "extract")
    with pytest.raises(RecipeError, match="does not reach that stage"):
        pipeline._forced(steps, "report")
    assert pipeline._forced(steps, "encoder") == {"encoder", "extract"}
    with pytest.raises(DataError, match="no file for language 'en'"):
        pipeline.plan(load_recipe(recipe_file(), [f"corpus.text={tmp_path}/none/{{lang}}.txt"]))

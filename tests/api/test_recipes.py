"""Recipes from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import babelray as br
from babelray.api import recipes
from babelray.errors import BabelrayError
from babelray.pipeline import execution
from babelray.pipeline.plan import plan_parts
from babelray.recipe.load import load_any_run, load_recipe
from babelray.recipe.run import Run
from babelray.storage.artifact import Artifact
from support.small_recipe import small_recipe


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The recipes that would have been run."""
    seen: list[Run] = []
    monkeypatch.setattr(execution, "run", lambda recipe, console, until, force: seen.append(recipe))
    return seen


def test_paths_contents_and_recipes_are_the_same(ran: list[Run], recipe_file, tmp_path: Path) -> None:
    content = small_recipe(tmp_path)
    overrides = {"pretrain.steps": 7, "extract": {"method": "aggregate"}, "languages": ["en", "de"], "seed": 3}
    for recipe in (recipe_file(), str(recipe_file()), content, load_recipe(recipe_file())):
        br.run(recipe, overrides)
    written = [f"{path}={json.dumps(value)}" for path, value in overrides.items()]
    expected = load_any_run(recipe_file(), written)
    assert all(recipe == expected for recipe in ran) and expected.pretrain.steps == 7
    assert content == small_recipe(tmp_path), "the content that was given is not changed"


def test_errors_name_the_recipe(ran: list[Run], tmp_path: Path) -> None:
    with pytest.raises(BabelrayError, match=r"the recipe: (.|\n)*did you mean 'languages'"):
        br.run(small_recipe(tmp_path, langages=["en"]))
    with pytest.raises(BabelrayError, match="there is no recipe at"):
        br.run(tmp_path / "nothing.yaml")
    with pytest.raises(BabelrayError, match="steps"):
        br.run(small_recipe(tmp_path), {"pretrain.steps": "many"})
    assert not ran


def completed(recipe: Run, tables: dict[str, object]) -> br.CompletedRun:
    """A run whose stages wrote these files."""
    (part,) = plan_parts(recipe, None)
    artifacts = {}
    for step in part.steps:
        step.location.path.mkdir(parents=True, exist_ok=True)
        artifacts[step.fingerprint] = Artifact(step.location, {"seconds": 1.5, "metrics": {}, "stage": step.name})
    for name, content in tables.items():
        stage, file = name.split("/", 1)
        step = next(step for step in part.steps if step.name == stage)
        (step.location / file).write_json(content)
    return br.CompletedRun(execution.RunResult(part.steps, artifacts))


def test_a_run_without_scores_shows_its_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(br.CompletedRun, "tables", [])
    monkeypatch.setattr(br.CompletedRun, "files", {"report": "a/report.html"})
    result = completed(load_any_run(small_recipe(tmp_path)), {})
    assert result.to_pandas().loc["corpus", "seconds"] == 1.5 and "pretrain" in result
    assert "report: a/report.html" in str(result) and "<td>corpus</td>" in result._repr_html_()
    assert repr(result).startswith("CompletedRun(corpus, encoder, extract")
    assert str(result.encoder_folder) == f"{result['pretrain'].location}/encoder"


def test_vectors_and_encoders_are_loaded(tmp_path: Path, tiny_encoder: str) -> None:
    result = completed(load_any_run(small_recipe(tmp_path)), {})
    vectors = br.load_vectors(torch.eye(2), ["a", "b"])
    vectors.save(result["align"].location / "vectors" / "de")
    assert result.load_vectors("de").words == ["a", "b"]
    with pytest.raises(BabelrayError, match="no vectors at"):
        result.load_vectors("de", aligned=False)
    result.encoder_folder.path.symlink_to(tiny_encoder)
    assert result.load_encoder(1).encode("a dog").shape == (32,)


def test_the_corpus_of_a_recipe(local_ray: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = br.run(small_recipe(tmp_path), {"languages": ["en", "de"]}, until="corpus")
    assert list(result) == ["corpus"] and result.to_pandas().shape[0] >= 2
    again = br.run(small_recipe(tmp_path), {"languages": ["en", "de"]}, until="corpus", progress=False)
    assert again["corpus"].location == result["corpus"].location
    assert not capsys.readouterr().out and recipes.to_text(result.table()) in str(result)

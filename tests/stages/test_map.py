"""The map stage: what methods learn from, what they leave, and a whole run, one task after the other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from babelray.encoder.mapped import MappedEncoder, copy_encoder
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError, RecipeError, TrainingError
from babelray.evaluation.tasks import Tatoeba
from babelray.lexicon.pairs import Pair, write_pairs
from babelray.mapping import build
from babelray.mapping.contextual import MapConfig, NamedMapping
from babelray.mapping.linear import LinearMapping
from babelray.recipe import load_recipe
from babelray.stages import map as stage
from babelray.stages.artifact import Artifact
from babelray.stages.map import MapStage, Plan, Settings, collect, fit
from babelray.stages.pipeline import plan
from babelray.stages.stage import Job
from babelray.storage import Place

WORDS = [("katze", "cat"), ("hund", "dog"), ("bett", "bed"), ("garten", "garden"), ("haus", "house")]
METHODS = [
    NamedMapping(name="rotation", normalise="none"),
    NamedMapping(method="normalisation"),
    NamedMapping(method="gbdd"),
]


@pytest.fixture
def made(tiny_encoder: str, tmp_path: Path) -> Plan:
    """Sentences of two words and a number, whose words are linked by what they occur with."""
    place = Place.parse(tmp_path)
    pairs = [
        Pair(f"{a} {c} {i}", f"{b} {d} {i}", "train" if i else "test")
        for i in range(3)
        for a, b in WORDS
        for c, d in WORDS
        if a != c
    ]
    write_pairs(place / "corpus" / "parallel" / "de-en", pairs)
    tasks = [Tatoeba(data=str(tmp_path / "test.tsv"), languages=["de"])]
    (tmp_path / "test.tsv").write_text("de\ten\n" + "".join(f"{a} {a}\t{b} {b}\n" for a, b in WORDS))
    config = MapConfig(pairs=40, methods=METHODS)
    settings = Settings(languages=["en", "de"], hub="en", seed=1, map=config, tasks=tasks)
    segmenters = {"de": "icu", "en": "icu"}
    return Plan(settings, place / "corpus", Place.parse(tiny_encoder), 2, segmenters, place / "out")


def occurrences(made: Plan) -> dict[str, torch.Tensor]:
    return load_file(made.occurrences("de").path)


def test_methods_learn_from_linked_words_of_training_sentences(made: Plan, tiny_encoder: str) -> None:
    count, width = collect(made, "de")
    assert (count, width) == (40, 32), "five words, ten times at most, which makes 50, and no more than 40 in all"
    found = occurrences(made)
    encoder = TextEncoder.open(tiny_encoder, 2)
    known = {"own": set(), "hub": set()}
    for side, kind in (("own", 0), ("hub", 1)):
        texts = [f"{a[kind]} {c[kind]} {i}" for i in (1, 2) for a in WORDS for c in WORDS if a != c]
        for _, vectors in encoder.words(texts, [text.split() for text in texts]):
            known[side] |= {tuple(row) for row in vectors[:2].mul(1e4).round().int().tolist()}
        assert {tuple(row) for row in found[side].mul(1e4).round().int().tolist()} <= known[side]
    assert collect(Plan(made.settings, made.corpus, Place.parse("/nowhere"), 2, {}, made.out), "de") == (count, width)


def test_no_parallel_text_and_no_links(made: Plan) -> None:
    with pytest.raises(DataError, match="no parallel text of zh"):
        collect(made, "zh")
    write_pairs(made.corpus / "parallel" / "fr-en", [Pair("1 2", "1 2", "train")] * 2)
    with pytest.raises(DataError, match="fr: in 2 sentence pairs no two words are linked 2 times"):
        collect(Plan(made.settings, made.corpus, made.encoder, 2, made.segmenters | {"fr": "icu"}, made.out), "fr")


def test_a_method_without_supervision_gets_no_pairs(made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    collect(made, "de")
    given: dict[str, Any] = {}

    def listen(own: torch.Tensor, hub: torch.Tensor, pairs: Any, method: NamedMapping, seed: int) -> Any:
        given[method.label] = own, hub, pairs
        return LinearMapping.identity(own, "none"), LinearMapping.identity(hub, "none")

    monkeypatch.setattr(build, "map_both", listen)
    for method in METHODS[:2]:
        fit(made, method, "de")
    there = occurrences(made)
    own, hub, pairs = given["rotation"]
    assert own.equal(there["own"]) and hub.equal(there["hub"]) and all(side.equal(torch.arange(40)) for side in pairs)
    own, hub, pairs = given["normalisation"]
    assert pairs is None and own.equal(there["own"]) and not hub.equal(there["hub"])
    assert torch.allclose(hub.sum(0), there["hub"].sum(0), atol=1e-4), "the same vectors in another order"
    assert not (made.out / "rotation" / "mappings" / "de" / "hub").exists(), "the hub stays as it is"


def test_a_fit_is_kept_and_one_that_diverges_is_no_end(made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    collect(made, "de")
    first = fit(made, METHODS[0], "de")

    def diverge(*given: Any) -> Any:
        raise TrainingError("the loss is not a number")

    monkeypatch.setattr(build, "map_both", diverge)
    assert fit(made, METHODS[0], "de") == first and "seconds" in first
    assert fit(made, METHODS[1], "de") == {"failed": "the loss is not a number"}


def run(made: Plan, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[str]]:
    """The whole stage, without Ray: its figures, and what it said."""

    def one_after_the_other(tasks: Any, progress: Any, unit: str, cpus: float = 0.5) -> dict[str, Any]:
        return {task.name: task.function(*task.arguments) for task in tasks}

    monkeypatch.setattr(stage, "run_tasks", one_after_the_other)
    copy_encoder(made.encoder, made.out.parent / "start")
    inputs = {
        "corpus": Artifact(made.corpus, {"settings": {"segmenters": made.segmenters}}),
        "encoder": Artifact(made.out.parent / "start", {}),
    }
    said: list[str] = []
    job = Job(made.settings, inputs, made.out, SimpleNamespace(), print, said.append)
    return MapStage().run(job), said


def test_a_whole_run(made: Plan, tiny_encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, said = run(made, monkeypatch)
    scores = (made.out / "scores.json").read_json()["tatoeba"]
    assert list(scores) == ["original", "rotation", "normalisation", "gbdd"] and not said
    (task,) = made.settings.tasks
    plain = task.run(TextEncoder.open(tiny_encoder, 2)).scores["de"]
    assert scores["original"]["de"] == pytest.approx(plain), "layer 8, or the last of an encoder that has fewer"
    for name in ("rotation", "normalisation", "gbdd"):
        opened = MappedEncoder.open(str(made.out / name))
        assert scores[name]["de"] == pytest.approx(task.run(opened).scores["de"])
        assert metrics[f"tatoeba/{name}"] == scores[name]["de"]["mean"]
    assert len({scores[name]["de"]["mean_margin"] for name in scores}) == 4, "each of them does something"
    table = (made.out / "mapping.md").read_text()
    assert [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")][2:8] == [
        "original", "*supervised*", "rotation", "gbdd", "*unsupervised*", "normalisation",
    ]  # fmt: skip
    assert (made.out / "mapping.html").exists()


def test_a_method_that_failed_is_left_out(made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = build.map_both

    def some(own: Any, hub: Any, pairs: Any, method: NamedMapping, seed: int) -> Any:
        if method.label == "gbdd":
            raise TrainingError("the loss is not a number")
        return fitted(own, hub, pairs, method, seed)

    monkeypatch.setattr(build, "map_both", some)
    _, said = run(made, monkeypatch)
    assert said == ["left out: gbdd, since it failed. de: the loss is not a number"]
    assert "gbdd" not in (made.out / "scores.json").read_json()["tatoeba"]


def test_a_recipe_with_it(recipe_file) -> None:
    listed = "map={methods: [{method: procrustes}, {method: muse}]}"
    recipe = load_recipe(recipe_file(), ["pretrain=null", listed])
    names = [step.stage.name for step in plan(recipe, "map")]
    assert names == ["corpus", "encoder", "map"]
    with pytest.raises(RecipeError, match="has no map"):
        plan(load_recipe(recipe_file()), "map")
    for methods, problem in (
        ("[]", "at least 1"),
        ("[{method: muse}, {method: muse}]", "same name"),
        ("[{method: muse, name: original}]", "another meaning"),
        ("[{method: fast}]", "map.methods.0.method"),
        ("[{metod: muse}]", "did you mean 'method'"),
    ):
        with pytest.raises(RecipeError, match=problem):
            load_recipe(recipe_file(), [f"map={{methods: {methods}}}"])

"""The map stage: the data of the methods, the artifact, and a whole run, one task after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest
import torch
from safetensors.torch import load_file

from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError, RecipeError, TrainingError
from babelray.evaluation.benchmark import BENCHMARKS, EncoderBenchmark, Result, System
from babelray.lexicon.pairs import Pair, write_pairs
from babelray.mapping import method as mapping_method
from babelray.mapping.gbdd import GbddConfig
from babelray.mapping.linear import LinearMapping
from babelray.mapping.method import MappingMethod, fit_mappings
from babelray.mapping.normalisation import NormalisationConfig
from babelray.mapping.procrustes import ProcrustesConfig
from babelray.models.mapped import MappedEncoder, copy_encoder
from babelray.pipeline.plan import plan
from babelray.pipeline.stage import Job
from babelray.recipe.load import load_recipe
from babelray.recipe.map import MapConfig
from babelray.report.mapping import render
from babelray.stages import evaluate
from babelray.stages import map as stage
from babelray.stages.map import MappingContext, MapStage, Settings, collect, fit
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.storage.results import read_results

WORDS = [("katze", "cat"), ("hund", "dog"), ("bett", "bed"), ("garten", "garden"), ("haus", "house")]
METHODS = [
    ProcrustesConfig(name="rotation", normalise="none"),
    NormalisationConfig(),
    GbddConfig(),
]


class TranslatedWords(EncoderBenchmark):
    """Share of repeated German words whose nearest neighbour in English is their translation."""

    title: ClassVar[str] = "Repeated words"
    main_metric: ClassVar[str] = "accuracy"
    columns: ClassVar[Mapping[str, str]] = {"accuracy": "%"}

    benchmark: Literal["translated-words"] = "translated-words"

    def run(self, encoder: TextEncoder, system: System) -> Result:
        german = encoder.for_language("de", system.hub).encode([f"{a} {a}" for a, _ in WORDS])
        english = encoder.for_language(system.hub, "de").encode([f"{b} {b}" for _, b in WORDS])
        distances = torch.cdist(german, english)
        right = (distances.argmin(1) == torch.arange(len(WORDS))).float()
        scores = {"accuracy": right.mean().item(), "distance": distances.diag().mean().item()}
        return Result({"de": scores}, {"de": {"example_scores": right.tolist()}})


class Unavailable(TranslatedWords):
    """Its data are missing."""

    benchmark: Literal["unavailable"] = "unavailable"  # type: ignore[assignment]
    required: bool = False

    def sources(self, languages: Any) -> list[Location]:
        raise DataError("unavailable: there is nothing at x")


class Trained(TranslatedWords):
    """It fine-tunes the encoder."""

    trains: ClassVar[bool] = True
    benchmark: Literal["trained"] = "trained"  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def benchmarks() -> Iterator[None]:
    for benchmark in (TranslatedWords, Unavailable, Trained):
        BENCHMARKS.register(benchmark)
    yield
    for name in ("translated-words", "unavailable", "trained"):
        BENCHMARKS.remove(name)


@pytest.fixture
def made(tiny_encoder: str, tmp_path: Path) -> MappingContext:
    """Sentences of two words and a number, whose words are linked by what they occur with."""
    location = Location.parse(tmp_path)
    pairs = [
        Pair(f"{a} {c} {i}", f"{b} {d} {i}", "train" if i else "test")
        for i in range(3)
        for a, b in WORDS
        for c, d in WORDS
        if a != c
    ]
    write_pairs(location / "corpus" / "parallel" / "de-en", pairs)
    config = MapConfig(pairs=40, methods=METHODS)
    settings = Settings(languages=["en", "de"], hub="en", seed=1, map=config, benchmarks=[TranslatedWords()])
    segmenters = {"de": "icu", "en": "icu"}
    return MappingContext(settings, location / "corpus", Location.parse(tiny_encoder), 2, segmenters, location / "out")


def occurrences(made: MappingContext) -> dict[str, torch.Tensor]:
    return load_file(made.occurrences("de").path)


def test_methods_learn_from_linked_words_of_training_sentences(made: MappingContext, tiny_encoder: str) -> None:
    count, width = collect(made, "de")
    assert (count, width) == (40, 32), "five words, ten times at most, which makes 50, and no more than 40 in all"
    vectors_of = occurrences(made)
    encoder = TextEncoder.from_pretrained(tiny_encoder, 2)
    known = {"own": set(), "hub": set()}
    for side, kind in (("own", 0), ("hub", 1)):
        texts = [f"{a[kind]} {c[kind]} {i}" for i in (1, 2) for a in WORDS for c in WORDS if a != c]
        for _, vectors in encoder.words(texts, [text.split() for text in texts]):
            known[side] |= {tuple(row) for row in vectors[:2].mul(1e4).round().int().tolist()}
        assert {tuple(row) for row in vectors_of[side].mul(1e4).round().int().tolist()} <= known[side]
    assert collect(MappingContext(made.settings, made.corpus, Location.parse("/nowhere"), 2, {}, made.out), "de") == (
        count,
        width,
    )


def test_no_parallel_text_and_no_links(made: MappingContext) -> None:
    with pytest.raises(DataError, match="no parallel text of zh"):
        collect(made, "zh")
    write_pairs(made.corpus / "parallel" / "fr-en", [Pair("1 2", "1 2", "train")] * 2)
    with pytest.raises(DataError, match="fr: in 2 sentence pairs no two words are linked 2 times"):
        collect(
            MappingContext(made.settings, made.corpus, made.encoder, 2, made.segmenters | {"fr": "icu"}, made.out), "fr"
        )


def test_a_method_without_supervision_gets_no_pairs(made: MappingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    collect(made, "de")
    given: dict[str, Any] = {}

    def listen(own: torch.Tensor, hub: torch.Tensor, pairs: Any, method: MappingMethod, seed: int) -> Any:
        given[method.label] = own, hub, pairs
        return LinearMapping.identity(own, "none"), LinearMapping.identity(hub, "none")

    monkeypatch.setattr(mapping_method, "fit_mappings", listen)
    for method in METHODS[:2]:
        fit(made, method, "de")
    there = occurrences(made)
    own, hub, pairs = given["rotation"]
    assert own.equal(there["own"]) and hub.equal(there["hub"]) and all(side.equal(torch.arange(40)) for side in pairs)
    own, hub, pairs = given["normalisation"]
    assert pairs is None and own.equal(there["own"]) and not hub.equal(there["hub"])
    assert torch.allclose(hub.sum(0), there["hub"].sum(0), atol=1e-4), "the same vectors in another order"
    assert not (made.out / "rotation" / "mappings" / "de" / "hub").exists(), "the hub stays as it is"


def test_a_fit_is_kept_and_one_that_diverges_is_no_end(made: MappingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    collect(made, "de")
    first = fit(made, METHODS[0], "de")

    def diverge(*given: Any) -> Any:
        raise TrainingError("the loss is not a number")

    monkeypatch.setattr(mapping_method, "fit_mappings", diverge)
    assert fit(made, METHODS[0], "de") == first and "seconds" in first
    assert fit(made, METHODS[1], "de") == {"failed": "the loss is not a number"}


def run(made: MappingContext, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[str]]:
    """The whole stage, without Ray: its metrics, and its messages."""

    def one_after_the_other(tasks: Any, progress: Any, unit: str, cpus: float = 0.5) -> dict[str, Any]:
        return {task.name: task.function(*task.arguments) for task in tasks}

    for module in (stage, evaluate):
        monkeypatch.setattr(module, "run_tasks", one_after_the_other)
    copy_encoder(made.encoder, made.out.parent / "start")
    inputs = {
        "corpus": Artifact(made.corpus, {"settings": {"segmenters": made.segmenters}}),
        "encoder": Artifact(made.out.parent / "start", {}),
    }
    messages: list[str] = []
    job = Job(made.settings, inputs, made.out, SimpleNamespace(), print, messages.append)
    return MapStage().run(job), messages


def test_a_whole_run(made: MappingContext, tiny_encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, messages = run(made, monkeypatch)
    scores = read_results(made.out)["translated-words"].scores
    assert list(scores) == ["original", "rotation", "normalisation", "gbdd"] and not messages
    (benchmark,), system = made.settings.benchmarks, System("", hub="en")
    plain = benchmark.run(TextEncoder.from_pretrained(tiny_encoder, 2), system).scores["de"]
    assert scores["original"]["de"] == pytest.approx(plain), "layer 8, or the last of an encoder that has fewer"
    for name in ("rotation", "normalisation", "gbdd"):
        opened = MappedEncoder.from_pretrained(str(made.out / name))
        assert scores[name]["de"] == pytest.approx(benchmark.run(opened, system).scores["de"])
        assert metrics[f"translated-words/{name}"] == scores[name]["de"]["accuracy"]
    assert len({scores[name]["de"]["distance"] for name in scores}) == 4, "each of them does something"
    artifact = Artifact(made.out, {})
    pages = render(artifact, "small", {})
    table = pages["mapping.md"]
    assert [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")][2:8] == [
        "original", "*supervised*", "rotation", "gbdd", "*unsupervised*", "normalisation",
    ]  # fmt: skip
    assert "Repeated" not in pages["mapping.html"] and "translated-words" in pages["mapping.html"]
    (summary,) = MapStage().summary(artifact, made.settings).tables
    assert [column.title for column in summary.columns] == ["", "learned", "translated-words: accuracy"]
    assert [row[:2] for row in summary.rows] == [
        ["original", ""], ["rotation", "supervised"], ["gbdd", "supervised"], ["normalisation", "unsupervised"],
    ]  # fmt: skip
    description = (made.out / "mapping.json").read_json()
    for name, _, cell in summary.rows:
        assert cell.startswith(f"{100 * scores[name]['de']['accuracy']:.2f}")
        assert ("●" in cell) == (name in description["tied"]["translated-words"])
    assert any("●" in row[2] for row in summary.rows) and summary.notes


def test_a_stored_score_is_not_computed_again(made: MappingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = run(made, monkeypatch)
    monkeypatch.setattr(TranslatedWords, "run", lambda *_: pytest.fail("it was scored"))
    again, _ = run(made, monkeypatch)
    assert {name: again[name] for name in first if "words/" in name} == {n: first[n] for n in first if "words/" in n}


def test_benchmarks_that_cannot_be_used_are_left_out(made: MappingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = made.settings.model_copy(update={"benchmarks": [TranslatedWords(), Unavailable(), Trained()]})
    _, messages = run(replace(made, settings=settings), monkeypatch)
    assert messages == [
        "left out: trained, since it trains the encoder",
        "left out: unavailable, since there is nothing at x",
    ]
    assert list(read_results(made.out)) == ["translated-words"]
    assert MapStage().sources(settings) == []


def test_a_method_that_failed_is_left_out(made: MappingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def some(own: Any, hub: Any, pairs: Any, method: MappingMethod, seed: int) -> Any:
        if method.label == "gbdd":
            raise TrainingError("the loss is not a number")
        return fit_mappings(own, hub, pairs, method, seed)

    monkeypatch.setattr(mapping_method, "fit_mappings", some)
    _, messages = run(made, monkeypatch)
    assert messages == ["left out: gbdd, since it failed. de: the loss is not a number"]
    assert "gbdd" not in read_results(made.out)["translated-words"].scores


def test_a_recipe_with_it(recipe_file) -> None:
    listed = "map={methods: [{method: procrustes}, {method: muse}]}"
    recipe = load_recipe(recipe_file(), ["pretrain=null", listed])
    names = [step.stage.name for step in plan(recipe, "map")]
    assert names == ["corpus", "encoder", "map", "report"]
    with pytest.raises(RecipeError, match="has no map"):
        plan(load_recipe(recipe_file()), "map")
    for methods, problem in (
        ("[]", "at least 1"),
        ("[{method: muse}, {method: muse}]", "same name"),
        ("[{method: muse, name: original}]", "another meaning"),
        ("[{method: fast}]", "there is no mapping method 'fast'"),
        ("[{metod: muse}]", "method: this key is required"),
    ):
        with pytest.raises(RecipeError, match=problem):
            load_recipe(recipe_file(), [f"map={{methods: {methods}}}"])

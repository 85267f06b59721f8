"""The expose stage in parts: the choice of λ, mixtures, tuned encoders; and the whole stage without Ray."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from babelray.cluster.tasks import Task
from babelray.encoder.load import load_masked_lm
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError, RecipeError
from babelray.languages import LANGUAGES
from babelray.lexicon.pairs import Pair, write_pairs
from babelray.metrics.word_similarity import read_ratings, word_similarity
from babelray.models.lexical import LexicalEncoder
from babelray.pipeline.plan import plan
from babelray.pipeline.stage import Job
from babelray.recipe.expose import ExposeConfig
from babelray.recipe.load import load_recipe
from babelray.report.exposure import render
from babelray.stages import expose
from babelray.stages.expose import (
    ExposeSettings,
    ExposeStage,
    ExposureContext,
    choose_lambda,
    encode_words,
    score_translation,
)
from babelray.stages.pretrain import Settings as TrainingSettings
from babelray.stages.pretrain import TrainingContext, save_trained
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.training.fine_tuning import fine_tune
from babelray.vectors.word_vectors import WordVectors

GRID = {
    "de": {"plain": {"0": {"p1": 0.2}, "1": {"p1": 0.1}}, "tuned": {"0": {"p1": 0.2}, "1": {"p1": 0.4}}},
    "sw": {"plain": {"0": {"p1": 0.4}, "1": {"p1": 0.1}}, "tuned": {"0": {"p1": 0.4}, "1": {"p1": 0.3}}},
}


def test_lambda_is_chosen_on_the_development_language() -> None:
    assert choose_lambda(GRID, ExposeConfig(), ["de", "sw"]) == 1
    assert choose_lambda(GRID, ExposeConfig(development="sw"), ["de", "sw"]) == 0
    assert choose_lambda(GRID, ExposeConfig(**{"lambda": 0.3}), ["de", "sw"]) == 0.3


WORDS = {"en": ["cat", "dog", "bed", "house"], "de": ["Katze", "Hund", "Bett", "Haus"]}


@pytest.fixture
def made(tiny_encoder: str, tmp_path: Path) -> ExposureContext:
    """Static vectors of two languages that agree; two entries to learn, two to test."""
    location = Location.parse(tmp_path)
    matrix = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(0))).Q
    for code, words in WORDS.items():
        WordVectors(words, matrix, [1] * 4).save(location / "align" / "vectors" / code)
    splits = ("train", "train", "test", "test")
    pairs = [Pair(*both, split) for *both, split in zip(WORDS["de"], WORDS["en"], splits, strict=True)]
    write_pairs(location / "corpus" / "dictionary" / "de-en", pairs)
    expose = ExposeConfig(lambdas=[0, 0.5, 1], limit=None)
    settings = ExposeSettings(languages=["en", "de"], hub="en", seed=1, expose=expose)
    training = TrainingSettings(languages=["en", "de"], hub="en", seed=1, training=expose.training(2))
    encoder = Location.parse(tiny_encoder)
    context = TrainingContext(
        training, encoder, location / "corpus", location / "align", {}, location / "work", location / "prepared"
    )
    return ExposureContext(settings, context, location / "align", encoder, location / "out")


def test_static_vectors_alone_at_one_end_and_the_encoder_alone_at_the_other(made: ExposureContext) -> None:
    for name in (None, "de-en"):
        for code in ("en", "de"):
            if name:  # as if tuning had brought translations together
                words = made.static(code)
                words.with_matrix(torch.eye(32)[:4] + 0.01).save(made.encoded(name, code))
            else:
                encode_words(made, name, code)
    tuned = made.mixed("de-en", "tuned")
    assert tuned.rotation_ED.shape == (4, 32)
    assert torch.allclose(tuned.rotation_ED @ tuned.rotation_ED.T, torch.eye(4), atol=1e-5)
    grid = score_translation(made, "de-en")["de"]
    assert grid["plain"]["0"]["p1"] == grid["tuned"]["0"]["p1"] == 1 and grid["tuned"]["1"]["p1"] == 1
    assert grid["plain"]["1"]["words"] == 2
    alone = made.mixed("de-en", "plain").at("de", 1.0).matrix
    encoded = WordVectors.load(made.encoded(None, "de")).matrix
    assert torch.allclose(alone, torch.nn.functional.normalize(encoded), atol=1e-5)


def test_entries_without_static_vectors(made: ExposureContext) -> None:
    for code in ("en", "de"):
        WordVectors(["x", "y"], torch.eye(2), [1, 1]).save(made.aligned / "vectors" / code)
        WordVectors(["x", "y"], torch.eye(32)[:2], [1, 1]).save(made.encoded(None, code))
    with pytest.raises(DataError, match="no word of the dictionary has a static vector"):
        made.mixed("de-en", "plain")


def test_a_recipe_with_it_and_without_pretrain(recipe_file) -> None:
    recipe = load_recipe(recipe_file(), ["pretrain=null", "expose={}", "languages=[en, de]"])
    assert [step.name for step in plan(recipe)][:5] == ["corpus", "encoder", "extract", "align", "expose"]
    with pytest.raises(RecipeError, match="has no pretrain"):
        plan(recipe, "pretrain")
    without = load_recipe(recipe_file())
    assert "expose" not in [step.name for step in plan(without)]
    with pytest.raises(RecipeError, match="has no expose"):
        plan(without, "expose")
    with pytest.raises(RecipeError, match="not among the languages"):
        ExposeStage().settings(load_recipe(recipe_file(), ["expose={development: fi}"]))
    with pytest.raises(RecipeError, match="λ lies between"):
        load_recipe(recipe_file(), ["expose={lambdas: [2]}"])


def test_the_steps_are_those_of_the_epochs() -> None:
    assert ExposeConfig().training(5000).steps == 195 and ExposeConfig(steps=7).training(5000).steps == 7
    assert ExposeConfig().training(1).steps == 1, "a dictionary of one entry"
    (objective,) = ExposeConfig().training(10).objectives
    assert objective.special_tokens and objective.sampling == "epochs" and objective.hard_negatives == 10


ALL = WORDS | {"fr": ["chat", "chien", "lit", "maison"]}


@pytest.fixture
def exposed(tiny_encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Location, Any]]:
    """Run the whole stage on three languages in this process: three entries per language are learned, one is tested."""

    def run_tasks(tasks: Sequence[Task], *more: Any, **options: Any) -> dict[str, Any]:
        return {task.name: task.function(*task.arguments) for task in tasks}

    def train_encoder(job: Job[Any], settings: TrainingSettings, encoder: Location, aligned: Location) -> None:
        """The work of Ray's workers, in this process."""
        work = job.out / "work"
        context = TrainingContext(settings, encoder, job.source("corpus"), aligned, {}, work, work / "prepared")
        model, (config,) = load_masked_lm(tiny_encoder), settings.training.objectives
        fine_tune(model, config.build(context.training_data(tiny_encoder)), settings.training)
        save_trained(context, model, job.out / "encoder", {"step": 1, "steps": 1, "loss/contrastive": 0.0})

    monkeypatch.setattr(expose, "run_tasks", run_tasks)
    monkeypatch.setattr(expose, "train_encoder", train_encoder)
    location, messages, generator = Location.parse(tmp_path), list[str](), torch.Generator().manual_seed(0)
    shutil.copytree(tiny_encoder, tmp_path / "encoder" / "encoder")
    for code, words in ALL.items():
        WordVectors(words, torch.randn(4, 4, generator=generator), [1] * 4).save(location / "align" / "vectors" / code)

    def run(entries: int = 3, **config: Any) -> tuple[Location, dict[str, Any]]:
        for code in ("de", "fr"):
            both = list(zip(ALL[code], ALL["en"], strict=True))
            pairs = [Pair(*pair, "train") for pair in both[:entries]] + [Pair(*both[3], "test")]
            write_pairs(location / "corpus" / "dictionary" / f"{code}-en", pairs)
        (location / "corpus" / "statistics.json").write_json({"pairs": {"de": {}, "fr": {}}})
        names = ("corpus", "encoder", "align")
        manifest = {"settings": {"segmenters": {}}}
        inputs: Any = {name: SimpleNamespace(location=location / name, manifest=manifest) for name in names}
        common: dict[str, Any] = {"lambdas": [0, 0.5, 1], "candidates": 0, "hard_negatives": 1, "workers": 1}
        chosen = ExposeConfig(**common | {"learning_rate": 5e-3, "steps": 15, "batch_size": 8} | config)
        settings = ExposeSettings(languages=list(ALL), hub="en", seed=1, expose=chosen)
        job = Job(settings, inputs, location / "out", SimpleNamespace(), lambda values, step: None, messages.append)  # type: ignore[arg-type]
        return location / "out", ExposeStage().run(job) | {"messages": messages}

    return run


def translated(encoder: Location, code: str) -> list[bool]:
    """Whether the nearest of the three words that are learned is the translation."""
    reader = TextEncoder.from_pretrained(str(encoder))
    own, hub = (torch.nn.functional.normalize(reader.encode(ALL[side][:3], "all")) for side in (code, "en"))
    return ((own @ hub.T).argmax(1) == torch.arange(3)).tolist()


def test_one_encoder_for_all_languages(exposed: Callable[..., tuple[Location, Any]], tiny_encoder: str) -> None:
    """It learns the entries of both, and its mixed vectors of all languages are in one space."""
    out, metrics = exposed(multilingual=True)
    assert metrics["entries"] == {"de": 3, "fr": 3}
    assert set((out / "grid.json").read_json()) == {"de", "fr"} and not (out / "de-en").exists()
    lexical = LexicalEncoder.from_pretrained(str(out / "all"))
    assert set(lexical.vectors) == {"en", "de", "fr"}
    for code in ("de", "fr"):
        assert all(translated(out / "all" / "encoder", code)) and not all(
            translated(Location.parse(tiny_encoder), code)
        )
        assert lexical.words(ALL[code], code).shape == (4, 32)


def test_a_single_entry_and_none(exposed: Callable[..., tuple[Location, Any]]) -> None:
    """A single entry has no negatives, but is no error; no entry at all is one."""
    out, metrics = exposed(entries=1, steps=0)
    assert metrics["entries"] == {"de": 1, "fr": 1} and (out / "fr-en" / "encoder" / "config.json").exists()
    with pytest.raises(DataError, match="no dictionary entries of de, fr"):
        exposed(entries=0)


def test_every_mixture_is_scored_by_word_similarity(
    exposed: Callable[..., tuple[Location, Any]], tmp_path: Path, tiny_encoder: str
) -> None:
    """At λ = 0 by the static vectors, at λ = 1 by the encoder's; of two languages only where one encoder has both."""
    rated = [(0, 0, 6.0), (1, 2, 1.5), (2, 2, 5.0), (3, 0, 0.5), (0, 3, 2.0)]
    for first, second in (("en", "de"), ("de", "fr"), ("en", "en")):
        lines = [f"{n},{ALL[first][a]},{ALL[second][b]},N,{score}" for n, (a, b, score) in enumerate(rated)]
        (tmp_path / f"{first}-{second}.csv").write_text("\n".join([f"ID,{first},{second},POS,score", *lines]))
    source = {"path": str(tmp_path / "{first}-{second}.csv")}
    out, _ = exposed(similarity=[source], steps=2)
    assert set((out / "similarity.json").read_json()) == {"en-de"}
    shutil.rmtree(tmp_path / "out")
    out, metrics = exposed(similarity=[source], steps=2, multilingual=True)
    assert metrics["messages"][-1].startswith("2 training entries are word pairs"), "en-de has cat Katze and bed Bett"
    similarity = (out / "similarity.json").read_json()
    assert set(similarity) == {"en-de", "de-fr"}
    read = TextEncoder.from_pretrained(tiny_encoder)
    for first, second in (("en", "de"), ("de", "fr")):
        static = [WordVectors.load(Location.parse(tmp_path) / "align" / "vectors" / code) for code in (first, second)]
        encoded = [own.with_matrix(read.encode(own.words, "all")) for own in static]
        ratings = read_ratings(Location.parse(tmp_path / f"{first}-{second}.csv"))
        for lambda_, vectors in (("0", static), ("1", encoded)):
            expected = word_similarity(*vectors, ratings)
            assert similarity[f"{first}-{second}"]["plain"][lambda_] == pytest.approx(expected, abs=1e-4)
    assert similarity["en-de"]["tuned"]["1"] != similarity["en-de"]["plain"]["1"]
    manifest = {"metrics": {name: value for name, value in metrics.items() if name != "messages"}}
    settings = ExposeSettings(languages=list(ALL), hub="en", seed=1, expose=ExposeConfig(similarity=[source]))
    assert [location.name for location in ExposeStage().sources(settings)] == ["en-de.csv", "de-fr.csv"]
    summary = ExposeStage().summary(Artifact(out, manifest), settings)
    assert [len(table.rows) for table in summary.tables] == [3, 2, 3, 2], "two languages and their mean; twice"
    names = [column.title.replace(" ", "/") for column in summary.tables[0].columns[3:]]
    assert summary.tables[0].rows[-1][3:] == [metrics.get(name) for name in names]
    assert "Word similarity" in render(Artifact(out, manifest), "small", LANGUAGES)["exposure.html"]


def test_a_kill_while_saving_leaves_no_encoder_that_looks_complete(
    made: ExposureContext, tiny_encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*arguments: Any) -> None:
        raise KeyboardInterrupt

    model, folder = load_masked_lm(tiny_encoder), made.out / "de-en" / "encoder"
    figures = {"step": 1, "steps": 1, "loss/contrastive": 0.0}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("babelray.training.model_card.sentence_transformer", kill)
        save_trained(made.training, model, folder, figures)
    assert not expose.is_saved(folder) and not folder.exists()
    for _ in range(2):
        save_trained(made.training, model, folder, figures)
        assert {"config.json", "model.safetensors", "README.md"} <= {*folder.files()}
    (folder.parent / "encoder.unfinished/config.json").write_text("{}")
    assert expose.is_saved(folder)
    assert all(name.startswith("encoder/") for name in folder.parent.files())


def test_the_number_of_static_vectors_decides_the_result() -> None:
    assert ExposeConfig(words=10).identity() != ExposeConfig(words=20).identity()

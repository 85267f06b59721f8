"""The expose stage in parts: which λ is taken, what is mixed, what a tuned encoder is asked; and whole, without Ray."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from babelray.encoder.lexical import LexicalEncoder
from babelray.encoder.load import load_masked_lm
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError, RecipeError
from babelray.evaluation.word_similarity import read_ratings, word_similarity
from babelray.lexicon.pairs import Pair, write_pairs
from babelray.objectives.build import build_objective
from babelray.recipe import load_recipe
from babelray.stages import expose
from babelray.stages.expose import ExposeStage, Plan, Settings, averages, chosen_share, encode_words, grid_of, mixtures
from babelray.stages.pipeline import plan
from babelray.stages.pretrain import Setting, save_trained
from babelray.stages.pretrain import Settings as TrainingSettings
from babelray.stages.stage import Job
from babelray.storage import Place
from babelray.tasks import Task
from babelray.training.exposure import ExposeConfig
from babelray.training.fine_tuning import fine_tune
from babelray.vectors.word_vectors import WordVectors

GRID = {
    "de": {"plain": {"0": {"p1": 0.2}, "1": {"p1": 0.1}}, "tuned": {"0": {"p1": 0.2}, "1": {"p1": 0.4}}},
    "sw": {"plain": {"0": {"p1": 0.4}, "1": {"p1": 0.1}}, "tuned": {"0": {"p1": 0.4}, "1": {"p1": 0.3}}},
}


def test_the_share_is_that_of_the_development_language() -> None:
    assert chosen_share(GRID, ExposeConfig(), ["de", "sw"]) == 1
    assert chosen_share(GRID, ExposeConfig(development="sw"), ["de", "sw"]) == 0
    assert chosen_share(GRID, ExposeConfig(share=0.3), ["de", "sw"]) == 0.3
    found = averages(GRID, 1.0)
    assert found["static"] == pytest.approx(0.3) and found["tuned/encoder"] == pytest.approx(0.35)


WORDS = {"en": ["cat", "dog", "bed", "house"], "de": ["Katze", "Hund", "Bett", "Haus"]}


@pytest.fixture
def made(tiny_encoder: str, tmp_path: Path) -> Plan:
    """Static vectors of two languages that agree; two entries to learn, two to test."""
    place = Place.parse(tmp_path)
    matrix = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(0))).Q
    for code, words in WORDS.items():
        WordVectors(words, matrix, [1] * 4).save(place / "align" / "vectors" / code)
    splits = ("train", "train", "test", "test")
    pairs = [Pair(*both, split) for *both, split in zip(WORDS["de"], WORDS["en"], splits, strict=True)]
    write_pairs(place / "corpus" / "dictionary" / "de-en", pairs)
    expose = ExposeConfig(shares=[0, 0.5, 1], limit=None)
    settings = Settings(languages=["en", "de"], hub="en", seed=1, expose=expose)
    training = TrainingSettings(languages=["en", "de"], hub="en", seed=1, training=expose.training(2))
    encoder = Place.parse(tiny_encoder)
    setting = Setting(training, encoder, place / "corpus", place / "align", {}, place / "work")
    return Plan(settings, setting, place / "align", encoder, place / "out")


def test_static_vectors_alone_at_one_end_and_the_encoder_alone_at_the_other(made: Plan) -> None:
    for name in (None, "de-en"):
        for code in ("en", "de"):
            if name:  # as if tuning had brought translations together
                words = made.static(code)
                words.with_matrix(torch.eye(32)[:4] + 0.01).save(made.encoded(name, code))
            else:
                encode_words(made, name, code)
    tuned = mixtures(made, "de-en", "tuned")
    assert tuned.turn_ED.shape == (4, 32)
    assert torch.allclose(tuned.turn_ED @ tuned.turn_ED.T, torch.eye(4), atol=1e-5)
    grid = grid_of(made, "de-en")["de"]
    assert grid["plain"]["0"]["p1"] == grid["tuned"]["0"]["p1"] == 1 and grid["tuned"]["1"]["p1"] == 1
    assert grid["plain"]["1"]["words"] == 2
    alone = mixtures(made, "de-en", "plain").at("de", 1.0).matrix
    encoded = WordVectors.load(made.encoded(None, "de")).matrix
    assert torch.allclose(alone, torch.nn.functional.normalize(encoded), atol=1e-5)


def test_entries_without_static_vectors(made: Plan) -> None:
    for code in ("en", "de"):
        WordVectors(["x", "y"], torch.eye(2), [1, 1]).save(made.aligned / "vectors" / code)
        WordVectors(["x", "y"], torch.eye(32)[:2], [1, 1]).save(made.encoded(None, code))
    with pytest.raises(DataError, match="no word of the dictionary has a static vector"):
        mixtures(made, "de-en", "plain")


def test_a_recipe_with_it_and_without_pretrain(recipe_file) -> None:
    recipe = load_recipe(recipe_file(), ["pretrain=null", "expose={}", "languages=[en, de]"])
    assert [step.stage.name for step in plan(recipe)] == ["corpus", "encoder", "extract", "align", "expose"]
    with pytest.raises(RecipeError, match="has no report"):
        plan(recipe, "report")
    without = load_recipe(recipe_file())
    assert "expose" not in [step.stage.name for step in plan(without)]
    with pytest.raises(RecipeError, match="has no expose"):
        plan(without, "expose")
    with pytest.raises(RecipeError, match="not among the languages"):
        ExposeStage().settings(load_recipe(recipe_file(), ["expose={development: fi}"]))
    with pytest.raises(RecipeError, match="shares lie between"):
        load_recipe(recipe_file(), ["expose={shares: [2]}"])


def test_the_steps_are_those_of_the_epochs() -> None:
    assert ExposeConfig().training(5000).steps == 195 and ExposeConfig(steps=7).training(5000).steps == 7
    assert ExposeConfig().training(1).steps == 1, "a dictionary of one entry"
    (objective,) = ExposeConfig().training(10).objectives
    assert objective.special_tokens and objective.draw == "turns" and objective.hard_negatives == 10


ALL = WORDS | {"fr": ["chat", "chien", "lit", "maison"]}


@pytest.fixture
def exposed(tiny_encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Place, Any]]:
    """Run the whole stage on three languages in this process: three entries of each are learned, one is tested."""

    def run_tasks(tasks: Sequence[Task], *more: Any, **how: Any) -> dict[str, Any]:
        return {task.name: task.function(*task.arguments) for task in tasks}

    def train_encoder(job: Job[Any], settings: TrainingSettings, encoder: Place, aligned: Place) -> None:
        """What Ray's workers do, by one."""
        setting = Setting(settings, encoder, job.source("corpus"), aligned, {}, job.out / "work")
        model, (config,) = load_masked_lm(tiny_encoder), settings.training.objectives
        fine_tune(model, build_objective(config, setting.materials(tiny_encoder)), settings.training)
        save_trained(setting, model, job.out / "encoder", {"step": 1, "steps": 1, "loss/contrastive": 0.0})

    monkeypatch.setattr(expose, "run_tasks", run_tasks)
    monkeypatch.setattr(expose, "train_encoder", train_encoder)
    place, said, generator = Place.parse(tmp_path), list[str](), torch.Generator().manual_seed(0)
    shutil.copytree(tiny_encoder, tmp_path / "encoder" / "encoder")
    for code, words in ALL.items():
        WordVectors(words, torch.randn(4, 4, generator=generator), [1] * 4).save(place / "align" / "vectors" / code)

    def run(entries: int = 3, **config: Any) -> tuple[Place, dict[str, Any]]:
        for code in ("de", "fr"):
            both = list(zip(ALL[code], ALL["en"], strict=True))
            pairs = [Pair(*pair, "train") for pair in both[:entries]] + [Pair(*both[3], "test")]
            write_pairs(place / "corpus" / "dictionary" / f"{code}-en", pairs)
        (place / "corpus" / "statistics.json").write_json({"pairs": {"de": {}, "fr": {}}})
        names = ("corpus", "encoder", "align")
        manifest = {"settings": {"segmenters": {}}}
        inputs: Any = {name: SimpleNamespace(place=place / name, manifest=manifest) for name in names}
        common: dict[str, Any] = {"shares": [0, 0.5, 1], "candidates": 0, "hard_negatives": 1, "workers": 1}
        chosen = ExposeConfig(**common | {"learning_rate": 5e-3, "steps": 15, "batch_size": 8} | config)
        settings = Settings(languages=list(ALL), hub="en", seed=1, expose=chosen)
        job = Job(settings, inputs, place / "out", SimpleNamespace(), lambda values, step: None, said.append)  # type: ignore[arg-type]
        return place / "out", ExposeStage().run(job) | {"said": said}

    return run


def translated(encoder: Place, code: str) -> list[bool]:
    """Whether the nearest of the three words that are learned is the translation."""
    read = TextEncoder.open(str(encoder))
    own, hub = (torch.nn.functional.normalize(read.sentences(ALL[some][:3], "all")) for some in (code, "en"))
    return ((own @ hub.T).argmax(1) == torch.arange(3)).tolist()


def test_one_encoder_for_all_languages(exposed: Callable[..., tuple[Place, Any]], tiny_encoder: str) -> None:
    """It learns the entries of both, and its mixed vectors of all languages lie in one space."""
    out, metrics = exposed(together=True)
    assert metrics["entries"] == {"de": 3, "fr": 3}
    assert set((out / "grid.json").read_json()) == {"de", "fr"} and not (out / "de-en").exists()
    lexical = LexicalEncoder.open(str(out / "all"))
    assert set(lexical.known) == {"en", "de", "fr"}
    for code in ("de", "fr"):
        assert all(translated(out / "all" / "encoder", code)) and not all(translated(Place.parse(tiny_encoder), code))
        assert lexical.words(ALL[code], code).shape == (4, 32)


def test_a_single_entry_and_none(exposed: Callable[..., tuple[Place, Any]]) -> None:
    """There is nothing to tell a lone entry from, but it is no error; none at all is one."""
    out, metrics = exposed(entries=1, steps=0)
    assert metrics["entries"] == {"de": 1, "fr": 1} and (out / "fr-en" / "encoder" / "config.json").exists()
    with pytest.raises(DataError, match="no dictionary entries of de, fr"):
        exposed(entries=0)


def test_every_mixture_is_judged_by_word_similarity(
    exposed: Callable[..., tuple[Place, Any]], tmp_path: Path, tiny_encoder: str
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
    out, metrics = exposed(similarity=[source], steps=2, together=True)
    assert metrics["said"][-1].startswith("2 training entries are word pairs"), "en-de has cat Katze and bed Bett"
    found = (out / "similarity.json").read_json()
    assert set(found) == {"en-de", "de-fr"}
    read = TextEncoder.open(tiny_encoder)
    for first, second in (("en", "de"), ("de", "fr")):
        static = [WordVectors.load(Place.parse(tmp_path) / "align" / "vectors" / code) for code in (first, second)]
        encoded = [own.with_matrix(read.sentences(own.words, "all")) for own in static]
        ratings = read_ratings(Place.parse(tmp_path / f"{first}-{second}.csv"))
        for share, vectors in (("0", static), ("1", encoded)):
            expected = word_similarity(*vectors, ratings)
            assert found[f"{first}-{second}"]["plain"][share] == pytest.approx(expected, abs=1e-4)
    assert found["en-de"]["tuned"]["1"] != found["en-de"]["plain"]["1"]
    assert "ρ × 100" in (out / "exposure.md").read_text() and "Word similarity" in (out / "exposure.html").read_text()
    settings = Settings(languages=list(ALL), hub="en", seed=1, expose=ExposeConfig(similarity=[source]))
    assert [place.name for place in ExposeStage().sources(settings)] == ["en-de.csv", "de-fr.csv"]

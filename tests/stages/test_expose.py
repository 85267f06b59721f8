"""The expose stage in parts: which λ is taken, what is mixed, what a tuned encoder is asked."""

from pathlib import Path

import pytest
import torch

from babelray.errors import DataError, RecipeError
from babelray.lexicon.pairs import Pair, write_pairs
from babelray.recipe import load_recipe
from babelray.stages.expose import ExposeStage, Plan, Settings, averages, chosen_share, encode_words, grid_of, mixtures
from babelray.stages.pipeline import plan
from babelray.stages.pretrain import Setting
from babelray.stages.pretrain import Settings as TrainingSettings
from babelray.storage import Place
from babelray.training.exposure import ExposeConfig
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

"""Measurements while training, against what they are by definition."""

from types import SimpleNamespace

import pytest
import torch

from babelray.encoder.load import load_masked_lm
from babelray.errors import DataError
from babelray.training.config import ValidationConfig
from babelray.training.mixture import Group
from babelray.training.validation import Best, Validation
from support.small_training_data import WORDS, SmallTrainingData

SENTENCES = {
    "en": ["The cat sleeps on the warm bed.", "A dog barks.", "The house."],
    "de": ["Die Katze schläft auf dem warmen Bett.", "Ein Hund bellt.", "Das Haus."],
}


def engine(encoder: str) -> SimpleNamespace:
    model = load_masked_lm(encoder).train()
    module = SimpleNamespace(model=model)
    return SimpleNamespace(module=module, device=torch.device("cpu"), zero_optimization_stage=lambda: 1)


@pytest.fixture
def training_data(tiny_encoder: str) -> SmallTrainingData:
    found = SmallTrainingData(tiny_encoder)
    found.held_out_sentences = lambda code: SENTENCES[code]
    found.held_out_parallel = lambda code: (SENTENCES[code], SENTENCES["en"])
    return found


def alone(training_data: SmallTrainingData, model: torch.nn.Module, text: str, layer: int) -> torch.Tensor:
    encoded = training_data.tokenizer(text, return_tensors="pt")
    output = model.eval().base_model(**encoded, output_hidden_states=True)
    hidden = output.last_hidden_state if layer == 2 else output.hidden_states[layer]
    return hidden[0, 1:-1].mean(0).detach()


@pytest.mark.parametrize("layer", [-1, 1])
def test_retrieval_and_semantics(training_data: SmallTrainingData, tiny_encoder: str, layer: int) -> None:
    made = engine(tiny_encoder)
    config = ValidationConfig(layer=layer, words=10, pairs=2)
    values = Validation(config, made, training_data, Group()).measure()
    assert made.module.model.training, "it goes on training"
    resolved = 2 if layer == -1 else layer
    model = made.module.model
    vectors = {c: torch.stack([alone(training_data, model, t, resolved) for t in SENTENCES[c]]) for c in SENTENCES}
    cosine = torch.nn.functional.cosine_similarity(vectors["de"][:, None], vectors["en"][None], dim=-1)
    right = torch.arange(3)
    expected = ((cosine.argmax(1) == right).float().mean() + (cosine.argmax(0) == right).float().mean()) / 2
    assert values["validation/retrieval"] == pytest.approx(expected.item())

    words = {c: torch.stack([alone(training_data, model, w, resolved) for w in WORDS[c]]) for c in WORDS}
    x, z = (torch.nn.functional.normalize(words[c] - words[c].mean(0)) for c in ("de", "en"))
    table = x @ z.T
    near_x, near_z = table.topk(6, 1).values.mean(1), table.topk(6, 0).values.mean(0)
    csls = 2 * table - near_x[:, None] - near_z[None]
    mutual = [(i, int(csls[i].argmax())) for i in range(6) if int(csls[:, csls[i].argmax()].argmax()) == i]
    assert mutual
    assert values["validation/semantic"] <= max(table[i, j].item() for i, j in mutual) + 1e-5
    if len(mutual) <= 2:
        assert values["validation/semantic"] == pytest.approx(sum(table[i, j].item() for i, j in mutual) / len(mutual))


def test_an_encoder_that_knows_the_text_has_the_lower_loss(training_data: SmallTrainingData, tiny_encoder: str) -> None:
    made = engine(tiny_encoder)
    validation = Validation(ValidationConfig(words=10), made, training_data, Group())
    before = validation.measure()["validation/mlm"]
    assert before == validation.measure()["validation/mlm"], "the same masks every time"
    model = made.module.model
    encoded = training_data.tokenizer([t for c in SENTENCES for t in SENTENCES[c]], padding=True, return_tensors="pt")
    labels = encoded["input_ids"].masked_fill(encoded["attention_mask"] == 0, -100)
    # Some are hidden, or it would learn to copy.
    hidden = encoded["input_ids"].masked_fill(
        torch.arange(labels.shape[1]) % 3 == 1, training_data.tokenizer.mask_token_id
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(80):
        optimizer.zero_grad()
        model(hidden, encoded["attention_mask"], labels=labels).loss.backward()
        optimizer.step()
    assert validation.measure()["validation/mlm"] < before - 0.5


def test_nothing_to_measure_with_is_an_error(training_data: SmallTrainingData, tiny_encoder: str) -> None:
    training_data.held_out_parallel = lambda code: ([], [])
    with pytest.raises(DataError, match="nothing is held out to measure retrieval with"):
        Validation(ValidationConfig(), engine(tiny_encoder), training_data, Group())


def test_the_best_is_the_highest_or_for_a_loss_the_lowest() -> None:
    best = Best(ValidationConfig(best="mlm", patience=2), None)
    for step, value in enumerate([5.0, 4.0, 4.5, 4.2], start=1):
        assert not best.enough
        best.add({"validation/mlm": value}, step)
    assert best.state == {"score": -4.0, "step": 2, "worse": 2} and best.enough
    again = Best(ValidationConfig(best="mlm", patience=2), best.state)
    assert again.enough
    again.add({"validation/mlm": 3.0}, 5)
    assert not again.enough and again.state["step"] == 5

import pytest
import torch

from babelray.encoder.load import load_masked_lm
from babelray.objectives.sentence_pairs import drift
from babelray.objectives.sinkhorn import sinkhorn_divergence
from babelray.objectives.transport import Transport, TransportConfig
from support.small_training_data import SmallTrainingData


def test_drift_by_hand() -> None:
    current = torch.tensor([[[1.0, 2.0], [0.0, 0.0]], [[3.0, 0.0], [9.0, 9.0]]])
    mask = torch.tensor([[1, 1], [1, 0]])
    assert drift(current, torch.zeros_like(current), mask).tolist() == [5.0, 9.0]


def hidden_by_word(
    training_data: SmallTrainingData, model: torch.nn.Module, code: str, text: str, how: str
) -> torch.Tensor:
    """Vectors of words by what they are: subwords that start with ▁ begin one, and the full stop is one.

    A ▁ by itself is the space before a word; only the one that the tokenizer puts before the first has no space.
    """
    encoded = training_data.tokenizer(text, return_tensors="pt")
    hidden = model(**encoded).last_hidden_state[0, 1:-1]
    pieces = training_data.tokenizer.convert_ids_to_tokens(encoded["input_ids"][0, 1:-1].tolist())
    words: list[list[int]] = []
    for i, piece in enumerate(pieces):
        if piece == "▁" and i > 0:
            continue
        if i == 0 or piece.startswith("▁") or (i > 1 and pieces[i - 1] == "▁") or piece == ".":
            words.append([])
        words[-1].append(i)
    assert len(words) == len(training_data.words_of(code, text)), pieces
    return torch.stack([hidden[word[-1]] if how == "last" else hidden[word].mean(0) for word in words])


@pytest.mark.parametrize("how", ["last", "mean"])
def test_words_of_each_pair_are_transported_by_themselves(training_data, tiny_encoder: str, how: str) -> None:
    config = TransportConfig(batch_size=6, word=how, regulariser=0.5, blur=0.1)
    objective = Transport(config, training_data)
    model = load_masked_lm(tiny_encoder).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    found = objective.loss_terms(model, objective.batch(step=0))
    assert found.requires_grad
    for value, (code, row) in zip(found.tolist(), objective.examples(0), strict=True):
        source, target = objective.pair(code, row)
        x = hidden_by_word(training_data, model.base_model, "de", source, how)[None]
        y = hidden_by_word(training_data, model.base_model, "en", target, how)[None]
        y0 = hidden_by_word(training_data, training_data.initial_encoder(), "en", target, how)[None]
        expected = sinkhorn_divergence(x, torch.ones(x.shape[:2]), y, torch.ones(y.shape[:2]), 0.1, 2)
        expected = expected + 0.5 * (y - y0).square().sum()
        assert value == pytest.approx(expected.item(), rel=1e-3, abs=1e-4)


def test_subwords_and_no_regulariser(training_data, tiny_encoder: str) -> None:
    objective = Transport(TransportConfig(batch_size=4, level="subwords", regulariser=0, p=1), training_data)
    batch = objective.batch(step=0)
    assert objective.initial is None and "source_pool" not in batch
    loss_terms = objective.loss_terms(load_masked_lm(tiny_encoder).eval(), batch)
    assert loss_terms.shape == (4,) and (loss_terms > 0).all()

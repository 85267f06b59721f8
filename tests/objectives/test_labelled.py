"""Labelled examples: what is drawn, and the loss against its definition."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from babelray.encoder.load import load_tokenizer, load_with_head
from babelray.errors import DataError
from babelray.objectives.labelled import (
    NO_LABEL,
    Example,
    LabelledObjective,
    labelled_terms,
    pad,
    predict,
    span_head,
    split_inputs,
    text_head,
    word_head,
)


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder: str) -> Any:
    return load_tokenizer(tiny_encoder)


def objective(tokenizer: Any, counts: dict[str, int], batch_size: int = 4, seed: int = 1) -> LabelledObjective:
    made = {
        code: [
            Example({"input_ids": [5] * (row + 1), "attention_mask": [1] * (row + 1)}, [row]) for row in range(count)
        ]
        for code, count in counts.items()
    }
    return LabelledObjective(made, text_head, tokenizer, batch_size, seed)


def test_every_epoch_sees_each_example_once(tokenizer: Any) -> None:
    """7 examples in batches of 4: seven batches are four epochs, whose borders lie inside of batches."""
    some = objective(tokenizer, {"en": 5, "de": 2})
    drawn = [example for step in range(7) for example in some.examples(step)]
    epochs = [drawn[start : start + 7] for start in range(0, 28, 7)]
    everything = {("en", row) for row in range(5)} | {("de", row) for row in range(2)}
    assert some.count == 7 and all(set(epoch) == everything for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4, "epochs have orders of their own"


def test_what_a_step_draws_depends_on_the_seed_and_the_step_alone(tokenizer: Any) -> None:
    first, second = (objective(tokenizer, {"en": 40}) for _ in range(2))
    later = second.examples(17)
    assert [first.examples(step) for step in range(20)][17] == later
    assert objective(tokenizer, {"en": 40}, seed=2).examples(17) != later
    global_context = first.batch(3)["labels"]
    parts = torch.cat([first.batch(3, part, 2)["labels"] for part in range(2)])
    assert torch.equal(global_context, parts)


def test_a_batch_larger_than_all_examples(tokenizer: Any) -> None:
    assert Counter(objective(tokenizer, {"en": 3}, batch_size=6).examples(0)) == {("en", row): 2 for row in range(3)}


def test_padding_and_languages_of_terms(tokenizer: Any) -> None:
    made = {
        "en": [Example({"input_ids": [7, 8, 9], "attention_mask": [1, 1, 1]}, [NO_LABEL, 1, 0])],
        "de": [Example({"input_ids": [7], "attention_mask": [1]}, [2])],
        "fr": [Example({"input_ids": [7], "attention_mask": [1]}, [NO_LABEL])],
    }
    some = LabelledObjective(made, word_head, tokenizer, 2, seed=1)
    assert some.codes == ["en", "de"], "what has no label at all is left out"
    batch = some.collate([("en", 0), ("de", 0)], some.generator(0))
    assert batch["input_ids"].tolist() == [[7, 8, 9], [7, tokenizer.pad_token_id, tokenizer.pad_token_id]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch["labels"].tolist() == [[NO_LABEL, 1, 0], [2, NO_LABEL, NO_LABEL]]
    assert batch["language"].tolist() == [0, 0, 1]


def test_nothing_to_learn_from(tokenizer: Any) -> None:
    with pytest.raises(DataError, match="nothing to learn from"):
        LabelledObjective({"en": []}, text_head, tokenizer, 2, seed=1)


def test_terms_are_negative_log_likelihoods() -> None:
    logits_BLC = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    labels_BL = torch.tensor([[0, NO_LABEL, 4, 1], [NO_LABEL] * 4, [2, 2, 2, NO_LABEL]])
    expected = [
        -logits_BLC[row, place].log_softmax(0)[label].item()
        for row, labels in enumerate(labels_BL.tolist())
        for place, label in enumerate(labels)
        if label != NO_LABEL
    ]
    assert labelled_terms(logits_BLC, labels_BL).tolist() == pytest.approx(expected)


def test_padding_is_never_where_an_answer_starts() -> None:
    output = SimpleNamespace(start_logits=torch.zeros(1, 3), end_logits=torch.zeros(1, 3))
    logits_B2T = span_head(output, torch.tensor([[1, 1, 0]]))
    assert labelled_terms(logits_B2T, torch.tensor([[0, 1]])).exp().tolist() == pytest.approx([2, 2])


@pytest.mark.parametrize(("kind", "head"), [("classification", text_head), ("tagging", word_head)])
def test_the_loss_is_that_of_transformers(tiny_encoder: str, tokenizer: Any, kind: Any, head: Any) -> None:
    """Their models compute it themselves when they are given labels."""
    model = load_with_head(tiny_encoder, kind, ["a", "b", "c"]).eval()
    read = split_inputs(tokenizer(["The cat sleeps.", "A dog runs in the big garden."]), tokenizer)
    labels = [[2], [1]] if kind == "classification" else [[0] * len(some["input_ids"]) for some in read]
    made = {"en": [Example(inputs, some) for inputs, some in zip(read, labels, strict=True)]}
    some = LabelledObjective(made, head, tokenizer, 2, seed=1)
    batch = some.batch(0)
    wanted = batch["labels"][:, 0] if kind == "classification" else batch["labels"]
    theirs = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=wanted).loss
    assert some.loss_terms(model, batch).mean().item() == pytest.approx(theirs.item(), rel=1e-5)


def test_predictions_do_not_depend_on_the_batch(tiny_encoder: str, tokenizer: Any) -> None:
    model = load_with_head(tiny_encoder, "tagging", ["a", "b"])
    read = split_inputs(tokenizer(["A dog.", "The cat sleeps on the warm bed.", "The cat.", "Bed"]), tokenizer)
    together = predict(model, word_head, read, tokenizer, 4096)
    for inputs, logits_TC in zip(read, together, strict=True):
        (alone_TC,) = predict(model, word_head, [inputs], tokenizer, 4096)
        assert torch.allclose(logits_TC[: len(alone_TC)], alone_TC, atol=1e-5)


def test_types_of_subwords_are_padded_too(tokenizer: Any) -> None:
    """BERT reads which of two texts a subword is of."""
    some = [{"input_ids": [3, 4], "token_type_ids": [0, 1]}, {"input_ids": [3], "token_type_ids": [1]}]
    assert pad(some, tokenizer)["token_type_ids"].tolist() == [[0, 1], [1, tokenizer.pad_token_type_id]]

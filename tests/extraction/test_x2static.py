import math

import numpy as np
import pytest
import torch

from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.errors import DataError
from babelray.extraction.x2static import X2StaticMethod, keep_probability, loss, shared_loss, train
from support.extraction import TEXTS, encode_sentences, tokenize


@pytest.mark.parametrize("without_target", [True, False])
def test_contexts_by_definition(tiny_encoder: str, language, without_target: bool) -> None:
    """The mean of all subwords of the sentence but the word's own, special tokens left out."""
    extraction = language({"garden": 1}, subsample=None, without_target=without_target)
    block = encode_sentences(extraction, 0, tokenize(TEXTS))
    text = next(text for text in TEXTS if "garden" in text)
    model, tokenizer = load_encoder(tiny_encoder), load_tokenizer(tiny_encoder)
    encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        hidden = model(**encoded, output_hidden_states=True).hidden_states[1][0]
    start, end = text.index("garden"), text.index("garden") + len("garden")
    rows = [i for i, (a, b) in enumerate(offsets) if b > a and not (without_target and max(a, start) < min(b, end))]
    assert block["targets"].tolist() == [0] and block["contexts"].dtype == torch.half
    assert torch.allclose(block["contexts"][0].float(), hidden[rows].mean(0), atol=2e-3)


def test_what_counts_does_not_depend_on_the_batches(language) -> None:
    sentences = tokenize(TEXTS * 30)
    targets_of_batches = []
    for budget in (64, 500, 8192):
        extraction = language(batch_tokens=budget, subsample=0.01)
        targets_of_batches.append(sorted(encode_sentences(extraction, 3, sentences)["targets"].tolist()))
    assert targets_of_batches[0] == targets_of_batches[1] == targets_of_batches[2]
    every = len(encode_sentences(language(subsample=None), 3, sentences)["targets"])
    assert 0 < len(targets_of_batches[0]) < every
    assert sorted(encode_sentences(language(subsample=0.01), 4, sentences)["targets"].tolist()) != targets_of_batches[0]


def test_subsampling_takes_the_share_it_says(language) -> None:
    sentences = tokenize(TEXTS * 200)
    extraction = language(subsample=0.02)
    targets = encode_sentences(extraction, 0, sentences)["targets"]
    chance = keep_probability(extraction.counts, 0.02)
    for word, share in enumerate(chance):
        occurrences = extraction.counts[word] * 200
        spread = math.sqrt(occurrences * share * (1 - share)) + 1
        assert abs(int((targets == word).sum()) - occurrences * share) < 5 * spread


def test_loss_is_the_equation() -> None:
    torch.manual_seed(0)
    vectors = (torch.randn(6, 4, dtype=torch.double) * 3).requires_grad_()
    contexts = torch.randn(5, 4, dtype=torch.double) * 3
    targets, negatives = torch.tensor([0, 1, 2, 3, 4]), torch.randint(0, 6, (5, 10))
    expected = 0.0
    for i in range(5):

        def score(word: int) -> float:
            return max(-10.0, min(10.0, (vectors[word] @ contexts[i]).item()))  # noqa: B023

        expected += math.log(1 + math.exp(-score(int(targets[i]))))
        expected += sum(math.log(1 + math.exp(score(int(w)))) for w in negatives[i] if w != targets[i])
    value = loss(vectors, contexts, targets, negatives)
    assert value.item() == pytest.approx(expected / 5)
    (sparse,) = torch.autograd.grad(value, vectors)
    step = 1e-6
    for row, column in ((0, 0), (3, 2), (5, 1)):
        moved = vectors.detach().clone()
        moved[row, column] += step
        slope = (loss(moved, contexts, targets, negatives) - value) / step
        assert sparse.to_dense()[row, column].item() == pytest.approx(slope.item(), abs=1e-4)


def test_shared_negatives_are_the_same_negatives_for_all() -> None:
    torch.manual_seed(0)
    vectors, contexts, targets = torch.randn(9, 4), torch.randn(5, 4), torch.tensor([0, 1, 2, 3, 4])
    shared = torch.tensor([1, 5, 6, 7])
    value = shared_loss(vectors, contexts, targets, shared, negatives=4)
    assert torch.allclose(value, loss(vectors, contexts, targets, shared.expand(5, 4)))


def world(words: int = 40, width: int = 16, each: int = 50) -> tuple[list[dict[str, torch.Tensor]], torch.Tensor]:
    """Every word has a direction; its contexts lie around it."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(words, width, generator=generator)
    targets = torch.randint(0, words, (words * each,), generator=generator)
    contexts = directions[targets] + 0.5 * torch.randn(len(targets), width, generator=generator)
    parts = zip(targets.split(300), contexts.half().split(300), strict=True)
    return [{"targets": t, "contexts": c} for t, c in parts], directions


@pytest.mark.parametrize("shared", [None, 64])
def test_training_finds_the_directions(shared: int | None) -> None:
    blocks, directions = world()
    config = X2StaticMethod(epochs=10, min_steps=1, learning_rate=0.02, batch_size=64, shared_negatives=shared)
    progress: list[int] = []
    learned = train(lambda: blocks, torch.zeros(40, 16), torch.full((40,), 50), config, 1, progress.append)
    best = (directions @ learned.T).argmax(1)
    assert (best == torch.arange(40)).float().mean() > 0.95, "a word scores best where it occurs"
    assert progress[-1] == 40 * 50 * 10
    again = train(lambda: blocks, torch.zeros(40, 16), torch.full((40,), 50), config, 1)
    assert torch.equal(again, learned)


def test_little_text_is_gone_over_again() -> None:
    blocks, _ = world(words=5, each=4)
    progress: list[int] = []
    config = X2StaticMethod(min_steps=7, batch_size=8)
    train(lambda: blocks, torch.zeros(5, 16), torch.full((5,), 4), config, 1, progress.append)
    assert len(progress) == 9, "three steps per epoch, and complete epochs"


def test_one_word(language) -> None:
    """There is nothing to tell it from, and still it gets a vector."""
    extraction = language({"cat": 3}, subsample=None, min_steps=30)
    block = encode_sentences(extraction, 0, tokenize(TEXTS))
    vectors = extraction.combine(lambda: [block], 1)
    assert vectors.words == ["cat"] and torch.isfinite(vectors.matrix).all() and vectors.matrix.abs().sum() > 0


def test_no_occurrence_is_left(language) -> None:
    extraction = language(subsample=1e-12)
    block = encode_sentences(extraction, 0, tokenize(TEXTS))
    with pytest.raises(DataError, match="subsampling left no occurrence of any word") as caught:
        extraction.combine(lambda: [block], 1)
    assert "recipe: raise extract.subsample" in caught.value.remedy and "Python: subsample=None" in caught.value.remedy


@pytest.mark.parametrize("start", ["zero", "random", "aggregate"])
def test_starts(language, start: str) -> None:
    extraction = language(subsample=0.05, start=start, min_steps=30)
    blocks = [encode_sentences(extraction, i, tokenize(TEXTS)) for i in range(2)]
    vectors = extraction.combine(lambda: blocks, 1)
    targets = torch.cat([block["targets"] for block in blocks]).unique()
    if start == "aggregate":
        assert len(vectors) == len(extraction.words), "a word without occurrences keeps its start vector"
    else:
        assert vectors.words == [extraction.words[i] for i in targets.tolist()], (
            "a word without occurrences has no vector"
        )
    assert torch.isfinite(vectors.matrix).all()


def test_probability_of_rare_words_is_one() -> None:
    chance = keep_probability(np.array([10**6, 1, 0]), 5e-6)
    assert chance[0] < 0.01 and chance[1] == 1 and chance[2] == 1
    assert (keep_probability(np.array([5, 1]), None) == 1).all()

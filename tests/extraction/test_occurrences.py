from collections import Counter

import pytest
import torch
from tokenizers import normalizers

from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.extraction.occurrences import Batch, Sentence, make_batches
from support.extraction import TEXTS, tokenize

POSITION = {"the": 0, "cat": 1, "garden": 2, "bed": 3}


def collect(
    tokenizer, sentences: list[Sentence], budget: int, longest: int = 64
) -> tuple[dict[int, tuple[int, list[int]]], Counter[str]]:
    """Occurrences by their number: the word, and the ids of its subwords."""
    counts: Counter[str] = Counter()
    occurrences: dict[int, tuple[int, list[int]]] = {}
    for batch in make_batches(sentences, tokenizer, POSITION, longest, budget, counts):
        flat = batch.ids_BT.flatten()
        for i, number in enumerate(batch.number_W.tolist()):
            assert number not in occurrences
            occurrences[number] = (int(batch.word_W[i]), flat[batch.position_P[batch.occurrence_P == i]].tolist())
    return occurrences, counts


def test_words_are_found_with_their_subwords(tiny_encoder: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    occurrences, counts = collect(tokenizer, tokenize(TEXTS), 1000)
    assert [word for word, _ in (occurrences[i] for i in sorted(occurrences))] == [
        POSITION[token.lower()]
        for sentence in tokenize(TEXTS)
        for token in sentence.tokens
        if token.lower() in POSITION
    ]
    for word, ids in occurrences.values():
        text = tokenizer.decode(ids).lower().strip()
        assert list(POSITION)[word] in text
    assert counts["sentences"] == 4 and counts["words"] == len(occurrences) and not counts["split sentences"]
    for budget in (64, 100, 200):
        assert collect(tokenizer, tokenize(TEXTS), budget)[0] == occurrences, "batches do not change what is found"


def test_inner_leaves_out_special_tokens_and_padding(tiny_encoder: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    special = set(tokenizer.all_special_ids)
    padded = 0
    for batch in make_batches(tokenize([*TEXTS, "The cat"]), tokenizer, POSITION, 64, 1000, Counter()):
        assert (batch.inner_BT == torch.tensor([[int(i) not in special for i in row] for row in batch.ids_BT])).all()
        assert (batch.mask_BT == (batch.ids_BT != tokenizer.pad_token_id)).all()
        padded += int((~batch.mask_BT).sum())
    assert padded


def test_a_long_sentence_is_split_and_nothing_is_lost_but_words_on_the_cut(tiny_encoder: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    long = "the cat garden bed " * 30
    whole, counts = collect(tokenizer, tokenize([long.strip(), "the cat"]), 5000, longest=1000)
    assert len(whole) == 122 and not counts["split sentences"]
    occurrences, counts = collect(tokenizer, tokenize([long.strip(), "the cat"]), 5000, longest=20)
    assert counts["split sentences"] == 1
    assert len(occurrences) + counts["words cut in two"] >= 122 and counts["words cut in two"] > 0
    for number, (word, ids) in occurrences.items():
        assert whole[number] == (word, ids), "a word that is read is read whole"


def test_words_that_the_tokenizer_does_not_know(tiny_encoder: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    counts: Counter[str] = Counter()
    sentence = Sentence("ᚠᚢᚦ the ᚠᚢᚦ cat", ["ᚠᚢᚦ", "the", "ᚠᚢᚦ", "cat"])
    (batch,) = make_batches([sentence], tokenizer, {"the": 0, "ᚠᚢᚦ": 1, "cat": 2}, 64, 1000, counts)
    assert batch.word_W.tolist() == [0, 2]
    assert counts["words without known subwords"] == 2 and counts["words"] == 2


def test_a_word_of_which_the_tokenizer_leaves_nothing(tiny_encoder: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    inside = tokenizer.backend_tokenizer
    inside.normalizer = normalizers.Sequence([normalizers.Replace("ᚠ", ""), inside.normalizer])
    counts: Counter[str] = Counter()
    (batch,) = make_batches(
        [Sentence("the ᚠ cat", ["the", "ᚠ", "cat"])], tokenizer, POSITION | {"ᚠ": 4}, 64, 1000, counts
    )
    assert batch.word_W.tolist() == [0, 1]
    assert counts["words without known subwords"] == 1


@pytest.mark.parametrize("text", ["", " "])
def test_nothing_to_read(tiny_encoder: str, text: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    assert list(make_batches([], tokenizer, POSITION, 64, 1000, Counter())) == []
    (batch,) = make_batches([Sentence(text, [])], tokenizer, POSITION, 64, 1000, Counter())
    assert len(batch.word_W) == 0 and not batch.inner_BT.any()


def test_without_a_pad_token(tiny_encoder: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    with_pad = next(make_batches(tokenize(TEXTS), tokenizer, POSITION, 64, 1000, Counter()))
    tokenizer.pad_token = None
    without = next(make_batches(tokenize(TEXTS), tokenizer, POSITION, 64, 1000, Counter()))
    model = load_encoder(tiny_encoder)

    def read(batch: Batch) -> torch.Tensor:
        with torch.inference_mode():
            hidden = model(batch.ids_BT, attention_mask=batch.mask_BT).last_hidden_state
        return batch.pool(hidden)[0]

    assert torch.allclose(read(with_pad), read(without), atol=1e-5)

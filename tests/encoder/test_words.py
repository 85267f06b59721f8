import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from babelray.encoder.words import overlaps, token_spans, word_pools


@given(st.lists(st.text("abé猫", min_size=1, max_size=4), max_size=8), st.data())
def test_spans_point_at_the_tokens(tokens: list[str], data: st.DataObject) -> None:
    text = "".join(token + data.draw(st.sampled_from(["", " ", "  "])) for token in tokens)
    spans = token_spans(text, tokens)
    assert [text[a:b] for a, b in spans] == tokens


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_overlaps_are_those_of_the_definition(word_cuts: list[int], subword_cuts: list[int]) -> None:
    def spans(cuts: list[int], empty: bool) -> np.ndarray:
        ends = np.cumsum(cuts)
        rows = [(end - cut, end) for cut, end in zip(cuts, ends, strict=True) if cut or empty]
        return np.array(rows, dtype=np.int64).reshape(-1, 2)

    words, subwords = spans(word_cuts, empty=False), spans(subword_cuts, empty=True)
    expected = {(w, s) for w, (a, b) in enumerate(words) for s, (c, d) in enumerate(subwords) if max(a, c) < min(b, d)}
    assert set(zip(*(array.tolist() for array in overlaps(words, subwords)), strict=True)) == expected


def test_words_are_pooled_from_their_subwords() -> None:
    """`Hi you` as ⟨s⟩ H i ▁you ⟨/s⟩ and `猫` cut off: special tokens and padding weigh nothing."""
    offsets = np.array([[[0, 0], [0, 1], [1, 2], [2, 6], [0, 0]], [[0, 0], [0, 1], [0, 0], [0, 0], [0, 0]]])
    subwords = np.array([[0, 1, 1, 1, 0], [0, 1, 0, 0, 0]], dtype=bool)
    texts, tokens = ["Hi you", "a猫"], [["Hi", "you"], ["a", "猫"]]
    mean, there = word_pools(texts, tokens, offsets, subwords, "mean")
    assert mean.tolist() == [[[0, 0.5, 0.5, 0, 0], [0, 0, 0, 1, 0]], [[0, 1, 0, 0, 0], [0, 0, 0, 0, 0]]]
    assert there.tolist() == [[True, True], [True, False]]
    last, _ = word_pools(texts, tokens, offsets, subwords, "last")
    assert last[0].tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]

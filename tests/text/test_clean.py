from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from babelray.text.clean import clean, sentence_keys
from babelray.text.config import CleaningConfig
from babelray.text.read import Group, tidy
from babelray.text.segment import Segmenter
from babelray.text.tally import Tally

CONFIG = CleaningConfig(min_tokens=4, max_tokens=8)


def run(groups: list[Group], segmented: bool = False, held_out: tuple[str, ...] = ()) -> tuple[list[str], Counter[str]]:
    counts = Tally()
    batches = list(clean(groups, Segmenter.for_language("en"), CONFIG, segmented, frozenset(held_out), 1, counts))
    for batch in batches:
        for row in batch.to_pylist():
            assert row["tokens"] == Segmenter.for_language("en").tokens(row["text"])
            assert row["key"] == sentence_keys([row["text"]], 1)[0]
    return [text for batch in batches for text in batch.column("text").to_pylist()], +counts


def test_every_reason() -> None:
    texts = ["The dog runs fast. No. A held out one here. " + "Far " * 9 + "away.", "A headline without a friend"]
    sentences, counts = run([Group(0, i, [text]) for i, text in enumerate(texts)], held_out=("A held out one here.",))
    assert sentences == ["The dog runs fast."]
    assert counts == {
        "read": 5,
        "dropped: too few tokens": 1,
        "dropped: held out": 1,
        "dropped: too many tokens": 1,
        "dropped: short paragraph": 1,
    }


def test_the_rest_of_a_long_paragraph_is_not_a_short_one() -> None:
    sentences, _ = run([Group(0, 0, ["The dog runs fast."], before=1000)], segmented=True)
    assert sentences == ["The dog runs fast."]


@given(st.lists(st.text(max_size=60).map(tidy), max_size=12), st.booleans())
def test_read_is_kept_and_dropped(texts: list[str], segmented: bool) -> None:
    sentences, counts = run([Group(0, i, [text]) for i, text in enumerate(texts) if text.strip()], segmented)
    assert counts["read"] == len(sentences) + sum(n for name, n in counts.items() if name.startswith("dropped"))


def test_keys_depend_on_seed_and_text() -> None:
    keys = [sentence_keys(["a", "b", "a"], seed).tolist() for seed in (1, 2)]
    assert keys[0][0] == keys[0][2] and keys[1][0] == keys[1][2]
    assert len({key for row in keys for key in row}) == 4

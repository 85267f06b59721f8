from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from babelray.text.clean import clean, sentence_key
from babelray.text.config import CleaningConfig
from babelray.text.read import Group
from babelray.text.segment import Segmenter

CONFIG = CleaningConfig(min_tokens=4, max_tokens=8)


def run(groups: list[Group], cut: bool = True, held_out: tuple[str, ...] = ()) -> tuple[list[str], Counter[str]]:
    counts: Counter[str] = Counter()
    rows = list(clean(groups, Segmenter.of("en"), CONFIG, cut, frozenset(held_out), 1, counts))
    return [row["text"] for row in rows], counts


def test_every_reason() -> None:
    texts = ["The dog runs fast. No. A held out one here. " + "Far " * 9 + "away.", "A headline without a friend"]
    kept, counts = run([Group(0, i, [text]) for i, text in enumerate(texts)], held_out=("A held out one here.",))
    assert kept == ["The dog runs fast."]
    assert counts == {
        "read": 5,
        "dropped: too few tokens": 1,
        "dropped: held out": 1,
        "dropped: too many tokens": 1,
        "dropped: short paragraph": 1,
    }


def test_the_rest_of_a_long_paragraph_is_not_a_short_one() -> None:
    kept, _ = run([Group(0, 0, ["The dog runs fast."], before=1000)], cut=False)
    assert kept == ["The dog runs fast."]


@settings(deadline=None)
@given(st.lists(st.text(max_size=60), max_size=12), st.booleans())
def test_read_is_kept_and_dropped(texts: list[str], cut: bool) -> None:
    kept, counts = run([Group(0, i, [text]) for i, text in enumerate(texts) if text.strip()], cut)
    assert counts["read"] == len(kept) + sum(n for name, n in counts.items() if name.startswith("dropped"))


def test_keys_depend_on_seed_and_text() -> None:
    assert sentence_key(1)("a") == sentence_key(1)("a")
    assert len({sentence_key(seed)(text) for seed in (1, 2) for text in ("a", "b")}) == 4

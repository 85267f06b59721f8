import pytest
from hypothesis import given
from hypothesis import strategies as st

from babelray.languages import LANGUAGES
from babelray.storage.place import STARTER
from babelray.text.segment import Segmenter, is_word, paragraphs


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("en", "Don't stop, 3.5 km!", ["Don't", "stop", ",", "3.5", "km", "!"]),
        ("de", "Grüß Gott.", ["Grüß", "Gott", "."]),
        ("zh", "我喜欢喝茶。", ["我", "喜欢", "喝茶", "。"]),
        ("th", "ฉันรักแมว", ["ฉัน", "รัก", "แมว"]),
        ("ar", "أحب القطط.", ["أحب", "القطط", "."]),
    ],
)
def test_tokens(code: str, text: str, expected: list[str]) -> None:
    assert Segmenter.of(LANGUAGES[code]).tokens(text) == expected


@pytest.mark.parametrize(
    ("code", "text", "count"),
    [("en", "It rains. We stay.", 2), ("hi", "यह घर है। वह पेड़ है।", 2), ("ja", "雨です。家にいます。", 2)],
)
def test_sentences(code: str, text: str, count: int) -> None:
    assert len(Segmenter.of(LANGUAGES[code]).sentences(text)) == count


@given(st.text(max_size=80))
def test_tokens_are_the_text_without_space(text: str) -> None:
    tokens = Segmenter.of(LANGUAGES["en"]).tokens(text)
    assert "".join("".join(tokens).split()) == "".join(text.split())


def test_is_word() -> None:
    assert is_word("3.5") and is_word("किताब") and not is_word("…") and not is_word("。")


def test_paragraphs() -> None:
    lines = ["a", "b", "", "", "c"]
    assert list(paragraphs(iter(lines), one_sentence_a_line=True)) == [["a", "b"], ["c"]]
    assert list(paragraphs(iter(lines), one_sentence_a_line=False)) == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_has_starter_text_that_segments(code: str) -> None:
    line = (STARTER / "text" / f"{code}.txt").read_text(encoding="utf-8").splitlines()[0]
    assert len(Segmenter.of(LANGUAGES[code]).tokens(line)) >= 5

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from babelray.encoder.words import token_spans
from babelray.errors import RecipeError
from babelray.languages import LANGUAGES, Language
from babelray.text.read import tidy
from babelray.text.segment import PACKAGES, Segmenter, resolve_segmenters
from support.starter import starter_lines


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
    assert Segmenter.for_language(code).tokens(text) == expected


@pytest.mark.parametrize(
    ("code", "text", "count"),
    [("en", "It rains. We stay.", 2), ("hi", "यह घर है। वह पेड़ है।", 2), ("ja", "雨です。家にいます。", 2)],
)
def test_sentences(code: str, text: str, count: int) -> None:
    assert len(Segmenter.for_language(code).sentences(text)) == count


@given(st.text(max_size=80))
def test_tokens_are_the_text_without_space(text: str) -> None:
    tokens = Segmenter.for_language("en").tokens(text)
    assert "".join("".join(tokens).split()) == "".join(text.split())


LINES = st.lists(st.text(max_size=40).map(tidy).filter(bool), min_size=1, max_size=6)


@given(LINES)
def test_cutting_all_at_once_is_cutting_each_alone(lines: list[str]) -> None:
    segmenter = Segmenter.for_language("th")
    assert segmenter.sentences_of_each(lines) == [segmenter.sentences(line) for line in lines]
    pieces = [piece for piece in segmenter.pieces_of_all(lines).to_pylist() if piece == "\n" or not piece.isspace()]
    alone = [[*segmenter.tokens(line), "\n"] for line in lines]
    assert pieces == [piece for tokens in alone for piece in tokens]


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_segments_and_tokens_are_pieces_of_the_text(code: str) -> None:
    name = LANGUAGES[code].segmenter
    for used in {"icu", name if importlib.util.find_spec(PACKAGES[name]) else "icu"}:
        segmenter = Segmenter.for_language(code, used)
        for line in starter_lines(code):
            tokens = segmenter.tokens(line)
            assert len(tokens) >= 4 or not line
            assert [line[a:b] for a, b in token_spans(line, tokens)] == tokens
            assert not any(token.isspace() for token in tokens)
        lines = [line for line in starter_lines(code) if line]
        pieces = [piece for piece in segmenter.pieces_of_all(lines).to_pylist() if piece == "\n" or not piece.isspace()]
        assert pieces == [piece for line in lines for piece in [*segmenter.tokens(line), "\n"]]
        assert segmenter.sentences_of_each(lines) == [segmenter.sentences(line) for line in lines]


def test_segmenters_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fugashi" else find(name))
    languages = {code: LANGUAGES[code] for code in ("en", "ja")}
    names, remarks = resolve_segmenters(languages, {}, "icu")
    assert names == {"en": "icu", "ja": "icu"} and "ja: fugashi is not installed" in remarks[0]
    with pytest.raises(RecipeError, match="'fugashi' for language 'ja' is not installed"):
        resolve_segmenters(languages, {}, "error")
    assert resolve_segmenters(languages, {"ja": "icu"}, "error") == (names, [])


def test_wrong_names() -> None:
    languages = {"en": LANGUAGES["en"]}
    with pytest.raises(RecipeError, match="unknown segmenter 'spaces'"):
        resolve_segmenters(languages, {"en": "spaces"}, "icu")
    with pytest.raises(RecipeError, match="'ja' is not among the languages"):
        resolve_segmenters(languages, {"ja": "icu"}, "icu")
    other = Language(code="ga", name="I", native="G", family="IE", script="Latn", iso639_3="gle", segmenter="icu")
    assert resolve_segmenters({"ga": other}, {}, "error")[0] == {"ga": "icu"}

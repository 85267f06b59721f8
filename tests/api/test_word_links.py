"""Word alignment of texts from Python."""

from __future__ import annotations

import pytest
import torch

import babelray as br
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import BabelrayError
from babelray.evaluation.soft_alignment import soft_alignment
from babelray.evaluation.word_alignment import align_pairs

SOURCE = [["the", "cat", "sleeps"], ["a", "dog"]]
TARGET = [["die", "Katze", "schläft"], ["ein", "Hund"]]


@pytest.mark.parametrize("method", ["argmax", "itermax", "match"])
@pytest.mark.parametrize("level", ["words", "subwords"])
def test_links_are_those_of_the_benchmark(tiny_encoder: str, method, level) -> None:
    results = br.word_align(tiny_encoder, SOURCE, TARGET, method, level=level)
    expected = align_pairs(
        TextEncoder.from_pretrained(tiny_encoder), list(zip(SOURCE, TARGET, strict=True)), method, level
    )
    assert [result.links for result in results] == expected.links


def test_texts_are_split_into_words(tiny_encoder: str) -> None:
    text = "The cat sleeps."
    for languages in (None, ("en", "en")):
        result = br.word_align(tiny_encoder, text, text, languages=languages)
        assert result.source == ["The", "cat", "sleeps", "."]
        assert result.to_pharaoh() == "0-0 1-1 2-2 3-3" and result.words[1] == ("cat", "cat")
    chinese = br.word_align(tiny_encoder, "我喜欢喝茶。", "the cat", languages=("zh", "en"))
    assert "".join(chinese.source) == "我喜欢喝茶。" and len(chinese.source) > 1


def test_a_table(tiny_encoder: str) -> None:
    result = br.WordLinks(["a", "b"], ["x", "y"], [(0, 0), (0, 1)])
    assert result.to_pandas().loc["a", "target"] == "x y" and "<td>b</td><td>–</td>" in result._repr_html_()


def test_words_that_are_not_read_are_said(tiny_encoder: str) -> None:
    long = " ".join(["cat"] * 100)
    with pytest.warns(UserWarning, match=r"\d+ words are not read: the encoder's longest input"):
        br.word_align(tiny_encoder, long, "the cat")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"method": "itemax"}, "no method 'itemax'; did you mean 'itermax'"),
        ({"level": "word"}, "no level 'word'; did you mean 'words'"),
        ({"level": 3}, "no level 3\n  Known: words, subwords"),
        ({"languages": "de"}, r"'de' is not two languages\n  Give two languages, such as \('de', 'en'\)"),
        ({"languages": ("de", "en", "fr")}, "is not two languages"),
        ({"languages": ("de", None)}, "is not two languages"),
    ],
)
def test_settings_are_checked(tiny_encoder: str, settings, problem: str) -> None:
    with pytest.raises(BabelrayError, match=problem):
        br.word_align(tiny_encoder, "the cat", "a dog", **settings)
    if "method" not in settings:
        with pytest.raises(BabelrayError, match=problem):
            br.soft_align(tiny_encoder, "the cat", "a dog", **{"languages": ("en", "en"), **settings})
    with pytest.raises(BabelrayError, match="no pooling 'first'"):
        br.soft_align(tiny_encoder, "the cat", "a dog", languages=("en", "en"), pooling="first")


def test_sides_must_fit(tiny_encoder: str) -> None:
    for source, target in ((["a"], ["b", "c"]), ("a", ["b"])):
        with pytest.raises(BabelrayError, match="not as many sentences"):
            br.word_align(tiny_encoder, source, target)


def test_soft_alignment_is_that_of_the_command(tiny_encoder: str) -> None:
    sentences = "the cat sleeps", "die Katze schläft"
    result = br.soft_align(br.load_encoder(tiny_encoder, 1), *sentences, languages=("en", "de"), blur=0.1)
    expected = soft_alignment(tiny_encoder, *sentences, "words", ("en", "de"), layer=1, blur=0.1)
    assert (result.source, result.target) == (expected.rows, expected.columns)
    assert torch.equal(result.shares, expected.shares_ST) and result.divergence == expected.divergence
    assert result.to_pandas().loc["cat", "Katze"] == pytest.approx(result.shares[1, 1].item())
    assert "divergence" in result._repr_html_() and repr(result).startswith("SoftLinks(3 and 3 words")

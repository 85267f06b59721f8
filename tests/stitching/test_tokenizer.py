"""A tokenizer of words: what stays whole, what falls apart, what is unknown; and that others load it."""

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from babelray.encoder.load import load_tokenizer
from babelray.stitching.tokenizer import signs_of, with_subwords, word_tokenizer
from babelray.vectors.word_vectors import WordVectors


def pieces(tokenizer, text: str) -> list[str]:
    return tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.fixture
def german(language):
    words = ["der", "hund", "und", "hütte", "e", "hunde", "der-hund"]
    return word_tokenizer(words, ["n", "t", "hüt", ",", "."], language.source.tokenizer)


def test_words_stay_whole_and_others_fall_into_words_and_parts(german) -> None:
    assert pieces(german, "Der Hund, hunde.") == ["der", "hund", ",", "hunde", "."], "all words are lower-case"
    assert pieces(german, "der-hund") == ["der-hund"], "two frequent words do not stand for a third"
    assert pieces(german, "Hundehütte") == ["hunde", "hütte"]
    assert pieces(german, "hüten") == ["hüt", "e", "n"]
    assert pieces(german, "xyz hund") == ["[UNK]", "hund"]


def test_text_without_spaces_falls_into_frequent_words(language) -> None:
    chinese = word_tokenizer(
        ["我", "喜欢", "北京", "大学", "北京大学", "京大"], ["喜", "欢"], language.source.tokenizer
    )
    assert pieces(chinese, "我喜欢北京大学") == ["我", "喜欢", "北京大学"]
    assert pieces(chinese, "我欢喜北京") == ["我", "欢", "喜", "北京"]


def test_a_vocabulary_with_capitals_is_read_as_written(language) -> None:
    cased = word_tokenizer(["Hund", "hund"], [], language.source.tokenizer)
    assert pieces(cased, "Hund hund") == ["Hund", "hund"]


def test_special_tokens_are_those_of_the_source(german, language, tiny_encoder: str) -> None:
    assert german.convert_ids_to_tokens(german("hund", "und")["input_ids"]) == [
        "[CLS]",
        "hund",
        "[SEP]",
        "und",
        "[SEP]",
    ]
    assert german("hund", "und")["token_type_ids"] == [0, 0, 0, 1, 1]
    roberta = load_tokenizer(tiny_encoder)
    own = word_tokenizer(["hund", "und"], [], roberta)
    assert own.convert_ids_to_tokens(own("hund", "und")["input_ids"]) == ["<s>", "hund", "</s>", "</s>", "und", "</s>"]
    assert own.pad_token_id == roberta.pad_token_id and own.mask_token == "<mask>"
    assert own("hund", padding="max_length", max_length=5)["input_ids"][-1] == own.pad_token_id
    assert own.model_max_length == roberta.model_max_length and len(own) == 2 + 5


def test_it_is_loaded_as_it_was_saved(german, tmp_path: Path) -> None:
    german.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in ("Der Hund, hunde.", "Hundehütte xyz"):
        assert loaded(text)["input_ids"] == german(text)["input_ids"]
    assert loaded.mask_token_id == german.mask_token_id and loaded.unk_token_id == german.unk_token_id


def test_parts_have_the_mean_of_the_words_that_they_occur_in() -> None:
    words = WordVectors(["abcd", "xabc", "e", "ee"], torch.eye(4), [4, 3, 2, 1])
    vectors = with_subwords(words)
    assert vectors.words[:4] == words.words and torch.equal(vectors.matrix[:4], words.matrix)
    assert set(vectors.words[4:]) == {"abc", "a", "b", "c", "d", "x"}, "bcd and xab are of one word alone"
    assert torch.equal(vectors.matrix[vectors.position["abc"]], torch.tensor([0.5, 0.5, 0, 0]))
    assert torch.equal(vectors.matrix[vectors.position["d"]], torch.tensor([1.0, 0, 0, 0]))
    assert set(with_subwords(words, most=0).words[4:]) == {"a", "b", "c", "d", "x"}


def test_signs_that_the_target_has_not_are_the_sources(language) -> None:
    tokenizer = language.source.tokenizer
    assert set(signs_of(tokenizer, {",": 0})) == {".", "7"}
    assert signs_of(tokenizer, {})["7"] == tokenizer.convert_tokens_to_ids("7")

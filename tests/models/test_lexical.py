"""A lexical encoder: mixed vectors for words in the vocabulary, the encoder's for others; alone and in a benchmark."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional

from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.evaluation.benchmark import System
from babelray.evaluation.entity_linking import EntityLinking
from babelray.models.lexical import LexicalEncoder, LexicalReader, is_lexical
from babelray.storage import Location
from babelray.vectors.word_vectors import WordVectors

WORDS = {"en": ["cat", "dog", "bed"], "de": ["Hund", "Bett", "Katze"]}
TRANSLATIONS = {"cat": "Katze", "dog": "Hund", "bed": "Bett"}


@pytest.fixture
def folder(tiny_encoder: str, tmp_path: Path) -> str:
    """As the expose stage writes it, with equal vectors for translations."""
    location = Location.parse(tmp_path / "de-en")
    shutil.copytree(tiny_encoder, tmp_path / "de-en" / "encoder")
    matrix = torch.eye(32)[:3]
    WordVectors(WORDS["en"], matrix, [1] * 3).save(location / "vectors" / "en")
    WordVectors(WORDS["de"], matrix[[1, 2, 0]], [1] * 3).save(location / "vectors" / "de")
    save_file({"rotation": torch.eye(3, 32)}, tmp_path / "de-en" / "rotation.safetensors", {"lambda": "0.5"})
    return str(tmp_path / "de-en")


def test_words_inside_and_outside_the_vocabulary(folder: str, tiny_encoder: str) -> None:
    lexical = LexicalEncoder.from_pretrained(folder)
    words = lexical.words(["Katze", "die Katze", "Hund"], "de")
    alone = TextEncoder.from_pretrained(tiny_encoder).encode(["die Katze"], "all")
    expected = torch.stack([torch.eye(32)[0], functional.normalize(alone)[0], torch.eye(32)[1]])
    assert torch.allclose(words, expected, atol=1e-5)
    with pytest.raises(DataError, match=r"no vectors of 'fr'\s+Languages: de, en"):
        lexical.words(["chat"], "fr")


def test_a_reader_for_each_language(folder: str, tiny_encoder: str) -> None:
    reader = LexicalReader(LexicalEncoder.from_pretrained(folder))
    german = reader.for_language("de", "en")
    assert reader.for_language("de", "en") is german, "names of a knowledge base are encoded once"
    assert torch.equal(german.encode(["Hund"], "mean"), reader.for_language("en", "de").encode(["dog"]))
    with pytest.raises(DataError, match="needs a language"):
        reader.encode(["Hund"])
    assert is_lexical(folder) and not is_lexical(tiny_encoder) and not is_lexical("babelray-mini")
    with pytest.raises(DataError, match="no lexical encoder"):
        LexicalEncoder.from_pretrained(tiny_encoder)


def test_mentions_are_linked_by_mixed_vectors(folder: str, tmp_path: Path) -> None:
    """`babelray evaluate --model FOLDER --task entity-linking`: words with a vector find their name, whatever their
    vectors by the encoder alone; a phrase without one is the encoder's.
    """
    names = [*TRANSLATIONS, "the cat sleeps"]
    (tmp_path / "names.txt").write_text("".join(f"C{i}||{name}\n" for i, name in enumerate(names)))
    mentions = [*TRANSLATIONS.values(), "the cat sleeps"]
    (tmp_path / "de.txt").write_text("".join(f"C{i}||{text}\n" for i, text in enumerate(mentions)))
    benchmark = EntityLinking(
        data=str(tmp_path / "{lang}.txt"), knowledge_base=str(tmp_path / "names.txt"), languages=["de"]
    )
    assert benchmark.score(System(folder)).scores["de"]["p1"] == 1.0
    assert benchmark.score(System(str(Path(folder) / "encoder"))).scores["de"]["p1"] < 1.0

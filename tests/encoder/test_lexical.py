"""A lexical encoder: mixed vectors where there are some, the encoder's for all else, by itself and in a task."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional

from babelray.encoder.lexical import LexicalEncoder, LexicalReader, is_lexical
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.evaluation.lexical_tasks import EntityLinking
from babelray.storage import Place
from babelray.vectors.word_vectors import WordVectors

WORDS = {"en": ["cat", "dog", "bed"], "de": ["Hund", "Bett", "Katze"]}
MEANS = {"cat": "Katze", "dog": "Hund", "bed": "Bett"}


@pytest.fixture
def folder(tiny_encoder: str, tmp_path: Path) -> str:
    """As the expose stage leaves it, with vectors by which translations are the same."""
    place = Place.parse(tmp_path / "de-en")
    shutil.copytree(tiny_encoder, tmp_path / "de-en" / "encoder")
    matrix = torch.eye(32)[:3]
    WordVectors(WORDS["en"], matrix, [1] * 3).save(place / "vectors" / "en")
    WordVectors(WORDS["de"], matrix[[1, 2, 0]], [1] * 3).save(place / "vectors" / "de")
    save_file({"turn": torch.eye(3, 32)}, tmp_path / "de-en" / "turn.safetensors", {"share": "0.5"})
    return str(tmp_path / "de-en")


def test_words_that_are_known_and_others(folder: str, tiny_encoder: str) -> None:
    lexical = LexicalEncoder.open(folder)
    found = lexical.words(["Katze", "die Katze", "Hund"], "de")
    alone = TextEncoder.open(tiny_encoder).sentences(["die Katze"], "all")
    expected = torch.stack([torch.eye(32)[0], functional.normalize(alone)[0], torch.eye(32)[1]])
    assert torch.allclose(found, expected, atol=1e-5)
    with pytest.raises(DataError, match=r"no vectors of 'fr'\s+Languages: de, en"):
        lexical.words(["chat"], "fr")


def test_as_a_task_asks_it(folder: str, tiny_encoder: str) -> None:
    reader = LexicalReader(LexicalEncoder.open(folder))
    german = reader.speaking("de", "en")
    assert reader.speaking("de", "en") is german, "names of a knowledge base are encoded once"
    assert torch.equal(german.sentences(["Hund"], "mean"), reader.speaking("en", "de").sentences(["dog"]))
    with pytest.raises(DataError, match="told the language"):
        reader.sentences(["Hund"])
    assert is_lexical(folder) and not is_lexical(tiny_encoder) and not is_lexical("babelray-mini")
    with pytest.raises(DataError, match="no lexical encoder"):
        LexicalEncoder.open(tiny_encoder)


def test_mentions_are_linked_by_mixed_vectors(folder: str, tmp_path: Path) -> None:
    """`babelray evaluate --model FOLDER --task entity-linking`: words with a vector find their name, whatever the
    encoder by itself makes of them; a phrase without one is the encoder's.
    """
    names = [*MEANS, "the cat sleeps"]
    (tmp_path / "names.txt").write_text("".join(f"C{i}||{name}\n" for i, name in enumerate(names)))
    mentions = [*MEANS.values(), "the cat sleeps"]
    (tmp_path / "de.txt").write_text("".join(f"C{i}||{text}\n" for i, text in enumerate(mentions)))
    task = EntityLinking(
        data=str(tmp_path / "{lang}.txt"), knowledge_base=str(tmp_path / "names.txt"), languages=["de"]
    )
    assert task.score(folder).scores["de"]["p1"] == 1.0
    assert task.score(str(Path(folder) / "encoder")).scores["de"]["p1"] < 1.0

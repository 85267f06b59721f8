"""A language's extraction with a small encoder, without a corpus artifact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch

from babelray.extraction.language import LanguageExtraction
from babelray.extraction.method import PreparedBlock
from babelray.extraction.occurrences import Sentence
from babelray.text.segment import Segmenter
from conftest import SENTENCES

TEXTS = [SENTENCES[0], SENTENCES[1], "The cat is a cat .", SENTENCES[2]]


def tokenize(texts: list[str]) -> list[Sentence]:
    return [Sentence(text, Segmenter.for_language("en").tokens(text)) for text in texts]


def encode_sentences(
    language: LanguageExtraction,
    number: int,
    sentences: list[Sentence],
    on_progress: Callable[[int], None] = lambda rows: None,
) -> dict[str, torch.Tensor]:
    """An encoded block of a language, from its sentences."""
    counts: Counter[str] = Counter()
    batches = language.make_batches(sentences, counts)
    return language.encode(PreparedBlock(number, 0, len(sentences), batches, counts), on_progress)

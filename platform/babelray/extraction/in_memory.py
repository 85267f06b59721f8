"""Static vectors of a language from sentences in memory, in this process: no corpus artifact, no workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from babelray.extraction.method import PreparedBlock

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.extraction.language import LanguageExtraction
    from babelray.extraction.occurrences import Sentence
    from babelray.vectors.word_vectors import WordVectors

    OnStep = Callable[[str, int, int], None]
    """Receives a unit, the number of all of them, 0 if it is not known, and how many are done."""


def extract_words(
    language: LanguageExtraction, sentences: Sequence[Sentence], on_step: OnStep = lambda unit, total, done: None
) -> tuple[WordVectors, Counter[str]]:
    """The vectors of the language's words, and what was read, split and left out.

    A method that needs no text encodes the vocabulary, and the sentences are not read.
    """
    size = language.method.block_sentences
    needs_text = "text" in language.method.needs
    total, unit = (len(sentences), "sentences") if needs_text else (len(language.words), "words")
    counts: Counter[str] = Counter()
    blocks: list[dict[str, Tensor]] = []
    for start in range(0, total, size):
        block = PreparedBlock(len(blocks), start, min(size, total - start))
        if needs_text:
            block.batches = language.make_batches(sentences[start : start + size], block.counts)
        blocks.append(language.encode(block, partial(_show_rows, on_step, unit, start, total)))
        counts += block.counts
    return language.combine(lambda: blocks, language.layer, partial(on_step, "occurrences", 0)), counts


def _show_rows(on_step: OnStep, unit: str, start: int, total: int, rows: int) -> None:
    on_step(unit, total, min(start + rows, total))

"""Paragraphs into clean sentences, as in Hämmerl et al. (2022), appendix C.

Sentences of at least `min_tokens` tokens, only from paragraphs of at least `min_sentences` sentences. Sentences that
evaluation holds out are dropped, so that no test sentence is trained on. Every sentence that is read is either kept or
counted under the reason for which it was dropped.

The tokens go straight into columns, a few thousand sentences at a time: Arrow does the work per token, and memory stays
small.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from babelray.storage.tables import SENTENCES, schema
from babelray.text.config import CleaningConfig
from babelray.text.read import Group
from babelray.text.segment import Segmenter
from babelray.text.tally import Tally

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

SENTENCES_AT_ONCE = 2048
GROUPS_AT_ONCE = 512
KEYED = (*SENTENCES, "key")


def sentence_keys(texts: Sequence[str], seed: int) -> np.ndarray:
    """A 64-bit hash of each sentence; equal sentences are duplicates, and the sample has the smallest hashes."""
    import numpy as np
    import pandas as pd

    return pd.util.hash_array(np.array(texts, dtype=object), hash_key=f"{seed % 10**16:016}", categorize=False)


def clean(
    groups: Iterable[Group],
    segmenter: Segmenter,
    config: CleaningConfig,
    segmented: bool,
    held_out: frozenset[str],
    seed: int,
    counts: Tally,
) -> Iterator[pa.RecordBatch]:
    """The sentences to keep, with their tokens and keys.

    `segmented`: whether groups hold sentences already; otherwise each is a paragraph.
    """
    waiting = _Columns()
    remaining = iter(groups)
    while batch := list(itertools.islice(remaining, GROUPS_AT_ONCE)):
        texts = [group.texts for group in batch]
        texts = texts if segmented else segmenter.sentences_of_each([paragraph for (paragraph,) in texts])
        for group, sentences in zip(batch, texts, strict=True):
            counts["read"] += len(sentences)
            if group.before + len(sentences) < config.min_sentences:
                counts.drop("short paragraph", " ".join(sentences), len(sentences))
                continue
            numbers: Sequence[int] = range(group.before, group.before + len(sentences))
            if not held_out.isdisjoint(sentences):
                numbers, sentences = _drop_held_out(held_out, numbers, sentences, counts)
            waiting.add(group, numbers, sentences)
            if len(waiting.text) >= SENTENCES_AT_ONCE:
                yield waiting.batch(segmenter, config, seed, counts)
                waiting = _Columns()
    if waiting.text:
        yield waiting.batch(segmenter, config, seed, counts)


def _drop_held_out(
    held_out: frozenset[str], numbers: Iterable[int], sentences: list[str], counts: Tally
) -> tuple[list[int], list[str]]:
    """The numbers and texts of the sentences that are not held out."""
    rest = [(number, text) for number, text in zip(numbers, sentences, strict=True) if text not in held_out]
    counts.drop("held out", "", len(sentences) - len(rest))
    return [number for number, _ in rest], [text for _, text in rest]


@dataclass
class _Columns:
    """Sentences that are collected for the next batch."""

    document: list[int] = field(default_factory=list)
    paragraph: list[int] = field(default_factory=list)
    sentence: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def add(self, group: Group, numbers: Iterable[int], sentences: list[str]) -> None:
        self.document += [group.document] * len(sentences)
        self.paragraph += [group.paragraph] * len(sentences)
        self.sentence += numbers
        self.text += sentences

    def batch(self, segmenter: Segmenter, config: CleaningConfig, seed: int, counts: Tally) -> pa.RecordBatch:
        """The sentences that have neither too few nor too many tokens."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        pieces = segmenter.pieces_of_all(self.text)
        is_token = pc.invert(pc.utf8_is_space(pieces)).to_numpy(zero_copy_only=False)
        ends = np.flatnonzero(pc.equal(pieces, "\n").to_numpy(zero_copy_only=False))
        lengths = np.diff(np.cumsum(is_token)[ends], prepend=0)
        fits = (lengths >= config.min_tokens) & (lengths <= config.max_tokens)
        for reason, outside in (("few", lengths < config.min_tokens), ("many", lengths > config.max_tokens)):
            if count := int(outside.sum()):
                counts.drop(f"too {reason} tokens", self.text[int(outside.argmax())], count)
        is_token &= np.repeat(fits, np.diff(ends, prepend=-1))
        offsets = pa.array(np.append(0, np.cumsum(lengths[fits])), pa.int32())
        tokens = pa.ListArray.from_arrays(offsets, pieces.filter(pa.array(is_token)))
        columns = [self.document, self.paragraph, self.sentence, self.text]
        selected = pa.record_batch(columns, schema=schema(*SENTENCES[:-1])).filter(pa.array(fits)).columns
        keys = pa.array(sentence_keys(self.text, seed)[fits])
        return pa.record_batch([*selected, tokens, keys], schema=schema(*KEYED))

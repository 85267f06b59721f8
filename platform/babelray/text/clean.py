"""Paragraphs into sentences worth keeping, as in Hämmerl et al. (2022), appendix C.

Sentences of at least `min_tokens` tokens, only from paragraphs of at least `min_sentences` sentences. Sentences
that evaluation holds out are dropped, so that nothing that is tested was ever trained on. Every sentence that is
read is either kept or counted under the reason for which it was dropped.

The pieces that the segmenter cuts go straight into columns, a few thousand sentences at a time: what is done for
each piece is done by Arrow, and memory stays small.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from babelray.text.config import CleaningConfig
from babelray.text.read import Group
from babelray.text.segment import Segmenter
from babelray.text.tables import SENTENCES, schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

SENTENCES_AT_ONCE = 2048
GROUPS_AT_ONCE = 512
KEYED = (*SENTENCES, "key")


def sentence_keys(texts: Sequence[str], seed: int) -> np.ndarray:
    """A 64-bit hash of each sentence; equal sentences are duplicates, and the smallest hashes make the sample."""
    import numpy as np
    import pandas as pd

    return pd.util.hash_array(np.array(texts, dtype=object), hash_key=f"{seed % 10**16:016}", categorize=False)


def clean(
    groups: Iterable[Group],
    segmenter: Segmenter,
    config: CleaningConfig,
    cut: bool,
    held_out: frozenset[str],
    seed: int,
    counts: Counter[str],
) -> Iterator[pa.RecordBatch]:
    """The sentences to keep, with their tokens and keys.

    `cut` says whether a group is a paragraph that is yet to be cut into sentences.
    """
    waiting = _Columns()
    remaining = iter(groups)
    while taken := list(itertools.islice(remaining, GROUPS_AT_ONCE)):
        found = segmenter.sentences_of_each([g.texts[0] for g in taken]) if cut else [g.texts for g in taken]
        for group, sentences in zip(taken, found, strict=True):
            counts["read"] += len(sentences)
            if group.before + len(sentences) < config.min_sentences:
                counts["dropped: short paragraph"] += len(sentences)
                continue
            numbers: Sequence[int] = range(group.before, group.before + len(sentences))
            if not held_out.isdisjoint(sentences):
                numbers, sentences = _without(held_out, numbers, sentences, counts)
            waiting.add(group, numbers, sentences)
            if len(waiting.text) >= SENTENCES_AT_ONCE:
                yield waiting.batch(segmenter, config, seed, counts)
                waiting = _Columns()
    if waiting.text:
        yield waiting.batch(segmenter, config, seed, counts)


def _without(
    held_out: frozenset[str], numbers: Iterable[int], sentences: list[str], counts: Counter[str]
) -> tuple[list[int], list[str]]:
    left = [(number, text) for number, text in zip(numbers, sentences, strict=True) if text not in held_out]
    counts["dropped: held out"] += len(sentences) - len(left)
    return [number for number, _ in left], [text for _, text in left]


@dataclass
class _Columns:
    """Sentences that wait to become a batch."""

    document: list[int] = field(default_factory=list)
    paragraph: list[int] = field(default_factory=list)
    sentence: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def add(self, group: Group, numbers: Iterable[int], sentences: list[str]) -> None:
        self.document += [group.document] * len(sentences)
        self.paragraph += [group.paragraph] * len(sentences)
        self.sentence += numbers
        self.text += sentences

    def batch(self, segmenter: Segmenter, config: CleaningConfig, seed: int, counts: Counter[str]) -> pa.RecordBatch:
        """The sentences that have neither too few nor too many tokens."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        pieces = segmenter.pieces_of_all(self.text)
        solid = pc.invert(pc.utf8_is_space(pieces)).to_numpy(zero_copy_only=False)
        ends = np.flatnonzero(pc.equal(pieces, "\n").to_numpy(zero_copy_only=False))
        lengths = np.diff(np.cumsum(solid)[ends], prepend=0)
        kept = (lengths >= config.min_tokens) & (lengths <= config.max_tokens)
        counts["dropped: too few tokens"] += int((lengths < config.min_tokens).sum())
        counts["dropped: too many tokens"] += int((lengths > config.max_tokens).sum())
        solid &= np.repeat(kept, np.diff(ends, prepend=-1))
        offsets = pa.array(np.append(0, np.cumsum(lengths[kept])), pa.int32())
        tokens = pa.ListArray.from_arrays(offsets, pieces.filter(pa.array(solid)))
        columns = [self.document, self.paragraph, self.sentence, self.text]
        found = pa.record_batch(columns, schema=schema(*SENTENCES[:-1])).filter(pa.array(kept)).columns
        keys = pa.array(sentence_keys(self.text, seed)[kept])
        return pa.record_batch([*found, tokens, keys], schema=schema(*KEYED))

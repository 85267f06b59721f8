"""Paragraphs into sentences worth keeping, as in Hämmerl et al. (2022), appendix C.

Sentences of at least `min_tokens` tokens, only from paragraphs of at least `min_sentences` sentences. Sentences
that evaluation holds out are dropped, so that nothing that is tested was ever trained on. Every sentence that is
read is either kept or counted under the reason for which it was dropped.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from babelray.text.config import CleaningConfig
from babelray.text.read import Group
from babelray.text.segment import Segmenter

Row = dict[str, Any]


def sentence_key(seed: int) -> Callable[[str], int]:
    """A 64-bit hash of a sentence; equal sentences are duplicates, and the smallest hashes make the sample."""
    key = seed.to_bytes(16, "little")
    blake2b = hashlib.blake2b

    def hashed(text: str) -> int:
        return int.from_bytes(blake2b(text.encode(), digest_size=8, key=key).digest(), "little")

    return hashed


def clean(
    groups: Iterable[Group],
    segmenter: Segmenter,
    config: CleaningConfig,
    cut: bool,
    held_out: frozenset[str],
    seed: int,
    counts: Counter[str],
) -> Iterator[Row]:
    """The sentences to keep, as rows; `cut` says whether a group is a paragraph yet to be cut into sentences."""
    key = sentence_key(seed)
    for group in groups:
        sentences = segmenter.sentences(group.texts[0]) if cut else group.texts
        counts["read"] += len(sentences)
        if group.before + len(sentences) < config.min_sentences:
            counts["dropped: short paragraph"] += len(sentences)
            continue
        for number, text in enumerate(sentences, start=group.before):
            if text in held_out:
                counts["dropped: held out"] += 1
                continue
            tokens = segmenter.tokens(text)
            if len(tokens) < config.min_tokens:
                counts["dropped: too few tokens"] += 1
            elif len(tokens) > config.max_tokens:
                counts["dropped: too many tokens"] += 1
            else:
                yield {
                    "document": group.document,
                    "paragraph": group.paragraph,
                    "sentence": number,
                    "text": text,
                    "tokens": tokens,
                    "key": key(text),
                }

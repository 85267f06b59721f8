"""A tokenizer whose pieces are words of static vectors, and whose special tokens are those of an encoder.

Text is cut at spaces, and each segment into the pieces that cost least: a word costs C + log rank, where
C = 1 + log N, a part of words 2 C, a character 4 C. So a word of the vocabulary always stays whole, and text without
spaces (zh, ja, th, my) is cut into few and frequent words.

A word outside the vocabulary is cut into words of it, parts that its words share, and characters; the vector of a part
or a character is the mean of all words that it occurs in. A sign or digit that no word has is the encoder's own, if it
has one. Everything else is unknown.

Characters are normalised by NFKC. Text is lower-cased if the vocabulary has nothing but lower case.

Shapes: N words, C parts of words, E width.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

SUBWORD = (3, 7)
"""Lengths of parts of words: the least, and one more than the most."""


def with_subwords(vectors: WordVectors, most: int = 10_000) -> WordVectors:
    """The words, and after them parts of words that are no words, with the mean vector of the words that contain them.

    The parts are all single characters, and the `most` frequent of those of 3 to 6 characters that several words share.
    """
    locations: dict[str, list[int]] = {}
    for row, word in enumerate(vectors.words):
        for part in _parts(word):
            locations.setdefault(part, []).append(row)
    new = [part for part in locations if part not in vectors.position and not part.isspace()]
    longer = sorted((part for part in new if len(part) > 1), key=lambda part: (-len(locations[part]), part))
    new = [part for part in longer[:most] if len(locations[part]) > 1] + sorted(part for part in new if len(part) == 1)
    rows = [number for number, part in enumerate(new) for _ in locations[part]]
    columns = [row for part in new for row in locations[part]]
    weights = [1 / len(locations[part]) for part in new for _ in locations[part]]
    means_CN = torch.sparse_coo_tensor(
        torch.tensor([rows, columns], dtype=torch.long),
        torch.tensor(weights),
        (len(new), len(vectors)),
        check_invariants=True,
    )
    matrix = torch.cat([vectors.matrix, torch.sparse.mm(means_CN, vectors.matrix)])
    return WordVectors([*vectors.words, *new], matrix, [*vectors.counts, *[0] * len(new)])


def _parts(word: str) -> set[str]:
    """
    >>> sorted(_parts("dogs"))
    ['d', 'dog', 'dogs', 'g', 'o', 'ogs', 's']
    """
    parts = set(word)
    for length in range(*SUBWORD):
        parts |= {word[start : start + length] for start in range(len(word) - length + 1)}
    return parts


def signs_of(source: PreTrainedTokenizerBase, vocabulary: Mapping[str, int]) -> dict[str, int]:
    """Signs and digits that the source has as one piece and the target's vocabulary lacks, with the source's ids."""
    return {
        piece: number
        for piece, number in source.get_vocab().items()
        if len(piece) == 1 and not piece.isalpha() and not piece.isspace() and piece not in vocabulary and piece != "▁"
    }


def word_tokenizer(
    words: Sequence[str], parts: Sequence[str], source: PreTrainedTokenizerBase
) -> PreTrainedTokenizerFast:
    """A tokenizer of words, the most frequent first, and of parts of words; special tokens are those of the source."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = sorted(set(source.all_special_tokens), key=source.convert_tokens_to_ids)
    cost = 1 + math.log(len(words) + 1)
    pieces = [(token, 0.0) for token in special]
    pieces += [(word, -cost - math.log(rank)) for rank, word in enumerate(words, start=1)]
    pieces += [(part, -2 * cost if len(part) > 1 else -4 * cost) for part in parts]
    # Positions of the RoBERTa family are counted from the id of the padding: it must stay.
    padding = next(piece for piece in pieces if piece[0] == source.pad_token)
    pieces.remove(padding)
    pieces.insert(source.convert_tokens_to_ids(source.pad_token), padding)
    ids = {piece: number for number, (piece, _) in enumerate(pieces)}
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=ids[source.unk_token]))
    lowercase = [normalizers.Lowercase()] if not any(word != word.lower() for word in words) else []
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), *lowercase])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(special)
    data = json.loads(tokenizer.to_str())
    source_data = json.loads(source.backend_tokenizer.to_str())
    data["post_processor"] = _with_ids(source_data["post_processor"], ids)
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(data)),
        model_max_length=source.model_max_length,
        model_input_names=source.model_input_names,
        **source.special_tokens_map,
    )


def _with_ids(processor: Any, ids: Mapping[str, int]) -> Any:
    """A post-processor, which puts special tokens around a text, with their ids in the new vocabulary."""
    if isinstance(processor, dict):
        changed = {key: _with_ids(value, ids) for key, value in processor.items()}
        if "ids" in processor and "tokens" in processor:  # of a template
            changed["ids"] = [ids[token] for token in processor["tokens"]]
        return changed
    if isinstance(processor, list):
        if len(processor) == 2 and isinstance(processor[0], str) and isinstance(processor[1], int):
            return [processor[0], ids[processor[0]]]  # BERT's and RoBERTa's own
        return [_with_ids(value, ids) for value in processor]
    return processor

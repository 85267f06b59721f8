"""Static vectors of isolated words (Vulić et al., 2022, section 2.1).

Each word goes through the encoder as if it were a sentence; its vector is the mean over all subwords, special ones
included. No text is needed.

Shapes: B words of a batch, T subwords of a word, U words of a block, V words of the vocabulary, D width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from babelray.extraction.method import EXTRACTION_METHODS, EncoderMethod, OnProgress, PreparedBlock

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from babelray.encoder.layers import LayerReader
    from babelray.extraction.language import LanguageExtraction
    from babelray.extraction.method import ReadBlocks


@EXTRACTION_METHODS.register
class IsolatedMethod(EncoderMethod):
    """The vector of the word alone, as if it were a sentence (Vulić et al., 2022)."""

    needs: ClassVar[tuple[str, ...]] = ("encoder",)

    method: Literal["isolated"] = "isolated"

    def encode(self, language: LanguageExtraction, block: PreparedBlock, on_progress: OnProgress) -> dict[str, Tensor]:
        words = language.words[block.start : block.start + block.count]
        tensors = encode_words(
            language.reader, language.tokenizer, words, language.longest, self.batch_tokens, block.counts
        )
        return tensors | {"words": tensors["words"] + block.start}

    def combine(
        self, language: LanguageExtraction, blocks: ReadBlocks, layer: int, on_progress: OnProgress
    ) -> tuple[Tensor, Tensor]:
        return _join_blocks(blocks(), language.counts, layer)


def encode_words(
    reader: LayerReader,
    tokenizer: PreTrainedTokenizerBase,
    words: Sequence[str],
    longest: int,
    batch_tokens: int,
    counts: Counter[str],
) -> dict[str, Tensor]:
    """`words`: positions of the words that the tokenizer knows; `layer.N`: their vectors (U, D)."""
    import numpy as np
    import torch

    from babelray.encoder.pool import mean_pool, token_budget_batches
    from babelray.extraction.occurrences import blank_ids

    encoded = tokenizer(list(words), truncation=True, max_length=longest, return_special_tokens_mask=True)
    ids = [np.array(row) for row in encoded["input_ids"]]
    inner = [row[np.array(special) == 0] for row, special in zip(ids, encoded["special_tokens_mask"], strict=True)]
    blank = blank_ids(tokenizer)
    positions = [i for i, row in enumerate(inner) if not np.isin(row, blank).all()]
    counts["words"] += len(positions)
    counts["words without known subwords"] += len(words) - len(positions)
    layers: dict[int, Tensor] = {}
    for chosen in token_budget_batches([len(ids[i]) for i in positions], batch_tokens):
        rows = [torch.from_numpy(ids[positions[i]]) for i in chosen]
        ids_BT = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id or 0)
        mask_BT = torch.arange(ids_BT.shape[1]) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
        mask_BT = mask_BT.to(reader.device)
        for layer, hidden_BTD in reader(ids_BT.to(reader.device), mask_BT).items():
            vectors_BD = mean_pool(hidden_BTD.float(), mask_BT).cpu()
            layers.setdefault(layer, torch.empty(len(positions), vectors_BD.shape[1]))[chosen] = vectors_BD
    vectors = {f"layer.{number}": vectors_UD for number, vectors_UD in layers.items()}
    return {"words": torch.tensor(positions, dtype=torch.long)} | vectors


def _join_blocks(blocks: Iterable[Mapping[str, Tensor]], counts: np.ndarray, layer: int) -> tuple[Tensor, Tensor]:
    """Blocks of the vocabulary one after the other; words that the tokenizer does not know are left out."""
    import torch

    encoded = list(blocks)
    words = torch.cat([block["words"] for block in encoded])
    rows = [block[f"layer.{layer}"] for block in encoded if len(block["words"])]
    matrix_VD = torch.zeros(len(counts), rows[0].shape[1] if rows else 0)
    if rows:
        matrix_VD[words] = torch.cat(rows)
    encoded_V = torch.zeros(len(counts), dtype=torch.bool)
    encoded_V[words] = True
    return matrix_VD, torch.where(encoded_V, torch.from_numpy(counts).clamp(min=1), 0)

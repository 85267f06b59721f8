"""Soft alignment of the words of a sentence with those of its translation, by optimal transport.

The transport is that of the `transport` objective (see `objectives/sinkhorn.py`), so that its alignments can be
inspected before and after training. The shares in a row are the destinations of the weight of one word.

Shapes: S and T words of both sentences, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from babelray.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from babelray.encoder.layers import LayerReader
    from babelray.storage import AnyPath

Level = Literal["words", "subwords"]
Pooling = Literal["last", "mean"]

ITERATIONS = 100
"""Further iterations at the finest scale, so that every word gets its whole weight; for one pair they cost little."""
MAX_COLUMNS = 14
"""Longer sentences are shown as a list."""
BEST = 3
"""Words of the other sentence that the list names for each."""
SMALL = 0.05
"""Shares below are dimmed."""


class SoftAlignment(NamedTuple):
    """Words, or subwords, of both sentences; the share of each row's weight (S, T) that goes to each column; S_ε."""

    rows: list[str]
    columns: list[str]
    shares_ST: Tensor
    divergence: float


def show(alignment: SoftAlignment, console: Console) -> None:
    """Print the shares, as a table if it is narrow enough; then the divergence, and the best word for each."""
    console.print(_table(alignment) if _fits(alignment, console.width) else _list(alignment))
    console.print(f"\ndivergence {alignment.divergence:.4g}", highlight=False)
    best = [
        f"{row} → {alignment.columns[i]}"
        for row, i in zip(alignment.rows, alignment.shares_ST.argmax(1).tolist(), strict=True)
    ]
    console.print(" · ".join(best), markup=False, highlight=False, soft_wrap=True)


def soft_alignment(
    encoder: AnyPath,
    source: str,
    target: str,
    level: Level,
    languages: tuple[str, str],
    layer: int = -1,
    blur: float = 0.05,
    p: int = 2,
    pooling: Pooling = "last",
) -> SoftAlignment:
    """Encode both sentences and compute the transport from one to the other.

    `languages` choose the word segmenters; `pooling` is the vector of a word: of its last subword, or the mean of all.
    Words without a subword, or beyond the longest input, are left out.
    """
    import torch

    from babelray.encoder.layers import LayerReader
    from babelray.encoder.load import load_encoder, load_tokenizer, read_config, resolve_layer
    from babelray.objectives.sinkhorn import sinkhorn_divergence, transport_plan
    from babelray.text.segment import segmenter_of

    segmenters = {code: segmenter_of(code) for code in languages}
    read_config(encoder)  # says what is missing in a folder that holds no encoder
    tokenizer, model = load_tokenizer(encoder, masks=False), load_encoder(encoder)
    reader = LayerReader(model, [resolve_layer(layer, model.config.num_hidden_layers)])
    (rows, x_SD), (columns, y_TD) = (
        _vectors(reader, tokenizer, text, segmenters[code].tokens(text) if level == "words" else None, pooling)
        for text, code in zip((source, target), languages, strict=True)
    )
    x_1SD, x_mask_1S = x_SD.unsqueeze(0), torch.ones(1, len(x_SD))
    y_1TD, y_mask_1T = y_TD.unsqueeze(0), torch.ones(1, len(y_TD))
    plan_1ST = transport_plan(x_1SD, x_mask_1S, y_1TD, y_mask_1T, blur, p, iterations=ITERATIONS)
    divergence_1 = sinkhorn_divergence(x_1SD, x_mask_1S, y_1TD, y_mask_1T, blur, p, iterations=ITERATIONS)
    return SoftAlignment(rows, columns, plan_1ST[0] * len(rows), divergence_1.item())


def _vectors(
    reader: LayerReader, tokenizer: PreTrainedTokenizerBase, text: str, tokens: list[str] | None, pooling: Pooling
) -> tuple[list[str], Tensor]:
    """The tokens of a sentence, or its subwords if no tokens are given, and their vectors (W, D)."""
    from babelray.encoder.layers import longest_input
    from babelray.encoder.words import word_pools

    encoded = tokenizer(
        [text],
        truncation=True,
        max_length=longest_input(reader.model, tokenizer),
        return_special_tokens_mask=True,
        return_offsets_mapping=True,
        return_tensors="pt",
    )
    hidden_TD = reader.highest(encoded["input_ids"], encoded["attention_mask"])[0]
    real_1T, offsets_1T2 = encoded["special_tokens_mask"] == 0, encoded["offset_mapping"]
    if tokens is None:
        names = tokenizer.convert_ids_to_tokens(encoded["input_ids"][real_1T])
        vectors_WD = hidden_TD[real_1T[0]]
    else:
        pools_1WT, there_1W = word_pools([text], [tokens], offsets_1T2.numpy(), real_1T.numpy(), pooling)
        names = [token for token, there in zip(tokens, there_1W[0].tolist(), strict=False) if there]
        vectors_WD = (pools_1WT[0] @ hidden_TD)[there_1W[0]]
    if not names:
        raise DataError(f"there are no words in {text!r}", "Give a sentence and its translation.")
    return names, vectors_WD


def _fits(alignment: SoftAlignment, width: int) -> bool:
    from rich.cells import cell_len

    needed = max(map(cell_len, alignment.rows)) + sum(2 + max(3, cell_len(word)) for word in alignment.columns)
    return len(alignment.columns) <= MAX_COLUMNS and needed <= width


def _table(alignment: SoftAlignment) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table("", box=None, pad_edge=False)
    for word in alignment.columns:
        table.add_column(Text(word), justify="right", no_wrap=True)
    for word, shares in zip(alignment.rows, alignment.shares_ST.tolist(), strict=True):
        best = shares.index(max(shares))
        cells = [
            Text(f"{100 * share:.0f}", "bold green" if i == best else "dim" if share < SMALL else "")
            for i, share in enumerate(shares)
        ]
        table.add_row(Text(word), *cells)
    return table


def _list(alignment: SoftAlignment) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    count = min(BEST, len(alignment.columns))
    for word, row_T in zip(alignment.rows, alignment.shares_ST, strict=True):
        shares, positions = (part.tolist() for part in row_T.topk(count))
        cells = [
            Text(
                f"{alignment.columns[i]} {100 * share:.0f}%",
                "bold green" if not rank else "dim" if share < SMALL else "",
            )
            for rank, (share, i) in enumerate(zip(shares, positions, strict=True))
        ]
        table.add_row(Text(word), *cells)
    return table

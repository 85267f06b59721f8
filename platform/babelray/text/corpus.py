"""Reading a corpus artifact."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from babelray.storage import Place
from babelray.text.tables import SENTENCES, read_parquet, read_table

if TYPE_CHECKING:
    import pyarrow as pa


def shards(corpus: Place, code: str) -> list[Place]:
    """The shards of a language, in order."""
    folder = corpus / "sentences" / code
    return [folder / name for name in folder.files()]


def iter_sentences(corpus: Place, code: str) -> Iterator[pa.RecordBatch]:
    """Sentences of a language, a row group at a time: document, paragraph, sentence, text, tokens."""
    for shard in shards(corpus, code):
        yield from read_parquet(shard, SENTENCES)


def read_sentences(corpus: Place, code: str) -> pa.Table:
    """All sentences of a language."""
    import pyarrow as pa

    return pa.Table.from_batches(list(iter_sentences(corpus, code)))


@dataclass(frozen=True)
class Block:
    """Some consecutive sentences of a shard."""

    shard: Place
    row_group: int
    start: int
    count: int


def blocks(corpus: Place, code: str, size: int) -> list[Block]:
    """The sentences of a language in blocks of at most `size`, found without reading them."""
    import pyarrow.parquet as pq

    found: list[Block] = []
    for shard in shards(corpus, code):
        with shard.open() as stream:
            described = pq.ParquetFile(stream).metadata
        for group in range(described.num_row_groups):
            rows = described.row_group(group).num_rows
            found += [Block(shard, group, start, min(size, rows - start)) for start in range(0, rows, size)]
    return found


def read_block(block: Block) -> pa.Table:
    """The sentences of a block: document, paragraph, sentence, text, tokens."""
    return _row_group(block.shard, block.row_group).slice(block.start, block.count)


@functools.lru_cache(maxsize=1)
def _row_group(shard: Place, number: int) -> pa.Table:
    """Kept while its blocks are read one after the other."""
    import pyarrow.parquet as pq

    with shard.open() as stream:
        return pq.ParquetFile(stream).read_row_group(number, columns=list(SENTENCES))


def read_vocabulary(corpus: Place, code: str) -> dict[str, int]:
    """Words of a language with their counts, the most frequent first."""
    table = read_table(corpus / "vocabulary" / f"{code}.parquet")
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))

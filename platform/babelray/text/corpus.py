"""Reading a corpus artifact."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from babelray.storage import Location
from babelray.storage.tables import SENTENCES, read_parquet, read_table

if TYPE_CHECKING:
    import pyarrow as pa


def list_shards(corpus: Location, code: str) -> list[Location]:
    """The shards of a language, in order."""
    folder = corpus / "sentences" / code
    return [folder / name for name in folder.files()]


def iter_sentences(corpus: Location, code: str) -> Iterator[pa.RecordBatch]:
    """Sentences of a language, one row group at a time: document, paragraph, sentence, text, tokens."""
    for shard in list_shards(corpus, code):
        yield from read_parquet(shard, SENTENCES)


def read_sentences(corpus: Location, code: str) -> pa.Table:
    """All sentences of a language."""
    import pyarrow as pa

    return pa.Table.from_batches(list(iter_sentences(corpus, code)))


@dataclass(frozen=True)
class Block:
    """Consecutive sentences of a shard."""

    shard: Location
    row_group: int
    start: int
    count: int


def list_blocks(corpus: Location, code: str, size: int) -> list[Block]:
    """The sentences of a language in blocks of at most `size`; only the metadata of the shards is read."""
    import pyarrow.parquet as pq

    result: list[Block] = []
    for shard in list_shards(corpus, code):
        with shard.open() as stream:
            metadata = pq.ParquetFile(stream).metadata
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            result += [Block(shard, group, start, min(size, rows - start)) for start in range(0, rows, size)]
    return result


def read_block(block: Block) -> pa.Table:
    """The sentences of a block: document, paragraph, sentence, text, tokens."""
    return _row_group(block.shard, block.row_group).slice(block.start, block.count)


@functools.lru_cache(maxsize=1)
def _row_group(shard: Location, number: int) -> pa.Table:
    """Cached while its blocks are read one after the other."""
    import pyarrow.parquet as pq

    with shard.open() as stream:
        return pq.ParquetFile(stream).read_row_group(number, columns=list(SENTENCES))


def read_vocabulary(corpus: Location, code: str) -> dict[str, int]:
    """Words of a language with their counts, the most frequent first."""
    table = read_table(corpus / "vocabulary" / f"{code}.parquet")
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))

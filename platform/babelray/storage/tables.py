"""Tables on disk, written atomically and in bounded memory.

Tables of an artifact are parquet. Temporary ones are in Arrow's own format, which is much cheaper to write and read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from babelray.storage import Location

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ROWS = 32768
"""Rows per row group."""
SENTENCES = ("document", "paragraph", "sentence", "text", "tokens")


def schema(*names: str) -> pa.Schema:
    """The columns that Babelray writes, by name."""
    import pyarrow as pa

    kinds = {
        "document": pa.int64(),
        "paragraph": pa.int32(),
        "sentence": pa.int32(),
        "text": pa.string(),
        "tokens": pa.list_(pa.string()),
        "key": pa.uint64(),
        "row": pa.int64(),
        "word": pa.string(),
        "count": pa.int64(),
        "source": pa.string(),
        "target": pa.string(),
        "split": pa.string(),
    }
    return pa.schema([(name, kinds[name]) for name in names])


def write_rows(location: Location, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write rows as parquet, in their order."""
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        waiting: dict[str, list[Any]] = {name: [] for name in columns}
        for row in rows:
            for name in columns:
                waiting[name].append(row[name])
            if len(waiting[columns[0]]) == ROWS:
                yield pa.record_batch(list(waiting.values()), schema=schema(*columns))
                waiting = {name: [] for name in columns}
        yield pa.record_batch(list(waiting.values()), schema=schema(*columns))

    write_parquet(location, batches(), columns)


def write_parquet(location: Location, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> None:
    """Write batches as parquet, in row groups whose size does not depend on that of the batches."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    repeated = [name for name in columns if name in ("split", "document")] + ["tokens.list.element"]
    waiting: list[pa.RecordBatch] = []
    with (
        location.writing() as path,
        pq.ParquetWriter(path, schema(*columns), compression="zstd", use_dictionary=repeated) as writer,
    ):
        for batch in batches:
            waiting.append(batch)
            if sum(map(len, waiting)) >= ROWS:
                table = pa.Table.from_batches(waiting)
                complete = len(table) // ROWS * ROWS
                writer.write_table(table.slice(0, complete), row_group_size=ROWS)
                waiting = table.slice(complete).to_batches()
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting), row_group_size=ROWS)


def read_parquet(location: Location, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A parquet file, one row group at a time."""
    import pyarrow.parquet as pq

    with location.open() as stream:
        file = pq.ParquetFile(stream)
        for number in range(file.num_row_groups):
            yield from file.read_row_group(number, columns=list(columns)).to_batches()


def read_table(location: Location, columns: Sequence[str] | None = None) -> pa.Table:
    """A whole parquet file."""
    import pyarrow.parquet as pq

    with location.open() as stream:
        return pq.ParquetFile(stream).read(columns=columns)


def write_arrow(location: Location, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> int:
    """Write batches in Arrow's format; returns the number of rows."""
    import pyarrow as pa

    rows = 0
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with location.writing() as path, pa.ipc.new_file(path, schema(*columns), options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += len(batch)
    return rows


def read_arrow(location: Location, *columns: str) -> Iterator[pa.RecordBatch]:
    """A file in Arrow's format, one batch at a time."""
    import pyarrow as pa

    with location.open() as stream:
        names = pa.ipc.open_file(stream).schema.names
        fields = [names.index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        reader = pa.ipc.open_file(stream, options=options)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def take_rows(location: Location, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows at these positions, in order, without their keys."""
    import numpy as np
    import pyarrow as pa

    start = 0
    for batch in read_arrow(location, *SENTENCES):
        first, last = np.searchsorted(rows, [start, start + len(batch)])
        if last - first == len(batch):
            yield batch
        elif last > first:
            yield batch.take(pa.array(rows[first:last] - start))
        start += len(batch)


class TokenCounter:
    """Counts the tokens of batches; in Arrow, since there are millions."""

    TOKENS_AT_ONCE = 1_000_000

    def __init__(self) -> None:
        self._waiting: list[pa.Array] = []
        self._tables: list[pa.Table] = []

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same batches, and count their tokens."""
        import pyarrow.compute as pc

        for batch in batches:
            self._waiting.append(pc.list_flatten(batch.column("tokens")))
            if sum(map(len, self._waiting)) >= self.TOKENS_AT_ONCE:
                self._count_waiting()
            yield batch

    def _count_waiting(self) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        counts = pc.value_counts(pa.chunked_array(self._waiting, pa.string()))
        self._tables.append(count_table(counts.field("values"), counts.field("counts")))
        self._waiting = []

    def table(self) -> pa.Table:
        """Columns word and count; each token once."""
        self._count_waiting()
        return sum_counts(self._tables)


def count_table(words: pa.Array, counts: pa.Array) -> pa.Table:
    """A table of words with their counts."""
    import pyarrow as pa

    return pa.table([words, counts], schema=schema("word", "count"))


def sum_counts(tables: Sequence[pa.Table]) -> pa.Table:
    """The sum of the counts of each word over all tables."""
    import pyarrow as pa

    joined = pa.concat_tables([schema("word", "count").empty_table(), *tables]).combine_chunks()
    summed = joined.group_by("word", use_threads=False).aggregate([("count", "sum")])
    return count_table(summed["word"], summed["count_sum"])

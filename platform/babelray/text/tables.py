"""Tables on disk, written in bounded memory and never half-visible.

What an artifact keeps is parquet. What only lives between two steps is Arrow's own format, which costs next to
nothing to write and read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from babelray.storage import Place

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ROWS = 32768
"""Rows in a row group."""
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


def write_rows(place: Place, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write rows as parquet, as they come."""
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

    write_parquet(place, batches(), columns)


def write_parquet(place: Place, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> None:
    """Write batches as parquet, in row groups of the same size however the batches are cut."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    repeated = [name for name in columns if name in ("split", "document")] + ["tokens.list.element"]
    waiting: list[pa.RecordBatch] = []
    with (
        place.writing() as path,
        pq.ParquetWriter(path, schema(*columns), compression="zstd", use_dictionary=repeated) as writer,
    ):
        for batch in batches:
            waiting.append(batch)
            if sum(map(len, waiting)) >= ROWS:
                table = pa.Table.from_batches(waiting)
                whole = len(table) // ROWS * ROWS
                writer.write_table(table.slice(0, whole), row_group_size=ROWS)
                waiting = table.slice(whole).to_batches()
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting), row_group_size=ROWS)


def read_parquet(place: Place, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A parquet file, a row group at a time."""
    import pyarrow.parquet as pq

    with place.open() as stream:
        file = pq.ParquetFile(stream)
        for number in range(file.num_row_groups):
            yield from file.read_row_group(number, columns=list(columns)).to_batches()


def read_table(place: Place, columns: Sequence[str] | None = None) -> pa.Table:
    """A whole parquet file."""
    import pyarrow.parquet as pq

    with place.open() as stream:
        return pq.ParquetFile(stream).read(columns=columns)


def write_arrow(place: Place, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> int:
    """Write batches in Arrow's format; returns the number of rows."""
    import pyarrow as pa

    rows = 0
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with place.writing() as path, pa.ipc.new_file(path, schema(*columns), options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += len(batch)
    return rows


def read_arrow(place: Place, *columns: str) -> Iterator[pa.RecordBatch]:
    """A file in Arrow's format, a batch at a time."""
    import pyarrow as pa

    with place.open() as stream:
        there = pa.ipc.open_file(stream).schema.names
        wanted = [there.index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        reader = pa.ipc.open_file(stream, options=options)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def kept_rows(place: Place, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows at these positions, in order, without their keys."""
    import numpy as np
    import pyarrow as pa

    start = 0
    for batch in read_arrow(place, *SENTENCES):
        first, last = np.searchsorted(rows, [start, start + len(batch)])
        if last - first == len(batch):
            yield batch
        elif last > first:
            yield batch.take(pa.array(rows[first:last] - start))
        start += len(batch)


class TokenCounter:
    """Counts the tokens of batches that pass through; in Arrow, since there are millions."""

    AT_ONCE = 1_000_000

    def __init__(self) -> None:
        self._waiting: list[pa.Array] = []
        self._counted: list[pa.Table] = []

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand batches on, and count their tokens on the way."""
        import pyarrow.compute as pc

        for batch in batches:
            self._waiting.append(pc.list_flatten(batch.column("tokens")))
            if sum(map(len, self._waiting)) >= self.AT_ONCE:
                self._count()
            yield batch

    def _count(self) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.value_counts(pa.chunked_array(self._waiting, pa.string()))
        self._counted.append(count_table(found.field("values"), found.field("counts")))
        self._waiting = []

    def table(self) -> pa.Table:
        """Columns word and count; each token once."""
        self._count()
        return sum_counts(self._counted)


def count_table(words: pa.Array, counts: pa.Array) -> pa.Table:
    import pyarrow as pa

    return pa.table([words, counts], schema=schema("word", "count"))


def sum_counts(tables: Sequence[pa.Table]) -> pa.Table:
    """Counts of the same words added up."""
    import pyarrow as pa

    joined = pa.concat_tables([schema("word", "count").empty_table(), *tables]).combine_chunks()
    summed = joined.group_by("word", use_threads=False).aggregate([("count", "sum")])
    return count_table(summed["word"], summed["count_sum"])

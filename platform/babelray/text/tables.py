"""Sentences, vocabularies and pairs as parquet, written in bounded memory and never half-visible."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from babelray.storage import Place

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ROWS = 8192
"""Rows in a row group."""


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


SENTENCES = ("document", "paragraph", "sentence", "text", "tokens")


def write_rows(
    place: Place, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], notes: Mapping[str, Any] | None = None
) -> int:
    """Write rows as they come; `notes` is read at the end and kept in the file. Returns how many there were."""
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        waiting: dict[str, list[Any]] = {name: [] for name in columns}
        for row in rows:
            for name in columns:
                waiting[name].append(row[name])
            if len(waiting[columns[0]]) == ROWS:
                yield pa.record_batch(list(waiting.values()), schema=schema(*columns))
                waiting = {name: [] for name in columns}
        if waiting[columns[0]]:
            yield pa.record_batch(list(waiting.values()), schema=schema(*columns))

    return write_batches(place, batches(), columns, notes)


def write_batches(
    place: Place, batches: Iterable[pa.RecordBatch], columns: Sequence[str], notes: Mapping[str, Any] | None = None
) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 0
    with place.writing() as path, pq.ParquetWriter(path, schema(*columns), compression="zstd") as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]), row_group_size=ROWS)
            count += len(batch)
        writer.add_key_value_metadata({"babelray": json.dumps(notes or {})})
    return count


def read_notes(place: Place) -> dict[str, Any]:
    """What was noted in a file."""
    import pyarrow.parquet as pq

    with place.open() as stream:
        return json.loads(pq.ParquetFile(stream).metadata.metadata[b"babelray"])


def read_batches(place: Place, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A file, a row group at a time."""
    import pyarrow.parquet as pq

    with place.open() as stream:
        file = pq.ParquetFile(stream)
        for number in range(file.num_row_groups):
            yield from file.read_row_group(number, columns=list(columns)).to_batches()


def read_table(place: Place, columns: Sequence[str] | None = None) -> pa.Table:
    """A whole file."""
    import pyarrow.parquet as pq

    with place.open() as stream:
        return pq.ParquetFile(stream).read(columns=columns)


def kept_rows(place: Place, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows at these positions, in order, without their keys."""
    import numpy as np
    import pyarrow as pa

    start = 0
    for batch in read_batches(place, SENTENCES):
        first, last = np.searchsorted(rows, [start, start + len(batch)])
        if last > first:
            yield batch.take(pa.array(rows[first:last] - start))
        start += len(batch)


def count_tokens(batches: Iterable[pa.RecordBatch], counts: Counter[str]) -> Iterator[pa.RecordBatch]:
    """Hand batches on, and count their tokens on the way."""
    import pyarrow.compute as pc

    for batch in batches:
        found = pc.value_counts(pc.list_flatten(batch.column("tokens")))
        for token, count in zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True):
            counts[token] += count
        yield batch

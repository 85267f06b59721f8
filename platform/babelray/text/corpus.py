"""Reading a corpus artifact."""

from __future__ import annotations

from collections.abc import Iterator
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
    """Sentences of a language, a few thousand at a time: document, paragraph, sentence, text, tokens."""
    for shard in shards(corpus, code):
        yield from read_parquet(shard, SENTENCES)


def read_sentences(corpus: Place, code: str) -> pa.Table:
    """All sentences of a language."""
    import pyarrow as pa

    return pa.Table.from_batches(list(iter_sentences(corpus, code)))


def read_vocabulary(corpus: Place, code: str) -> dict[str, int]:
    """Words of a language with their counts, the most frequent first."""
    table = read_table(corpus / "vocabulary" / f"{code}.parquet")
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))

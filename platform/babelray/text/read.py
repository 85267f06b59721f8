"""Files of any of the formats into paragraphs, in bounded memory for any content.

Uncompressed text is read in chunks, in parallel: a chunk begins after the first blank line at or after a multiple
of `chunk_bytes` (after the first line break, if no blank line is near), so that where chunks begin depends on
the file alone. A compressed file is one chunk.
"""

from __future__ import annotations

import json
import lzma
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from babelray.errors import DataError
from babelray.storage import Location
from babelray.text.config import TextConfig, TextSource
from babelray.text.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCK = 1 << 20
GROUP = 1000
"""Largest number of sentences of one paragraph per `Group`."""
NOT_UTF8 = "not UTF-8"
LEAST_BAD, MAX_BAD = 3, 0.05
"""So many lines that are not UTF-8, and a larger share than this, are an error."""
MAX_CODES = 0.2
"""A line of which more is control codes is not text in UTF-8."""
COMPRESSED = (".gz", ".zst", ".xz")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")


@dataclass(frozen=True)
class Chunk:
    """A part of a file. `start` and `end` are bytes, or row groups of a parquet file."""

    code: str
    source: TextSource
    file: Location
    number: int
    """The number of the file among those of the language, over all sources."""
    start: int
    end: int | None
    bytes: int
    """The approximate amount to read, for the progress bar."""


@dataclass
class Group:
    """Consecutive sentences of one paragraph, or one paragraph that is not segmented yet."""

    document: int
    paragraph: int
    texts: list[str]
    before: int = 0
    """Sentences of this paragraph that came in earlier groups."""


def source_files(source: TextSource, code: str) -> list[Location]:
    """The files of a language; an error if they are required and there are none."""
    if source.languages is not None and code not in source.languages:
        return []
    location = Location.parse(source.path.replace("{lang}", code))
    files = location.glob()
    if not files and source.required:
        if location.exists():
            raise DataError(
                f"{location} is a folder, not a file", "Name the files in it with a pattern, such as *.txt."
            )
        raise DataError(f"no file for language {code!r} at {location}", "Check the path in the recipe's `corpus.text`.")
    return files


def list_chunks(files: Mapping[str, list[tuple[TextSource, Location]]], chunk_bytes: int) -> list[Chunk]:
    """The chunks of all files, in the order in which their sentences are numbered."""
    chunks: list[Chunk] = []
    for code, sources in files.items():
        for number, (source, file) in enumerate(sources):
            if source.format == "parquet":
                chunks += _row_groups(code, source, file, number)
                continue
            size = file.size()
            single = file.name.endswith(COMPRESSED) or size <= chunk_bytes
            starts = [0] if single else range(0, size, chunk_bytes)
            for start in starts:
                end = None if single else start + chunk_bytes
                chunks.append(Chunk(code, source, file, number, start, end, size if single else chunk_bytes))
    return chunks


def _row_groups(code: str, source: TextSource, file: Location, number: int) -> list[Chunk]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.open() as stream:
            metadata = pq.ParquetFile(stream).metadata
    except pa.ArrowInvalid as error:
        raise DataError(f"{file} is not a parquet file ({error})", "Check `format` in the recipe.") from None
    names = metadata.schema.to_arrow_schema().names
    if source.field not in names:
        raise DataError(
            f"{file} has no column {source.field!r}", f"It has: {', '.join(names)}. Set `field` in the recipe."
        )
    sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    return [Chunk(code, source, file, number, i, i + 1, size) for i, size in enumerate(sizes)]


def read_groups(chunk: Chunk, config: TextConfig, counts: Tally) -> Iterator[Group]:
    """The paragraphs of a chunk, in order. Unusable lines are counted in `counts`, as read and dropped."""
    if chunk.source.format == "parquet":
        yield from _document_groups(_parquet_texts(chunk), chunk, counts)
    elif chunk.source.format == "jsonl":
        yield from _document_groups(_json_texts(_text_lines(chunk, config, counts), chunk, counts), chunk, counts)
    else:
        yield from _plain_groups(_text_lines(chunk, config, counts), chunk)


def _plain_groups(lines: Iterator[tuple[int, str]], chunk: Chunk) -> Iterator[Group]:
    """Lines of text: blank ones end a document, or a paragraph if every line is a sentence."""
    sentences = chunk.source.format == "sentences"
    group: Group | None = None
    paragraph = 0
    document: int | None = None
    for offset, line in lines:
        if not line:
            if group:
                yield group
            group = None
            document, paragraph = (document, paragraph + 1) if sentences else (None, 0)
            continue
        if document is None:
            document = (chunk.number << 40) | offset
        if not sentences:
            yield Group(document, paragraph, [line])
            paragraph += 1
            continue
        if group and len(group.texts) == GROUP:
            yield group
            group = Group(document, paragraph, [], group.before + GROUP)
        group = group or Group(document, paragraph, [])
        group.texts.append(line)
    if group:
        yield group


def _document_groups(texts: Iterator[tuple[int, str]], chunk: Chunk, counts: Tally) -> Iterator[Group]:
    """Whole documents: a line break separates paragraphs."""
    for offset, text in texts:
        document = (chunk.number << 40) | offset
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can contain
            _drop(counts, NOT_UTF8, text)
            continue
        for number, line in enumerate(line for line in map(tidy, text.splitlines()) if line):
            yield Group(document, number, [line])


def _json_texts(lines: Iterator[tuple[int, str]], chunk: Chunk, counts: Tally) -> Iterator[tuple[int, str]]:
    for offset, line in lines:
        if not line:
            continue
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            _drop(counts, "not JSON", line)
            continue
        text = value.get(chunk.source.field) if isinstance(value, dict) else None
        if isinstance(text, str):
            yield offset, text
        else:
            _drop(counts, f"no field {chunk.source.field!r}", line)


def _parquet_texts(chunk: Chunk) -> Iterator[tuple[int, str]]:
    import pyarrow.parquet as pq

    with chunk.file.open() as stream:
        file = pq.ParquetFile(stream)
        before = sum(file.metadata.row_group(i).num_rows for i in range(chunk.start))
        batches = file.iter_batches(256, row_groups=[chunk.start], columns=[chunk.source.field])
        texts = (text for batch in batches for text in batch.column(0).to_pylist())
        for row, text in enumerate(texts, start=before):
            if isinstance(text, str):
                yield row, text


def _text_lines(chunk: Chunk, config: TextConfig, counts: Tally) -> Iterator[tuple[int, str]]:
    """The lines of a chunk as text, with their offsets; blank ones as empty strings."""
    column = chunk.source.column
    for offset, line in _raw_lines(chunk, config, counts):
        if line is None:
            _drop(counts, "line too long", "")
            continue
        text = _decode(line)
        if text is None:
            _drop(counts, NOT_UTF8, f"{chunk.file.name}: {line[:200].decode('utf-8', 'replace')}")
            continue
        if column is not None and text.strip():
            columns = text.split("\t")
            if len(columns) <= column:
                _drop(counts, "column missing", text)
                continue
            text = columns[column]
        yield offset, text.strip() if chunk.source.format == "jsonl" else tidy(text)


def _decode(line: bytes) -> str | None:
    """A line as text, without its end; None if it is not UTF-8, as which UTF-16 may pass but for its zeros."""
    try:
        text = line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        return None
    if text.isprintable():
        return text
    return None if len(_CODES.findall(text)) > MAX_CODES * len(text) else text


def check_encoding(chunk: Chunk, counts: Tally) -> None:
    """Raise an error if many lines of a chunk are not UTF-8: they would be lost, and those with accents first."""
    bad = counts[f"dropped: {NOT_UTF8}"]
    if bad >= LEAST_BAD and bad > MAX_BAD * counts["read"]:
        example = counts.examples[f"dropped: {NOT_UTF8}"].removeprefix(f"{chunk.file.name}: ")
        encoding = "UTF-16" if _CODES.search(example) else "the file's encoding, such as LATIN1 or CP1252,"
        raise DataError(
            f"{chunk.file} is not UTF-8: {bad:,} of {counts['read']:,} lines or sentences, such as {example!r}",
            f"Convert it from {encoding} to UTF-8: iconv -f ENCODING -t UTF-8.",
        )


def _raw_lines(chunk: Chunk, config: TextConfig, counts: Tally) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a chunk as bytes; a file that is damaged in the middle is an error, or counted."""
    with chunk.file.open() as raw:
        size = chunk.file.size()
        by_line = chunk.source.format == "jsonl"
        start = find_boundary(raw, chunk.start, size, config.chunk_bytes, by_line)
        end = None if chunk.end is None else find_boundary(raw, chunk.end, size, config.chunk_bytes, by_line)
        raw.seek(start)
        try:
            yield from read_bounded_lines(_decompress(raw, chunk.file.name), start, end, config.cleaning.max_line_bytes)
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            if not _is_damage(error):
                raise
            if config.bad_files == "error":
                problem = f"{chunk.file} is damaged or cut off ({error})"
                raise DataError(problem, "Get the file again, or set corpus.bad_files to report.") from error
            counts["damaged files"] += 1


def _is_damage(error: Exception) -> bool:
    """Whether the error comes from the decompressor, not from the disk or the network."""
    return not isinstance(error, OSError) or (error.errno is None and "AWS Error" not in str(error))


def _drop(counts: Tally, reason: str, example: str) -> None:
    counts["read"] += 1
    counts.drop(reason, example)


def _decompress(raw: BinaryIO, name: str) -> Any:
    import gzip

    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=raw)
    if name.endswith(".xz"):
        return lzma.LZMAFile(raw)
    if name.endswith(".zst"):
        import pyarrow as pa

        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    return raw


def find_boundary(file: BinaryIO, position: int, size: int, window: int, by_line: bool) -> int:
    """The first byte of the chunk that should begin at a position."""
    if position <= 0 or position >= size:
        return max(0, min(position, size))
    file.seek(position - 1)
    if not by_line:
        match = _BLANK_LINE.search(file.read(window))
        if match:
            return position - 1 + match.end()
        file.seek(position - 1)
    offset = position - 1
    while block := file.read(BLOCK):
        line_feed = block.find(b"\n")
        if line_feed >= 0:
            return offset + line_feed + 1
        offset += len(block)
    return size


def read_bounded_lines(stream: Any, start: int, end: int | None, limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Lines with their offsets, ended by LF, CR LF or CR; None for a line of more than `limit` bytes.

    Memory holds at most one line and one block. A line belongs to the chunk in which it starts.
    """
    offset, rest, skipping = start, b"", False
    position = start
    while end is None or position < end:
        block = stream.read(BLOCK if end is None else min(BLOCK, end - position))
        if not block:
            break
        if block.endswith(b"\r"):
            block += stream.read(1)  # the LF of a CR LF
        position += len(block)
        pieces = (rest + block).splitlines(keepends=True)
        rest = b"" if pieces[-1].endswith((b"\n", b"\r")) else pieces.pop()
        for piece in pieces:
            if not skipping:
                yield offset, piece if len(piece) <= limit + 2 else None
            skipping = False
            offset += len(piece)
        if len(rest) > limit:
            if not skipping:
                yield offset, None
            offset += len(rest)
            rest, skipping = b"", True
    if rest and not skipping:
        yield offset, rest


_CODES = re.compile("[\x00-\x08\x0e-\x1f]")
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_INVISIBLE = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff]")


def tidy(text: str) -> str:
    r"""NFC; control characters become spaces, direction marks and byte-order marks are deleted, and outer space too.

    >>> tidy("\ufeffcafe\u0301\x00 \u200fشاي\r\n")
    'café  شاي'
    """
    import unicodedata

    if not text.isprintable():  # the line break is stripped already: few lines have anything to delete
        text = _INVISIBLE.sub("", _CONTROL.sub(" ", text))
    text = text.strip()
    return text if text.isascii() else unicodedata.normalize("NFC", text)

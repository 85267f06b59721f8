"""Word vectors in the formats of the field: text (`.vec`, `.txt`) and word2vec's binary (`.bin`), each also as `.gz`.

Text has one line per word: the word, then its values, separated by single spaces. word2vec and fastText begin with a
line "words dimension"; GloVe does not. Binary is that line, then for each word its bytes, a space and the values as
little-endian float32, with or without a line feed after them.

Only the space and the line feed are separators: U+00A0, U+3000, U+0085 or U+2028 may be part of a word.
"""

from __future__ import annotations

import contextlib
import gzip
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch

from babelray.errors import DataError
from babelray.storage import AnyPath, Location
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Rows = tuple[list[bytes], NDArray[np.float32]]
    """Words and their vectors, as in the file."""

ENDINGS = (".vec", ".txt", ".bin")
BLOCK = 1 << 18
"""Bytes that are read at once: few enough that all intermediate arrays stay in the processor's cache."""
LONGEST_LINE, LONGEST_WORD, LARGEST_DIMENSION = 1 << 26, 1 << 16, 1 << 20
"""Larger values indicate another kind of file, which would fill the memory."""
MAX_NOT_UTF8 = 0.01
"""A larger share of words that are not UTF-8 is an error; fastText's own files have a few."""


@dataclass
class Omissions:
    """The words of a file that are left out."""

    read: int = 0
    """Words that were read, left out or not."""
    not_utf8: int = 0
    first_not_utf8: str = ""
    """Its number and its bytes."""
    repeated: int = 0
    """Words that occurred before."""
    first_repeated: str = ""
    empty: int = 0

    def add(self, raw: Sequence[bytes], words: Sequence[str], first: Iterable[int]) -> None:
        """Count words, of which those at the positions `first` are not left out."""
        for position in sorted({*range(len(words))}.difference(first)):
            if words[position]:
                self.first_repeated = self.first_repeated or words[position]
                self.repeated += 1
            elif raw[position]:
                text = raw[position].decode(errors="backslashreplace")
                self.first_not_utf8 = self.first_not_utf8 or f"word {self.read + position + 1:,}, '{text}'"
                self.not_utf8 += 1
            else:
                self.empty += 1
        self.read += len(words)

    def check_encoding(self, file: str) -> None:
        """Raise an error if many words are not UTF-8: those with accents would be lost."""
        if self.not_utf8 > MAX_NOT_UTF8 * self.read:
            problem = f"{file} is not UTF-8: {self.not_utf8:,} of {self.read:,} words (first: {self.first_not_utf8})"
            raise DataError(problem, "Convert it to UTF-8: iconv -f ENCODING -t UTF-8, such as LATIN1.")

    def __str__(self) -> str:
        kinds = {
            f"not UTF-8: {self.not_utf8:,}, first {self.first_not_utf8}": self.not_utf8,
            f"repeated: {self.repeated:,}, first {self.first_repeated!r}": self.repeated,
            f"empty: {self.empty:,}": self.empty,
        }
        total = self.not_utf8 + self.repeated + self.empty
        parts = "; ".join(kind for kind, count in kinds.items() if count)
        return f"{total:,} of {self.read:,} words are left out ({parts})" if total else ""


def read_vectors(location: AnyPath, limit: int | None = None) -> WordVectors:
    """Read the first `limit` words of a file, or all; the format follows from the ending of its name.

    These formats have no counts but are sorted by them, so the counts are set to N, N-1, … 1 for N words. If a word
    occurs twice, its first vector is used. Words that are empty or not UTF-8 are left out. A warning states how many
    words are left out; many that are not UTF-8 are an error.
    """
    location = Location.parse(location)
    binary, compressed = _kind(location)
    with location.open() as raw, _explain_damage(location):
        stream: Any = gzip.GzipFile(fileobj=raw) if compressed else raw
        blocks = _binary_blocks(stream, location) if binary else _text_blocks(stream, location)
        words, matrix, omissions = _collect(blocks, limit)
    omissions.check_encoding(str(location))
    if not words:
        raise DataError(f"{location} holds no words", "Check that it is a file of word vectors.")
    if str(omissions):
        warnings.warn(f"{location}: {omissions}", stacklevel=4)  # the line that calls `load_vectors`
    return WordVectors(words, torch.from_numpy(matrix), list(range(len(words), 0, -1)))


def write_vectors(vectors: WordVectors, location: AnyPath) -> None:
    """Write a file that begins with "words dimension"; the format follows from the ending of its name.

    In text a value has as many digits as are needed to read the same float32 again. A space inside a word becomes an
    underscore, as word2vec writes its phrases (`new_york`). Counts are not written.
    """
    location = Location.parse(location)
    binary, compressed = _kind(location)
    words = _encode(vectors.words)
    step = max(1, BLOCK // vectors.dimension)
    with location.writing() as file, _open_for_writing(file, compressed) as stream:
        stream.write(b"%d %d\n" % (len(words), vectors.dimension))
        for start in range(0, len(words), step):
            rows_ND = vectors.matrix[start : start + step].detach().cpu().float().contiguous().numpy()
            _check_finite(words[start:], rows_ND, location)
            stream.write((_binary_bytes if binary else _text_bytes)(words[start : start + step], rows_ND))


def _kind(location: Location) -> tuple[bool, bool]:
    """Whether a file is binary, and whether it is compressed."""
    name = location.name.removesuffix(".gz")
    if not name.endswith(ENDINGS):
        endings = ", ".join(ENDINGS)
        raise DataError(
            f"{location}: the format does not follow from the name", f"End it in {endings}, or one of them and .gz."
        )
    return name.endswith(".bin"), name != location.name


@contextlib.contextmanager
def _explain_damage(location: Location) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{location} is damaged or cut off ({error})", "Download the file again.") from error


@contextlib.contextmanager
def _open_for_writing(file: Path, compressed: bool) -> Iterator[IO[bytes] | gzip.GzipFile]:
    with file.open("wb") as raw:
        if not compressed:
            yield raw
            return
        # Level 4 takes a third of the time of level 6, for 5 % more bytes. Without a name and a time in it, the same
        # vectors give the same file.
        with gzip.GzipFile("", "wb", 4, raw, mtime=0) as stream:
            yield stream


def _collect(blocks: Iterable[Rows], limit: int | None) -> tuple[list[str], NDArray[np.float32], Omissions]:
    """The words and vectors of all blocks, each word once, up to the limit; and what is left out."""
    words: list[str] = []
    omissions = Omissions()
    seen = {""}
    matrix = np.empty((0, 0), np.float32)
    for raw, rows in blocks:
        block_words = _decode(raw)
        new, done = set(block_words), len(words)
        if len(new) < len(block_words) or not seen.isdisjoint(new):
            first = {word: i for i, word in reversed(list(enumerate(block_words))) if word not in seen}
            positions = sorted(first.values())
            reaches_limit = limit is not None and len(positions) >= limit - done
            positions = positions[: limit - done] if limit is not None else positions
            end = positions[-1] + 1 if reaches_limit else len(block_words)
            omissions.add(raw[:end], block_words[:end], positions)
            block_words, rows = [block_words[i] for i in positions], rows[positions]
        else:
            omissions.read += len(block_words)
        words += block_words if limit is None else block_words[: limit - done]
        seen |= new
        if len(words) > len(matrix):  # one eighth of spare room: few copies, little unused memory
            matrix.resize((max(len(words), len(matrix) * 9 // 8), rows.shape[1]), refcheck=False)
        matrix[done : len(words)] = rows[: len(words) - done]
        if len(words) == limit:
            break
    matrix.resize((len(words), matrix.shape[1]), refcheck=False)
    return words, matrix, omissions


def _decode(words: list[bytes]) -> list[str]:
    """The words as text; those that are not UTF-8 become empty."""
    try:
        return b"\n".join(words).decode().split("\n")
    except UnicodeDecodeError:
        texts = [word.decode(errors="replace") for word in words]
        return [text if text.encode() == word else "" for text, word in zip(texts, words, strict=True)]


def _encode(words: list[str]) -> list[bytes]:
    """The words as bytes for writing; an error if one cannot be written."""
    for word in words:
        if not word or "\n" in word:
            raise DataError(f"the word {word!r} cannot be written", "It must not be empty or hold a line break.")
    try:
        return "\n".join(words).replace(" ", "_").encode().split(b"\n") if words else []
    except UnicodeEncodeError as error:
        raise DataError(f"a word cannot be written as UTF-8 ({error})") from error


def _header(line: bytes, location: Location) -> tuple[int, int] | None:
    """The number of words and the dimension, if the line is a header."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    words, dimension = map(int, fields)
    if not 0 < dimension <= LARGEST_DIMENSION:
        raise DataError(f"{location}, line 1: {dimension} cannot be the dimension", "Line 1 is `words dimension`.")
    return words, dimension


def _check_word_count(expected: int, count: int, location: Location) -> None:
    if count != expected:
        problem = f"{location} announces {expected:,} words in line 1, but has {count:,}"
        raise DataError(problem, "It is cut off or damaged: download it again.")


def _check_finite(words: Sequence[bytes], rows_ND: NDArray[np.float32], location: Location) -> None:
    if not np.isfinite(rows_ND).all():
        word = words[int(np.isfinite(rows_ND).all(1).argmin())].decode(errors="replace")
        raise DataError(f"{location}: the vector of {word!r} has a value that is not finite")


def _binary_blocks(stream: IO[bytes], location: Location) -> Iterator[Rows]:
    header = _header(stream.readline(LONGEST_WORD), location)
    if header is None:
        raise DataError(
            f"{location} does not begin with the number of words and the dimension",
            "It is not word2vec's binary format. If it is a model of fastText, use the .vec file beside it.",
        )
    expected, dimension = header
    size = 4 * dimension
    count, rest = 0, b""
    while count < expected and (data := stream.read(4 * BLOCK)):
        data = rest + data
        view = memoryview(data)
        words: list[bytes] = []
        values: list[memoryview] = []
        at = 0
        while count + len(words) < expected and at <= (space := data.find(b" ", at)) < len(data) - size:
            words.append(data[at:space].lstrip(b"\n"))
            values.append(view[space + 1 : space + 1 + size])
            at = space + 1 + size
        rest = data[at:]
        if len(rest) > size + LONGEST_WORD:
            raise DataError(f"{location}: no end of word {count + len(words) + 1:,}", "It is damaged.")
        if words:
            rows_ND = np.frombuffer(b"".join(values), "<f4").reshape(-1, dimension)
            _check_finite(words, rows_ND, location)
            count += len(words)
            yield words, rows_ND
    _check_word_count(expected, count, location)


def _binary_bytes(words: list[bytes], rows_ND: NDArray[np.float32]) -> bytes:
    values = rows_ND.astype("<f4", copy=False)
    return b"".join([part for i, word in enumerate(words) for part in (word, b" ", values[i].tobytes())])


def _text_bytes(words: list[bytes], rows_ND: NDArray[np.float32]) -> bytes:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pc.cast(pa.array(rows_ND.reshape(-1)), pa.string())
    offsets = np.arange(0, rows_ND.size + 1, rows_ND.shape[1], dtype=np.int32)
    lines = pc.cast(pc.binary_join(pa.ListArray.from_arrays(offsets, values), " "), pa.binary())
    return b"".join([b"%b %b\n" % pair for pair in zip(words, lines.to_pylist(), strict=True)])


def _text_blocks(stream: IO[bytes], location: Location) -> Iterator[Rows]:
    header = None
    dimension, count, line = 0, 0, 1
    for block in _line_blocks(stream, location):
        if line == 1:
            first, _, after = block.partition(b"\n")
            header = _header(first, location)
            dimension = header[1] if header else first.rstrip(b" ").count(b" ")
            if not dimension:
                raise DataError(
                    f"{location}, line 1: no values", "A line has a word and its values, separated by spaces."
                )
            if header:
                block, line = after, 2
        rows = _parse_block(block, dimension)
        lines = len(rows[0]) if rows else block.count(b"\n")
        rows = rows or _parse_lines(block, dimension, location, line)
        count, line = count + len(rows[0]), line + lines
        if rows[0]:
            yield rows
    if header:
        _check_word_count(header[0], count, location)


def _line_blocks(stream: IO[bytes], location: Location) -> Iterator[bytes]:
    """Blocks of complete lines, each ended by a line feed alone."""
    rest = b""
    while data := stream.read(BLOCK):
        end = data.rfind(b"\n") + 1
        if end:
            block = rest + data[:end]
            yield block.replace(b"\r\n", b"\n") if b"\r" in block else block
        rest = data[end:] if end else rest + data
        if len(rest) > LONGEST_LINE:
            raise DataError(
                f"{location} has a line of more than {LONGEST_LINE:,} bytes", "It is not a text of vectors."
            )
    if rest:
        yield rest.removesuffix(b"\r") + b"\n"


def _parse_block(block: bytes, dimension: int) -> Rows | None:
    """Words and vectors of several lines at once; None if the lines do not all have the usual form."""
    text = np.frombuffer(block, np.uint8)
    line_feeds = text == ord("\n")
    separators = text == ord(" ")
    separators |= line_feeds
    flat = np.flatnonzero(separators)
    columns = int(np.searchsorted(flat, block.find(b"\n"))) + 1
    if columns not in (dimension + 1, dimension + 2) or len(flat) % columns:
        return None
    ends = flat.reshape(-1, columns)
    last = ends[:, -1]
    if not line_feeds[last].all() or np.count_nonzero(line_feeds) != len(ends):
        return None
    if columns == dimension + 2 and (last - ends[:, -2] > 1).any():  # fastText ends its lines with a space
        return None
    rows_ND = _parse_values(block, ends[:, :dimension] + 1, ends[:, 1 : dimension + 1])
    if rows_ND is None:
        return None
    begins = [0, *(last[:-1] + 1).tolist()]
    return [block[begin:end] for begin, end in zip(begins, ends[:, 0].tolist(), strict=True)], rows_ND


def _parse_values(block: bytes, starts_ND: NDArray[np.int64], ends_ND: NDArray[np.int64]) -> NDArray[np.float32] | None:
    """The values at these positions; None if one is not a finite number, or too many have an unusual form.

    Eight characters are the eight bytes of one integer, so that one operation on an array processes eight characters
    of every value. Without its sign a value is read as d.dddddd and, if it is longer, eight more digits. Values of
    another form (12.5, 1e-05) are parsed one by one. This is faster than the parsers of all dependencies.
    """
    negative_ND = np.frombuffer(block, np.uint8)[starts_ND] == ord("-")
    starts_ND += negative_ND
    rows_ND, wrong_ND = _parse_digits(block + bytes(16), starts_ND, ends_ND - starts_ND)
    signs_ND = rows_ND.view(np.uint32)
    signs_ND |= negative_ND.astype(np.uint32) << np.uint32(31)
    if not np.bitwise_or.reduce(wrong_ND, axis=None) & _HIGH_BITS:
        return rows_ND
    unusual_ND = (wrong_ND & _HIGH_BITS) != 0
    if unusual_ND.sum() * 20 > unusual_ND.size:
        return None
    spans = zip((starts_ND - negative_ND)[unusual_ND].tolist(), ends_ND[unusual_ND].tolist(), strict=True)
    try:
        values = [float(block[start:end]) for start, end in spans]
    except ValueError:
        return None
    with np.errstate(over="ignore"):
        rows_ND[unusual_ND] = values
    return rows_ND if np.isfinite(rows_ND[unusual_ND]).all() else None


def _parse_digits(
    block: bytes, starts_ND: NDArray[np.int64], lengths_ND: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.uint64]]:
    """The values without their signs, and integers whose high bits mark those of an unusual form."""
    longest = int(lengths_ND.max())
    eights = np.ndarray(len(block) - 7, "<u8", block, 0, 1)
    first_ND = eights[starts_ND]
    first_ND ^= _FIRST
    first_ND &= _MASK_OF_FIRST.take(lengths_ND, mode="clip")
    wrong_ND = first_ND + _FIRST_UP
    wrong_ND |= first_ND
    if first_ND.view(np.uint8)[:, ::8].any():  # move the digit before the point to the position of the point
        first_ND += (first_ND & _LOW_BYTE) * _LOW_BYTE
    _join_digits(first_ND)
    if longest <= 8:
        rows_ND = first_ND.view(np.int64).astype(np.float32)  # exact, since there are seven digits
        rows_ND /= np.float32(1e6)
    else:
        second_ND = eights[starts_ND + 8]
        second_ND ^= _SECOND
        second_ND &= _MASK_OF_SECOND.take(lengths_ND, mode="clip")
        wrong_ND |= second_ND + _SECOND_UP
        wrong_ND |= second_ND
        _join_digits(second_ND)
        first_ND *= np.uint64(10**8)
        first_ND += second_ND
        rows_ND = (first_ND.view(np.int64) / 1e14).astype(np.float32)
    if longest > 16:
        wrong_ND[lengths_ND > 16] = _HIGH_BITS
    return rows_ND, wrong_ND


def _eight(characters: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(characters, "little"))


def _mask(length: int) -> np.uint64:
    return _eight(b"\xff" * max(0, min(length, 8)))


# After XOR with its pattern a digit is 0 to 9 and the point 0; other characters set the high bit of their byte when the
# second constant is added. Lengths below 1 have a full mask, so that they are recognised as wrong.
_FIRST, _FIRST_UP = _eight(b"0.000000"), _eight(b"\x76\x7f" + 6 * b"\x76")
_SECOND, _SECOND_UP = _eight(b"00000000"), _eight(8 * b"\x76")
_HIGH_BITS, _LOW_BYTE = _eight(8 * b"\x80"), np.uint64(255)
_MASK_OF_FIRST = np.array([_mask(8), *(_mask(length) for length in range(1, 17))])
_MASK_OF_SECOND = np.array([_mask(length - 8) for length in range(17)])


def _join_digits(eights_ND: NDArray[np.uint64]) -> None:
    """Combine eight digits, the first of which is in the lowest byte, into one number: pairs, fours, then all."""
    for bits, base, mask in (
        (8, 10, 0x00FF00FF00FF00FF),
        (16, 100, 0x0000FFFF0000FFFF),
        (32, 10000, 0x00000000FFFFFFFF),
    ):
        eights_ND *= np.uint64((base << bits) + 1)
        eights_ND >>= np.uint64(bits)
        eights_ND &= np.uint64(mask)


def _parse_lines(block: bytes, dimension: int, location: Location, line: int) -> Rows:
    """Words and vectors of some lines, one after the other; `line` is the number of the first.

    A word may contain spaces, as some of GloVe's do, unless the part before the values is a number too.
    """
    words: list[bytes] = []
    rows_ND = np.empty((block.count(b"\n"), dimension), np.float32)
    for number, text in enumerate(block.split(b"\n")[:-1], start=line):
        if not text.strip(b" "):
            continue
        word, *fields = text.rstrip(b" ").rsplit(b" ", dimension)
        if len(fields) < dimension or _is_number(word.rpartition(b" ")[2] if b" " in word else b""):
            values = text.rstrip(b" ").count(b" ")
            raise DataError(f"{location}, line {number}: {values} values instead of {dimension}", "It is damaged.")
        try:
            with np.errstate(over="ignore"):
                rows_ND[len(words)] = [float(field) for field in fields]
        except ValueError:
            wrong = next(field for field in fields if not _is_number(field)).decode(errors="replace")
            raise DataError(f"{location}, line {number}: {wrong!r} is not a number") from None
        if not np.isfinite(rows_ND[len(words)]).all():
            raise DataError(f"{location}, line {number}: a value is not finite")
        words.append(word)
    return words, rows_ND[: len(words)]


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True

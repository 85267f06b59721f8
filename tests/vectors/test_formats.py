import gzip
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from babelray.errors import DataError, StorageError
from babelray.storage import Location
from babelray.vectors import formats
from babelray.vectors.formats import read_vectors, write_vectors
from babelray.vectors.word_vectors import WordVectors

ODD_WORDS = [
    '"', "'", ",", ";", "#", "\\", "NA", "nan", "null", "None", "inf", "1", "-0.5", "1e5", "0x10", ".", "-", "\r", "\t",
    "\u00a0", "\u3000", "\u0085", "\u2028", "\u2029", "\x0b", "\x1c", "\x00", "\ufeff", "a\u00a0b", "猫", "ß", "𝔘",
]  # fmt: skip
words = st.sampled_from(ODD_WORDS) | st.text(st.characters(exclude_characters="\n ", codec="utf-8"), min_size=1)
values = (
    st.floats(width=32, allow_nan=False, allow_infinity=False)
    | st.floats(-1, 1, width=32)
    | st.integers(-99999, 99999).map(lambda n: float(np.float32(n / 1e4)))
)


@st.composite
def some_vectors(draw: st.DrawFn) -> WordVectors:
    chosen = draw(st.lists(words, min_size=1, max_size=12, unique=True))
    dimension = draw(st.integers(1, 5))
    row = st.lists(values, min_size=dimension, max_size=dimension)
    matrix = torch.tensor([draw(row) for _ in chosen], dtype=torch.float32)
    return WordVectors(chosen, matrix, list(range(len(chosen), 0, -1)))


def place_of(folder: Path, name: str, content: bytes) -> Location:
    (folder / name).write_bytes(content)
    return Location.parse(folder / name)


def bits(matrix: torch.Tensor) -> torch.Tensor:
    """So that 0 and -0 differ."""
    return matrix.contiguous().view(torch.int32)


@pytest.mark.parametrize("name", ["v.vec", "v.vec.gz", "v.txt", "v.bin", "v.bin.gz"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some_vectors(), st.sampled_from([16, 1 << 18]))
def test_what_is_written_is_read_again(name: str, tmp_path: Path, vectors: WordVectors, block: int) -> None:
    location = Location.parse(tmp_path / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "BLOCK", block)
        write_vectors(vectors, location)
        again = read_vectors(location)
    assert again.words == vectors.words and again.counts == vectors.counts
    assert torch.equal(bits(again.matrix), bits(vectors.matrix))


number = st.one_of(
    st.floats(-20, 20).map(lambda x: f"{x:.4f}"),
    st.floats(-1, 1).map(lambda x: f"{x:.5g}"),
    st.floats(-1, 1).map(lambda x: f"{x:.15f}"),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["0", "-0", "1", "7.", ".5", "-.5", "+0.5", "1e-05", "1E5", "12", "9.9999999"]),
    st.just("0.00000000000000000000001"),
)  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.integers(2, 5), st.integers(1, 40), st.sampled_from([" \n", "\n", "\r\n", " \r\n"]))
def test_numbers_are_read_as_python_reads_them(
    tmp_path: Path, data: st.DataObject, dimension: int, usual: int, end: str
) -> None:
    """The odd ones among enough usual ones that both ways of parsing are taken."""
    rows = data.draw(st.lists(st.lists(number, min_size=dimension, max_size=dimension), min_size=1, max_size=5))
    rows += [["0.1234", *["-0.5678"] * (dimension - 1)]] * usual
    content = "".join(f"w{i} {' '.join(row)}{end}" for i, row in enumerate(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = read_vectors(place_of(tmp_path, "v.vec", content.encode())).matrix.numpy()
    expected = np.array([[float(cell) for cell in row] for row in rows]).astype(np.float32)
    assert np.array_equal(matrix.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("digits", [".4f", ".6f", ".9g", ".14f", ".16f"])
def test_usual_text_is_parsed_at_once(tmp_path: Path, digits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As fastText and word2vec print it, with some values that are parsed alone."""
    generator = np.random.default_rng(0)
    rows = [[format(x, digits) for x in row] for row in generator.normal(0, 0.5, (300, 50))]
    for i in range(20):
        rows[i * 7][i] = ["1e-05", "-12.5", "0", "-3", "+0.5"][i % 5]
    if digits != ".16f":
        monkeypatch.setattr(formats, "_parse_lines", None)
    content = "".join(f"w{i} {' '.join(row)} \n" for i, row in enumerate(rows))
    matrix = read_vectors(place_of(tmp_path, "v.vec", content.encode())).matrix.numpy()
    assert np.array_equal(matrix, np.array([[float(cell) for cell in row] for row in rows]).astype(np.float32))


@pytest.mark.parametrize("header", [b"", b"2 3\n"])
@pytest.mark.parametrize("end", [b"\n", b" \n", b"\r\n", b" \r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_text_as_others_write_it(tmp_path: Path, header: bytes, end: bytes, last: bool) -> None:
    """word2vec, fastText and GloVe; with or without a line end after the last line."""
    content = header.replace(b"\n", end) + end.join([b"the 0.1 -0.25 3", b'" 1e-05 .5 -12.75']) + (end if last else b"")
    vectors = read_vectors(place_of(tmp_path, "v.vec", content))
    assert vectors.words == ["the", '"'] and vectors.counts == [2, 1]
    assert vectors.matrix.tolist() == torch.tensor([[0.1, -0.25, 3], [1e-5, 0.5, -12.75]]).tolist()


def test_the_bytes_of_text(tmp_path: Path) -> None:
    vectors = WordVectors(["new york", "\u00a0"], torch.tensor([[0.1, -2, 1e-10], [0, 0.5, 16777216]]), [7, 3])
    write_vectors(vectors, Location.parse(tmp_path / "v.vec"))
    assert (tmp_path / "v.vec").read_bytes() == "2 3\nnew_york 0.1 -2 1e-10\n\u00a0 0 0.5 16777216\n".encode()


def test_the_bytes_of_binary(tmp_path: Path) -> None:
    vectors = WordVectors(["new york", "猫"], torch.tensor([[0.1, -2], [0, 0.5]]), [7, 3])
    write_vectors(vectors, Location.parse(tmp_path / "v.bin"))
    expected = b"2 2\nnew_york " + struct.pack("<2f", 0.1, -2) + "猫 ".encode() + struct.pack("<2f", 0, 0.5)
    assert (tmp_path / "v.bin").read_bytes() == expected
    lines = b"2 2\nnew_york " + struct.pack("<2f", 0.1, -2) + "\n猫 ".encode() + struct.pack("<2f", 0, 0.5) + b"\n"
    again = read_vectors(place_of(tmp_path, "lines.bin", lines))
    assert again.words == ["new_york", "猫"] and torch.equal(again.matrix, vectors.matrix)


def test_binary_in_small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "BLOCK", 1)
    vectors = WordVectors(["a", "longer", "猫" * 9], torch.randn(3, 7), [3, 2, 1])
    write_vectors(vectors, Location.parse(tmp_path / "v.bin"))
    again = read_vectors(Location.parse(tmp_path / "v.bin"))
    assert again.words == vectors.words and torch.equal(again.matrix, vectors.matrix)


def test_the_same_vectors_give_the_same_compressed_file(tmp_path: Path) -> None:
    vectors = WordVectors(["a"], torch.ones(1, 2), [1])
    for name in ("1.vec.gz", "2.vec.gz"):
        write_vectors(vectors, Location.parse(tmp_path / name))
    assert (tmp_path / "1.vec.gz").read_bytes() == (tmp_path / "2.vec.gz").read_bytes()
    assert gzip.decompress((tmp_path / "1.vec.gz").read_bytes()) == b"1 2\na 1 1\n"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_types_are_written_as_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    matrix = torch.randn(4, 3).to(dtype)
    for name in ("v.vec", "v.bin"):
        write_vectors(WordVectors(list("abcd"), matrix.T.contiguous().T, [1] * 4), Location.parse(tmp_path / name))
        assert torch.equal(read_vectors(Location.parse(tmp_path / name)).matrix, matrix.float())


@pytest.mark.parametrize("block", [4, 1 << 18])
def test_a_word_counts_once_and_omissions_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(formats, "BLOCK", block)
    monkeypatch.setattr(formats, "MAX_NOT_UTF8", 0.5)
    text = place_of(tmp_path, "v.vec", b"6 1\na 1\nb 2\na 3\n\xff\xfe 4\n 5\nb 6\n")
    raw = [(b"a", 1), (b"b", 2), (b"a", 3), (b"\xff\xfe", 4), (b"", 5), (b"b", 6)]
    binary = place_of(tmp_path, "v.bin", b"6 1\n" + b"".join(w + b" " + struct.pack("<f", x) for w, x in raw))
    for location in (text, binary):
        with pytest.warns(UserWarning, match="4 of 6 words are left out") as caught:
            vectors = read_vectors(location)
        assert r"(not UTF-8: 1, first word 4, '\xff\xfe'; repeated: 2, first 'a'; empty: 1)" in str(caught[0].message)
        assert vectors.words == ["a", "b"] and vectors.counts == [2, 1] and vectors.matrix.tolist() == [[1], [2]]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what comes after the limit is not read
            assert read_vectors(location, limit=2).words == ["a", "b"]


@pytest.mark.parametrize("name", ["v.vec", "v.vec.gz", "v.bin"])
def test_many_words_that_are_not_utf8_are_an_error(tmp_path: Path, name: str) -> None:
    """In Latin-1, "für" and "fär" are both no text: they must not be lost as repetitions of one word."""
    usual = [f"w{i}" for i in range(197)]
    for broken, fails in ((["für", "fär", "föhn"], True), (["für"], False)):
        plain = WordVectors([*usual, *broken], torch.ones(197 + len(broken), 2), [1] * (197 + len(broken)))
        file = tmp_path / name.removesuffix(".gz")
        write_vectors(plain, Location.parse(file))
        content = file.read_bytes()
        for word in broken:
            content = content.replace(word.encode(), word.encode("latin1"))
        file.write_bytes(content)
        if name.endswith(".gz"):
            (tmp_path / name).write_bytes(gzip.compress(content))
        if fails:
            problem = r"is not UTF-8: 3 of 200 words \(first: word 198, 'f\\xfcr'\)\n.*iconv"
            with pytest.raises(DataError, match=problem):
                read_vectors(Location.parse(tmp_path / name))
        else:
            with pytest.warns(UserWarning, match="1 of 198 words are left out"):
                assert read_vectors(Location.parse(tmp_path / name)).words == usual


def test_words_with_spaces_as_in_glove(tmp_path: Path) -> None:
    vectors = read_vectors(place_of(tmp_path, "v.txt", b"the 0.1 0.2\n. . 0.3 0.4\nat name@domain.com 0.5 0.6\n\n"))
    assert vectors.words == ["the", ". .", "at name@domain.com"]
    assert torch.equal(vectors.matrix, torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]))
    vectors = read_vectors(place_of(tmp_path, "v.txt", b"2 2\na b 0.1 0.2\nc d 0.3 0.4\n"))
    assert vectors.words == ["a b", "c d"] and torch.equal(vectors.matrix, torch.tensor([[0.1, 0.2], [0.3, 0.4]]))


@pytest.mark.parametrize("name", ["v.vec", "v.vec.gz", "v.bin"])
def test_no_more_is_read_than_the_limit_needs(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "BLOCK", 64)
    vectors = WordVectors([f"w{i}" for i in range(1000)], torch.randn(1000, 4), list(range(1000, 0, -1)))
    location = Location.parse(tmp_path / name)
    write_vectors(vectors, location)
    if not name.endswith(".gz"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])  # what is after the limit may be missing
    first = read_vectors(location, limit=100)
    assert first.words == vectors.words[:100] and first.counts == list(range(100, 0, -1))
    assert torch.equal(first.matrix, vectors.matrix[:100])
    if name.endswith(".gz"):
        assert len(read_vectors(location, limit=5000)) == 1000


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "holds no words"),
        (b"0 3\n", "holds no words"),
        (b"3 2\na 1 2\nb 3 4\n", "announces 3 words in line 1, but has 2"),
        (b"1 2\na 1 2\nb 3 4\n", "announces 1 words in line 1, but has 2"),
        (b"2 2\na 1 2\nb 3\n", "line 3: 1 values instead of 2"),
        (b"a 1 2\nb 3 4\nc 5 6 7\n", "line 3: 3 values instead of 2"),
        (b"a 1 2\nb  4\n", "line 2: '' is not a number"),
        (b"a 1 2\nb 3 four\n", "line 2: 'four' is not a number"),
        (b"a 1 2\nb 3 0.1.2\n", "line 2: '0.1.2' is not a number"),
        (b"a 1 2\nb 3 0.1x\n", "line 2: '0.1x' is not a number"),
        (b"a 1 2\nb 3 0.1:\n", "line 2: '0.1:' is not a number"),
        (b"a 1 2\nb 3 0,5\n", "line 2: '0,5' is not a number"),
        (b"a 1 2\nb 3 0.123456:\n", "line 2: '0.123456:' is not a number"),
        (b"a 1 2\nb 3 -\n", "line 2: '-' is not a number"),
        (b"a 1 2\nb 1\n5 1 2 3\n", "line 2: 1 values instead of 2"),
        (b"2 2\na 5 0.1 0.2\nb 6 0.3 0.4\n", "line 2: 3 values instead of 2"),
        (b"a 1 2 3\nb 1\n5 2\n", "line 2: 1 values instead of 3"),
        (b"a 1 2\nb 3 nan\n", "line 2: a value is not finite"),
        (b"a 1 2\nb 3 1e39\n", "line 2: a value is not finite"),
        (b"word\n", "line 1: no values"),
        (b"5 0\n", "line 1: 0 cannot be the dimension"),
    ],
)
@pytest.mark.parametrize("before", [0, 50])
def test_what_is_wrong_with_text_is_said_with_the_line(
    tmp_path: Path, content: bytes, problem: str, before: int
) -> None:
    """Also when so many usual lines come before that the block is parsed at once."""
    if before and content.startswith(b"a 1 2\n"):
        content = b"".join(b"w%d 0.1 0.2\n" % i for i in range(before)) + content
        number = int(problem.split(":")[0].removeprefix("line "))
        problem = problem.replace(f"line {number}", f"line {number + before}")
    location = place_of(tmp_path, "v.vec", content)
    with pytest.raises(DataError, match=problem.replace(".", r"\.")) as caught:
        read_vectors(location)
    assert str(location) in caught.value.problem


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "does not begin with"),
        (struct.pack("<2i", 793712314, 12), "does not begin with"),  # a model of fastText
        (b"2 2\na " + struct.pack("<2f", 1, 2), "announces 2 words in line 1, but has 1"),
        (b"2 2\na " + struct.pack("<2f", 1, 2) + b"b 1234567", "announces 2 words in line 1, but has 1"),
        (b"1 2\na " + struct.pack("<2f", 1, float("nan")), "the vector of 'a' has a value that is not finite"),
        (b"1 2\n" + b"x" * 100_000, "no end of word 1"),
    ],
)
def test_what_is_wrong_with_binary_is_said(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_vectors(place_of(tmp_path, "v.bin", content))


def test_damaged_compression_endless_lines_and_unknown_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gzip.compress(b"".join(b"w%d 0.%d\n" % (i, i) for i in range(5000)))
    for content in (whole[: len(whole) // 2], whole[:500] + b"\0" * 20 + whole[520:], b"not gzip"):
        with pytest.raises(DataError, match="damaged or cut off"):
            read_vectors(place_of(tmp_path, "v.vec.gz", content))
    monkeypatch.setattr(formats, "LONGEST_LINE", 1000)
    with pytest.raises(DataError, match="a line of more than 1,000 bytes"):
        read_vectors(place_of(tmp_path, "v.vec", b"x" * 5000))
    for name in ("v", "v.gz", "v.csv", "vec"):
        with pytest.raises(DataError, match="the format does not follow"):
            read_vectors(Location.parse(tmp_path / name))
    with pytest.raises(StorageError, match="it does not exist"):
        read_vectors(Location.parse(tmp_path / "none.vec"))


@pytest.mark.parametrize("name", ["v.vec", "v.bin"])
def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, name: str) -> None:
    for word in ("", "a\nb", "\ud800"):
        with pytest.raises(DataError, match="written"):
            write_vectors(WordVectors([word], torch.ones(1, 2), [1]), Location.parse(tmp_path / name))
    with pytest.raises(DataError, match="the vector of 'b' has a value that is not finite"):
        matrix = torch.tensor([[1.0, 2.0], [float("inf"), 0.0]])
        write_vectors(WordVectors(["a", "b"], matrix, [2, 1]), Location.parse(tmp_path / name))
    assert list(tmp_path.iterdir()) == []

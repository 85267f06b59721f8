"""Every format and compression gives the same paragraphs; nothing that bytes can do makes it fall over."""

import gzip
import io
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from babelray.errors import DataError
from babelray.recipe.corpus import CorpusConfig
from babelray.storage import Location
from babelray.text.build import find_chunks
from babelray.text.read import check_encoding, read_bounded_lines, read_groups, source_files, tidy
from babelray.text.tally import Tally

DOCUMENTS = [["One a. One b.", "Two."], ["Drei: größer."], ["四。五。", "six"]]
PLAIN = "\n\n".join("\n".join(document) for document in DOCUMENTS) + "\n"


def read(path: Path, counts: Tally | None = None, chunk_bytes: int = 1000, **source: object) -> list[list[str]]:
    """The paragraphs of each document."""
    config = CorpusConfig(
        text=[{"path": str(path), "languages": ["en"], **source}],
        chunk_bytes=chunk_bytes,
        cleaning={"max_line_bytes": 5000},
        bad_files="report",
    )
    result: dict[int, list[str]] = {}
    for chunk in find_chunks(config, ["en"]):
        for group in read_groups(chunk, config, Tally() if counts is None else counts):
            result.setdefault(group.document, []).extend(group.texts)
    return list(result.values())


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd)]
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_plain_text(tmp_path: Path, suffix: str, compress, line_end: str) -> None:
    path = tmp_path / f"en.txt{suffix}"
    path.write_bytes(compress(PLAIN.replace("\n", line_end).encode()))
    assert read(path) == DOCUMENTS


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_json_lines(tmp_path: Path, suffix: str) -> None:
    lines = [json.dumps({"body": "\n".join(document), "id": 1}) for document in DOCUMENTS]
    broken = ["{", "[1]", '{"body": 3}', '{"body": "\\ud800"}', "[" * 4000]
    path = tmp_path / f"en.jsonl{suffix}"
    data = "\n".join([*lines, *broken]).encode()
    path.write_bytes(gzip.compress(data) if suffix else data)
    counts = Tally()
    assert read(path, counts, format="jsonl", field="body") == DOCUMENTS
    assert counts == {"read": 5, "dropped: not JSON": 2, "dropped: no field 'body'": 2, "dropped: not UTF-8": 1}


def test_parquet(tmp_path: Path) -> None:
    texts = ["\n".join(document) for document in DOCUMENTS]
    pq.write_table(pa.table({"text": [*texts, None]}), tmp_path / "en.parquet", row_group_size=2)
    assert read(tmp_path / "en.parquet", format="parquet") == DOCUMENTS
    with pytest.raises(DataError, match="has no column 'body'"):
        read(tmp_path / "en.parquet", format="parquet", field="body")
    (tmp_path / "en.txt").write_text("x")
    with pytest.raises(DataError, match="not a parquet file"):
        read(tmp_path / "en.txt", format="parquet")


def test_a_column_of_lines_with_tabs(tmp_path: Path) -> None:
    (tmp_path / "en.tsv").write_text("GEN 1:1\tIn the beginning.\nbroken\nGEN 1:2\tAnd the earth.\n")
    counts = Tally()
    assert read(tmp_path / "en.tsv", counts, column=1, format="sentences") == [["In the beginning.", "And the earth."]]
    assert counts["dropped: column missing"] == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["", " ", "a", "bb cc", "é" * 400, "x" * 900]), max_size=60),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["paragraphs", "sentences", "jsonl"]),
)
def test_chunks_together_are_the_whole(tmp_path: Path, lines: list[str], line_end: str, kind: str) -> None:
    """Read in pieces or at once: the same texts in the same order, each once."""
    if kind == "jsonl":
        lines = [json.dumps({"text": line}) for line in lines if line.strip()]
    path = tmp_path / "en.txt"
    path.write_bytes(line_end.join(lines).encode())
    pieces, whole = (
        [text for document in read(path, chunk_bytes=size, format=kind) for text in document] for size in (1000, 10**6)
    )
    assert pieces == whole


@given(st.binary(max_size=300), st.integers(1, 40), st.integers(1, 7))
def test_bounded_lines_against_splitlines(data: bytes, limit: int, block: int) -> None:
    from babelray.text import read as module

    saved, module.BLOCK = module.BLOCK, block
    try:
        result = list(read_bounded_lines(io.BytesIO(data), 0, None, limit))
    finally:
        module.BLOCK = saved
    expected = data.splitlines(keepends=True)
    assert len(result) == len(expected)
    offset = 0
    for (where, line), piece in zip(result, expected, strict=True):
        assert where == offset
        assert line == piece if len(piece) <= limit else line is None or line == piece
        offset += len(piece)


def test_a_line_of_50_megabytes_is_dropped_and_not_held(tmp_path: Path) -> None:
    path = tmp_path / "en.txt"
    path.write_bytes(b"before\n\n" + b"x" * 50_000_000 + b"\n\nafter\n")
    counts = Tally()
    assert read(path, counts, chunk_bytes=8_000_000) == [["before"], ["after"]]
    assert counts == {"read": 1, "dropped: line too long": 1}


def test_bad_bytes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "en.txt"
    path.write_bytes("\ufeffgood\n".encode() + b"bad \xff\nnul \x00 byte\n" + "\u200fشاي\u200e\n".encode())
    counts = Tally()
    assert read(path, counts) == [["good", "nul   byte", "شاي"]]
    assert counts == {"read": 1, "dropped: not UTF-8": 1}


SENTENCES = ["Die Straße ist naß.", "Das Haus ist alt.", "Ein Bär läuft.", "Ärger ist groß."]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-16-be", "cp1251"])
def test_another_encoding_is_an_error(tmp_path: Path, encoding: str) -> None:
    lines = SENTENCES if "1251" not in encoding else ["Кошка спит.", "Собака бежит.", "Дом стоит."]
    (tmp_path / "de.txt").write_bytes("\n".join(lines * 5).encode(encoding))
    counts = Tally()
    config = CorpusConfig(text=[{"path": f"{tmp_path}/{{lang}}.txt", "format": "sentences"}])
    (chunk,) = find_chunks(config, ["de"])
    list(read_groups(chunk, config, counts))
    with pytest.raises(DataError, match=r"de\.txt is not UTF-8: \d+ of \d+ lines") as caught:
        check_encoding(chunk, counts)
    assert ("UTF-16" in caught.value.remedy) == ("16" in encoding) and "iconv" in caught.value.remedy


def test_russian_in_utf_16_is_not_taken_for_text(tmp_path: Path) -> None:
    """All of its bytes are also ASCII."""
    (tmp_path / "en.txt").write_bytes("\n".join(["Кошка спит на кровати"] * 5).encode("utf-16-le"))
    counts = Tally()
    assert not read(tmp_path / "en.txt", counts) and counts["dropped: not UTF-8"] >= 5


def test_some_bad_lines_are_no_error_but_have_an_example(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_bytes(("good\n" * 50).encode() + "schön\nnaß\n".encode("latin-1"))
    counts = Tally()
    config = CorpusConfig(text=[{"path": f"{tmp_path}/{{lang}}.txt"}])
    (chunk,) = find_chunks(config, ["en"])
    list(read_groups(chunk, config, counts))
    check_encoding(chunk, counts)
    assert counts.examples == {"dropped: not UTF-8": "en.txt: sch\ufffdn"}


def test_a_path_without_the_language_is_for_one_language() -> None:
    with pytest.raises(ValueError, match=r"every language would be read from the same files: put \{lang\}"):
        CorpusConfig(text="all.txt")
    with pytest.raises(ValueError, match="every language"):
        CorpusConfig(text=[{"path": "all.txt", "languages": ["de", "en"]}])
    assert CorpusConfig(text=[{"path": "german.txt", "languages": ["de"]}]).text[0].path == "german.txt"


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd)])
def test_a_cut_off_file_is_an_error_or_reported(tmp_path: Path, suffix: str, compress) -> None:
    import random

    path = tmp_path / f"en.txt{suffix}"
    text = "".join(f"{random.Random(i).random()} line\n\n" for i in range(5000))
    data = compress(text.encode())
    path.write_bytes(data[: len(data) // 2])
    counts = Tally()
    read(path, counts)
    assert counts["damaged files"] == 1
    config = CorpusConfig(text=[{"path": str(path), "languages": ["en"]}])
    with pytest.raises(DataError, match=f"en.txt{suffix} is damaged or cut off"):
        list(read_groups(find_chunks(config, ["en"])[0], config, Tally()))


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    config = CorpusConfig(text=[{"path": f"{tmp_path}/{{lang}}.txt"}])
    with pytest.raises(DataError, match=r"no file for language 'de' at .*/de.txt"):
        find_chunks(config, ["de"])
    with pytest.raises(DataError, match="is a folder, not a file"):
        source_files(CorpusConfig(text=[{"path": f"{tmp_path}/folder", "languages": ["de"]}]).text[0], "de")
    optional = CorpusConfig(text=[{"path": f"{tmp_path}/{{lang}}.txt", "required": False}])
    with pytest.raises(DataError, match="no file for language 'de'"):
        find_chunks(optional, ["de"])
    (tmp_path / "de.txt").write_text("")
    assert len(find_chunks(config, ["de"])) == 1


def test_a_source_of_some_languages_only(tmp_path: Path) -> None:
    for code in ("de", "en"):
        (tmp_path / f"{code}.txt").write_text("")
    (source,) = CorpusConfig(text=[{"path": f"{tmp_path}/{{lang}}.txt", "languages": ["en"]}]).text
    assert len(source_files(source, "en")) == 1 and source_files(source, "de") == []


def test_a_long_paragraph_comes_in_groups_that_remember(tmp_path: Path) -> None:
    path = tmp_path / "en.txt"
    path.write_text("".join(f"sentence {i}\n" for i in range(2500)))
    config = CorpusConfig(text=[{"path": str(path), "format": "sentences", "languages": ["en"]}])
    groups = list(read_groups(find_chunks(config, ["en"])[0], config, Tally()))
    assert [(group.before, len(group.texts)) for group in groups] == [(0, 1000), (1000, 1000), (2000, 500)]
    assert len({(group.document, group.paragraph) for group in groups}) == 1


@given(st.text())
def test_tidy_is_done_once(text: str) -> None:
    import unicodedata

    once = tidy(text)
    assert unicodedata.is_normalized("NFC", once) and "\0" not in once and "\ufeff" not in once
    assert "\n" not in once and once == once.strip()


def test_hub_data_sets_are_read_through_its_filesystem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub cannot be reached from here: its file system is replaced by one over a local folder."""
    from fsspec.implementations.dirfs import DirFileSystem
    from fsspec.implementations.local import LocalFileSystem

    from babelray.errors import StorageError
    from babelray.storage import hub

    (tmp_path / "datasets/wiki/en").mkdir(parents=True)
    (tmp_path / "datasets/wiki/en/0.txt").write_text(PLAIN, encoding="utf-8")
    monkeypatch.setattr(hub, "filesystem", lambda: DirFileSystem(str(tmp_path), LocalFileSystem()))
    config = CorpusConfig(text="hf://datasets/wiki/{lang}/*.txt")
    (chunk,) = find_chunks(config, ["en"])
    assert len(list(read_groups(chunk, config, Tally()))) == 5
    assert Location.parse("hf://datasets/wiki/en/0.txt").digest()

    def refuse() -> None:
        raise ConnectionError

    monkeypatch.setattr(hub, "filesystem", refuse)
    with pytest.raises(StorageError, match="cannot read hf://"):
        find_chunks(config, ["en"])

"""Two files of vectors through the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from babelray.commands import align_files
from babelray.commands import app as cli
from babelray.errors import BabelrayError
from babelray.mapping.linear import LinearMapping
from babelray.storage import Location
from babelray.vectors.formats import read_vectors, write_vectors
from babelray.vectors.word_vectors import WordVectors

COUNT = 200
Command = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = torch.Generator().manual_seed(0)
    space = torch.randn(COUNT, 12, generator=generator) * torch.linspace(2, 0.5, 12)
    turn = torch.linalg.qr(torch.randn(12, 12, generator=generator)).Q
    for name, matrix in (("a", space), ("b", space @ turn + 0.05 * torch.randn(COUNT, 12, generator=generator))):
        words = [f"{name}{i}" if i % 10 else f"same{i}" for i in range(COUNT)]
        write_vectors(WordVectors(words, matrix, [1] * COUNT), Location.parse(tmp_path / f"{name}.vec"))
    rows = [(f"a{i}", f"b{i}") for i in range(COUNT) if i % 10]
    (tmp_path / "train.txt").write_text("".join(f"{a} {b}\n" for a, b in rows[:60]))
    (tmp_path / "test.txt").write_text("".join(f"{a}\t{b}\n" for a, b in [*rows[60:], ("unknown", "b1")]))
    return tmp_path


@pytest.fixture
def align(folder: Path) -> Command:
    def run(*options: str, source: str = "a.vec", target: str = "b.vec") -> Result:
        paths = [str(folder / option) if option.endswith(".txt") else option for option in options]
        files = ["--source", str(folder / source), "--target", str(folder / target), "--out", str(folder / "out")]
        return CliRunner().invoke(cli.app, ["align", *files, *paths])

    return run


@pytest.mark.parametrize(
    "options",
    [
        ["--dictionary", "train.txt"],
        ["--dictionary", "train.txt", "--self-learning", "patience=3"],
        ["--dictionary", "identical", "patience=3"],
        ["patience=3"],
        ["--dictionary", "train.txt", "dimensions=10"],
        ["--dictionary", "train.txt", "--method", "procrustes"],
        ["--dictionary", "train.txt", "--method", "rcsls"],
        ["--dictionary", "train.txt", "--method", "muse"],
        ["--dictionary", "train.txt", "--method", "least-squares"],
    ],
    ids=" ".join,
)
def test_every_method_and_setting(folder: Path, align: Command, options: list[str]) -> None:
    result = align(*options, "--test", "test.txt")
    assert result.exit_code == 0, result.output
    scores = json.loads((folder / "out/scores.json").read_text())
    assert scores["bli"]["p1"] > 0.9 and scores["bli"]["words"] == 120
    assert scores["bli"]["coverage"] == pytest.approx(120 / 121)
    assert "P@10" in result.output and "CSLS" in result.output
    for name, side in (("a", "source"), ("b", "target")):
        mapping = LinearMapping.load(Location.parse(folder / "out/mapping" / side))
        raw, mapped = (
            read_vectors(Location.parse(file)) for file in (folder / f"{name}.vec", folder / f"out/{side}.vec")
        )
        assert mapped.words == raw.words
        assert torch.equal(mapping.transform(raw.matrix), mapped.matrix)


def test_what_was_written_can_be_measured_again(folder: Path, align: Command) -> None:
    align("--dictionary", "train.txt", "--test", "test.txt")
    out = folder / "out"
    files = ["--source", str(out / "source.vec"), "--target", str(out / "target.vec")]
    result = CliRunner().invoke(cli.app, ["bli", *files, "--test", str(folder / "test.txt")])
    assert result.exit_code == 0 and "120 words tested, 99.2% of the test dictionary" in result.output
    more = CliRunner().invoke(cli.app, ["bli", *files, "--test", str(folder / "test.txt"), "--inverted-softmax", "30"])
    assert "inverted softmax" in more.output and "inverted softmax" not in result.output
    raw = ["--source", str(folder / "a.vec"), "--target", str(folder / "b.vec")]
    unmapped = CliRunner().invoke(cli.app, ["bli", *raw, "--test", str(folder / "test.txt")]).output
    assert "100.0" not in unmapped.partition("words tested")[2]


def test_what_a_dictionary_covers_is_printed(folder: Path, align: Command) -> None:
    rows = (folder / "train.txt").read_text().splitlines()
    (folder / "half.txt").write_text("".join(f"{row}\n{row.replace(' ', ' x')}\n" for row in rows))
    result = align("--dictionary", "half.txt", "--test", "test.txt")
    assert "dictionary: 60 of 120 entries usable (50.0%)" in result.output
    assert "test: 120 of 121 entries usable (99.2%)" in result.output and "warning" not in result.output


def test_an_exchanged_dictionary_is_refused(folder: Path, align: Command) -> None:
    for name in ("train", "test"):
        rows = [line.split() for line in (folder / f"{name}.txt").read_text().splitlines()]
        exchanged = [*((b, a) for a, b in rows), ("same10", "same10")]  # a few words are in both vocabularies
        (folder / f"exchanged-{name}.txt").write_text("".join(f"{a}\t{b}\n" for a, b in exchanged))
    assert "with the columns exchanged: 100.0% instead of 1.6%" in problem(align("--dictionary", "exchanged-train.txt"))
    refused = problem(align("--dictionary", "train.txt", "--test", "exchanged-test.txt"))
    assert "columns exchanged" in refused and "exchanged-test.txt" in refused
    files = [f"--{side}={folder / name}.vec" for side, name in (("source", "a"), ("target", "b"))]
    assert "exchanged" in problem(CliRunner().invoke(cli.app, ["bli", *files, f"--test={folder}/exchanged-test.txt"]))
    assert not (folder / "out").exists()


def test_words_are_lower_cased_as_in_recipes(folder: Path, align: Command) -> None:
    (folder / "upper.txt").write_text((folder / "train.txt").read_text().upper())
    assert "lower-cased: 100.0% instead of 0.0%" in problem(align("--dictionary", "upper.txt", "--no-lowercase"))
    assert "dictionary: 60 of 60 entries usable" in align("--dictionary", "upper.txt").output


def test_words_that_are_trained_and_tested_are_counted(align: Command) -> None:
    output = align("--dictionary", "train.txt", "--test", "train.txt").output
    assert "warning: test: 60 of its 60 source words are in the training dictionary too" in output


def test_few_entries_for_many_dimensions_are_pointed_out(folder: Path, align: Command) -> None:
    (folder / "few.txt").write_text("".join((folder / "train.txt").read_text().splitlines(keepends=True)[:20]))
    few = "warning: dictionary: 20 entries are few for vectors of 12 dimensions"
    assert few in align("--dictionary", "few.txt").output
    (folder / "out").rename(folder / "first")
    assert few not in align("--dictionary", "few.txt", "--self-learning", "patience=3").output


def test_no_word_is_spelt_alike(folder: Path, align: Command) -> None:
    (folder / "c.vec").write_text("".join(f"c{i} {'1 ' * 11}{i}\n" for i in range(20)))
    assert "no word is spelt alike" in problem(align("--dictionary", "identical", source="c.vec"))


def test_other_formats_come_back_as_they_came(folder: Path, align: Command) -> None:
    write_vectors(read_vectors(Location.parse(folder / "a.vec")), Location.parse(folder / "a.bin.gz"))
    read_vectors(Location.parse(folder / "b.vec")).save(Location.parse(folder / "b"))
    assert align("--dictionary", "train.txt", source="a.bin.gz", target="b").exit_code == 0
    assert len(read_vectors(Location.parse(folder / "out/source.bin.gz"))) == COUNT
    assert len(WordVectors.load(Location.parse(folder / "out/target"))) == COUNT


def test_the_limit_keeps_the_most_frequent(folder: Path, align: Command) -> None:
    assert align("--dictionary", "train.txt", "--limit", "100").exit_code == 0
    assert len(read_vectors(Location.parse(folder / "out/source.vec"))) == 100


def test_a_collapsed_mapping_is_reported(folder: Path, align: Command) -> None:
    noise = torch.randn(COUNT, 12, generator=torch.Generator().manual_seed(9))
    write_vectors(read_vectors(Location.parse(folder / "a.vec")).with_matrix(noise), Location.parse(folder / "a.vec"))
    result = align("patience=3")
    assert "collapsed:" in result.output and "Give a dictionary" in result.output


def problem(result: Result) -> str:
    assert isinstance(result.exception, BabelrayError), result.output
    return str(result.exception)


def test_bad_input_is_explained_and_leaves_nothing(folder: Path, align: Command) -> None:
    (folder / "none.txt").write_text("x y\n")
    (folder / "broken.txt").write_text("alone\n")
    (folder / "narrow.vec").write_text("w1 1 2\nw2 3 4\n")
    (folder / "zero.vec").write_text("".join(f"a{i} {'0 ' * 12}\n" for i in range(20)))
    (folder / "nan.vec").write_text(f"a1 {'nan ' * 12}\n")
    (folder / "text.vec").write_text("this is not a file of vectors\n")
    use = ("--dictionary", "train.txt")
    assert "no entry is usable" in problem(align("--dictionary", "none.txt"))
    assert "holds no pairs of words" in problem(align("--dictionary", "broken.txt"))
    assert "no dictionary at" in problem(align("--dictionary", "missing.txt"))
    assert "no vectors at" in problem(align(*use, source="missing.vec"))
    assert "2 and 12 dimensions" in problem(align(source="narrow.vec"))
    assert "all vectors are zero" in problem(align(*use, source="zero.vec"))
    assert "not finite" in problem(align(*use, source="nan.vec"))
    assert "is not a number" in problem(align(*use, source="text.vec"))
    assert "needs a dictionary" in problem(align("--method", "procrustes"))
    assert "did you mean 'procrustes'" in problem(align("--method", "procrustean"))
    assert "did you mean 'patience'" in problem(align("patienc=3"))
    assert not (folder / "out").exists()
    with pytest.raises(BabelrayError, match="two files need --source, --target and --out"):
        CliRunner().invoke(cli.app, ["align", "--source", "a.vec"], catch_exceptions=False)
    with pytest.raises(BabelrayError, match="needs a recipe"):
        CliRunner().invoke(cli.app, ["align"], catch_exceptions=False)


def test_nothing_half_written_is_left_at_the_folder(
    folder: Path, align: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*about: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(align_files, "_write", fails)
        assert align("--dictionary", "train.txt").exit_code != 0
    assert not (folder / "out").exists() and (folder / "out.partial").exists()
    assert align("--dictionary", "train.txt").exit_code == 0
    assert (folder / "out/scores.json").exists() and not (folder / "out.partial").exists()
    (folder / "out/scores.json").unlink()
    assert "holds other files" in problem(align("--dictionary", "train.txt"))


@pytest.mark.parametrize(("method", "next_time"), [("vecmap", "resumes from the last checkpoint"), ("muse", "starts")])
def test_ctrl_c_says_whether_the_command_resumes(
    align: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], method: str, next_time: str
) -> None:
    def interrupted(*about: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"babelray.mapping.{method}.{method}", interrupted)
    result = align("--method", method)
    assert result.exit_code == 130 and next_time in result.output


def test_without_a_terminal_progress_is_printed_in_lines(align: Command) -> None:
    output = align("patience=3").output
    assert "mapping" in output.splitlines()[0]


def test_a_result_is_not_overwritten(align: Command) -> None:
    align("--dictionary", "train.txt")
    assert "result of an earlier run" in problem(align("--dictionary", "train.txt"))


def test_a_dictionary_larger_than_the_vectors_and_words_that_come_twice(folder: Path, align: Command) -> None:
    rows = "".join(f"a{i} b{i}\na{i} b{i}\nx{i} y{i}\n" for i in range(10 * COUNT))
    (folder / "large.txt").write_text(rows)
    lines = (folder / "a.vec").read_text().splitlines()
    twice = f"{lines[2].split()[0]} {'9 ' * 12}"  # the first vector of a word counts
    (folder / "a.vec").write_text("\n".join([f"{COUNT + 1} 12", *lines[1:], twice]) + "\n")
    assert align("--dictionary", "large.txt", "--test", "test.txt").exit_code == 0
    scores = json.loads((folder / "out/scores.json").read_text())
    assert scores["pairs"] == 180 and scores["bli"]["p1"] > 0.9


def test_a_space_of_lower_rank_than_its_width(folder: Path, align: Command) -> None:
    for name in ("a", "b"):
        vectors = read_vectors(Location.parse(folder / f"{name}.vec"))
        wider = torch.cat([vectors.matrix, vectors.matrix[:, :3]], 1)
        write_vectors(vectors.with_matrix(wider), Location.parse(folder / f"{name}.vec"))
    for method in ("vecmap", "procrustes", "rcsls", "least-squares", "muse"):
        result = align("--dictionary", "train.txt", "--test", "test.txt", "--method", method)
        assert result.exit_code == 0, result.output
        out = folder / "out"
        assert json.loads((out / "scores.json").read_text())["bli"]["p1"] > 0.8, method
        out.rename(folder / f"out-{method}")


def test_words_that_are_left_out_are_reported(folder: Path, align: Command) -> None:
    content = (folder / "a.vec").read_bytes()
    (folder / "twice.vec").write_bytes(content.replace(b"\na2 ", b"\na1 "))
    result = align("--dictionary", "train.txt", "--method", "procrustes", source="twice.vec")
    assert result.exit_code == 0, result.output
    assert "twice.vec: 1 of 200 words are left out (repeated: 1, first 'a1')" in result.output


def test_vectors_that_are_not_utf8_are_an_error(folder: Path, align: Command) -> None:
    content = (folder / "a.vec").read_bytes()
    (folder / "latin.vec").write_bytes(content.replace(b"\na", b"\n\xe4"))
    result = align("--dictionary", "train.txt", source="latin.vec")
    assert isinstance(result.exception, BabelrayError) and "is not UTF-8: 180 of 200 words" in str(result.exception)

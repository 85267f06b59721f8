"""Own vectors and dictionaries, as they come: what is wrong with them is said, and nothing wrong is scored."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from babelray.mapping.checkpoint import Checkpoint
from support.own_data import word_pairs, write_dictionary, write_vectors

PAIRS = word_pairs()
TRAIN, TEST = PAIRS[:250], PAIRS[250:]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_vectors(tmp_path_factory.mktemp("vectors"), PAIRS)


@pytest.fixture
def align(cli, files: list[str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(dictionary: str, *options: str, out: str = "out") -> subprocess.CompletedProcess[str]:
        return cli("align", *files, "--dictionary", dictionary, "--out", str(tmp_path / out), *options)

    return run


def read(path: Path) -> tuple[list[str], np.ndarray]:
    """Words and vectors of unit length."""
    rows = [line.split(" ") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    matrix = np.array([[float(x) for x in row[1:] if x] for row in rows])
    return [row[0] for row in rows], matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def test_the_score_of_a_dictionary_is_that_of_its_words(align, tmp_path: Path) -> None:
    train = write_dictionary(tmp_path / "train.txt", TRAIN[:40])
    test = write_dictionary(tmp_path / "test.txt", [*TEST, ("Quark", "quark"), ("Elch", "moose")])
    process = align(train, "--test", test, "--method", "procrustes")
    assert process.returncode == 0, process.stderr
    (source, x), (target, z) = (read(tmp_path / f"out/{side}.vec") for side in ("source", "target"))
    nearest = {word: target[(z @ x[row]).argmax()] for row, word in enumerate(source)}
    hits = np.mean([nearest[a.lower()] == b.lower() for a, b in TEST])
    scores = json.loads((tmp_path / "out/scores.json").read_text())["bli"]
    assert 0.3 < hits == pytest.approx(scores["nn"]["p1"])
    assert f"{len(TEST)} of {len(TEST) + 2} entries usable" in process.stdout
    assert f"{100 * hits:.1f}" in process.stdout and "95 % interval" in process.stdout
    assert f"P@1 of guessing: {100 / len(PAIRS):.1f} %" in process.stdout


WRONG = {
    "reversed": (lambda pairs: [(b, a) for a, b in pairs], {}, ("columns exchanged: 100.0%", "Exchange the columns")),
    "latin-1": (list, {"encoding": "latin-1"}, ("is not UTF-8", "iconv")),
    "utf-16": (list, {"encoding": "utf-16"}, ("is not UTF-8", "iconv")),
    "commas": (list, {"separator": ","}, ("no pairs of words", "a tab")),
    "shifted": (lambda pairs: [(a, pairs[i + 1][1]) for i, (a, _) in enumerate(pairs[:-1])], {}, ("shifted", "line")),
    "of other languages": (lambda pairs: word_pairs("ru", "el"), {}, ("no entry is usable", "these two languages")),
    "empty": (lambda pairs: [], {}, ("no pairs of words", "a tab")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_dictionary_is_refused_with_its_remedy(align, cli, files, tmp_path: Path, wrong: str) -> None:
    change, form, (problem, remedy) = WRONG[wrong]
    dictionary = write_dictionary(tmp_path / "wrong.txt", change(PAIRS), **form)
    good = write_dictionary(tmp_path / "good.txt", TRAIN)
    for process in (
        align(dictionary),
        align(good, "--test", dictionary),
        cli("bli", *files, "--test", dictionary),
    ):
        assert process.returncode == 2 and "P@1" not in process.stdout
        assert problem in process.stderr and remedy in process.stderr and "wrong.txt" in process.stderr
    assert not list(tmp_path.glob("out*"))


def test_capitals_are_no_obstacle_unless_they_are_kept(align, tmp_path: Path) -> None:
    train = write_dictionary(tmp_path / "train.txt", [(a.capitalize(), b.capitalize()) for a, b in TRAIN])
    refused = align(train, "--no-lowercase")
    assert refused.returncode == 2 and "lower-cased: 100.0%" in refused.stderr and "--lowercase" in refused.stderr
    assert "250 of 250 entries usable (100.0%)" in align(train).stdout


def test_a_dictionary_that_covers_little_is_doubted(align, tmp_path: Path) -> None:
    train = write_dictionary(tmp_path / "train.txt", [*TRAIN[:30], *((f"wort{i}", f"word{i}") for i in range(270))])
    process = align(train)
    assert process.returncode == 0 and "30 of 300 entries usable (10.0%)" in process.stdout
    assert "warning: dictionary: the result rests on 10.0% of the dictionary" in process.stdout


def test_words_that_are_both_trained_and_tested_are_counted(align, tmp_path: Path) -> None:
    train = write_dictionary(tmp_path / "train.txt", TRAIN)
    process = align(train, "--test", write_dictionary(tmp_path / "test.txt", PAIRS[200:300]))
    assert "50 of its 100 source words are in the training dictionary too" in process.stdout


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_written_is_found_before_the_mapping(align, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    process = align(write_dictionary(tmp_path / "train.txt", TRAIN), out=place)
    assert process.returncode == 2 and "cannot write" in process.stderr
    assert not process.stdout, "nothing was mapped"
    assert (tmp_path / "file").read_text() == "mine" and not list(tmp_path.glob("*.partial"))


def test_options_of_recipes_are_not_ignored(align, tmp_path: Path) -> None:
    train = write_dictionary(tmp_path / "train.txt", TRAIN)
    for option in (["--dry-run"], ["--force", "align"]):
        process = align(train, *option)
        assert process.returncode == 2 and f"{option[0]}" in process.stderr and "for recipes" in process.stderr
    assert not (tmp_path / "out").exists()


def test_neighbours_of_results_files_and_other_languages(align, cli, files: list[str], tmp_path: Path) -> None:
    align(write_dictionary(tmp_path / "train.txt", TRAIN), "--method", "procrustes")
    out = tmp_path / "out"

    def nearest(*arguments: object) -> list[str]:
        process = cli("vectors", "neighbours", *map(str, arguments), "--count", "2")
        assert process.returncode == 0, process.stderr
        return [line.split()[0] for line in process.stdout.splitlines()[1:]]

    assert nearest(out, "source", "hund", "--to", "target")[0] == "dog"
    assert nearest(out / "source.vec", "hund", "--to", out / "target.vec")[0] == "dog"
    assert "hund" not in nearest(files[1], "hund") and len(nearest(files[1], "hund")) == 2
    process = cli("vectors", "neighbours", str(out), "source", "hunt")
    assert process.returncode == 2 and "no vector of 'hunt'" in process.stderr and "hund" in process.stderr
    process = cli("vectors", "neighbours", str(out), "de", "hund")
    assert process.returncode == 2 and "It has: source, target." in process.stderr
    process = cli("bli", "--source", str(out), "--target", files[3], "--test", str(tmp_path / "train.txt"))
    assert process.returncode == 2 and f"{out}/source.vec, {out}/target.vec" in process.stderr


def test_an_interrupted_mapping_resumes_to_the_same_bits(
    cli, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at the fourth checkpoint of a mapping without a dictionary; then the same command again."""
    offer, count = Checkpoint.offer, 0

    def store_and_interrupt(self: Checkpoint, state: dict) -> None:
        nonlocal count
        self.every = 0.0
        offer(self, state)
        count += 1
        if count == interrupted:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "offer", store_and_interrupt)
    command, interrupted = ["align", *files, "patience=5", "--out"], 0
    whole = cli(*command, str(tmp_path / "whole"))
    assert whole.returncode == 0 and "mapping" in whole.stdout, "progress without a terminal"
    iterations, count, interrupted = count, 0, 4
    stopped = cli(*command, str(tmp_path / "broken"))
    assert stopped.returncode == 130 and "resumes from the last checkpoint" in stopped.stderr
    assert not (tmp_path / "broken").exists() and (tmp_path / "broken.partial").exists()
    assert cli(*command, str(tmp_path / "broken")).returncode == 0
    assert count == iterations > 4, "no iteration was made twice"
    for name in ("source.vec", "target.vec", "scores.json"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list(tmp_path.glob("*.partial"))

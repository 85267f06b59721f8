"""Mapping and scoring vocabularies from Python: the same numbers as the command, on objects."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import babelray as br
from babelray.commands import app
from babelray.errors import BabelrayError
from babelray.mapping.method import MAPPING_METHODS

COUNT = 120
PAIRS = [(f"a{i}", f"b{i}") for i in range(COUNT)]


def space(seed: int = 0) -> torch.Tensor:
    return torch.randn(COUNT, 10, generator=torch.Generator().manual_seed(seed)) * torch.linspace(2, 0.5, 10)


@pytest.fixture
def sides() -> tuple[br.WordVectors, br.WordVectors]:
    turn = torch.linalg.qr(torch.randn(10, 10, generator=torch.Generator().manual_seed(1))).Q
    noise = 0.05 * torch.randn(COUNT, 10, generator=torch.Generator().manual_seed(2))
    left, right = zip(*PAIRS, strict=True)
    return br.load_vectors(space(), left), br.load_vectors(space() @ turn + noise, right)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.mark.parametrize("method", ["vecmap", "procrustes", "least-squares", MAPPING_METHODS.parse("procrustes")])
def test_a_dictionary_as_pairs_or_path(sides, tmp_path: Path, method) -> None:
    (tmp_path / "train.txt").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS[:60]))
    of_pairs = br.align(*sides, PAIRS[:60], method)
    of_path = br.align(*sides, tmp_path / "train.txt", method)
    assert torch.equal(of_pairs.source.matrix, of_path.source.matrix)
    assert of_pairs.pairs == 60 and str(of_pairs.coverage).startswith("60 of 60 entries usable")
    assert br.bli(of_pairs.source, of_pairs.target, PAIRS[60:])["p1"] > 0.9


def test_without_a_dictionary(sides) -> None:
    result = br.align(*sides, patience=3)
    assert result.pairs is None and result.coverage is None and not result.health.collapsed
    assert br.bli(result.source, result.target, PAIRS)["p1"] > 0.9


def test_words_that_are_spelt_alike(sides) -> None:
    left, right = sides
    right = br.load_vectors(right.matrix, [f"a{i}" if i < 50 else word for i, word in enumerate(right.words)])
    assert br.align(left, right, "identical", "procrustes").pairs == 50
    with pytest.raises(BabelrayError, match="no word is spelt alike"):
        br.align(*sides, "identical")


def test_the_command_gives_the_same_bits(sides, tmp_path: Path) -> None:
    for name, side in zip(("a.vec", "b.vec"), sides, strict=True):
        side.save(tmp_path / name)
    (tmp_path / "train.txt").write_text("".join(f"{a} {b}\n" for a, b in PAIRS[:60]))
    files = [f"--source={tmp_path}/a.vec", f"--target={tmp_path}/b.vec", f"--dictionary={tmp_path}/train.txt"]
    command = CliRunner().invoke(app.app, ["align", *files, f"--out={tmp_path}/command", "dimensions=8"])
    assert command.exit_code == 0, command.output
    result = br.align(tmp_path / "a.vec", tmp_path / "b.vec", tmp_path / "train.txt", dimensions=8)
    result.save(tmp_path / "python", ".vec")
    for name in ("source.vec", "target.vec", "mapping/source/mapping.safetensors", "scores.json"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes(), name
    with pytest.raises(BabelrayError, match="result of an earlier run"):
        result.save(tmp_path / "python")


@pytest.mark.parametrize("method", ["procrustes", "fcnn"])
def test_a_mapping_applies_to_new_words_and_is_saved(sides, tmp_path: Path, method: str) -> None:
    settings = {} if method == "procrustes" else {"epochs": 2}
    result = br.align(*sides, PAIRS, method, progress=False, **settings)
    new = space(9)[:5]
    mapped = result.mapping(new)
    assert isinstance(result.mapping(new.numpy()), np.ndarray) and np.allclose(result.mapping(new.numpy()), mapped)
    assert torch.equal(result.mapping(br.load_vectors(new, [*"vwxyz"])).matrix, mapped)
    assert torch.equal(result.mapping(sides[0].matrix), result.source.matrix)
    assert torch.equal(result.target_mapping(sides[1]).matrix, result.target.matrix)
    result.save(tmp_path / "out")
    assert torch.allclose(br.load_mapping(tmp_path / "out/mapping/source")(new), mapped, atol=1e-6)
    assert torch.equal(br.load_vectors(tmp_path / "out/source").matrix, result.source.matrix)


@pytest.mark.parametrize(("count", "warns"), [(19, True), (20, False)])
def test_few_pairs_warn(sides, count: int, warns: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        br.align(*sides, PAIRS[:count], "procrustes", progress=False)
    assert [str(warning.message) for warning in caught] == warns * [
        "dictionary: 19 entries are few for vectors of 10 dimensions: other words may not be translated"
    ]


def test_tested_words_that_were_trained_on_are_counted(sides) -> None:
    result = br.align(*sides, PAIRS[:60], "procrustes", progress=False)
    for source in (result.source, result.source.first(100), result.mapping(result.source)):
        with pytest.warns(UserWarning, match="test dictionary: 10 of its 30 source words are in the training dict"):
            br.bli(source, result.target, PAIRS[50:80])
    br.bli(*sides, PAIRS[50:80])  # these were not mapped: no warning
    br.bli(result.source, result.target, PAIRS[60:80])


def test_a_saved_mapping_is_not_overwritten(sides, tmp_path: Path) -> None:
    first, second = (br.align(*sides, PAIRS[rows], "procrustes").mapping for rows in (slice(60), slice(60, 120)))
    first.save(tmp_path / "mapping")
    with pytest.raises(BabelrayError, match=r"holds a mapping\n.*another folder"):
        second.save(tmp_path / "mapping")
    assert torch.equal(br.load_mapping(tmp_path / "mapping")(sides[0]).matrix, first(sides[0]).matrix)


def test_settings_are_checked(sides) -> None:
    with pytest.raises(BabelrayError, match="did you mean 'patience'"):
        br.align(*sides, patienc=3)
    with pytest.raises(BabelrayError, match="did you mean 'procrustes'"):
        br.align(*sides, PAIRS, "procrustean")
    with pytest.raises(BabelrayError, match="configured already"):
        br.align(*sides, PAIRS, MAPPING_METHODS.parse("procrustes"), normalise="unit")
    with pytest.raises(BabelrayError, match="needs a dictionary"):
        br.align(*sides, method="procrustes")
    with pytest.raises(BabelrayError, match="no dictionary at"):
        br.align(*sides, "nowhere.txt")


@pytest.mark.parametrize("pairs", [["ab"], [("a1", 2)], [("a1", "b1", "c1")], [("a1", "")], []])
def test_pairs_are_checked(sides, pairs) -> None:
    with pytest.raises(BabelrayError, match=r"not a pair of words|dictionary is empty"):
        br.align(*sides, pairs)


def test_doubtful_dictionaries_warn(sides, tmp_path: Path) -> None:
    unknown = [(f"x{i}", f"y{i}") for i in range(1000)]
    with pytest.warns(UserWarning, match="rests on 10.7% of the dictionary"):
        br.align(*sides, PAIRS + unknown, "procrustes")
    with pytest.warns(UserWarning, match="test dictionary: the result rests on"):
        br.bli(*sides, PAIRS + unknown)
    (tmp_path / "train.txt").write_text("alone\n" + "".join(f"{a} {b}\n" for a, b in PAIRS))
    with pytest.warns(UserWarning, match="1 of 121 lines are unusable"):
        br.align(*sides, tmp_path / "train.txt", "procrustes")
    with pytest.raises(BabelrayError, match="columns exchanged"):
        br.align(*sides, [(b, a) for a, b in PAIRS])


def test_a_collapsed_mapping_warns(sides) -> None:
    noise = br.load_vectors(space(9), sides[0].words)
    with pytest.warns(UserWarning, match=r"has collapsed.*Give a dictionary"):
        result = br.align(noise, sides[1], patience=3)
    assert "collapsed" in repr(result) and "collapsed" in result._repr_html_()


def test_a_result_is_a_table(sides) -> None:
    result = br.align(*sides, PAIRS, "procrustes")
    assert repr(result) == "Alignment(procrustes: 120 and 120 words)"
    assert result.to_pandas().loc["source", "words"] == COUNT
    assert "120 of 120 entries usable" in result._repr_html_()


def test_scores_are_a_dict_and_a_table(sides, tmp_path: Path) -> None:
    result = br.align(*sides, PAIRS[:60], "procrustes")
    scores = br.bli(result.source, result.target, PAIRS[60:], inverted_softmax=30)
    assert scores["words"] == 60 and scores["coverage"] == 1 and json.loads(json.dumps(scores)) == scores
    frame = scores.to_pandas()
    assert frame.loc["CSLS", "P@1"] == scores["p1"] and frame.loc["nearest neighbour", "MRR"] == scores["nn"]["mrr"]
    assert list(frame.index) == ["nearest neighbour", "inverted softmax", "CSLS"]
    assert "<table>" in scores._repr_html_() and f"<td>{100 * scores['p1']:.1f}</td>" in scores._repr_html_()
    assert "guessing:" in str(scores) and "better than guessing" not in str(scores)
    assert "P@1 is not better than guessing" in str(br.bli(*sides, PAIRS[60:])), "they are not in one space"
    scores.save(tmp_path / "scores.csv")
    assert "CSLS" in (tmp_path / "scores.csv").read_text()


def test_progress_is_on_the_error_stream(sides, capsys, monkeypatch) -> None:
    monkeypatch.setattr("babelray.api.progress.LINE_EVERY", 0)
    br.align(*sides, patience=3)
    shown = capsys.readouterr()
    assert not shown.out and "vecmap: iteration 1" in shown.err
    br.align(*sides, patience=3, progress=False)
    assert capsys.readouterr() == ("", "")

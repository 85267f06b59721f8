"""Scoring and comparing encoders from Python: the same results as the command."""

from __future__ import annotations

import json
import warnings
from itertools import permutations
from pathlib import Path

import pytest

import babelray as br
from babelray.errors import BabelrayError
from babelray.evaluation.benchmark import BENCHMARKS

SENTENCES = [" ".join(words) for words in permutations(["cat", "dog", "bed", "warm"])]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for code, lines in (("de", [line.title() for line in SENTENCES]), ("fr", SENTENCES)):
        for side, text in ((code, lines), ("en", SENTENCES)):
            (folder / f"x.{code}-en.{side}").write_text("\n".join(text) + "\n")
    return folder


@pytest.fixture(scope="module")
def results(tiny_encoder: str, data: Path) -> list[br.Evaluation]:
    return [br.evaluate(tiny_encoder, "tatoeba", data, layer=layer, progress=False) for layer in (0, 2)]


def test_scores_by_language(results: list[br.Evaluation]) -> None:
    result = results[1]
    assert list(result) == ["de", "fr"] and result["fr"]["mean"] == 1 and result["fr"]["sentences"] == 24
    assert result.mean["mean"] == pytest.approx((1 + result["de"]["mean"]) / 2)
    assert len(result.predictions["de"]["to_hub"]["positions"]) == 24
    frame = result.to_pandas()
    assert frame.loc["fr", "interval_low"] < 1 and frame.loc["de", "chance"] == pytest.approx(1 / 24)
    assert "<td>100.0</td>" in result._repr_html_() and "4.2" in result._repr_html_() and "mean" in result._repr_html_()
    assert repr(result).startswith("Evaluation(tatoeba: ")


def test_the_command_writes_the_same(cli, results, tiny_encoder: str, data: Path, tmp_path: Path) -> None:
    arguments = ["--model", tiny_encoder, "--benchmark", "tatoeba", "--data", str(data), "--out", str(tmp_path / "c")]
    process = cli("evaluate", *arguments, "layer=2")
    assert process.returncode == 0, process.stderr
    results[1].save(tmp_path / "p")
    command, python = (json.loads((tmp_path / name / "result.json").read_text()) for name in "cp")
    del command["created"], python["created"]
    assert command == python
    assert (tmp_path / "c/predictions.json").read_bytes() == (tmp_path / "p/predictions.json").read_bytes()
    assert br.Evaluation.load(tmp_path / "c")["de"] == results[1]["de"]
    with pytest.raises(BabelrayError, match="holds a result"):
        results[1].save(tmp_path / "p")
    results[1].save(tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text().startswith("language,")


def test_a_loaded_encoder_is_read_at_its_layer(results, tiny_encoder: str, data: Path) -> None:
    encoder = br.load_encoder(tiny_encoder, layer=0)
    assert br.evaluate(encoder, "tatoeba", data, progress=False)["de"] == results[0]["de"]
    config = BENCHMARKS.parse({"benchmark": "tatoeba", "data": str(data), "layer": 2})
    assert br.evaluate(encoder, config, progress=False)["de"] == results[1]["de"]


def test_two_results(results, tmp_path: Path) -> None:
    with pytest.raises(BabelrayError, match=r"differ in more than the encoder(.|\n)*layer: 0"):
        br.compare(*results)
    results[0].save(tmp_path / "first")
    with pytest.warns(UserWarning, match="layer: 0"):
        comparison = br.compare(tmp_path / "first", results[1], allow_differences=True)
    row = comparison.differences["de"]
    assert row.difference == results[1]["de"]["mean"] - results[0]["de"]["mean"] and 0 < row.p <= 1
    frame = comparison.to_pandas()
    assert list(frame.index) == ["de", "fr", "mean"] and frame.loc["de", "difference"] == row.difference
    assert frame.iloc[0, 0] == results[0]["de"]["mean"] and frame.iloc[0, 1] == results[1]["de"]["mean"]
    assert comparison.names[0] == "first" and "first" in comparison._repr_html_()


def test_a_small_p_is_not_shown_as_0(tmp_path: Path) -> None:
    for name, hit in (("worse", 0), ("better", 1)):
        scores = {"de": {"mean": hit}}
        content = {"benchmark": "tatoeba", "scores": scores, "mean": scores["de"], "sources": {"x": "1"}}
        br.Evaluation(content, {"de": {"example_scores": [hit] * 40}}).save(tmp_path / name)
    comparison = br.compare(tmp_path / "worse", tmp_path / "better")
    assert 0 < comparison.differences["de"].p < 0.001
    assert "< 0.001" in str(comparison) and "0.000" not in str(comparison)
    assert "&lt; 0.001" in comparison._repr_html_() and "0.000" not in comparison._repr_html_()


def test_more_results_are_ranked(results) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        comparison = br.compare(*results, results[1], allow_differences=True)
    assert len(set(comparison.names)) == 3 and comparison.to_pandas().shape == (3, 3)
    assert "●" in comparison._repr_html_()


def test_what_cannot_be_measured(tiny_encoder: str, data: Path) -> None:
    with pytest.raises(BabelrayError, match="did you mean 'tatoeba'"):
        br.evaluate(tiny_encoder, "tatoba", data)
    with pytest.raises(BabelrayError, match="scoring"):
        br.evaluate(tiny_encoder, "tatoeba", data, scoring="cosin")
    with pytest.raises(BabelrayError, match="needs the corpus of a run"):
        br.evaluate(tiny_encoder, "retrieval")
    with pytest.raises(BabelrayError, match="is not a result"):
        br.compare(data, data)

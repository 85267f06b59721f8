"""Results in a notebook, in pandas and in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from babelray.api.tables import Tabular
from babelray.errors import DataError
from babelray.pipeline.summary import Column, Table


class Scores(Tabular):
    def table(self) -> Table:
        columns = [Column("language"), Column("accuracy", "%"), Column("sentences", ",.0f")]
        return Table("A <title>", columns, [("de", 0.5, 1000), ("fr", None, 20)], notes=["a & b"])


def test_html_is_rounded_and_escaped() -> None:
    html = Scores()._repr_html_()
    assert "A &lt;title&gt;" in html and "a &amp; b" in html
    assert "<td>de</td><td>50.0</td><td>1,000</td>" in html and "<td>fr</td><td>–</td><td>20</td>" in html
    assert "accuracy %" in html


def test_pandas_has_numbers() -> None:
    frame = Scores().to_pandas()
    assert frame.loc["de", "accuracy"] == 0.5 and frame.loc["fr", "sentences"] == 20 and frame.index.name == "language"


def test_files(tmp_path: Path) -> None:
    for ending in ("csv", "json", "html"):
        Scores().save(tmp_path / f"scores.{ending}")
    assert (tmp_path / "scores.csv").read_text().splitlines()[1] == "de,0.5,1000"
    assert json.loads((tmp_path / "scores.json").read_text())["de"] == {"accuracy": 0.5, "sentences": 1000}
    assert (tmp_path / "scores.html").read_text() == Scores()._repr_html_()
    with pytest.raises(DataError, match="format does not follow"):
        Scores().save(tmp_path / "scores.xlsx")


def test_text_is_aligned() -> None:
    assert str(Scores()).splitlines() == [
        "A <title>",
        "language  accuracy %  sentences",
        "de              50.0      1,000",
        "fr                 –         20",
        "a & b",
    ]


def test_a_change_is_two_columns() -> None:
    class Changes(Tabular):
        def table(self) -> Table:
            return Table("", [Column("language"), Column("P@1", "%"), Column("words")], [("de", (0.5, 0.75), "9")])

    frame = Changes().to_pandas()
    assert list(frame.columns) == ["P@1 before", "P@1 after", "words"] and frame.iloc[0].tolist() == [0.5, 0.75, "9"]
    assert "<td>50.0 → 75.0</td>" in Changes()._repr_html_()

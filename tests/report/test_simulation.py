import json
from pathlib import Path

import pytest

from babelray.languages import LANGUAGES
from babelray.report.simulation import render, simulation_page, simulation_table
from babelray.simulation.outcome import Outcome
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from support.simulated_outcome import outcome


def test_an_artifact_is_rendered_from_its_data_alone(tmp_path: Path) -> None:
    result = outcome()
    rows = [{**cell._asdict(), "p1": p1, "word_p1": p1} for cell, p1 in result.p1.items()]
    clouds = [{**cell._asdict(), "cloud": cloud} for cell, cloud in result.clouds.items()]
    (tmp_path / "scores.json").write_text(json.dumps(rows))
    (tmp_path / "clouds.json").write_text(json.dumps(clouds))
    pages = render(Artifact(Location.parse(tmp_path), {}), "worlds", LANGUAGES)
    assert pages["simulation.md"] == simulation_table(result)
    assert pages["simulation.html"].count("<svg") == 7


def test_the_page_has_all_figures() -> None:
    page = simulation_page("<worlds>", outcome())
    assert "&lt;worlds&gt;" in page and page.count("<svg") == 7 and "2 worlds of each kind" in page
    for text in ("for t = 1, 2, 3", "rotation 50.0; real-nvp 60.0", "t = 5, real-nvp from 65.0 to 15.0"):
        assert text in page
    assert simulation_table(outcome()).count("## ") == 3


@pytest.mark.parametrize("one", [("occurrences", 5), ("epsilon", 1.0)])
def test_a_grid_of_one_value(one: tuple[str, float]) -> None:
    name, value = one
    few = {cell: p1 for cell, p1 in outcome().p1.items() if getattr(cell, name) == value}
    page = simulation_page("small", Outcome(few, {}))
    assert page.count("<svg") == 5, "no curve of one value, and no cloud"

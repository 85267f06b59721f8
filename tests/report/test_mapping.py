from pathlib import Path

from babelray.languages import LANGUAGES
from babelray.report.comparison import SystemScores
from babelray.report.mapping import MappingResults, by_language, mapping_page, mapping_table, overview, render
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.storage.results import BenchmarkResults, predictions_file, result_file, write_index

GROUPS = {"": ["original"], "supervised": ["rotation"], "unsupervised": ["muse", "normalisation"]}
SCORES = {
    "original": {"de": {"p1": 0.2}, "ja": {"p1": 0.1}},
    "rotation": {"de": {"p1": 0.6}, "ja": {"p1": 0.4}},
    "muse": {"de": {"p1": 0.3}, "ja": {"p1": 0.1}},
    "normalisation": {"de": {"p1": 0.5}, "ja": {"p1": 0.4}},
}


META = {"benchmark": "contextual-bli", "title": "Words", "main_metric": "p1", "columns": {"p1": "%"}}


def measured(with_examples: bool = True) -> MappingResults:
    """Forty examples per language, of which each system has the first right."""
    example_scores = {
        system: [
            {code: [1.0] * round(40 * row["p1"]) + [0.0] * round(40 - 40 * row["p1"]) for code, row in rows.items()}
        ]
        for system, rows in SCORES.items()
    }
    means = {system: [sum(row["p1"] for row in rows.values()) / 2] for system, rows in SCORES.items()}
    board = SystemScores("cbli", "P@1", True, means, example_scores if with_examples else {s: [{}] for s in SCORES})
    tied = [row.system for row in board.ranked.rows if row.tied] if board.ranked else []
    return MappingResults(BenchmarkResults("cbli", META, SCORES), tied, board)


def test_methods_in_blocks_with_a_mark_on_those_that_may_be_the_best() -> None:
    assert overview([measured()], GROUPS) == [
        ["", "cbli: p1"],
        ["original", "15.00"],
        ["*supervised*", ""],
        ["rotation", "50.00 ●"],
        ["*unsupervised*", ""],
        ["muse", "20.00"],
        ["normalisation", "45.00 ●"],  # two of forty examples less, and none of the others
    ]
    assert "●" not in mapping_table([measured(with_examples=False)], GROUPS), "no answers, no test"


def test_every_language_and_the_mean() -> None:
    assert by_language(measured(), GROUPS)[:3] == [
        ["", "de", "ja", "mean"],
        ["original", "20.0", "10.0", "15.0"],
        ["rotation", "60.0", "40.0", "50.0"],
    ]


def test_a_block_without_methods_is_left_out_and_a_page_names_languages() -> None:
    groups = {"": ["original"], "supervised": [], "unsupervised": ["muse"]}
    assert [row[0] for row in overview([measured()], groups)] == ["", "original", "*unsupervised*", "muse"]
    page = mapping_page("a <b>", [measured()], GROUPS, LANGUAGES)
    assert "a &lt;b&gt;" in page and "German" in page and "<i>supervised</i>" in page and "http" not in page
    table = mapping_table([measured(), measured(with_examples=False)], GROUPS)
    assert table.count("## cbli") == 2 and table.startswith("## Mean over languages\n\n|  | cbli: p1 | cbli: p1 |")
    assert mapping_table([], GROUPS).startswith("## Mean over languages")


def test_an_artifact_is_rendered_from_its_data_alone(tmp_path: Path) -> None:
    expected, location = measured(), Location.parse(tmp_path)
    meta = META | {"metric_titles": {"p1": "P@1"}}
    for system, (scores,) in expected.board.example_scores.items():
        answers = {code: {"example_scores": values} for code, values in scores.items()}
        predictions_file(location, "cbli", system).write_json(answers)
        content = {"meta": meta, "scores": SCORES[system], "figures": {}}
        result_file(location, "cbli", system).write_json(content)
    write_index(location, {"cbli": expected.results})
    (location / "mapping.json").write_json({"systems": GROUPS, "tied": {"cbli": expected.tied}})
    pages = render(Artifact(location, {}), "a <b>", LANGUAGES)
    assert pages["mapping.md"] == mapping_table([expected], GROUPS)
    assert pages["mapping.html"] == mapping_page("a <b>", [expected], GROUPS, LANGUAGES)

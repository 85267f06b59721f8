from babelray.evaluation.comparison import TaskScores
from babelray.evaluation.mapping_page import Measured, by_language, mapping_page, mapping_table, overview
from babelray.languages import LANGUAGES

GROUPS = {"": ["original"], "supervised": ["rotation"], "unsupervised": ["muse", "normalisation"]}
SCORES = {
    "original": {"de": {"p1": 0.2}, "ja": {"p1": 0.1}},
    "rotation": {"de": {"p1": 0.6}, "ja": {"p1": 0.4}},
    "muse": {"de": {"p1": 0.3}, "ja": {"p1": 0.1}},
    "normalisation": {"de": {"p1": 0.5}, "ja": {"p1": 0.4}},
}


def measured(known: bool = True) -> Measured:
    """Forty examples a language, of which each system has the first right."""
    hits = {
        system: [
            {code: [1.0] * round(40 * row["p1"]) + [0.0] * round(40 - 40 * row["p1"]) for code, row in rows.items()}
        ]
        for system, rows in SCORES.items()
    }
    means = {system: [sum(row["p1"] for row in rows.values()) / 2] for system, rows in SCORES.items()}
    board = TaskScores("cbli", "p1", True, means, hits if known else {system: [{}] for system in SCORES})
    return Measured("cbli", "p1", SCORES, board)


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
    assert "●" not in mapping_table([measured(known=False)], GROUPS), "no answers, no test"


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
    table = mapping_table([measured(), measured(known=False)], GROUPS)
    assert table.count("## cbli") == 2 and table.startswith("## Mean over languages\n\n|  | cbli: p1 | cbli: p1 |")
    assert mapping_table([], GROUPS).startswith("## Mean over languages")

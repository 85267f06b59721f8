"""The summaries of stages in the terminal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rich.console import Console

from babelray.commands.summary import format_cell, print_results, print_table
from babelray.pipeline.summary import Column, Summary, Table
from babelray.storage import Location

TABLE = Table(
    "small: before → after",
    [
        Column("", ""),
        Column("retrieval", "%"),
        Column("perplexity", ".1f", lower_is_better=True),
        Column("words", ",.0f"),
    ],
    [["de", (0.5, 0.625), (20.0, 10.0), 12345], ["fr", (0.5, None), (10.0, 20.0), None], ["mean", 0.5, 15.0, 1.0]],
    mean=True,
    notes=["retrieval: of [held-out] sentences"],
)


def test_a_table_has_changes_means_and_notes() -> None:
    console = Console(record=True, width=100)
    print_table(TABLE, console)
    text = console.export_text()
    for expected in ("small: before → after", "50.0 → 62.5", "20.0 → 10.0", "12,345", "–", "50.0", "of [held-out]"):
        assert expected in text
    rule = next(i for i, line in enumerate(text.splitlines()) if line.startswith("├"))
    assert "mean" in text.splitlines()[-3] and rule


def test_improvements_are_green_and_losses_red() -> None:
    def colours(cell: Any, column: Column) -> list[str]:
        return [str(span.style) for span in format_cell(cell, column).spans]

    higher, lower = Column("retrieval", "%"), Column("perplexity", ".1f", lower_is_better=True)
    assert colours((0.5, 0.6), higher) == ["green"] and colours((0.6, 0.5), higher) == ["red"]
    assert colours((0.5, 0.6), lower) == ["red"] and colours((0.6, 0.5), lower) == ["green"]
    assert colours((0.5, 0.5), lower) == ["default"]


def test_tables_of_all_results_come_before_their_files() -> None:
    def result(name: str, *tables: Table, **files: str) -> Any:
        stage = SimpleNamespace(name=name, summary=lambda artifact, settings: Summary(tables, files))
        return SimpleNamespace(stage=stage, settings=None), SimpleNamespace(location=Location.parse("/runs") / name)

    console = Console(record=True, width=100)
    outcome: Any = SimpleNamespace(
        results=lambda: [result("report", Report="report.html"), result("evaluate", TABLE)], steps=[], artifacts={}
    )
    print_results(outcome, console)
    text = console.export_text()
    assert text.index("small: before") < text.index("Report:    /runs/report/report.html")


def test_a_run_says_where_its_encoder_is_and_how_to_load_it() -> None:
    def outcome(*keys: str) -> Any:
        steps = [SimpleNamespace(fingerprint=key, stage=SimpleNamespace(trains_encoder=key != "x")) for key in keys]
        artifacts = {key: SimpleNamespace(location=Location.parse("/runs/pretrain") / key) for key in keys}
        return SimpleNamespace(results=list, steps=steps, artifacts=artifacts)

    def printed(*keys: str) -> str:
        console = Console(record=True, width=60)
        print_results(outcome(*keys), console)
        return console.export_text()

    text = printed("x", "f00")
    assert "Encoder:   /runs/pretrain/f00/encoder" in text
    code = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    assert len(code) == 3 and compile("\n".join(code), "usage", "exec")
    assert 'SentenceTransformer("/runs/pretrain/f00/encoder")' in code[1]
    assert not printed("x") and not printed("f00", "ba5"), "a comparison has many encoders"


def test_a_table_that_is_too_wide_is_divided_and_loses_nothing() -> None:
    columns = [Column(""), Column("language"), *(Column(f"dropped because of {n}", ",.0f") for n in range(12))]
    rows = [
        [code, name, *(float(1000 * n + 7) for n in range(12))] for code, name in (("de", "German"), ("zh", "Mandarin"))
    ]
    console = Console(record=True, width=80)
    print_table(Table("Sentences", columns, rows), console)
    text = console.export_text()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines()) and "…" not in text
    assert all(f"{1000 * n + 7:,}" in text for n in range(12))
    assert text.count("German") == text.count("Mandarin") > 1, "every part names its rows"

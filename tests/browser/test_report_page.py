"""The report as a reader's browser shows it: on a desk, on a phone, on paper."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from babelray.report.frame import duration, html_table, page
from babelray.report.run import report_page
from support.report_data import full_data

MISSING = [name for name in ("chromium", "pdftotext") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)}: tests/browser/install.sh installs them"),
]

WATCH = "<script>window.wrong = []; window.onerror = (message) => { window.wrong.push(message); };</script>"
"""Before all others, so that it hears of their errors."""
PHONE = 390


def chromium(folder: Path, *arguments: str) -> str:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    options = ["--virtual-time-budget=5000", "--allow-file-access-from-files", *arguments]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(folder: Path, content: str, script: str, width: int = 1200) -> Any:
    """What a script finds out in the page, in a window of this width: the value of its last expression, by JSON."""
    (folder / "page.html").write_text(content.replace("<head>", f"<head>{WATCH}", 1), encoding="utf-8")
    asking = f"""<!doctype html>
        <iframe src="page.html" style="width:{width}px;height:900px;border:0"></iframe><pre></pre>
        <script>
          document.querySelector("iframe").onload = (event) => {{
            const view = event.target.contentWindow, page = view.document;
            let found;
            try {{ found = (() => {{ {script} }})(); }} catch (error) {{ found = {{failed: String(error)}}; }}
            document.querySelector("pre").textContent = JSON.stringify(found);
          }};
        </script>"""
    (folder / "ask.html").write_text(asking, encoding="utf-8")
    shown = chromium(folder, "--dump-dom", "--window-size=1600,1000", (folder / "ask.html").as_uri())
    answer = re.search(r"<pre>(.*?)</pre>", shown, re.DOTALL)
    assert answer and answer[1], shown[-2000:]
    return json.loads(html.unescape(answer[1]))


@pytest.fixture(scope="module")
def report() -> str:
    return report_page(full_data())


def test_the_page_runs_without_errors_and_shows_every_section(tmp_path: Path, report: str) -> None:
    found = ask(
        tmp_path,
        report,
        """return {
            wrong: view.wrong,
            plots: [...page.querySelectorAll("svg[role=img]")].map((svg) => svg.getBoundingClientRect().height),
            told: [...page.querySelectorAll("svg[role=img]")].every((svg) => svg.getAttribute("aria-label")),
            titles: [...page.querySelectorAll("h2")].map((title) => title.textContent),
            dead: [...page.querySelectorAll("a")].filter((a) => !page.getElementById(a.hash.slice(1))).length,
            links: page.querySelectorAll("nav a").length,
            loaded: view.performance.getEntriesByType("resource").length,
        };""",
    )
    assert found["wrong"] == [] and found["loaded"] == 0
    bars = 3 + 6 + 1  # benchmarks on held-out data, those on other data, and layers, where the main metric is a share
    assert len(found["plots"]) == bars + len(["layers", "before", "after", "sentences", "words", "training"])
    assert min(found["plots"]) > 100 and found["told"]
    assert found["links"] == len(found["titles"]) == len(set(found["titles"])) and found["dead"] == 0
    assert {"All benchmarks", "Words on a map", "Cost", "Text classification: sib200"} <= set(found["titles"])


def test_an_error_of_the_page_would_be_heard(tmp_path: Path) -> None:
    assert ask(tmp_path, page("x", "<script>nothing.there()</script>"), "return view.wrong.length;") == 1


COLUMNS = {
    "plain": (["9.5", "10.1", "", "-3"], ["-3", "9.5", "10.1", ""]),
    "signs": (["+2.0", "−11.0", "+10.0", ""], ["−11.0", "+2.0", "+10.0", ""]),
    "spread": (["9.9 ± 20.0", "10.0 ± 0.1", "", "2.0 ± 3.0"], ["2.0 ± 3.0", "9.9 ± 20.0", "10.0 ± 0.1", ""]),
    "thousands": (["1,000", "20", "", "300"], ["20", "300", "1,000", ""]),
    "p": (["0.020", "&lt; 0.001", "", "0.010"], ["< 0.001", "0.010", "0.020", ""]),
    "bold": (["<b>+3.0</b>", "+20.0", "", "<b>−1.0</b>"], ["−1.0", "+3.0", "+20.0", ""]),
    "time": (
        [duration(3600), duration(75), "", duration(9)],
        ["9.0 s", "1 min 15 s", "1 h 00 min", ""],
    ),
    "text": (["b10", "a", "", "b2"], ["a", "b10", "b2", ""]),
}
"""Cells of a column, and how they stand when sorted upwards."""


def test_tables_sort_numbers_as_numbers_and_leave_empty_cells_last(tmp_path: Path) -> None:
    rows = list(zip(*(cells for cells, _ in COLUMNS.values()), strict=True))
    groups = [("", 3), ("more", len(COLUMNS) - 3)]
    table = html_table(list(COLUMNS), rows, ["mean"] * len(COLUMNS), groups)
    found = ask(
        tmp_path,
        page("tables", table),
        """
        const table = page.querySelector("table"), heads = [...table.tHead.rows[1].cells];
        const column = (i) => [...table.tBodies[0].rows].map((row) => row.cells[i].textContent);
        const press = (i) => { heads[i].querySelector("button").click(); return [heads[i].ariaSort, column(i)]; };
        return heads.map((head, i) => ({
            name: head.querySelector("button").textContent, up: press(i), down: press(i), right: head.className,
            marked: heads.filter((other) => other.ariaSort).length, foot: table.tFoot.rows[0].cells[i].textContent,
        }));""",
    )
    for column in found:
        upwards = COLUMNS[column["name"]][1]
        assert column["up"] == ["ascending", upwards], column["name"]
        assert column["down"] == ["descending", [*upwards[-2::-1], ""]], column["name"]
        assert column["marked"] == 1 and column["foot"] == "mean"
        assert column["right"] == ("" if column["name"] == "text" else "number")
    assert len(found) == len(COLUMNS)


def test_headings_are_reached_and_pressed_by_keyboard(tmp_path: Path, report: str) -> None:
    found = ask(
        tmp_path,
        report,
        """
        const buttons = [...page.querySelectorAll("th button")];
        buttons[0].focus();
        return {
            focused: page.activeElement === buttons[0],
            native: buttons.every((button) => button.type === "button" && button.tabIndex === 0 && !button.disabled),
            count: buttons.length,
            tables: page.querySelectorAll("table").length,
        };""",
    )
    assert found["focused"] and found["native"], "a button answers Enter and Space by itself"
    assert found["count"] > 3 * found["tables"]


WIDER = """
    const inBox = (node) => node.closest(".scroll, pre");
    return {
        page: page.documentElement.scrollWidth, window: view.innerWidth,
        wider: [...page.querySelectorAll("body *")]
            .filter((node) => !inBox(node.parentElement) && node.getBoundingClientRect().right > view.innerWidth + 0.5)
            .map((node) => node.outerHTML.slice(0, 80)),
        scrolling: [...page.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth).length,
        fixed: [...page.querySelectorAll("figure > .scroll")]
            .filter((box) => box.scrollWidth > box.clientWidth && box.tabIndex !== 0).length,
    };"""


def test_on_a_phone_nothing_is_wider_than_the_window(tmp_path: Path, report: str) -> None:
    found = ask(tmp_path, report, WIDER, PHONE)
    assert found["window"] == PHONE and found["page"] <= PHONE and found["wider"] == []
    assert found["scrolling"] > 5 and found["fixed"] == 0, "what is wide scrolls in its box, also by keyboard"
    broken = report.replace("<main>", f'<main><div style="width:{PHONE + 100}px">too wide</div>', 1)
    assert ask(tmp_path, broken, WIDER, PHONE)["wider"], "the test would have seen it"


CLIPPED = """return [...page.querySelectorAll(".scroll")]
    .filter((box) => {
        const content = box.firstElementChild.getBoundingClientRect(), edge = box.getBoundingClientRect();
        const clips = view.getComputedStyle(box).overflow !== "visible";
        return content.right > view.innerWidth + 0.5 || (clips && content.bottom > edge.bottom + 0.5);
    })
    .map((box) => box.innerHTML.slice(0, 80));"""
PAPER = 690
"""The width of an A4 page without its margins, in pixels."""


def test_on_paper_no_table_or_figure_is_cut_off(tmp_path: Path, report: str) -> None:
    assert ask(tmp_path, report, CLIPPED, PAPER), "on a screen some scroll"
    assert ask(tmp_path, report.replace("@media print", "@media all"), CLIPPED, PAPER) == []


def test_it_prints_whole_with_headings_on_every_page(tmp_path: Path, report: str) -> None:
    (tmp_path / "page.html").write_text(report, encoding="utf-8")
    pdf = tmp_path / "report.pdf"
    chromium(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={pdf}", (tmp_path / "page.html").as_uri())
    done = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, timeout=60, check=True)
    pages = [" ".join(text.split()) for text in done.stdout.split("\f") if text.strip()]
    printed = " ".join(pages)
    assert len(pages) > 5
    for code in full_data().statistics:  # the last table, with all languages
        assert re.search(rf"\b{code} \S.*?1,000,000 187,655 812,345 9,876,543 54,321", printed), code
    split = [text for text in pages if re.match(r"code language", text)]
    assert split, "a table that goes on over a page has its headings there again"
    assert "All settings" not in printed, "what is closed stays closed"


CHANGE = """return [...page.querySelectorAll("th")].filter((head) => /^change/.test(head.textContent))
    .map((head) => head.getBoundingClientRect().right);"""


def test_on_a_phone_the_change_is_visible_without_scrolling(tmp_path: Path, report: str) -> None:
    edges = ask(tmp_path, report, CHANGE, PHONE)
    assert len(edges) > 5 and max(edges) <= PHONE
    wide = report.replace("</style>", "th, td { padding: 0 2rem !important; }</style>", 1)
    assert max(ask(tmp_path, wide, CHANGE, PHONE)) > PHONE

"""A first run of the quickstart, made small, in a terminal of 80 columns; what it prints, and what can be done with it.

Then the same recipe with dictionaries that have the mistakes of a first day.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from support.own_data import word_pairs, write_dictionary
from support.starter import starter_lines

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
STEPS = 30
CHANGES = (
    "languages=[en, de]",
    f"pretrain.steps={STEPS}",
    "pretrain.log_every=1",
    "pretrain.workers=1",
    "storage=runs",
)
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the user works."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "recipe.yaml").write_text((ROOT / "jobs/recipes/quickstart.yaml").read_text())
    return folder


@pytest.fixture(scope="module")
def run(babelray, folder: Path) -> Run:
    def start(*changes: str, command: str = "run") -> subprocess.CompletedProcess[str]:
        return babelray(command, "recipe.yaml", *CHANGES, *changes, cwd=folder, COLUMNS="80")

    return start


@pytest.fixture(scope="module")
def finished(run: Run) -> str:
    process = run()
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def complete(folder: Path, stage: str) -> list[Path]:
    return sorted(path.parent for path in (folder / "runs" / stage).glob("*/manifest.json") if not path.parent.suffix)


def only(folder: Path, stage: str) -> Path:
    (artifact,) = complete(folder, stage)
    return artifact


def test_tables_fit_the_terminal_and_training_shows_its_loss(finished: str) -> None:
    tables = [line for line in finished.splitlines() if line[:1] in set("┏┃┡│├└")]
    assert len(tables) > 10 and max(map(len, tables)) <= 80
    assert re.search(r"loss \d+\.\d+", finished) and "tokens/s" in finished


def test_scores_have_intervals_and_chance(finished: str) -> None:
    notes = " ".join(finished.split())
    for label in ("retrieval", "words", "bli"):
        (note,) = re.findall(
            rf"{label}: [A-Z][^%]*?; chance (?:< )?([\d.]+); 95 % interval of the mean ([\d.]+)–([\d.]+)", notes
        )
        chance, low, high = map(float, note)
        assert 0 < chance < 10 and 0 <= low < high <= 100


def test_the_printed_lines_load_the_encoder(finished: str, folder: Path) -> None:
    encoder = re.findall(r"^Encoder: +(.*)$", finished, re.MULTILINE)[-1]
    assert Path(encoder) == only(folder, "pretrain") / "encoder"
    lines = finished.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Encoder: ")) + 1
    code = [line.strip() for line in lines[start : start + 3]]
    process = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    page = (only(folder, "report") / "report.html").read_text()
    assert "SentenceTransformer(" in page and "interval" in page


def test_what_lies_in_the_storage_is_listed_and_found(finished: str, cli, folder: Path) -> None:
    listed = cli("runs", cwd=folder).stdout
    assert all(only(folder, stage).name in listed for stage in ("corpus", "pretrain", "report"))
    assert cli("runs", "latest", "pretrain", cwd=folder).stdout.strip() == str(only(folder, "pretrain"))
    shown = yaml.safe_load(cli("runs", "show", "runs/pretrain/latest", cwd=folder).stdout.partition("\n")[2])
    assert shown["settings"]["training"]["steps"] == STEPS
    sentences = cli("corpus", "inspect", "runs/corpus/latest", cwd=folder).stdout
    assert "Sentences" in sentences and " · " in sentences
    neighbours = cli("vectors", "neighbours", "runs/align/latest", "de", "wasser", "--to", "en", cwd=folder)
    assert neighbours.returncode == 0 and len(neighbours.stdout.splitlines()) == 11
    links = cli("word-align", "Ein Hund bellt.", "A dog barks.", "--model", "runs/pretrain/latest", cwd=folder)
    assert links.returncode == 0, links.stderr


def test_vectors_are_exported_once(finished: str, cli, folder: Path) -> None:
    first = cli("vectors", "export", "runs/align/latest", "out", "--languages", "de", cwd=folder)
    assert first.returncode == 0 and (folder / "out/de.vec").exists()
    (folder / "out/de.vec").write_text("mine")
    again = cli("vectors", "export", "runs/align/latest", "out", cwd=folder)
    assert again.returncode == 2 and "exists already" in again.stderr
    assert [path.read_text() for path in (folder / "out").iterdir()] == ["mine"], "no language was written"


def test_force_shows_what_would_be_made_again(finished: str, run: Run) -> None:
    plain = run("--dry-run").stdout
    assert "to do" not in plain and "to be made again" not in plain
    forced = [
        line.split()[0] for line in run("--dry-run", "--force", "pretrain").stdout.splitlines() if "again" in line
    ]
    assert forced == ["pretrain", "evaluate", "report"]


def test_another_dictionary_redoes_neither_encoder_nor_vectors(finished: str, run: Run, folder: Path) -> None:
    """Some of its lines are bad, and no tested word is in the text: a summary, and a dash with its reason."""
    write_dictionary(folder / "train-en-de.txt", [*word_pairs("en", "de")[:200], *[("no translation", "")] * 12])
    write_dictionary(folder / "test-en-de.txt", [(f"nowhere{i}", f"nirgends{i}") for i in range(30)])
    sources = [f"{{path: '{folder}/{split}-{{hub}}-{{lang}}.txt', split: {split}}}" for split in ("train", "test")]
    process = run(f"corpus.dictionary=[{', '.join(sources)}]", command="align")
    assert process.returncode == 0, process.stderr
    text = " ".join((process.stdout + process.stderr).split())
    assert text.count("complete, kept") == 2 and "the text is that of" in text
    for stage, artifacts in (("corpus", 2), ("encoder", 1), ("extract", 1), ("align", 2)):
        assert len(complete(folder, stage)) == artifacts, stage
    assert "12 of 212 lines are unusable (fewer than two columns: 12, first in line 201)" in text
    rows = [line.rstrip("│ ") for line in process.stdout.splitlines() if line.startswith("│ de")]
    assert any(row.endswith("–") for row in rows) and "0.0 → 0.0" not in text, "no score of nothing"


def test_a_reversed_dictionary_ends_the_run(run: Run, folder: Path) -> None:
    write_dictionary(folder / "wrong-en-de.txt", word_pairs("de", "en"))
    before = complete(folder, "corpus")
    process = run(f"corpus.dictionary={folder}/wrong-{{hub}}-{{lang}}.txt", command="corpus")
    assert process.returncode == 2 and "with the columns exchanged" in process.stderr
    assert "wrong-en-de.txt" in process.stderr and "{hub}-{lang}" in process.stderr
    assert complete(folder, "corpus") == before


def test_text_that_is_dropped_is_loud(run: Run, folder: Path) -> None:
    for code in ("en", "de"):
        lines = [line for line in starter_lines(code) if line][:200]
        short = [f"Nein {number}" for number in range(50)] if code == "de" else []
        (folder / f"{code}-text.txt").write_text("\n".join([*lines, *short]) + "\n")
    source = f"{{path: '{folder}/{{lang}}-text.txt', format: sentences}}"
    process = run(f"corpus.text={source}", "corpus.parallel=[]", command="corpus")
    text = " ".join((process.stdout + process.stderr).split())
    assert process.returncode == 0, text
    (warning,) = re.findall(r"warning: (de: [^:]*)", text)
    assert "%" in warning and "Nein 0" in text and "warning: en" not in text

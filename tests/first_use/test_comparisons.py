"""Encoders scored and compared on own parallel text, with the shipped encoder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from babelray.metrics.intervals import share_interval
from support.own_data import write_parallel_text

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = 40
Evaluate = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """German, Icelandic (which is not built in), and `zz`, which is no language."""
    return write_parallel_text(tmp_path_factory.mktemp("own") / "data", SENTENCES, de="de", **{"is": "nl"}, zz="fr")


@pytest.fixture(scope="module")
def evaluate(cli, data: str) -> Evaluate:
    def run(out: Path, *settings: str, model: str = "babelray-mini", data: str = data) -> CompletedProcess[str]:
        options = ["--model", model, "--benchmark", "tatoeba", "--data", data, "--out", str(out)]
        return cli("evaluate", *options, *settings)

    return run


@pytest.fixture(scope="module")
def results(evaluate: Evaluate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of one encoder: `cosine`, `csls`, and `german`, of one language."""
    folder = tmp_path_factory.mktemp("results")
    for name, settings in (("cosine", []), ("csls", ["scoring=csls"]), ("german", ["languages=[de]"])):
        assert evaluate(folder / name, *settings).returncode == 0
    return folder


@pytest.fixture
def copy(results: Path, tmp_path: Path) -> Path:
    shutil.copytree(results, tmp_path / "results")
    return tmp_path / "results"


def scores(folder: Path) -> dict[str, dict[str, float]]:
    return json.loads((folder / "result.json").read_text())["scores"]


def test_other_settings_are_not_compared_unasked(cli, results: Path) -> None:
    refused = cli("compare", str(results / "cosine"), str(results / "csls"))
    assert refused.returncode == 2 and "scoring: cosine (cosine), csls (csls)" in refused.stderr
    assert "--allow-differences" in refused.stderr and not refused.stdout
    asked = cli("compare", "--allow-differences", str(results / "cosine"), str(results / "csls"))
    assert asked.returncode == 0 and "warning: they differ in scoring: cosine (cosine), csls (csls)" in asked.stdout
    assert "They are of the same encoder." in asked.stdout
    (heading,) = (line for line in asked.stdout.splitlines() if "difference" in line)
    assert heading.index("cosine") < heading.index("csls") < heading.index("difference")
    own = [scores(results / name)["de"]["mean"] for name in ("cosine", "csls")]
    (german,) = (line for line in asked.stdout.splitlines() if line.startswith("│ de "))
    assert [float(cell) for cell in german.split("│")[2:5]] == [
        round(100 * value, 1) for value in (*own, own[1] - own[0])
    ]


def test_other_languages_are_compared_on_those_of_both(cli, results: Path) -> None:
    paths = [str(results / name) for name in ("cosine", "german")]
    refused = cli("compare", *paths)
    assert refused.returncode == 2 and "languages: is in cosine, not in all" in refused.stderr
    asked = cli("compare", *paths, "--allow-differences").stdout
    assert [line.split()[1] for line in asked.splitlines() if line.startswith("│ ")] == ["de", "mean"]
    ranked = cli("compare", *paths, str(results / "csls"))
    assert ranked.returncode == 2 and "scoring" in ranked.stderr and "languages" in ranked.stderr


def test_other_data_are_not_compared_unasked(cli, evaluate: Evaluate, results: Path, data: str, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data")
    file = tmp_path / "data/tatoeba.de-en.de"
    file.write_text("\n".join(file.read_text().splitlines()[::-1]) + "\n")
    assert evaluate(tmp_path / "shuffled", data=str(tmp_path / "data")).returncode == 0
    refused = cli("compare", str(results / "cosine"), str(tmp_path / "shuffled"))
    assert refused.returncode == 2 and "data: tatoeba.de-en.de not the same in cosine and shuffled" in refused.stderr


def test_a_result_is_kept_and_replaced_only_on_request(evaluate: Evaluate, copy: Path) -> None:
    before = (copy / "cosine/result.json").read_bytes()
    again = evaluate(copy / "cosine")
    assert again.returncode == 0 and "kept: the same encoder, data and settings" in again.stdout
    other = evaluate(copy / "cosine", "scoring=csls")
    assert other.returncode == 2 and "scoring: cosine (there), csls (this command)" in other.stderr
    for option in (["--force", "all"], ["--dry-run"]):
        refused = evaluate(copy / "cosine", "scoring=csls", *option)
        assert refused.returncode == 2 and "for recipes" in refused.stderr
    assert (copy / "cosine/result.json").read_bytes() == before
    assert evaluate(copy / "cosine", "scoring=csls", "--force", "evaluate").returncode == 0
    assert scores(copy / "cosine") == scores(copy / "csls")


def test_every_language_is_measured_and_what_is_not_is_said(evaluate: Evaluate, copy: Path) -> None:
    assert list(scores(copy / "cosine")) == ["de", "is"]
    shown = evaluate(copy / "cosine").stdout
    assert "is Icelandic" in shown and "not read" in shown and "zz-en.zz" in shown, "also of a result that is kept"


def test_chance_and_interval_stand_beside_every_score(evaluate: Evaluate, copy: Path, tmp_path: Path) -> None:
    few = write_parallel_text(tmp_path / "few", 8, de="de")
    assert evaluate(tmp_path / "few-out", data=few).returncode == 0
    for out, count, arguments in ((copy / "cosine", SENTENCES, {}), (tmp_path / "few-out", 8, {"data": few})):
        content = json.loads((out / "result.json").read_text())
        shown = {line.split()[0]: line for line in evaluate(out, **arguments).stdout.splitlines() if line.strip()}
        for code, own in content["scores"].items():
            low, high = content["intervals"][code]
            widest = share_interval(own["mean"], count)
            assert widest[0] - 1e-9 <= low < own["mean"] <= high + 1e-9 <= widest[1] + 2e-9, "two directions tell more"
            assert own["mean"] < high or own["mean"] == 1
            assert f"{100 * low:.1f}–{100 * high:.1f}" in shown[code]
            assert content["chance"][code] == 1 / count and f" {100 / count:.1f} " in shown[code]


def test_the_artifact_of_a_run_is_an_encoder(cli, evaluate: Evaluate, results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs/pretrain/0123456789abcdef"
    shutil.copytree(ROOT / "platform/babelray/mini", folder / "encoder")
    manifest = {"stage": "pretrain", "fingerprint": folder.name, "created": "2026-01-01", "files": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert evaluate(tmp_path / "after", model=str(tmp_path / "runs/pretrain/latest")).returncode == 0
    assert scores(tmp_path / "after") == scores(results / "cosine")
    process = cli("compare", str(results / "cosine"), str(tmp_path / "after"))
    assert process.returncode == 0 and "They are of the same encoder." in process.stdout


def test_no_score_is_computed_that_cannot_be_written(evaluate: Evaluate, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    process = evaluate(tmp_path / "file")
    assert process.returncode == 2 and "cannot write" in process.stderr and not process.stdout


@pytest.mark.parametrize(
    ("model", "problem"),
    [("/nowhere", "there is no folder /nowhere"), ("babelray-mni", "'babelray-mini'?"), ("tests", "no config.json")],
)
def test_what_is_no_encoder(cli, evaluate: Evaluate, tmp_path: Path, model: str, problem: str) -> None:
    for process in (
        evaluate(tmp_path / "out", model=model),
        cli("word-align", "Ein Hund bellt.", "A dog barks.", "--model", model),
        cli("transport", "show", model, "Ein Hund bellt.", "A dog barks.", "--from", "de"),
    ):
        assert process.returncode == 2 and problem in process.stderr
    assert not (tmp_path / "out").exists()


def test_words_of_sentences_and_files_are_linked(cli, tmp_path: Path) -> None:
    languages = ["--from", "de", "--to", "en", "--method", "match"]
    sentences = cli("word-align", "Mein Bruder wohnt in Paris.", "My brother lives in Paris.", *languages)
    assert sentences.stdout.splitlines()[-1] == "0-0 1-1 2-2 3-3 4-4 5-5"
    files = [str(tmp_path / name) for name in ("de.txt", "en.txt")]
    Path(files[0]).write_text("Mein Bruder wohnt in Paris .\n")
    Path(files[1]).write_text("My brother lives in Paris .\n")
    process = cli("word-align", *files, *languages, "--out", str(tmp_path / "links"))
    assert process.returncode == 0 and (tmp_path / "links").read_text() == "0-0 1-1 2-2 3-3 4-4 5-5\n"
    for out in ("links", "de.txt"):
        before = (tmp_path / out).read_text()
        process = cli("word-align", *files, *languages, "--out", str(tmp_path / out))
        assert process.returncode == 2 and "exists already" in process.stderr
        assert (tmp_path / out).read_text() == before


def test_sentences_that_cannot_be_linked(cli, tmp_path: Path) -> None:
    process = cli("word-align", "Ein Hund", "A dog", "--from", "deu", "--to", "en")
    assert process.returncode == 2 and "Did you mean 'de'?" in process.stderr
    assert cli("word-align", "Hundur geltir", "A dog barks", "--from", "is", "--to", "en").returncode == 0
    process = cli("word-align", "", "A dog")
    assert process.returncode == 2 and "no word" in process.stderr
    process = cli("word-align", "Ein Hund", "A dog", "--out", str(tmp_path / "links"))
    assert process.returncode == 2 and "--out is for the links of two files" in process.stderr
    assert not (tmp_path / "links").exists()

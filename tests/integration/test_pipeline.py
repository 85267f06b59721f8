"""A whole run as a user would start it, on two workers, with every objective; then the same command again."""

import json
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from babelray.recipe.evaluate import HELD_OUT
from babelray.storage import Location
from babelray.storage.results import BenchmarkResults, read_results
from support.small_recipe import MLM, SCRATCH, small_recipe, write_recipe

STAGES = ("corpus", "encoder", "extract", "align", "expose", "pretrain", "evaluate", "report")
Command = Callable[..., subprocess.CompletedProcess[str]]
OBJECTIVES = [
    {"kind": "mlm", "batch_size": 4},
    {"kind": "contrastive", "batch_size": 4},
    {"kind": "contrastive", "name": "contrastive-words", "pairs": "words", "batch_size": 4},
    {"kind": "static-dcca", "batch_size": 64},
    {"kind": "static-mse", "batch_size": 8},
    {"kind": "transport", "batch_size": 4},
    {"kind": "word-l2", "batch_size": 4},
    {"kind": "tlm", "batch_size": 4},
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, babelray: Command) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("run")
    recipe = small_recipe(
        folder,
        encoder={
            "scratch": SCRATCH
            | {
                "static": {"steps": 2, "learning_rate": 0.05, "objectives": [{"kind": "contrastive", "batch_size": 4}]},
                "training": {"steps": 3, "log_every": 1, "objectives": [MLM]},
            }
        },
        pretrain={
            "steps": 4,
            "log_every": 1,
            "zero_stage": 2,
            "objectives": OBJECTIVES,
            "validation": {"every": 2, "held_out": 0.1, "words": 50},
        },
        expose={
            "epochs": 1,
            "batch_size": 64,
            "learning_rate": 1e-3,
            "hard_negatives": 1,
            "candidates": 50,
            "lambdas": [0, 0.5, 1],
            "development": "zh",
        },
        evaluate={
            "layer": -1,
            "benchmarks": [
                *HELD_OUT,
                {"benchmark": "tatoeba", "name": "table", "data": str(folder / "table.tsv"), "layer": -1},
                {
                    "benchmark": "classification",
                    "data": str(folder / "table.tsv"),
                    "where": {"row": [12, 23]},
                    "train": str(folder / "table.tsv"),
                    "train_where": {"row": [0, 11]},
                    "table": {"text": "{lang}", "label": "topic"},
                    "seeds": [1, 2],
                    "fine_tuning": {"epochs": 1, "batch_size": 4},
                },
                {"benchmark": "mt-quality", "data": str(folder / "absent"), "required": False},
            ],
        },
    )
    table = [f"{row}\t{'ab'[row % 2]}\ta dog {row}\tein Hund {row}\t狗 {row}" for row in range(24)]
    (folder / "table.tsv").write_text("\n".join(["row\ttopic\ten\tde\tzh", *table]) + "\n")
    path = write_recipe(folder / "small.yaml", recipe)
    process = babelray("run", str(path))
    assert process.returncode == 0, process.stdout + process.stderr
    return path, process.stdout


def artifact(path: Path, stage: str) -> Path:
    (folder,) = (path.parent / "runs" / stage).iterdir()
    return folder


def test_every_stage_leaves_a_traced_artifact(finished: tuple[Path, str]) -> None:
    path, _ = finished
    before: dict[str, str] = {}
    for stage in STAGES:
        folder = artifact(path, stage)
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["stage"] == stage and manifest["fingerprint"] == folder.name
        for name, entry in manifest["inputs"].items():
            assert entry["fingerprint"] == before[name]
        before[stage] = folder.name
        assert stage == "report" or manifest["metrics"]["peak_memory_bytes"] > 2**20
        assert not [p for p in folder.rglob("*") if p.suffix in (".pkl", ".pt", ".bin")], "nothing is pickled"


def results(path: Path) -> dict[str, BenchmarkResults]:
    return read_results(Location.parse(artifact(path, "evaluate")))


def test_the_scores_are_printed_and_add_up(finished: tuple[Path, str]) -> None:
    path, output = finished
    scored = results(path)
    for label in ("retrieval", "words", "bli"):
        for system in ("before", "after"):
            scores = scored[label].scores[system]
            assert set(scores) == {"de", "zh"}
            assert all(0 <= row[scored[label].main_metric] <= 1 for row in scores.values())
    for system in ("before", "after"):
        layers = scored["layers"].figures[system]["layers"]["de"]
        last = max(layers, key=int)
        assert layers[last] == scored["retrieval"].scores[system]["de"]["mean"]
        assert set(scored["perplexity"].scores[system]) == {"en", "de", "zh"}
    assert "German" in output and "Report:" in output and "dashboard" in output
    page = (artifact(path, "report") / "report.html").read_text()
    assert "contrastive-words" in page


def test_benchmarks_are_scored_before_and_after_and_every_answer_is_kept(finished: tuple[Path, str]) -> None:
    path, output = finished
    folder, scored = artifact(path, "evaluate"), results(path)
    assert set(scored) == {*HELD_OUT, "table", "classification"} and "left out: mt-quality" in output
    for label in ("table", "classification"):
        for system, scores in scored[label].scores.items():
            answers = json.loads((folder / "predictions" / f"{label}-{system}.json").read_text())
            assert set(answers) == set(scores)
        p = scored[label].p
        assert set(p) == {"", *scored[label].scores["after"]} and all(0 < value <= 1 for value in p.values())
    assert set(scored["classification"].scores["after"]) == {"en", "de", "zh"}
    manifest = json.loads((folder / "manifest.json").read_text())
    mean = sum(row["mean"] for row in scored["table"].scores["after"].values()) / 2
    assert manifest["metrics"]["table/after"] == pytest.approx(mean)
    matrix = scored["retrieval"].figures["after"]["matrix"]
    assert matrix["de"]["en"] == scored["retrieval"].scores["after"]["de"]["to_hub"] and 0 <= matrix["de"]["zh"] <= 1
    points = scored["word-map"].figures["after"]["points"]
    assert {point["language"] for point in points} == {"en", "de", "zh"}
    page = (artifact(path, "report") / "report.html").read_text()
    assert "classification" in page and "table" in page


def test_lexical_knowledge_is_exposed(finished: tuple[Path, str]) -> None:
    """At λ = 0 the scores are those of the static vectors; the mixed vectors lie in the encoder's space."""
    from babelray.models.lexical import LexicalEncoder

    path, output = finished
    folder, begun = artifact(path, "expose"), artifact(path, "encoder")
    grid = json.loads((folder / "grid.json").read_text())
    aligned = results(path)["bli"].scores["after"]
    for code in ("de", "zh"):
        assert grid[code]["plain"]["0"]["p1"] == pytest.approx(aligned[code]["p1"])
        assert grid[code]["plain"]["0"] == grid[code]["tuned"]["0"]
        start, tuned = (
            load_file(location / "encoder/model.safetensors") for location in (begun, folder / f"{code}-en")
        )
        assert any(not torch.equal(start[name], tuned[name]) for name in start)
        encoder = LexicalEncoder.from_pretrained(str(folder / f"{code}-en"))
        known = encoder.vectors[code].words[0]
        vectors = encoder.words([known, "Dackelwelpe"], code)
        assert vectors.shape == (2, 32) and torch.allclose(vectors.norm(dim=1), torch.ones(2), atol=1e-5)
        alone = encoder.encoder.encode(["Dackelwelpe"], "all")[0]
        assert torch.allclose(vectors[1], alone / alone.norm(), atol=1e-5)
    manifest = json.loads((folder / "manifest.json").read_text())
    best = max(grid["zh"]["tuned"].values(), key=lambda scores: scores["p1"])["p1"]
    assert grid["zh"]["tuned"][f"{manifest['metrics']['lambda']:g}"]["p1"] == best
    assert "Word translation, P@1 %" in output
    assert "<svg" in (artifact(path, "report") / "exposure.html").read_text()


def test_held_out_sentences_were_never_trained_on(finished: tuple[Path, str]) -> None:
    from babelray.lexicon.pairs import read_pairs
    from babelray.text.corpus import read_sentences

    corpus = Location.parse(artifact(finished[0], "corpus"))
    for code in ("de", "zh"):
        tested = read_pairs(corpus / "parallel" / f"{code}-en", "test")
        assert len(tested) > 40
        assert {pair.source for pair in tested}.isdisjoint(read_sentences(corpus, code)["text"].to_pylist())
        assert {pair.target for pair in tested}.isdisjoint(read_sentences(corpus, "en")["text"].to_pylist())


def test_the_encoder_loads_everywhere(finished: tuple[Path, str]) -> None:
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    folder = str(artifact(finished[0], "pretrain") / "encoder")
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(["Der Hund läuft."], return_tensors="pt")
    assert model(**encoded).last_hidden_state.shape[-1] == 32
    assert SentenceTransformer(folder, device="cpu").encode(["Der Hund läuft."]).shape == (1, 32)


def test_training_changed_the_encoder_and_logged_every_objective(finished: tuple[Path, str]) -> None:
    from babelray.encoder.load import load_encoder

    path, _ = finished
    before, after = (load_encoder(str(artifact(path, stage) / "encoder")) for stage in ("encoder", "pretrain"))
    moved = [not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True)]
    assert sum(moved) > 0.9 * len(moved)
    curves = json.loads((artifact(path, "pretrain") / "curves.json").read_text())
    assert [row["step"] for row in curves] == [1, 2, 3, 4]
    wanted = {f"loss/{objective.get('name', objective['kind'])}" for objective in OBJECTIVES}
    assert wanted <= set(curves[0]["values"])
    assert {"validation/mlm", "validation/retrieval", "validation/semantic"} <= set(curves[1]["values"])
    scores = {row["step"]: row["values"].get("validation/retrieval", -1) for row in curves}
    manifest = json.loads((artifact(path, "pretrain") / "manifest.json").read_text())
    assert scores[manifest["metrics"]["step"]] == max(scores.values()), "the best checkpoint is the result"


def test_the_model_card_says_what_it_is(finished: tuple[Path, str]) -> None:
    card = (artifact(finished[0], "pretrain") / "encoder" / "README.md").read_text()
    assert "language: [en, de, zh]" in card and "| word-l2 | word-l2 | 4 | 1 |" in card and "| retrieval | " in card
    links = (artifact(finished[0], "pretrain") / "alignments" / "de-en.tsv").read_text().splitlines()
    assert len(links) > 100 and all(line.count("\t") == 2 for line in links)


def test_mlflow_has_a_parent_and_a_child_for_each_stage(finished: tuple[Path, str]) -> None:
    with sqlite3.connect(finished[0].parent / "runs/mlflow.db") as database:
        runs = dict(database.execute("select name, status from runs"))
        assert set(runs) == {"small", *STAGES}
        assert set(runs.values()) == {"FINISHED"}
        names = {name for (name,) in database.execute("select distinct key from metrics")}
        assert {"loss/mlm", "loss/transport", "language/transport/zh", "retrieval/after", "seconds"} <= names
        parameters = dict(database.execute("select key, value from params"))
        assert parameters["pretrain.objectives.transport.blur"] == "0.05" and parameters["hub"] == "en"
    artifacts = {p.name for p in (finished[0].parent / "runs/mlflow-artifacts").rglob("*") if p.is_file()}
    assert {"recipe.yaml", "manifest.json", "report.html"} <= artifacts


def test_the_second_run_does_nothing_and_says_so(finished: tuple[Path, str], babelray: Command) -> None:
    path, _ = finished
    before = {p: p.stat().st_mtime_ns for p in (path.parent / "runs").rglob("*") if p.is_file()}
    process = babelray("run", str(path))
    assert process.returncode == 0 and "all 8 stages are complete, nothing to do" in process.stdout
    assert "German" in process.stdout, "the scores are shown again"
    assert {p: p.stat().st_mtime_ns for p in (path.parent / "runs").rglob("*") if p.is_file()} == before


def test_a_damaged_artifact_is_refused_and_force_repairs_it(finished: tuple[Path, str], babelray: Command) -> None:
    path, _ = finished
    page = artifact(path, "report") / "report.html"
    content = page.read_text()
    page.write_text("")
    process = babelray("run", str(path))
    assert process.returncode == 2 and "--force report" in process.stderr
    process = babelray("run", str(path), "--force", "report")
    assert process.returncode == 0, process.stderr
    assert page.read_text() == content
    assert process.stdout.count("complete, kept") == 7


def test_an_empty_corpus_ends_the_run_and_leaves_no_artifact(
    tmp_path: Path, babelray: Command, finished: tuple[Path, str]
) -> None:
    for code in ("en", "de", "zh"):
        (tmp_path / f"{code}.txt").write_text("One.\n\nTwo.\n")
    process = babelray("corpus", str(finished[0]), f"corpus.text={tmp_path}/{{lang}}.txt", f"storage={tmp_path}/runs")
    assert process.returncode == 2
    assert "nothing is left of the text of" in process.stderr and "Traceback" not in process.stderr
    assert [p.name for p in (tmp_path / "runs/corpus").iterdir() if not p.name.endswith(".partial")] == []

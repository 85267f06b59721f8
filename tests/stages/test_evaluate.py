"""The evaluate stage: which benchmarks it scores, what it writes, and what it does not do twice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from babelray.errors import DataError
from babelray.pipeline.stage import Job
from babelray.recipe.evaluate import EvaluateConfig
from babelray.stages import evaluate
from babelray.stages.evaluate import EvaluateStage, EvaluationSettings, score_benchmark
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.storage.results import read_results
from support.toy_benchmark import toy_benchmark


def settings(*benchmarks: Any, **config: Any) -> EvaluationSettings:
    chosen = EvaluateConfig(benchmarks=list(benchmarks), **config).completed()
    names = {"en": "English", "de": "German", "nl": "Dutch"}
    return EvaluationSettings(names=names, languages=list(names), hub="en", seed=1, benchmarks=chosen)


def run_here(tasks: Any, progress: Any, unit: str) -> dict[str, Any]:
    """Tasks of the cluster, one after the other in this process."""
    return {task.name: task.function(*task.arguments) for task in tasks}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that runs the stage without a cluster; returns its metrics and the artifact's location."""
    monkeypatch.setattr(evaluate, "run_tasks", run_here)
    inputs = {name: Artifact(Location.parse(tmp_path / name), {}) for name in EvaluateStage.needs}
    messages: list[str] = []

    def run(chosen: EvaluationSettings) -> tuple[dict[str, Any], Location]:
        out = Location.parse(tmp_path / "out")
        progress = SimpleNamespace(update=lambda *about: None)
        return EvaluateStage().run(Job(chosen, inputs, out, progress, lambda *about: None, messages.append)), out

    run.messages = messages  # type: ignore[attr-defined]
    return run


def test_every_benchmark_is_scored_before_and_after(job: Any) -> None:
    with toy_benchmark():
        metrics, out = job(settings("toy", {"benchmark": "toy", "name": "again", "bonus": 0.25}))
        assert metrics == {"toy/before": 0.5, "toy/after": 0.75, "again/before": 0.75, "again/after": 1.0}
        results = read_results(out)
    assert list(results) == ["toy", "again"] and list(results["toy"].scores) == ["before", "after"]
    assert results["again"].title == "A toy: again" and results["again"].meta["settings"]["bonus"] == 0.25
    assert set(results["toy"].p) == {"", "de", "nl"}
    assert (out / "predictions/toy-before.json").read_json()["de"] == {"example_scores": [1, 0, 1, 0]}


def test_a_summary_has_headline_benchmarks_by_language_and_the_means_of_others(job: Any) -> None:
    with toy_benchmark() as toy:
        _, out = job(settings("toy"))
        summary = EvaluateStage().summary(Artifact(out, {}), settings("toy"))
        assert summary.tables[0].rows == [["toy", "toys found, %", "2", "50.0", "75.0", "1.000"]]
        interval = "95 % interval of the mean 15.0–85.0 → 30.1–95.4; of one language ± 32.7"
        assert summary.tables[0].notes == [f"toy; chance 25.0; {interval}"]
        toy.headline = True
        (out / "results").delete()
        _, out = job(settings("toy"))
        table = EvaluateStage().summary(Artifact(out, {}), settings("toy")).tables[0]
        assert [column.title for column in table.columns] == ["", "language", "toy %"] and table.mean
        assert table.rows == [["de", "German", (0.5, 0.75)], ["nl", "Dutch", (0.5, 0.75)], ["", "mean", (0.5, 0.75)]]


def test_parts_are_joined(job: Any) -> None:
    with toy_benchmark(parts=["de", "nl"]):
        metrics, out = job(settings("toy"))
    assert metrics["toy/after"] == 0.75
    assert read_results(out)["toy"].figures["after"] == {"matrix": {"de": {"en": 0.75}, "nl": {"en": 0.75}}}


def test_parts_that_were_scored_are_not_scored_again(job: Any) -> None:
    with toy_benchmark(parts=["de", "nl"]) as toy:
        metrics, out = job(settings("toy"))
        for folder in ("results", "predictions"):  # as if it had been killed before the last part
            (out / folder).delete()
        toy.fails = True
        assert job(settings("toy"))[0] == metrics
        assert read_results(out)["toy"].p.keys() == {"", "de", "nl"}


def test_a_benchmark_that_was_scored_is_not_scored_again(job: Any, tmp_path: Path) -> None:
    with toy_benchmark() as toy:
        metrics, out = job(settings("toy"))
        toy.fails = True
        assert job(settings("toy"))[0] == metrics
        benchmark = settings("toy").benchmarks[0]
        assert score_benchmark(benchmark, None, out, "before")["de"]["share"] == 0.5  # type: ignore[arg-type]


def test_benchmarks_whose_data_are_missing(tmp_path: Path, job: Any) -> None:
    absent = {"benchmark": "tatoeba", "data": str(tmp_path / "nothing.tsv")}
    with pytest.raises(DataError):
        EvaluateStage().sources(settings(absent))
    optional = settings(absent | {"required": False})
    assert EvaluateStage().sources(optional) == []
    job(optional)
    assert job.messages and "left out: tatoeba, since there is nothing at" in job.messages[0]


def test_benchmarks_that_give_no_layer_read_that_of_the_recipe() -> None:
    chosen = settings("retrieval", {"benchmark": "words", "layer": 3}, "perplexity", layer=-1, batch_tokens=512)
    retrieval, words, perplexity = chosen.benchmarks
    assert (retrieval.layer, words.layer, retrieval.batch_tokens, perplexity.batch_tokens) == (-1, 3, 512, 512)


def test_by_default_everything_is_measured_on_held_out_data() -> None:
    benchmarks = EvaluateConfig().benchmarks
    assert all(benchmark.held_out for benchmark in benchmarks)
    assert {benchmark.label for benchmark in benchmarks} == {
        "retrieval", "words", "bli", "layers", "word-map", "perplexity",
    }  # fmt: skip


def test_two_benchmarks_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="two benchmarks have the same name"):
        EvaluateConfig(benchmarks=["retrieval", "retrieval"])


def test_one_language_cannot_be_compared(job: Any) -> None:
    alone = EvaluationSettings(languages=["en"], hub="en", seed=1, benchmarks=[])
    with pytest.raises(DataError, match="only one language"):
        job(alone)

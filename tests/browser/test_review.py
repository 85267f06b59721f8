"""A reviewer's walk through MLflow: log in, experiments, the stages of a run, two runs side by side, the report.

BABELRAY_SCREENSHOTS names a folder that keeps the pictures.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from babelray.pipeline.plan import plan
from babelray.recipe.load import load_recipe
from babelray.report.run import report_page
from babelray.storage import Location, s3
from babelray.tracking.tracker import Tracker
from support import servers
from support.report_data import full_data
from support.walk import browser

MISSING = "no chromium: tests/browser/install.sh installs it" if shutil.which("chromium") is None else ""
REASON = MISSING or next(filter(None, map(servers.available, ("s3", "postgres", "mlflow"))), "")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(REASON), reason=REASON)]
MLM = [{"kind": "mlm", "batch_size": 4}]


def track(recipe_file: Any, seed: int, folder: Path) -> None:
    """A run with two stages, curves and a report."""
    recipe = load_recipe(recipe_file(name="review", seed=seed, pretrain={"steps": 100 * seed, "objectives": MLM}))
    report = Location.parse(folder) / str(seed) / "report.html"
    report.write_text(report_page(full_data("review")))
    tracker = Tracker.start(recipe.description(), f"key-{seed}", Console(file=(folder / "said").open("w")))
    for step in plan(recipe, "encoder"):
        with tracker.stage(step.name, step.fingerprint, step.code) as child:
            for number in range(1, 4):
                child.metrics({"loss/mlm": 7 - seed - number / 10, "speed/tokens": 1000.0}, number)
    tracker.metrics({"retrieval/after": 0.4 + seed / 10, "retrieval/before": 0.1})
    tracker.file(report)
    tracker.end("FINISHED")


def test_a_reviewers_walk(recipe_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = Path(os.environ.get("BABELRAY_SCREENSHOTS") or tmp_path / "pictures")
    with (
        servers.s3(tmp_path / "s3") as storage,
        servers.postgres(tmp_path / "postgres") as database,
        # Not 127.0.0.1, whose pages MLflow trusts anyhow: as in `make cluster`.
        servers.mlflow(tmp_path / "mlflow", database.url, "s3://bucket/mlflow", "127.0.0.2", storage.env) as server,
    ):
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        for seed in (1, 2):
            track(recipe_file, seed, tmp_path)
        from mlflow import MlflowClient

        client = MlflowClient(server.url)
        experiment = client.get_experiment_by_name("review").experiment_id
        parents = client.search_runs([experiment], "tags.`babelray.part` = 'run'", order_by=["start_time"])
        assert len(parents) == 2
        asyncio.run(walk(server, experiment, [run.info.run_id for run in parents], tmp_path, pictures))
        for name, value in storage.env.items():  # only now: clients of MLflow need no access to the store
            monkeypatch.setenv(name, value)
        s3._CLIENTS.__dict__.clear()
        kept = Location.parse("s3://bucket/mlflow").files()
        s3._CLIENTS.__dict__.clear()
        assert sum(name.endswith("/report.html") for name in kept) == 2


async def walk(server: servers.Server, experiment: str, runs: list[str], folder: Path, pictures: Path) -> None:
    user, password = server.env["MLFLOW_TRACKING_USERNAME"], server.env["MLFLOW_TRACKING_PASSWORD"]
    async with browser(folder, user, "not the password") as page:
        await page.open(f"{server.url}/", "not authenticated", patience=60)
        assert page.asked_to_log_in
    shutil.rmtree(folder / "profile", ignore_errors=True)
    async with browser(folder, user, password) as page:
        await page.open(f"{server.url}/#/experiments", "review", "Experiments")
        assert page.asked_to_log_in
        await page.picture(pictures / "1-experiments.png")
        await page.open(f"{server.url}/#/experiments/{experiment}/runs", "review", "Run Name")
        await page.picture(pictures / "2-runs.png")
        await page.open(f"{server.url}/#/experiments/{experiment}/runs/{runs[0]}", "retrieval/after", "Child runs")
        await page.until("[...document.querySelectorAll('a')].map(a => a.innerText.trim())", {"corpus", "encoder"})
        assert "Finished" in await page.wait("Finished")
        await page.picture(pictures / "3-nested.png")
        chosen = urllib.parse.urlencode({"runs": json.dumps(runs), "experiments": json.dumps([experiment])})
        await page.open(f"{server.url}/#/compare-runs?{chosen}", "Comparing 2 Runs from 1 Experiment", "pretrain.steps")
        await page.picture(pictures / "4-compare.png")
        await page.open(f"{server.url}/#/experiments/{experiment}/runs/{runs[0]}/artifacts/report.html", "report.html")
        await page.wait_in_frame("review", "Babelray report", "Sentence retrieval")
        assert "Babelray report" not in await page.wait("report.html"), "it is the frame that shows it"
        await page.picture(pictures / "5-report.png")
        assert not page.failures

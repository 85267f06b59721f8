"""What a user sees when something is wrong: one clear message, exit code 2, no traceback, nothing written."""

import runpy
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from babelray.commands import doctor
from babelray.commands.app import app, assemble
from babelray.commands.lists import registries
from babelray.commands.options import program
from babelray.commands.run import first_paragraph
from babelray.pipeline.plan import ordered_stages
from babelray.pipeline.stage import STAGES, Stage
from babelray.version import __version__


def failed(process, *expected: str) -> None:
    assert process.returncode == 2, process.stderr
    for text in expected:
        assert text in process.stderr
    assert "Traceback" not in process.stderr + process.stdout


GROUPS = [
    [],
    ["corpus", "inspect"],
    ["runs", "list"],
    ["runs", "clean"],
    ["vectors", "neighbours"],
    ["vectors", "export"],
    ["transport", "show"],
]
COMMANDS = [[name] for name in typer.main.get_command(app).commands]  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", [*GROUPS, *COMMANDS], ids=" ".join)
def test_help_of_every_command(cli, command: list[str]) -> None:
    process = cli(*command, "--help")
    assert process.returncode == 0 and "Usage" in process.stdout


def test_every_stage_has_a_command_with_its_description(cli) -> None:
    for name, stage in ordered_stages().items():
        if not stage.compares:
            text = " ".join(cli(name, "--help").stdout.replace("│", " ").split())
            assert first_paragraph(stage).replace("`", "")[:40] in text and "[KEY=VALUE]..." in text


def test_version(cli) -> None:
    process = cli("--version")
    assert process.returncode == 0 and process.stdout.strip() == f"babelray {__version__}"


def test_the_package_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "-V"):
        monkeypatch.setattr(sys, "argv", ["babelray", option])
        with pytest.raises(SystemExit) as end:
            runpy.run_module("babelray", run_name="__main__")
        assert not end.value.code and capsys.readouterr().out.strip() == f"babelray {__version__}"


@pytest.mark.parametrize(
    ("called", "printed"),
    [
        (".venv/bin/babelray", ".venv/bin/babelray"),
        ("babelray", "babelray"),
        ("/site-packages/babelray/__main__.py", "python -m babelray"),
        (f"/{'long/' * 12}babelray", "babelray"),
    ],
)
def test_printed_commands_can_be_run(monkeypatch: pytest.MonkeyPatch, called: str, printed: str) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    assert program() == printed


@pytest.mark.parametrize("title", list(registries()))
def test_components_are_listed_with_their_descriptions(cli, title: str) -> None:
    process = cli("components")
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert any(line.startswith(title) for line in lines)
    for name, component in registries()[title].items():
        assert component.__doc__ and any(line.split()[0:1] == [name] for line in lines), name


def test_an_added_stage_has_a_command_and_is_listed(cli) -> None:
    class Counting(Stage[Any]):
        """Counts the words of a corpus."""

        name = "counting"
        needs = ("corpus",)

        def settings(self, recipe: Any) -> Any: ...

        def run(self, job: Any) -> dict[str, Any]:
            return {}

    STAGES.register(Counting)
    try:
        commands = typer.main.get_command(assemble()).commands  # type: ignore[attr-defined]
        assert commands["counting"].help.startswith("Counts the words of a corpus.")
        assert "Counts the words of a corpus" in cli("components").stdout
    finally:
        STAGES.remove("counting")


def test_unknown_key_and_command(cli, recipe_file, tmp_path: Path) -> None:
    failed(cli("run", str(recipe_file()), "pretrain.stepz=1"), "pretrain.stepz: unknown key; did you mean 'steps'?")
    failed(cli("run", str(tmp_path / "none.yaml")), "there is no recipe at")
    failed(cli("walk"), "No such command")
    assert not (tmp_path / "runs").exists()


def test_debug_shows_the_traceback(cli, tmp_path: Path) -> None:
    process = cli("--debug", "run", str(tmp_path / "none.yaml"))
    assert process.returncode != 0 and "Traceback" in process.stderr


def test_missing_text(cli, recipe_file, tmp_path: Path) -> None:
    process = cli("run", str(recipe_file()), f"corpus.text={tmp_path}/{{lang}}.txt")
    failed(process, f"no file for language 'en' at {tmp_path}/en.txt")
    assert not (tmp_path / "runs").exists()


def test_a_ray_address_that_does_not_answer(babelray, recipe_file) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        failed(babelray("run", str(recipe_file()), RAY_ADDRESS=address), f"the Ray address {address} does not answer")
    failed(babelray("run", str(recipe_file()), RAY_ADDRESS="nonsense"), "the Ray address nonsense does not answer")


def test_storage_that_cannot_be_written(cli, recipe_file, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed(cli("run", str(recipe_file()), f"storage={tmp_path}/file/runs"), "a part of the path is a file")


def test_dry_run_shows_the_plan_and_writes_nothing(cli, recipe_file, tmp_path: Path) -> None:
    process = cli("run", str(recipe_file()), "pretrain.steps=77", "--dry-run")
    assert process.returncode == 0
    assert "steps: 77" in process.stdout
    assert process.stdout.count("to do") >= 7
    assert "no problem found; needs at least 0.0 GB of" in process.stdout
    assert not (tmp_path / "runs").exists()


def test_all_problems_are_found_before_the_run(cli, recipe_file, tmp_path: Path) -> None:
    arguments = [str(recipe_file()), "encoder={path: /nowhere}", "languages=[en]", "--force", "foo"]
    for dry_run in ([], ["--dry-run"]):
        failed(
            cli("run", *arguments, *dry_run),
            "4 problems",
            "1. there is no stage 'foo'",
            "there is no folder /nowhere with an encoder",
            "there is only one language: nothing can be aligned",
        )
    assert not (tmp_path / "runs").exists()


def test_doctor(babelray, tmp_path: Path) -> None:
    process = babelray("doctor", "--storage", str(tmp_path), MLFLOW_TRACKING_URI="http://user:secret@127.0.0.1:9")
    assert process.returncode == 0
    for name in ("python", "memory", "devices", "ray", "deepspeed", "disk", "storage", "tracking"):
        assert name in process.stdout
    assert "does not answer" in process.stdout and "secret" not in process.stdout


def test_doctor_fails_if_the_storage_cannot_be_written(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(doctor, "check_ray", lambda: doctor.Check("ray", "ok", "not started"))
    process = cli("doctor", "--storage", str(tmp_path / "file/x"))
    assert process.returncode == 2 and "a part of the path is a file" in process.stdout


def test_dashboard_without_runs(cli, tmp_path: Path) -> None:
    failed(cli("dashboard", "--storage", str(tmp_path)), "there are no tracked runs")


def test_a_comparison_is_planned_with_its_runs(cli, recipe_file) -> None:
    recipe = recipe_file(variants={"short": {"pretrain.steps": 2}}, seeds=[1, 2])
    process = cli("run", str(recipe), "--dry-run")
    assert process.returncode == 0, process.stderr
    assert "short, seed 1" in process.stdout and "short, seed 2" in process.stdout
    assert process.stdout.count("corpus    ") == 1, "what the runs share is planned once"


def test_a_stage_that_the_recipe_does_not_have(cli, recipe_file) -> None:
    failed(cli("stitch", str(recipe_file())), "this recipe has no stitch", "Give it a key `stitch`.")
    failed(cli("simulate", str(recipe_file())), "this recipe has no simulate")
    failed(cli("corpus", "jobs/recipes/simulation.yaml"), "this recipe has no corpus")


def test_a_simulation_runs_like_a_recipe(cli) -> None:
    for command in ("run", "simulate"):
        process = cli(command, "jobs/recipes/simulation.yaml", "--dry-run")
        assert process.returncode == 0 and "simulate " in process.stdout


def test_inspect_has_a_help_of_its_own(cli) -> None:
    text = cli("corpus", "inspect", "--help").stdout
    assert "corpus inspect [OPTIONS]" in text and "ARTIFACT" in text and "RECIPE" not in text
    assert "Missing argument" in cli("corpus", "inspect").stderr


def test_commands_without_a_recipe_name_what_they_need(cli) -> None:
    failed(cli("align"), "align needs a recipe, or --source and --target")
    failed(cli("align", "--source", "a.vec"), "two files need --source, --target and --out")
    failed(cli("align", "--source", "a", "--target", "b", "--out", "c", "--method", "vecmpa"), "did you mean 'vecmap'?")
    failed(cli("evaluate"), "evaluate needs a recipe, or --model and --benchmark")
    failed(cli("evaluate", "--model", "m"), "one benchmark needs --model and --benchmark")
    failed(cli("evaluate", "--model", "m", "--benchmark", "tatoebaa"), "did you mean 'tatoeba'?")
    failed(cli("compare", "one"), "compare needs at least two results")
    failed(cli("submit"), "submit needs a recipe, or --follow and a job")

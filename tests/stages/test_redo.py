"""`--force` and a run that is killed: the same command goes on; nothing that was made again is made once more."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from babelray.config import Config
from babelray.errors import ClusterError, RecipeError, TrainingError
from babelray.recipe import load_recipe
from babelray.stages import pipeline, redo
from babelray.stages.pipeline import Step
from babelray.stages.stage import Job, Stage
from babelray.storage import Place


class Told:
    """In place of a tracker."""

    @contextlib.contextmanager
    def stage(self, name: str, step: Step) -> Any:
        yield self

    def metrics(self, values: Any, step: int) -> None: ...

    def finish(self, made: Any) -> None: ...


class Counted(Stage[Config]):
    """Has two parts, and can be killed between them, or fail there."""

    def __init__(self, name: str, *needs: str) -> None:
        self.name, self.needs = name, needs  # type: ignore[misc]
        self.parts = 0
        self.ends: list[BaseException] = []

    def settings(self, recipe: Any) -> Config:
        return Config()

    def run(self, job: Job[Config]) -> dict[str, Any]:
        for part in ("first", "second"):
            if not (job.out / "work" / part).exists():
                self.parts += 1
                (job.out / "work" / part).write_text("")
            if part == "first" and self.ends:
                raise self.ends.pop()
        (job.out / "result").write_text(str(self.parts))
        return {}


@pytest.fixture
def stages(recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    """A run of two stages, both complete."""
    stages = [Counted("encoder"), Counted("extract", "encoder")]
    storage = Place.parse(tmp_path / "runs")

    def plan(recipe: Any, until: Any = None) -> list[Step]:
        inputs = [{}, {"encoder": "a" * 16}]
        return [
            Step(stage, Config(), {}, needed, "code", print_, storage / stage.name / print_)
            for stage, needed, print_ in zip(stages, inputs, ["a" * 16, "b" * 16], strict=True)
        ]

    monkeypatch.setattr(pipeline, "plan", plan)
    monkeypatch.setattr(pipeline, "_tracked", lambda *_: contextlib.nullcontext(Told()))
    run(recipe_file())
    assert [stage.parts for stage in stages] == [2, 2]
    return stages


def run(recipe: Path, force: str | None = None) -> str:
    said = io.StringIO()
    pipeline.run(load_recipe(recipe), Console(file=said, width=200), force=force)
    return said.getvalue()


def parts(stages: list[Counted]) -> list[int]:
    return [stage.parts for stage in stages]


def test_all_that_follows_is_made_again_once(stages: list[Counted], recipe_file, tmp_path: Path) -> None:
    run(recipe_file(), "encoder")
    assert parts(stages) == [4, 4]
    assert not (tmp_path / "runs/.forced/").exists() or not list((tmp_path / "runs/.forced").iterdir())
    run(recipe_file(), "extract")
    assert parts(stages) == [4, 6]
    assert "nothing to do" in run(recipe_file())
    with pytest.raises(RecipeError, match="does not reach that stage"):
        run(recipe_file(), "report")


@pytest.mark.parametrize("ends", [KeyboardInterrupt(), ClusterError("lost")])
def test_the_same_command_goes_on(stages: list[Counted], recipe_file, ends: BaseException) -> None:
    stages[1].ends = [ends]
    with pytest.raises(type(ends)):
        run(recipe_file(), "encoder")
    assert parts(stages) == [4, 3]
    said = run(recipe_file(), "encoder")
    assert parts(stages) == [4, 4], "neither what was made again, nor the first part"
    assert "going on with what an interrupted --force encoder had begun" in said
    run(recipe_file(), "encoder")
    assert parts(stages) == [6, 6], "it is asked for once more"


def test_what_was_begun_before_it_was_forced_is_not_used(stages: list[Counted], recipe_file, tmp_path: Path) -> None:
    (old := tmp_path / f"runs/extract/{'b' * 16}.partial/work/first").parent.mkdir(parents=True)
    old.write_text("")
    run(recipe_file(), "extract")
    assert parts(stages) == [2, 4]


def test_a_stage_that_fails_by_itself_begins_anew(stages: list[Counted], recipe_file) -> None:
    """A damaged checkpoint would be met again and again."""
    stages[1].ends = [TrainingError("damaged")]
    with pytest.raises(TrainingError):
        run(recipe_file(), "extract")
    run(recipe_file(), "extract")
    assert parts(stages) == [2, 5]


def kill(*_: object) -> None:
    raise KeyboardInterrupt


def test_killed_when_all_was_published_but_not_noted(
    stages: list[Counted], recipe_file, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(redo.Redo, "made", kill)
        with pytest.raises(KeyboardInterrupt):
            run(recipe_file(), "extract")
    assert parts(stages) == [2, 4]
    run(recipe_file(), "extract")
    assert parts(stages) == [2, 4]


def test_an_old_note_does_not_count(stages: list[Counted], recipe_file, monkeypatch: pytest.MonkeyPatch) -> None:
    stages[1].ends = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        run(recipe_file(), "encoder")
    monkeypatch.setattr(redo, "GOOD_FOR", 0.0)
    run(recipe_file(), "encoder")
    assert parts(stages) == [6, 5]

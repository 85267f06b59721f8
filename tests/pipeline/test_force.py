"""`--force` and a run that is killed: the same command resumes; nothing that was made again is made once more."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from babelray.config import Config
from babelray.errors import ClusterError, RecipeError, TrainingError
from babelray.pipeline import execution as pipeline
from babelray.pipeline import force as module
from babelray.pipeline import preflight
from babelray.pipeline.plan import PlanPart, Step
from babelray.pipeline.stage import Job, Stage
from babelray.recipe.load import load_recipe
from babelray.storage import Location


class NoTracker:
    """In place of a tracker."""

    @contextlib.contextmanager
    def stage(self, name: str, fingerprint: str, code: str) -> Any:
        yield self

    def metrics(self, values: Any, step: int) -> None: ...

    def finish(self, made: Any, scores_run: bool = False) -> None: ...


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
    storage = Location.parse(tmp_path / "runs")

    def plan_parts(recipe: Any, until: Any = None, digests: Any = None) -> list[PlanPart]:
        inputs = [{}, {"encoder": "a" * 16}]
        steps = [
            Step(stage, Config(), {}, needed, "code", key, storage / stage.name / key)
            for stage, needed, key in zip(stages, inputs, ["a" * 16, "b" * 16], strict=True)
        ]
        return [PlanPart(recipe.name, recipe, steps)]

    monkeypatch.setattr(preflight, "plan_parts", plan_parts)
    monkeypatch.setattr(pipeline, "tracked", lambda *_: contextlib.nullcontext(NoTracker()))
    run(recipe_file())
    assert [stage.parts for stage in stages] == [2, 2]
    return stages


def run(recipe: Path, force: str | None = None) -> str:
    output = io.StringIO()
    pipeline.run(load_recipe(recipe), Console(file=output, width=200), force=force)
    return output.getvalue()


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
def test_the_same_command_resumes(stages: list[Counted], recipe_file, ends: BaseException) -> None:
    stages[1].ends = [ends]
    with pytest.raises(type(ends)):
        run(recipe_file(), "encoder")
    assert parts(stages) == [4, 3]
    output = run(recipe_file(), "encoder")
    assert parts(stages) == [4, 4], "neither what was made again, nor the first part"
    assert "resuming an interrupted --force encoder" in output
    run(recipe_file(), "encoder")
    assert parts(stages) == [6, 6], "it is asked for once more"


def test_work_from_before_the_request_is_not_used(stages: list[Counted], recipe_file, tmp_path: Path) -> None:
    (old := tmp_path / f"runs/extract/{'b' * 16}.partial/work/first").parent.mkdir(parents=True)
    old.write_text("")
    run(recipe_file(), "extract")
    assert parts(stages) == [2, 4]


def test_a_stage_that_fails_by_itself_starts_over(stages: list[Counted], recipe_file) -> None:
    """A damaged checkpoint would be met again and again."""
    stages[1].ends = [TrainingError("damaged")]
    with pytest.raises(TrainingError):
        run(recipe_file(), "extract")
    run(recipe_file(), "extract")
    assert parts(stages) == [2, 5]


def kill(*_: object) -> None:
    raise KeyboardInterrupt


def test_killed_when_all_was_published_but_not_recorded(
    stages: list[Counted], recipe_file, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(module.ForcedStages, "mark_done", kill)
        with pytest.raises(KeyboardInterrupt):
            run(recipe_file(), "extract")
    assert parts(stages) == [2, 4]
    run(recipe_file(), "extract")
    assert parts(stages) == [2, 4]


def test_an_old_record_does_not_count(stages: list[Counted], recipe_file, monkeypatch: pytest.MonkeyPatch) -> None:
    stages[1].ends = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        run(recipe_file(), "encoder")
    monkeypatch.setattr(module, "VALID_SECONDS", 0.0)
    run(recipe_file(), "encoder")
    assert parts(stages) == [6, 5]

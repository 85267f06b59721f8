"""The simulate stage: every method in worlds with a known answer, many times.

A task fits a method at one degree t, with one number of occurrences k, in all runs. It is tested at every distance ε,
since a mapping does not depend on where it is tested. The scores of a task are stored when it is complete, and not
computed again after an interruption.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from babelray.cluster.tasks import Task, run_tasks
from babelray.config import Config
from babelray.errors import BabelrayError
from babelray.pipeline.stage import STAGES, Job, Stage
from babelray.pipeline.summary import Column, Summary, Table
from babelray.recipe.simulation import SimulateConfig
from babelray.simulation.outcome import Cell, Outcome
from babelray.storage import Location

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.fitted import Mapping
    from babelray.mapping.method import MappingMethod
    from babelray.recipe.simulation import Simulation
    from babelray.simulation.density import Text
    from babelray.storage.artifact import Artifact


class Settings(Config):
    seed: int
    simulate: SimulateConfig


class Unit(NamedTuple):
    """A method at one degree, with one number of occurrences."""

    method: str
    t: int
    occurrences: int

    @property
    def label(self) -> str:
        return f"{self.method}, t = {self.t}, k = {self.occurrences}"

    def scores(self, out: Location) -> Location:
        return out / "work" / f"{self.method}-{self.t}-{self.occurrences}.json"


@STAGES.register
class SimulateStage(Stage[Settings]):
    """Try mappings in simulated worlds, where the answer is known: like and unlike languages, near and far domains.

    Writes `scores.json`, a row for each method, t, k and ε with the precision of each run, and `clouds.json`, the
    mapped occurrences of one run of each method.
    """

    name = "simulate"
    recipe_kinds = ("simulation",)

    def settings(self, recipe: Simulation) -> Settings:
        return Settings(seed=recipe.seed, simulate=recipe.simulate)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        todo = units(job.settings.simulate)
        longest_first = sorted(todo, key=lambda unit: -unit.occurrences)
        tasks = [Task(unit.label, simulate, (job.settings, unit, job.out)) for unit in longest_first]
        run_tasks(tasks, job.progress, "fits", cpus=1)
        results = [row for unit in todo for row in unit.scores(job.out).read_json()]
        scores = [{name: row[name] for name in row if name != "cloud"} for row in results]
        clouds = [{name: row[name] for name in (*Cell._fields, "cloud")} for row in results if "cloud" in row]
        (job.out / "scores.json").write_json(scores)
        (job.out / "clouds.json").write_json(clouds)
        outcome = Outcome.from_rows(scores)
        return {cell.metric: fmean(p1) for cell, p1 in outcome.p1.items() if cell in outcome.main()}

    def summary(self, artifact: Artifact, settings: Settings) -> Summary:
        from babelray.simulation.tables import tables

        outcome = Outcome.from_rows((artifact.location / "scores.json").read_json())
        return Summary(
            [Table(title, [Column(name) for name in head], rows) for title, (head, *rows) in tables(outcome).items()]
        )


def units(config: SimulateConfig) -> list[Unit]:
    """All fits, in the order of the recipe."""
    return [
        Unit(name, t, k)
        for name, method in config.methods.items()
        for t in method.t or config.t
        for k in method.occurrences or config.occurrences
    ]


def simulate(settings: Settings, unit: Unit, out: Location) -> None:
    """Fit and test a method in the worlds of all runs, and write a row of scores for each distance."""
    if unit.scores(out).exists():
        return
    from babelray.simulation.density import DensityWorld, precision

    config = settings.simulate
    rows, most = (config.words * k for k in (unit.occurrences, max(config.occurrences)))
    method = config.methods[unit.method].mapping.with_equal_steps(rows, most)
    scores = [{**Cell(*unit, epsilon)._asdict(), "p1": [], "word_p1": []} for epsilon in config.epsilon]
    for run in range(config.runs):
        seed = 3 * (1000 * settings.seed + run)
        world = DensityWorld.make(config.words, unit.t, config.turn, seed)
        try:
            source, target = fit(world.text(unit.occurrences, 0.0, seed + 1), method, seed)
        except BabelrayError as error:
            raise type(error)(f"{unit.label}, run {run}: {error.problem}", error.remedy) from error
        for row in scores:
            test = world.text(config.tested, row["epsilon"], seed + 2)
            mapped_N2, target_N2 = source.transform(test.source_N2), target.transform(test.target_N2)
            for name, value in precision(mapped_N2, target_N2, test.word_N).items():
                row[name].append(value)
            if not run and row["epsilon"] == min(config.epsilon):
                row["cloud"] = [mapped_N2.tolist(), target_N2.tolist()]
    unit.scores(out).write_json(scores)


def fit(text: Text, method: MappingMethod, seed: int) -> tuple[Mapping, Mapping]:
    """Mappings of both languages. The order of the target's occurrences reveals nothing about their translations."""
    import torch

    from babelray.mapping.method import fit_mappings

    order_N: Tensor = torch.randperm(len(text.word_N), generator=torch.Generator().manual_seed(seed))
    pairs = None if method.unsupervised else (order_N, torch.arange(len(order_N)))
    return fit_mappings(text.source_N2, text.target_N2[order_N], pairs, method, seed)

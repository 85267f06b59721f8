"""The simulate stage: every method in worlds with a known answer, many times.

What is fitted at one degree t, with one number of occurrences k, in all runs, is one task. It is tested at every
distance ε, since what a mapping has learned does not depend on where it is tested. A task's scores are written when it
is done, and not computed again after an interruption.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from babelray.config import Config
from babelray.errors import BabelrayError
from babelray.evaluation.report_page import SCRIPT, STYLE
from babelray.evaluation.simulation_page import Cell, Outcome, simulation_page, simulation_table
from babelray.simulation.config import SimulateConfig, SimulatedMethod, Simulation
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.config import MappingConfig
    from babelray.mapping.fitted import Mapping
    from babelray.run import Run
    from babelray.simulation.density import Text


class Settings(Config):
    name: str
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

    def scores(self, out: Place) -> Place:
        return out / "work" / f"{self.method}-{self.t}-{self.occurrences}.json"


class SimulateStage(Stage[Settings]):
    """Leaves `scores.json`, a row for each method, t, k and ε with the precision of each run, and `simulation.md`,
    `simulation.html`.
    """

    name = "simulate"

    def settings(self, recipe: Run) -> Settings:
        assert isinstance(recipe, Simulation)  # no other kind of recipe has this stage
        return Settings(name=recipe.name, seed=recipe.seed, simulate=recipe.simulate)

    def sources(self, settings: Settings) -> list[Place]:
        return [Place.parse(STYLE), Place.parse(SCRIPT)]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        todo = units(job.settings.simulate)
        longest_first = sorted(todo, key=lambda unit: -unit.occurrences)
        tasks = [Task(unit.label, simulate, (job.settings, unit, job.out)) for unit in longest_first]
        run_tasks(tasks, job.progress, "fits", cpus=1)
        rows = [row for unit in todo for row in unit.scores(job.out).read_json()]
        (job.out / "scores.json").write_json([{name: row[name] for name in row if name != "cloud"} for row in rows])
        outcome = Outcome.read(rows)
        (job.out / "simulation.md").write_text(simulation_table(outcome))
        (job.out / "simulation.html").write_text(simulation_page(job.settings.name, outcome))
        return {cell.metric: fmean(p1) for cell, p1 in outcome.p1.items() if cell in outcome.main()}


def units(config: SimulateConfig) -> list[Unit]:
    """All that is to be fitted, in the order of the recipe."""
    return [
        Unit(name, t, k)
        for name, method in config.methods.items()
        for t in method.t or config.t
        for k in method.occurrences or config.occurrences
    ]


def simulate(settings: Settings, unit: Unit, out: Place) -> None:
    """Fit and test a method in the worlds of all runs; row by row, what came out at each distance."""
    if unit.scores(out).exists():
        return
    from babelray.simulation.density import DensityWorld, precision

    config = settings.simulate
    rows, most = (config.words * k for k in (unit.occurrences, max(config.occurrences)))
    method = longer(config.methods[unit.method], rows, most)
    found = [{**Cell(*unit, epsilon)._asdict(), "p1": [], "word_p1": []} for epsilon in config.epsilon]
    for run in range(config.runs):
        seed = 3 * (1000 * settings.seed + run)
        world = DensityWorld.make(config.words, unit.t, config.turn, seed)
        try:
            source, target = fit(world.text(unit.occurrences, 0.0, seed + 1), method, seed)
        except BabelrayError as error:
            raise type(error)(f"{unit.label}, run {run}: {error.problem}", error.remedy) from error
        for row in found:
            asked = world.text(config.tested, row["epsilon"], seed + 2)
            mapped_N2, seen_N2 = source.transform(asked.source_N2), target.transform(asked.target_N2)
            for name, value in precision(mapped_N2, seen_N2, asked.word_N).items():
                row[name].append(value)
            if not run and row["epsilon"] == min(config.epsilon):
                row["cloud"] = [mapped_N2.tolist(), seen_N2.tolist()]
    unit.scores(out).write_json(found)


def longer(config: SimulatedMethod, rows: int, most: int) -> SimulatedMethod:
    """More epochs, if there are any: what is trained on few rows then takes as many steps as on the most."""
    if config.trained is None:
        return config
    steps_each, most_each = (math.ceil(count / config.trained.batch) for count in (rows, most))
    trained = config.trained.model_copy(update={"epochs": round(config.trained.epochs * most_each / steps_each)})
    return config.model_copy(update={config.method.replace("-", "_"): trained})


def fit(text: Text, config: MappingConfig, seed: int) -> tuple[Mapping, Mapping]:
    """Mappings of both languages. The target's occurrences are in no order that could tell what they translate."""
    import torch

    from babelray.mapping.build import map_both

    order_N: Tensor = torch.randperm(len(text.word_N), generator=torch.Generator().manual_seed(seed))
    pairs = None if config.unsupervised else (order_N, torch.arange(len(order_N)))
    return map_both(text.source_N2, text.target_N2[order_N], pairs, config, seed)

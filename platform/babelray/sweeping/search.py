"""Which point of a space is tried next: the next of a grid, a random one, or the one that Optuna's TPE proposes.

A search is built from the records of earlier trials, so that a killed sweep resumes as if it had not been interrupted.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from babelray.sweeping.records import Record, Trial, metric_means
from babelray.sweeping.space import Range, Space, Values

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

ATTEMPTS = 100
"""Draws of another point for one that was tried before; after these the space counts as exhausted."""


class Search:
    """Hands out trials, and learns from their outcomes."""

    def __init__(self, space: Space, records: Iterable[Record] = ()) -> None:
        self.space = space
        self.points: dict[int, Values] = {}
        self._records: dict[int, dict[int, Record]] = defaultdict(dict)
        for record in records:
            if record.trial.point < space.points and record.trial.seed in space.seeds:
                self.points[record.trial.point] = record.trial.values
                self._records[record.trial.point][record.trial.seed] = record
        self._optuna = _Optuna(space) if space.search == "optuna" else None
        self._waiting: deque[Trial] = deque()
        for number, values in sorted(self.points.items()):
            if self._optuna:
                self._optuna.resume(number, values)
            self._waiting += [Trial(number, values, seed) for seed in space.seeds if not self._is_over(number, seed)]
            self._learn(number)
        self._new = deque(number for number in range(space.points) if number not in self.points)

    def _is_over(self, number: int, seed: int) -> bool:
        """Whether a trial has ended; failed ones are tried again."""
        record = self._records[number].get(seed)
        return record is not None and record.state in ("done", "stopped")

    def next(self) -> Trial | None:
        """The next trial; None if there is none."""
        if not self._waiting and self._new:
            number = self._new.popleft()
            values = self._propose(number)
            if values is None:
                self._new.clear()
                return None
            self.points[number] = values
            self._waiting += [Trial(number, values, seed) for seed in self.space.seeds]
        return self._waiting.popleft() if self._waiting else None

    def stop(self) -> None:
        """Hand out no more trials."""
        self._waiting.clear()
        self._new.clear()

    @property
    def remaining(self) -> int:
        """The number of trials that were not handed out yet."""
        return len(self._waiting) + len(self._new) * len(self.space.seeds)

    def _propose(self, number: int) -> Values | None:
        if self.space.search == "grid":
            return next(itertools.islice(grid(self.space), number, None))
        if number == 0 and self.space.paper.keys() == self.space.parameters.keys():
            if self._optuna:
                self._optuna.resume(0, self.space.paper)
            return dict(self.space.paper)
        for attempt in range(ATTEMPTS):
            seed = f"{self.space.search_seed} {number} {attempt}"  # not a generator's state, which a restart loses
            values = self._optuna.ask(number, seed) if self._optuna else random_point(self.space, seed)
            if values not in self.points.values():
                return values
            if self._optuna:
                self._optuna.fail(number)
        return None

    def finished(self, record: Record) -> None:
        """Learn from a finished trial."""
        self._records[record.trial.point][record.trial.seed] = record
        self._learn(record.trial.point)

    def _learn(self, number: int) -> None:
        """Report a point to Optuna once the trials of all its seeds are over."""
        records = self._records[number]
        if self._optuna and all(self._is_over(number, seed) for seed in self.space.seeds):
            self._optuna.tell(number, [records[seed] for seed in self.space.seeds])


def grid(space: Space) -> Iterable[Values]:
    """All combinations; the last parameter changes first."""
    lists = [parameter.values or [] for parameter in space.parameters.values()]
    return (dict(zip(space.parameters, values, strict=True)) for values in itertools.product(*lists))


def random_point(space: Space, seed: str) -> Values:
    """A random point."""
    generator = random.Random(seed)
    return {path: parameter.at(generator.random()) for path, parameter in space.parameters.items()}


class _Optuna:
    """A study in memory. Listed values are encoded by position, since Optuna takes no lists or mappings as values.

    A point that fails is never reported: to Optuna it is still running.
    """

    def __init__(self, space: Space) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space = space
        self.trials: dict[int, Any] = {}
        self.distributions = {path: distribution(parameter) for path, parameter in space.parameters.items()}
        directions = ["maximize" if metric.mode == "max" else "minimize" for metric in space.metrics]
        self.study = optuna.create_study(directions=directions)

    def resume(self, number: int, values: Values) -> None:
        """Add a point of an earlier run."""
        self.study.enqueue_trial({path: self._encode(path, value) for path, value in values.items()})
        self.trials[number] = self.study.ask(self.distributions)

    def _encode(self, path: str, value: Any) -> Any:
        listed = self.space.parameters[path].values
        return value if listed is None else listed.index(value)

    def ask(self, number: int, seed: str) -> Values:
        from optuna.samplers import TPESampler

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls `constant_liar` experimental
            # Running points count as bad ones, so that concurrent trials explore different regions.
            self.study.sampler = TPESampler(seed=random.Random(seed).randrange(2**31), constant_liar=True)
        trial = self.trials[number] = self.study.ask(self.distributions)
        lists = {path: parameter.values for path, parameter in self.space.parameters.items()}
        return {
            path: trial.params[path] if (values := lists[path]) is None else values[trial.params[path]]
            for path in lists
        }

    def fail(self, number: int) -> None:
        from optuna.trial import TrialState

        self.study.tell(self.trials[number], state=TrialState.FAIL)

    def tell(self, number: int, records: list[Record]) -> None:
        """Report the means of a point over its seeds. A point that the scheduler stopped counts as pruned: TPE ranks it
        below completed ones, the lower the earlier it was stopped. With several metrics it counts as failed.
        """
        from optuna.trial import TrialState

        trial = self.trials[number]
        if all(record.state == "done" for record in records):
            self.study.tell(trial, metric_means(records, self.space.metrics))
        elif len(self.space.metrics) > 1:
            self.fail(number)
        else:
            sign = self.space.asha.metric.sign * self.space.metrics[0].sign
            for step, value in next(record.reports for record in records if record.state == "stopped"):
                trial.report(sign * value, step)
            self.study.tell(trial, state=TrialState.PRUNED)


def distribution(parameter: Range) -> BaseDistribution:
    """A range as a distribution of Optuna."""
    from optuna import distributions

    if parameter.values is not None:
        return distributions.CategoricalDistribution(range(len(parameter.values)))
    if parameter.integers is not None:
        return distributions.IntDistribution(*parameter.integers)
    low, high = parameter.bounds or (0.0, 0.0)
    return distributions.FloatDistribution(low, high, log=parameter.log_uniform is not None)

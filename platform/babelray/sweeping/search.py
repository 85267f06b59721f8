"""Which point of a space is tried next: the next of a grid, a random one, or the one that Optuna's TPE expects most of.

A search is made anew from the records of what was tried, so that a sweep that was killed goes on as if it had not been.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from babelray.sweeping.records import Record, Trial, means
from babelray.sweeping.space import Range, Space, Values

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

ATTEMPTS = 100
"""So often another point is drawn for one that was tried before; then the space is taken to be exhausted."""


class Search:
    """Gives out trials, and learns what came of them."""

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
            self._waiting += [Trial(number, values, seed) for seed in space.seeds if not self._through(number, seed)]
            self._learn(number)
        self._new = deque(number for number in range(space.points) if number not in self.points)

    def _through(self, number: int, seed: int) -> bool:
        """Whether nothing is left to do; what has failed is tried again."""
        record = self._records[number].get(seed)
        return record is not None and record.state in ("done", "stopped")

    def next(self) -> Trial | None:
        """The next trial, or None if there is no more."""
        if not self._waiting and self._new:
            number = self._new.popleft()
            values = self._ask(number)
            if values is None:
                self._new.clear()
                return None
            self.points[number] = values
            self._waiting += [Trial(number, values, seed) for seed in self.space.seeds]
        return self._waiting.popleft() if self._waiting else None

    def stop(self) -> None:
        """Give out no more trials."""
        self._waiting.clear()
        self._new.clear()

    @property
    def left(self) -> int:
        """Trials that were not given out yet."""
        return len(self._waiting) + len(self._new) * len(self.space.seeds)

    def _ask(self, number: int) -> Values | None:
        if self.space.search == "grid":
            return next(itertools.islice(grid(self.space), number, None))
        if number == 0 and self.space.paper.keys() == self.space.parameters.keys():
            if self._optuna:
                self._optuna.resume(0, self.space.paper)
            return dict(self.space.paper)
        for attempt in range(ATTEMPTS):
            seed = f"{self.space.search_seed} {number} {attempt}"  # not the state of a generator: a restart loses it
            values = self._optuna.ask(number, seed) if self._optuna else drawn(self.space, seed)
            if values not in self.points.values():
                return values
            if self._optuna:
                self._optuna.fail(number)
        return None

    def finished(self, record: Record) -> None:
        """Take in what came of a trial."""
        self._records[record.trial.point][record.trial.seed] = record
        self._learn(record.trial.point)

    def _learn(self, number: int) -> None:
        """Tell Optuna of a point once all its seeds are through."""
        known = self._records[number]
        if self._optuna and all(self._through(number, seed) for seed in self.space.seeds):
            self._optuna.tell(number, [known[seed] for seed in self.space.seeds])


def grid(space: Space) -> Iterable[Values]:
    """All combinations; the last parameter changes first."""
    lists = [given.values or [] for given in space.parameters.values()]
    return (dict(zip(space.parameters, values, strict=True)) for values in itertools.product(*lists))


def drawn(space: Space, seed: str) -> Values:
    """A random point."""
    generator = random.Random(seed)
    return {path: given.at(generator.random()) for path, given in space.parameters.items()}


class _Optuna:
    """A study in memory. Listed values go by their numbers, since Optuna takes no lists or mappings as values.

    A point that fails is never told: to Optuna it is still running.
    """

    def __init__(self, space: Space) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space = space
        self.trials: dict[int, Any] = {}
        self.distributions = {path: distribution(given) for path, given in space.parameters.items()}
        directions = ["maximize" if metric.mode == "max" else "minimize" for metric in space.metrics]
        self.study = optuna.create_study(directions=directions)

    def resume(self, number: int, values: Values) -> None:
        """Take up a point that is known already."""
        self.study.enqueue_trial({path: self._coded(path, value) for path, value in values.items()})
        self.trials[number] = self.study.ask(self.distributions)

    def _coded(self, path: str, value: Any) -> Any:
        listed = self.space.parameters[path].values
        return value if listed is None else listed.index(value)

    def ask(self, number: int, seed: str) -> Values:
        from optuna.samplers import TPESampler

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it calls `constant_liar` experimental
            # Points that are running count as bad ones, so that no two trials look into the same corner at a time.
            self.study.sampler = TPESampler(seed=random.Random(seed).randrange(2**31), constant_liar=True)
        trial = self.trials[number] = self.study.ask(self.distributions)
        lists = {path: given.values for path, given in self.space.parameters.items()}
        return {
            path: trial.params[path] if (some := lists[path]) is None else some[trial.params[path]] for path in lists
        }

    def fail(self, number: int) -> None:
        from optuna.trial import TrialState

        self.study.tell(self.trials[number], state=TrialState.FAIL)

    def tell(self, number: int, records: list[Record]) -> None:
        """The means of a point over its seeds. One that the scheduler stopped counts as pruned: TPE takes it for worse
        than those that are done, the more so the earlier it was stopped. Several metrics know no such thing.
        """
        from optuna.trial import TrialState

        trial = self.trials[number]
        if all(record.state == "done" for record in records):
            self.study.tell(trial, means(records, self.space.metrics))
        elif len(self.space.metrics) > 1:
            self.fail(number)
        else:
            sign = self.space.asha.metric.sign * self.space.metrics[0].sign
            for step, value in next(record.reports for record in records if record.state == "stopped"):
                trial.report(sign * value, step)
            self.study.tell(trial, state=TrialState.PRUNED)


def distribution(given: Range) -> BaseDistribution:
    """A range as Optuna knows it."""
    from optuna import distributions

    if given.values is not None:
        return distributions.CategoricalDistribution(range(len(given.values)))
    if given.integers is not None:
        return distributions.IntDistribution(*given.integers)
    low, high = given.bounds or (0.0, 0.0)
    return distributions.FloatDistribution(low, high, log=given.log_uniform is not None)

"""The scores of several systems on one benchmark, and which differences between them are significant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from babelray.metrics.example_scores import ExampleScores
    from babelray.storage import Location

MetricsBySystem = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""{system: {language: {macro_f1 | accuracy | in_hub: a value for each seed}}}"""
Correct = Mapping[str, Sequence["ExampleScores"]]
"""{system: for each seed, by language, 1 for each example that is classified correctly and 0 for each other}"""


class Rank(NamedTuple):
    """A system on the leaderboard; `p` is that of the difference to the best, after Holm's correction."""

    system: str
    correct: float
    p: float | None
    tied: bool
    """Whether it is the best, or not significantly worse."""


class Difference(NamedTuple):
    """What a system is better than the baseline; `p` is after Holm's correction, None if examples cannot be paired."""

    system: str
    macro_f1: float
    correct: float
    p: float | None


@dataclass(frozen=True)
class StitchingScores:
    """The scores of every system, as `scores.json` and `comparison.json` hold them."""

    hub: str
    metrics: MetricsBySystem
    leaderboard: Sequence[Rank]
    baseline: str | None
    differences: Sequence[Difference]

    @classmethod
    def compare(cls, hub: str, metrics: MetricsBySystem, correct: Correct, baseline: str | None) -> StitchingScores:
        """Test the differences between the systems, and of all to the baseline if there is one."""
        differences = _differences(metrics, correct, baseline) if baseline is not None else []
        return cls(hub, metrics, _leaderboard(correct), baseline, differences)

    def save(self, folder: Location) -> None:
        data = asdict(self)
        (folder / "scores.json").write_json(data.pop("metrics"))
        ranks = [rank._asdict() for rank in self.leaderboard]
        differences = [difference._asdict() for difference in self.differences]
        (folder / "comparison.json").write_json(data | {"leaderboard": ranks, "differences": differences})

    @classmethod
    def load(cls, folder: Location) -> StitchingScores:
        data = (folder / "comparison.json").read_json()
        ranks = [Rank(**rank) for rank in data["leaderboard"]]
        differences = [Difference(**difference) for difference in data["differences"]]
        metrics = (folder / "scores.json").read_json()
        return cls(data["hub"], metrics, ranks, data["baseline"], differences)

    @property
    def languages(self) -> list[str]:
        return list(next(iter(self.metrics.values())))

    def by_seed(self, system: str) -> list[float]:
        """Macro F1, the mean over languages, for each seed."""
        return _by_seed(self.metrics, system)

    def means(self) -> dict[str, float]:
        """Macro F1 of every system, the mean over languages and seeds."""
        return {system: fmean(self.by_seed(system)) for system in self.metrics}

    def by_language(self, code: str) -> dict[str, float]:
        """Macro F1 of every system in a language, the mean over seeds."""
        return {system: fmean(languages[code]["macro_f1"]) for system, languages in self.metrics.items()}

    def in_hub(self, system: str) -> float | None:
        """Macro F1 in the hub, the mean over fine-tunings; None for a system without any."""
        values = [value for metrics in self.metrics[system].values() for value in metrics["in_hub"]]
        return fmean(values) if values else None


def _by_seed(metrics: MetricsBySystem, system: str) -> list[float]:
    columns = [values["macro_f1"] for values in metrics[system].values()]
    return [fmean(seed) for seed in zip(*columns, strict=True)]


def _mean_over_seeds(seeds: Sequence[ExampleScores]) -> ExampleScores:
    return {code: [fmean(values) for values in zip(*(seed[code] for seed in seeds), strict=True)] for code in seeds[0]}


def _leaderboard(correct: Correct) -> list[Rank]:
    """The systems by the share of examples that they classify correctly, the best first.

    Where all languages have the same number of examples they are taken for the same ones: then they are not
    independent, and are averaged over languages.
    """
    from babelray.metrics.significance import leaderboard, over_rows

    means = {system: _mean_over_seeds(seeds) for system, seeds in correct.items()}
    parallel = {
        system: over_rows(mean).tolist() if len(set(map(len, mean.values()))) == 1 else mean
        for system, mean in means.items()
    }
    rows = leaderboard(parallel).rows
    return [Rank(row.system, row.mean, row.p if place else None, row.tied) for place, row in enumerate(rows)]


def _differences(metrics: MetricsBySystem, correct: Correct, baseline: str) -> list[Difference]:
    from babelray.metrics.example_scores import p_value
    from babelray.metrics.significance import holm

    means = {system: _mean_over_seeds(seeds) for system, seeds in correct.items()}
    others = [system for system in metrics if system != baseline]
    ps = {system: p_value(means[system], means[baseline]) for system in others}
    corrected = iter(holm([p for p in ps.values() if p is not None]))
    return [
        Difference(
            system,
            fmean(_by_seed(metrics, system)) - fmean(_by_seed(metrics, baseline)),
            _overall(means[system]) - _overall(means[baseline]),
            None if ps[system] is None else next(corrected),
        )
        for system in others
    ]


def _overall(scores: ExampleScores) -> float:
    return fmean(map(fmean, scores.values()))


def distinct_anchor_counts(languages: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """The systems with anchors, one of all those with the same numbers in every language.

    >>> distinct_anchor_counts({"de": {"anchors": {"a": 5, "b": 5, "c": 4}}})
    ['a', 'c']
    """
    systems = list(dict.fromkeys(name for language in languages.values() for name in language["anchors"]))
    first: dict[tuple[int, ...], str] = {}
    for name in systems:
        first.setdefault(tuple(language["anchors"][name] for language in languages.values()), name)
    return list(first.values())

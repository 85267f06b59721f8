"""How much each parameter matters: functional analysis of variance (Hutter et al., 2014), by Optuna.

A random forest is fitted to the points; a parameter's importance is the share of the forest's variance over the space
that this parameter explains by itself. Interactions are no parameter's own, and the shares are made to add up to one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from babelray.sweeping.results import Point, numeric
from babelray.sweeping.space import Metric, Space

FEWEST = 4
"""Fewer points say nothing."""


def importance(space: Space, found: Sequence[Point], metric: Metric, seed: int = 0) -> dict[str, float]:
    """Each parameter's share, the largest first; nothing where there are too few points or all are equally good."""
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances
    from optuna.trial import create_trial

    if len(found) < FEWEST or len({point.mean(metric) for point in found}) == 1:
        return {}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, BaseDistribution] = {}
    coded: dict[str, list[float]] = {}
    for path, given in space.parameters.items():
        values = [point.values[path] for point in found]
        if all(value == values[0] for value in values):
            continue
        if given.values is not None:
            coded[path] = [given.values.index(value) for value in values]
            distributions[path] = IntDistribution(0, len(given.values) - 1)
            if not numeric(given.values):
                distributions[path] = CategoricalDistribution(range(len(given.values)))
        else:
            coded[path] = [math.log(value) if given.log_uniform else float(value) for value in values]
            distributions[path] = FloatDistribution(min(coded[path]), max(coded[path]))
    study = optuna.create_study()
    for number, point in enumerate(found):
        parameters = {path: values[number] for path, values in coded.items()}
        study.add_trial(create_trial(params=parameters, distributions=distributions, value=point.mean(metric)))
    return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=seed))

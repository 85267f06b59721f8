"""How much each parameter matters: functional analysis of variance (Hutter et al., 2014), by Optuna.

A random forest is fitted to the points; a parameter's importance is the fraction of the forest's variance over the
space that it explains by itself. Interactions belong to no parameter, and the fractions are normalised to sum to one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from babelray.sweeping.results import Point, is_numeric
from babelray.sweeping.space import Metric, Space

FEWEST = 4
"""With fewer points there is no estimate."""


def importance(space: Space, points: Sequence[Point], metric: Metric, seed: int = 0) -> dict[str, float]:
    """Each parameter's fraction, the largest first; empty if there are too few points or all are equally good."""
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances
    from optuna.trial import create_trial

    if len(points) < FEWEST or len({point.mean(metric) for point in points}) == 1:
        return {}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, BaseDistribution] = {}
    coded: dict[str, list[float]] = {}
    for path, parameter in space.parameters.items():
        values = [point.values[path] for point in points]
        if all(value == values[0] for value in values):
            continue
        if parameter.values is not None:
            coded[path] = [parameter.values.index(value) for value in values]
            distributions[path] = IntDistribution(0, len(parameter.values) - 1)
            if not is_numeric(parameter.values):
                distributions[path] = CategoricalDistribution(range(len(parameter.values)))
        else:
            coded[path] = [math.log(value) if parameter.log_uniform else float(value) for value in values]
            distributions[path] = FloatDistribution(min(coded[path]), max(coded[path]))
    study = optuna.create_study()
    for number, point in enumerate(points):
        parameters = {path: values[number] for path, values in coded.items()}
        study.add_trial(create_trial(params=parameters, distributions=distributions, value=point.mean(metric)))
    return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=seed))

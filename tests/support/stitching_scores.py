"""Scores of three systems in two languages, whose best cells and p-values are known."""

from babelray.stitching.scores import StitchingScores


def metrics(de: list[float], zh: list[float], in_hub: list[float]) -> dict[str, dict[str, list[float]]]:
    return {
        code: {"macro_f1": values, "accuracy": values, "in_hub": in_hub} for code, values in (("de", de), ("zh", zh))
    }


METRICS = {
    "logistic": metrics([0.5], [0.6], []),
    "squares": metrics([0.2, 0.4], [0.1, 0.1], [0.9, 0.7]),
    "relative": metrics([0.6, 0.8], [0.2, 0.4], [0.8, 0.8]),
}
CORRECT = {
    "logistic": [{"de": [1.0] * 12, "zh": [0.0] * 12}],
    "squares": [{"de": [0.0] * 12, "zh": [0.0] * 12}] * 2,
    "relative": [{"de": [1.0] * 12, "zh": [1.0] * 12}, {"de": [1.0] * 12, "zh": [0.0] * 12}],
}


def stitching_scores(baseline: str | None = "squares") -> StitchingScores:
    return StitchingScores.compare("en", METRICS, CORRECT, baseline)

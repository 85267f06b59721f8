"""The figures against sums that the papers print themselves: a digit that was copied wrongly breaks an average."""

from statistics import fmean

import pytest

from babelray.evaluation.benchmark import BENCHMARKS
from babelray.report.published import published, read_papers, read_published

PAPERS, PUBLISHED = read_papers(), read_published()


def value(**about: str) -> float:
    """The one figure of which this holds."""
    figures = [f for f in PUBLISHED if all(getattr(f, name) == wanted for name, wanted in about.items())]
    assert len(figures) == 1, about
    return figures[0].value


HAMMERL_AVERAGES = {
    "as it is": 60.62,
    "+ MLM": 62.86,
    "+ MLM and DCCA with fastText": 63.45,
    "+ MLM and MSE with X2S-MA": 53.05,
    "+ MLM and DCCA with X2S-MA": 64.96,
}
"""The last column of their Table 3."""


@pytest.mark.parametrize(("system", "average"), HAMMERL_AVERAGES.items())
def test_the_five_benchmarks_of_hammerl_average_to_what_they_print(system: str, average: float) -> None:
    data = ("XQuAD", "TyDiQA-GoldP", "PAN-X", "UD-POS", "Tatoeba")
    values = [value(paper=PAPERS["Hämmerl"], table="Table 3", data=name, system=system) for name in data]
    assert fmean(values) == pytest.approx(average, abs=0.0051)


ALQAHTANI_LANGUAGES = {
    ("XNLI", "F1", "WordOT"): (82.1, 73.6, 73.7, 70.6, 76.7, 75.9),
    ("XNLI", "F1", "as it is"): (82.6, 69.3, 72.0, 67.7, 75.2, 74.4),
    ("XQuAD", "F1", "WordOT"): (84.2, 73.6, 65.6, 75.5),
    ("XQuAD", "F1", "as it is"): (83.7, 72.0, 62.3, 75.6),
    ("XQuAD", "exact match", "WordOT"): (72.4, 57.8, 48.5, 57.1),
    ("XQuAD", "exact match", "L2"): (69.4, 51.3, 40.3, 45.4),
}
"""The languages that were seen, in their Table 2."""


@pytest.mark.parametrize(("which", "languages"), ALQAHTANI_LANGUAGES.items())
def test_the_languages_of_alqahtani_average_to_what_they_print(
    which: tuple[str, str, str], languages: tuple[float, ...]
) -> None:
    data, metric, system = which
    printed = value(paper=PAPERS["Alqahtani"], data=data, metric=metric, system=system)
    assert fmean(languages) == pytest.approx(printed, abs=0.0501)


def test_the_pairs_of_vulic_average_to_what_they_print() -> None:
    vecmap = (
        "55.6 40.4 45.6 37.5 45.6 60.2 64.1 32.5 39.7 33.3 40.0 49.5 50.0 31.3 25.4 32.9 37.1 39.4 30.4 38.2 39.9 42.8 "
        "40.6 40.4 43.6 46.6 48.7 64.1"
    )
    tuned = (
        "26.4 17.4 18.6 23.6 23.9 26.8 34.4 19.5 20.3 24.2 21.2 23.0 27.4 18.0 21.8 16.2 17.4 18.4 20.2 17.6 18.4 17.5 "
        "26.4 24.6 24.1 22.0 22.1 33.4"
    )
    printed = value(benchmark="bli", data="GT-BLI", system="VecMap, supervised")
    assert fmean(map(float, vecmap.split())) == pytest.approx(printed, abs=0.0501)
    printed = value(benchmark="words", encoder="mBERT", system="contrastive")
    assert fmean(map(float, tuned.split())) == pytest.approx(printed, abs=0.0501)


def test_every_figure_is_of_a_benchmark_and_listed_once() -> None:
    assert {figure.benchmark for figure in PUBLISHED} <= {*BENCHMARKS}
    keys = [(f.benchmark, f.paper, f.table, f.data, f.languages, f.encoder, f.metric, f.system) for f in PUBLISHED]
    assert len(set(keys)) == len(keys)
    assert published("tatoeba")[0].printed == "50.35" and published("geometry") == []
    assert {figure.paper for figure in PUBLISHED} == set(PAPERS.values())


def test_figures_are_kept_as_printed_and_say_their_scale() -> None:
    assert value(data="PAN-X", system="as it is") == 60.4
    assert "60.40" in {figure.printed for figure in published("tagging")}
    for figure in PUBLISHED:
        highest = 1 if "0 to 1" in figure.metric else 100
        assert 0 <= figure.value <= highest, figure
        assert highest == 100 or "." in figure.printed

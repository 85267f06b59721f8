"""An encoder on a benchmark, and such results side by side."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from babelray.api.components import configure_component
from babelray.api.encoders import Encoder
from babelray.api.progress import report_progress
from babelray.api.tables import ENDINGS, Tabular
from babelray.errors import BabelrayError, DataError
from babelray.evaluation.benchmark import BENCHMARKS, Result, System
from babelray.evaluation.stored_result import (
    PREDICTIONS,
    RESULT,
    StoredResult,
    check_benchmark,
    differences,
    same_data,
    shared_languages,
    shortest_names,
)
from babelray.metrics.format import P_VALUE
from babelray.metrics.intervals import format_interval
from babelray.pipeline.summary import Cell, Column, Table
from babelray.storage import AnyPath, Location
from babelray.storage.artifact import fingerprint, provenance

if TYPE_CHECKING:
    import pandas

    from babelray.evaluation.benchmark import Benchmark
    from babelray.report.comparison import SystemScores

INTERVAL, CHANCE = "95 % interval", "chance"


@dataclass(frozen=True, repr=False)
class Evaluation(Mapping[str, Mapping[str, float]], Tabular):
    """The scores of an encoder on a benchmark, by language and metric: `result["de"]["mean"]`."""

    content: Mapping[str, Any]
    """Scores, confidence intervals and the level of chance; the benchmark's settings; the fingerprints of the encoder
    and the data: what `save` writes into `result.json`."""
    predictions: Mapping[str, Any]
    """Every answer, by language."""

    @classmethod
    def load(cls, folder: AnyPath) -> Evaluation:
        """The result in a folder that `save` or `babelray evaluate` wrote."""
        stored = StoredResult.load(folder)
        return cls(stored.content, (stored.location / PREDICTIONS).read_json())

    @property
    def benchmark(self) -> str:
        """The name of the benchmark."""
        return self.content["benchmark"]

    @property
    def encoder(self) -> str:
        """The name or folder of the encoder."""
        return self.content.get("model", {}).get("path", "")

    @property
    def mean(self) -> Mapping[str, float]:
        """The means over languages of the metrics that every language has."""
        return self.content["mean"]

    def __getitem__(self, language: str) -> Mapping[str, float]:
        return self.content["scores"][language]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content["scores"])

    def __len__(self) -> int:
        return len(self.content["scores"])

    def remarks(self, benchmark: Benchmark) -> list[str]:
        """What the benchmark remarks on these scores."""
        content = self.content
        scores = Result(content["scores"], self.predictions, {}, content["chance"], content["intervals"])
        return benchmark.remarks(scores)

    def stored(self, name: str) -> StoredResult:
        """The result as comparisons take it, with the name that their tables show."""
        return StoredResult(Location(name), name, self.content, self.predictions)

    def table(self) -> Table:
        kind = BENCHMARKS.find(self.benchmark)
        metrics = {name: form for name, form in kind.columns.items() if name in self.mean}
        intervals, chance = self.content.get("intervals", {}), self.content.get("chance", {})
        columns = [Column("language")]
        for name, form in metrics.items():
            columns.append(Column(name, form))
            if name == kind.main_metric:
                columns += [Column(INTERVAL)] if intervals else []
                columns += [Column(CHANCE, form)] if chance else []

        def row(title: str, values: Mapping[str, float], code: str, guess: float | None) -> list[Cell]:
            interval = format_interval(intervals.get(code), kind.columns[kind.main_metric])
            extra: dict[str, Cell] = {INTERVAL: interval, CHANCE: guess}
            return [title, *(extra.get(column.title, values.get(column.title)) for column in columns[1:])]

        rows = [row(code, values, code, chance.get(code)) for code, values in self.items()]
        if len(self) > 1:
            rows.append(row("mean", self.mean, "", fmean(chance.values()) if chance else None))
        return Table(f"{self.benchmark}: {self.encoder}", columns, rows, mean=len(self) > 1)

    def to_pandas(self) -> pandas.DataFrame:
        """All metrics by language, with the ends of the main metric's interval and the level of chance."""
        import pandas

        frame = pandas.DataFrame.from_dict({code: dict(values) for code, values in self.items()}, orient="index")
        intervals = self.content.get("intervals", {})
        for end, name in enumerate(("interval_low", "interval_high")):
            if intervals:
                frame[name] = [intervals[code][end] if code in intervals else None for code in frame.index]
        if chance := self.content.get("chance"):
            frame[CHANCE] = [chance.get(code) for code in frame.index]
        return frame.rename_axis("language")

    def save(self, path: AnyPath) -> None:
        """Write a folder that `compare` reads; or the table alone, to a `.csv`, `.json` or `.html` file."""
        location = Location.parse(path)
        if location.name.endswith(ENDINGS):
            super().save(location)
            return
        if (location / RESULT).exists():
            raise DataError(f"{path} holds a result", "Name another folder, or delete it.")
        self.write(location)

    def write(self, location: Location) -> None:
        """Write the folder, in place of a result that is there."""
        (location / RESULT).delete()  # first: a result must not stand beside the predictions of another
        (location / PREDICTIONS).write_json(self.predictions)
        (location / RESULT).write_json(self.content)

    def __repr__(self) -> str:
        metric = BENCHMARKS.find(self.benchmark).main_metric
        mean = f", {metric} {self.mean[metric]:.3f}" if metric in self.mean else ""
        return f"Evaluation({self.benchmark}: {self.encoder}, {len(self)} languages{mean})"


def evaluate(
    encoder: Encoder | AnyPath,
    benchmark: str | Benchmark,
    data: AnyPath | None = None,
    *,
    progress: bool = True,
    **settings: Any,
) -> Evaluation:
    r"""Score an encoder on a benchmark, in this process.

    Args:
        encoder: An encoder, or its name or folder.
        benchmark: The name of a benchmark (`babelray components` lists them), or its config.
        data: The data of the benchmark in their published format: a file, or a folder.
        progress: Whether progress is shown, on the standard error stream.
        **settings: Settings of the benchmark, by the names that recipes use: `scoring="csls"`. A loaded encoder is
            read at its own layer, unless `layer` is given.

    Returns:
        Scores by language and metric, with confidence intervals and the level of chance, and every answer.

    Warns:
        UserWarning: The data have languages that the benchmark does not read, or the benchmark remarks on the scores
            or the data, such as sentences that repeat.

    Examples:
        Sentence retrieval on a few parallel sentences:

        >>> import pathlib, tempfile
        >>> import babelray as br
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "test.de-en.de").write_text("Ein Hund bellt.\nDas Wasser ist kalt.")
        ...     _ = pathlib.Path(folder, "test.de-en.en").write_text("A dog barks.\nThe water is cold.")
        ...     result = br.evaluate("babelray-mini", "tatoeba", data=folder, progress=False)
        >>> result["de"]["sentences"]
        2
        >>> result.to_pandas().index.tolist()
        ['de']
    """
    values = settings if data is None else {"data": str(data), **settings}
    if isinstance(benchmark, str) and benchmark in BENCHMARKS:
        refuse_without_run(BENCHMARKS[benchmark])
    config = configure_component(BENCHMARKS, benchmark, values)
    if isinstance(encoder, Encoder) and "layer" not in settings and isinstance(benchmark, str):
        config = config.completed(layer=encoder.layer)
    path = encoder.path if isinstance(encoder, Encoder) else encoder
    about = describe(path, config)
    with report_progress(f"{config.benchmark}: {path}", progress):
        evaluation = score(path, config, about)
    for remark in [*config.omissions(), *evaluation.remarks(config)]:
        warnings.warn(remark, stacklevel=2)
    return evaluation


def describe(model: AnyPath, benchmark: Benchmark) -> dict[str, Any]:
    """What is measured: benchmark, settings, encoder and data, and a fingerprint of all that decides the result."""
    from babelray.encoder.load import locate_encoder
    from babelray.pipeline.code_version import code_version

    refuse_without_run(type(benchmark))
    about: dict[str, Any] = {
        "benchmark": benchmark.benchmark,
        "settings": benchmark.model_dump(mode="json"),
        "model": {"path": str(model), "fingerprint": model_fingerprint(locate_encoder(model))},
        "sources": {str(location): location.digest() for location in benchmark.sources(())},
    }
    key = fingerprint(
        benchmark=benchmark.identity(),
        sources=sorted(about["sources"].values()),
        model=about["model"]["fingerprint"],
        code=code_version(type(benchmark).__module__, benchmark),
    )
    return about | {"fingerprint": key}


def refuse_without_run(kind: type[Benchmark]) -> None:
    """Raise an error if a benchmark scores more than an encoder: the vectors or the held-out data of a run."""
    if kind.needs == ("encoder",):
        return
    name = kind.model_fields["benchmark"].default
    others = " and ".join(need for need in kind.needs if need != "encoder")
    subject = "the held-out part of its corpus" if kind.held_out else "its static vectors"
    remedy = f"It scores {subject}: list it under evaluate.benchmarks of a recipe, and `babelray evaluate RECIPE`."
    own = f" For your own files {kind.for_own_files}." if kind.for_own_files else ""
    raise BabelrayError(f"{name} needs the {others} of a run", remedy + own)


def score(model: AnyPath, benchmark: Benchmark, about: Mapping[str, Any]) -> Evaluation:
    """Measure what `describe` describes."""
    from babelray.encoder.load import locate_encoder

    result = benchmark.score(System(locate_encoder(model)))
    first, *others = result.scores.values()
    shared = [metric for metric in first if all(metric in other for other in others)]
    content = {
        **about,
        "scores": result.scores,
        "mean": {metric: result.mean(metric) for metric in shared},
        "intervals": result.confidence(benchmark.main_metric),
        "chance": result.chance,
    }
    return Evaluation(content | provenance(), result.predictions)


def model_fingerprint(model: AnyPath) -> str:
    """Of the weights, the tokenizer and the settings in a folder; a name on a model hub stands for itself."""
    from babelray.encoder.load import locate_encoder
    from babelray.models.mapped import encoder_of, is_mapped

    location = Location.parse(locate_encoder(model))
    if not location.exists():
        return fingerprint(name=str(model))
    files = {name: (location / name).digest() for name in location.files() if not name.endswith(".md")}
    if is_mapped(model):  # the encoder may lie next to it
        files |= {name: (encoder_of(location) / name).digest() for name in encoder_of(location).files()}
    return fingerprint(files=files)


class Difference(NamedTuple):
    """The main metric of two results in a language, or in the mean of all, and the p-value of their difference."""

    first: float
    second: float
    p: float | None

    @property
    def difference(self) -> float:
        return self.second - self.first


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """Results of a benchmark side by side, on the languages that all of them have."""

    results: Sequence[StoredResult]

    @property
    def names(self) -> list[str]:
        """The names of the results."""
        return [result.name for result in self.results]

    @property
    def metric(self) -> str:
        """The benchmark's main metric."""
        return self.results[0].kind.main_metric

    @cached_property
    def languages(self) -> list[str]:
        """The languages that all results have."""
        return shared_languages(self.results)

    def values(self, language: str) -> list[float]:
        """The main metric of each result in a language; in the mean of all for the empty name."""
        codes = [language] if language else self.languages
        return [fmean(result.scores[code][self.metric] for code in codes) for result in self.results]

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """Of the first two results, by language and under the empty name for the mean; p by a paired permutation test
        over examples, None where examples have no scores or are not the same.
        """
        from babelray.metrics.example_scores import p_value

        tested = same_data(self.results)
        examples = [result.example_scores(self.languages) if tested else {} for result in self.results[:2]]
        return {
            code: Difference(first, second, p_value(examples[0], examples[1], code or None))
            for code in (*self.languages, "")
            for first, second in [self.values(code)[:2]]
        }

    @cached_property
    def scores(self) -> SystemScores:
        """The results as a ranking, with significance corrected for the number of results."""
        from babelray.report.comparison import SystemScores

        tested, kind = same_data(self.results), self.results[0].kind
        return SystemScores(
            label=kind.__name__,
            metric=self.metric.replace("_", " "),
            percent=kind.columns[self.metric] == "%",
            means={result.name: [mean] for result, mean in zip(self.results, self.values(""), strict=True)},
            example_scores={r.name: [r.example_scores(self.languages) if tested else {}] for r in self.results},
        )

    def table(self) -> Table:
        form = self.results[0].kind.columns[self.metric]
        title = f"{self.results[0].benchmark}: {self.metric}"
        if len(self.results) == 2:
            columns = [*(Column(name, form) for name in self.names), Column("difference", form), Column("p", P_VALUE)]
            rows: list[list[Cell]] = [
                [code or "mean", row.first, row.second, row.difference, row.p] for code, row in self.differences.items()
            ]
            note = "p: paired permutation test over examples"
            return Table(title, [Column("language"), *columns], rows, mean=True, notes=[note])
        from babelray.report.comparison import MARK

        head, *board = self.scores.board()
        columns = [Column(name or "encoder") for name in head]
        notes = [MARK] if self.scores.ranked else []
        return Table(f"{title}, mean over {len(self.languages)} languages", columns, board, notes=notes)

    def to_pandas(self) -> pandas.DataFrame:
        """The main metric of every result by language, and of two results the difference with its p-value."""
        import pandas

        frame = pandas.DataFrame({code or "mean": self.values(code) for code in (*self.languages, "")}, self.names).T
        if len(self.results) == 2:
            frame["difference"] = [row.difference for row in self.differences.values()]
            frame["p"] = [row.p for row in self.differences.values()]
        return frame.rename_axis("language")

    def __repr__(self) -> str:
        return f"Comparison({self.results[0].benchmark}: {', '.join(self.names)})"


def compare(
    first: Evaluation | AnyPath,
    second: Evaluation | AnyPath,
    *others: Evaluation | AnyPath,
    allow_differences: bool = False,
) -> Comparison:
    r"""Compare results of a benchmark, language by language, with a significance test. They may differ in the encoder.

    Args:
        first: A result of `evaluate`, or the folder of one that was saved.
        second: Another result, of the same benchmark.
        *others: More results, which are ranked together with the first two.
        allow_differences: Whether results of other settings, data or languages are compared too, with a warning, on
            the languages that all of them have.

    Returns:
        A table: of two results the difference in each language with its p-value; of more, a ranking.

    Warns:
        UserWarning: The results differ in more than the encoder, and that is allowed.

    Examples:
        >>> import pathlib, tempfile
        >>> import babelray as br
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "test.de-en.de").write_text("Ein Hund bellt.\nDas Wasser ist kalt.")
        ...     _ = pathlib.Path(folder, "test.de-en.en").write_text("A dog barks.\nThe water is cold.")
        ...     before = br.evaluate("babelray-mini", "tatoeba", folder, progress=False)
        ...     after = br.evaluate(br.load_encoder("babelray-mini"), "tatoeba", folder, layer=None, progress=False)
        >>> br.compare(before, after).to_pandas().loc["de", "difference"].item()
        0.0
    """
    comparison = check_comparable(as_stored([first, second, *others]), allow_differences)
    for line in differences(comparison.results):
        warnings.warn(f"the results differ in {line}", stacklevel=2)
    return comparison


def check_comparable(results: Sequence[StoredResult], allow_differences: bool = False) -> Comparison:
    """The comparison of results; an error if they differ in more than the encoder, unless that is allowed."""
    check_benchmark(results)
    different = differences(results)
    if different and not allow_differences:
        raise DataError(
            "the results differ in more than the encoder:" + "".join(f"\n  - {line}" for line in different),
            "Measure both in the same way; or give --allow-differences (in Python allow_differences=True) to compare "
            "them all the same, on the languages that all have.",
        )
    return Comparison(results)


def as_stored(results: Sequence[Evaluation | AnyPath]) -> list[StoredResult]:
    """Results with names that tell them apart: the end of the encoder's or the folder's path."""
    loaded = [
        result.stored(result.encoder) if isinstance(result, Evaluation) else StoredResult.load(result)
        for result in results
    ]
    names = shortest_names([result.name for result in loaded])
    counts = Counter(names)
    numbered = [
        f"{name} ({names[: place + 1].count(name)})" if counts[name] > 1 else name for place, name in enumerate(names)
    ]
    return [replace(result, name=name) for result, name in zip(loaded, numbered, strict=True)]

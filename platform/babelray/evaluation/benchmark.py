"""What a benchmark is: a config that names its data and scores a system on them; and the result.

A benchmark registers itself with `@BENCHMARKS.register`. The recipe, the command and the report know it from there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, SerializeAsAny

from babelray.config import Config
from babelray.errors import DataError
from babelray.metrics.example_scores import example_scores_of
from babelray.metrics.intervals import Interval, interval_of_mean, intervals_of
from babelray.registry import Registry

if TYPE_CHECKING:
    from babelray.encoder.text_encoder import TextEncoder
    from babelray.storage import AnyPath, Location

BATCH_TOKENS = 8192
ROUNDING = 1e-4
"""Stored scores of examples are rounded; their mean may differ from the metric by less than this."""

METRIC_TITLES = {
    "to_hub": "to the hub",
    "from_hub": "from the hub",
    "mean": "both directions",
    "f1": "F1",
    "macro_f1": "macro F1",
    "p1": "P@1",
    "p5": "P@5",
    "p10": "P@10",
    "mrr": "MRR",
    "pearson": "Pearson",
    "kendall": "Kendall",
    "spearman": "Spearman",
}
"""Metrics whose names do not speak for themselves."""


@dataclass(frozen=True)
class System:
    """What is evaluated: an encoder, its static vectors, and the corpus whose held-out part serves as data."""

    encoder: str
    """A folder or a name."""
    vectors: Location | None = None
    """A folder with `vectors/<language>/`."""
    corpus: Location | None = None
    """A corpus artifact."""
    languages: Sequence[str] = ()
    hub: str = "en"
    device: str = "cpu"
    """What the encoder runs on."""

    @property
    def others(self) -> list[str]:
        return [code for code in self.languages if code != self.hub]


@dataclass(frozen=True)
class Result:
    """Scores by language (or pair of languages) and metric, and what they were computed from."""

    scores: Mapping[str, Mapping[str, float]]
    predictions: Mapping[str, Any] = field(default_factory=dict)
    """By language; with `example_scores`, the score of each example, differences can be tested for significance.
    `clusters` number the examples that are not independent."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What a page draws besides, as JSON: `matrix` {source: {target: value}}, `layers` {language: {layer: value}},
    `points` [{language, concept, word, x, y}]."""
    chance: Mapping[str, float] = field(default_factory=dict)
    """By language, what a guess would score by the main metric, where that can be said."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """By language, the 95 % confidence interval of the main metric, where it does not follow from `example_scores`.
    Under the empty name that of the mean over languages, where these share examples."""

    def mean(self, metric: str) -> float:
        """Over languages."""
        return fmean(values[metric] for values in self.scores.values())

    def confidence(self, metric: str) -> dict[str, Interval]:
        """The 95 % confidence intervals of the main metric by language, and of the mean under the empty name.

        They follow from the scores of the examples, where their mean is the metric, or are the benchmark's own. That of
        the mean then takes languages to have examples of their own, unless the benchmark gives it too.
        """
        examples = example_scores_of(self.predictions, list(self.scores), linearised=True)
        is_mean = all(abs(fmean(own) - self.scores[code][metric]) < ROUNDING for code, own in examples.items())
        intervals = (intervals_of(examples) if is_mean else {}) | dict(self.intervals)
        if self.scores and "" not in intervals and all(code in intervals for code in self.scores):
            intervals[""] = interval_of_mean({code: own[metric] for code, own in self.scores.items()}, intervals)
        return intervals

    @classmethod
    def merged(cls, parts: Sequence[Result]) -> Result:
        """The result of a benchmark whose languages were scored separately."""
        scores: dict[str, Mapping[str, float]] = {}
        predictions: dict[str, Any] = {}
        figures: dict[str, dict[str, Any]] = {}
        chance: dict[str, float] = {}
        intervals: dict[str, Interval] = {}
        for part in parts:
            scores |= part.scores
            predictions |= part.predictions
            chance |= part.chance
            intervals |= part.intervals
            for kind, values in part.figures.items():
                figures.setdefault(kind, {}).update(values)
        return cls(scores, predictions, figures, chance, intervals)


class Benchmark(Config):
    """A data set with its protocol. The docstring of a subclass says in plain words what it measures; pages show it."""

    title: ClassVar[str]
    main_metric: ClassVar[str]
    """The metric that represents the benchmark in tables."""
    columns: ClassVar[Mapping[str, str]]
    """Metrics that tables show, and how: `%` for shares, `.3f` and the like for others."""
    metric_titles: ClassVar[Mapping[str, str]] = {}
    """Metrics of its own whose names do not speak for themselves; see `METRIC_TITLES`."""
    captions: ClassVar[Mapping[str, str]] = {}
    """Title and explanation of each of its figures, separated by `. `, by its kind: see `Result.figures`."""
    lower_is_better: ClassVar[bool] = False
    headline: ClassVar[bool] = False
    """Whether the main metric is shown at the top of the report."""
    needs: ClassVar[tuple[str, ...]] = ("encoder",)
    """The fields of `System` that it reads."""
    trains: ClassVar[bool] = False
    """Whether it fine-tunes the encoder, which one that is part mapping does not allow."""
    held_out: ClassVar[bool] = False
    """Whether its data are the held-out part of the run's own corpus."""
    for_own_files: ClassVar[str] = ""
    """What scores files of the user instead, if the benchmark needs a run."""
    examples: ClassVar[Mapping[str, str]] = {}
    """For required fields a value, and in parentheses what it holds: an error about a missing one shows it."""

    benchmark: str
    name: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Its name in tables, when a benchmark is used on several data sets; the benchmark's own name by default."""
    required: bool = True
    """Whether missing data are an error; if not, the benchmark is left out."""

    @property
    def label(self) -> str:
        return self.name or self.benchmark

    @classmethod
    def description(cls) -> str:
        """What it measures: the docstring, as one paragraph."""
        return " ".join((cls.__doc__ or "").split())

    def sources(self, languages: Sequence[str]) -> list[Location]:
        """The files that it reads for some languages, besides what `System` holds; an error if there are none."""
        return []

    def missing(self, languages: Sequence[str]) -> str | None:
        """A description of the missing data; None if all are present. Raise an error if they are required."""
        try:
            self.sources(languages)
        except DataError as error:
            if self.required:
                raise
            return error.problem.removeprefix(f"{self.label}: ")
        return None

    def omissions(self) -> list[str]:
        """Sentences about what the data have besides, and the benchmark does not read."""
        return []

    def remarks(self, result: Result) -> list[str]:
        """Sentences that a reader of the scores should know, such as doubts about the data."""
        return []

    def completed(self, **defaults: Any) -> Self:
        """The benchmark with default values for fields that it has and that are not set."""
        missing = {name: value for name, value in defaults.items() if getattr(self, name, value) is None}
        return self.model_copy(update=missing) if missing else self

    def about(self) -> dict[str, Any]:
        """What a page needs to know to show a result, as JSON."""
        titles = {**METRIC_TITLES, **self.metric_titles}
        return {
            "benchmark": self.benchmark,
            "title": self.title,
            "description": self.description(),
            "main_metric": self.main_metric,
            "columns": dict(self.columns),
            "metric_titles": {name: titles[name] for name in self.columns if name in titles},
            "captions": dict(self.captions),
            "lower_is_better": self.lower_is_better,
            "headline": self.headline,
            "settings": self.model_dump(mode="json", by_alias=True),
        }

    @abstractmethod
    def score(self, system: System) -> Result:
        """Score a system."""

    def parts(self, system: System) -> list[str]:
        """Names of parts that different processes can score at the same time; one part by default."""
        return [""]

    def score_part(self, system: System, part: str) -> Result:
        """Score a part of the benchmark; `Result.merged` joins the parts."""
        return self.score(system)


BENCHMARKS = Registry[Benchmark]("BENCHMARKS", "benchmark", "benchmark", "babelray.evaluation")
AnyBenchmark = Annotated[SerializeAsAny[Benchmark], BeforeValidator(BENCHMARKS.parse)]


class EncoderBenchmark(Benchmark):
    """A benchmark that reads the vectors of one layer of an encoder."""

    layer: int | None = None
    """The layer that is read, `evaluate.layer` by default; without one the last. Negative numbers count from it."""
    batch_tokens: int | None = Field(None, ge=64)
    """Subwords in a batch, padding included; `evaluate.batch_tokens` by default."""

    @abstractmethod
    def run(self, encoder: TextEncoder, system: System) -> Result:
        """Score an encoder."""

    def score(self, system: System) -> Result:
        return self.run(open_encoder(system.encoder, self.layer, self.batch_tokens, system.device), system)


def open_encoder(path: AnyPath, layer: int | None, batch_tokens: int | None, device: str = "cpu") -> TextEncoder:
    """The encoder in a folder, or of a name.

    A mapped encoder is read at the layer of its mappings, a lexical one gives its mixed vectors.
    """
    from babelray.encoder.load import load_encoder, load_tokenizer, read_config
    from babelray.encoder.text_encoder import TextEncoder
    from babelray.models.lexical import LexicalEncoder, LexicalReader, is_lexical
    from babelray.models.mapped import MappedEncoder, is_mapped

    batch_tokens = batch_tokens or BATCH_TOKENS
    if is_mapped(path):
        return MappedEncoder.from_pretrained(path, batch_tokens=batch_tokens, device=device)
    if is_lexical(path):
        return LexicalReader(LexicalEncoder.from_pretrained(path, batch_tokens, device))
    read_config(path)  # says what is missing in a folder that holds no encoder
    model = load_encoder(path, device)
    return TextEncoder.from_model(
        model, load_tokenizer(path, masks=False), -1 if layer is None else layer, batch_tokens
    )

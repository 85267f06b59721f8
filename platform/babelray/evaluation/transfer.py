"""Benchmarks of zero-shot transfer (Hu et al., 2020): an encoder is fine-tuned in one language and tested in all.

Results of fine-tuning vary with the seed: every score is the mean over several seeds, with their standard deviation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from babelray.errors import DataError
from babelray.evaluation.benchmark import BATCH_TOKENS, Benchmark, Result, System
from babelray.evaluation.data_languages import describe_unread, languages_of_files, names_of
from babelray.languages import LANGUAGES
from babelray.metrics.intervals import Interval
from babelray.storage import AnyPath, Location
from babelray.training.config import FineTuningConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.encoder.load import HeadKind
    from babelray.objectives.labelled import Example, Head

Ranges = dict[str, tuple[float, float]]


class Reading(NamedTuple):
    """How texts are encoded, and the possible labels."""

    tokenizer: PreTrainedTokenizerBase
    longest: int
    labels: Sequence[str]


class TransferBenchmark(Benchmark):
    """A benchmark with training data. `{lang}` in a path is replaced by a language: `de`, `deu` or
    `deu_Latn`.
    """

    trains: ClassVar[bool] = True
    head: ClassVar[HeadKind]

    data: str
    """The test data: a file or a pattern, local or on S3."""
    train: str
    """The training data, likewise."""
    train_languages: list[str] | None = Field(None, min_length=1)
    """Languages of the training data; the hub by default."""
    hub: str = "en"
    languages: list[str] | None = Field(None, min_length=1)
    """Languages that are tested; by default all that have test data, the languages of the training among them."""
    seeds: list[int] = Field([1, 2, 3], min_length=1)
    """Fine-tuning is repeated with each. It determines the head's first weights, the order of examples, and dropout."""
    fine_tuning: FineTuningConfig = Field(default_factory=FineTuningConfig)
    """How the encoder is fine-tuned."""
    max_tokens: int = Field(128, ge=16)
    """Subwords of a text that are read, special ones included; less if the encoder takes less."""
    batch_tokens: int = Field(BATCH_TOKENS, ge=64)
    """Subwords in a batch of test data, padding included."""

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ValueError("seeds are different numbers, 0 or more")
        return seeds

    @model_validator(mode="after")
    def _languages_are_distinct(self) -> Self:
        if not self._names_languages(self.data, training=False):
            raise ValueError("the language of the data is unknown: put {lang} into the path of `data`")
        if len(self.learned) > 1 and not self._names_languages(self.train, training=True):
            raise ValueError("the language of the training data is unknown: put {lang} into the path of `train`")
        if self._trains_on_tests():
            raise ValueError("`train` and `data` are the same: the test answers would be part of the training data")
        return self

    def _names_languages(self, pattern: str, training: bool) -> bool:
        return "{lang}" in pattern

    def _trains_on_tests(self) -> bool:
        return self.train == self.data

    @property
    def learned(self) -> list[str]:
        return self.train_languages or [self.hub]

    def _tested(self) -> list[str]:
        """The languages that are tested, if they have data: all that have files, or, in one file, the built-in ones."""
        if self.languages:
            return self.languages
        return languages_of_files(self.data).codes if "{lang}" in self.data else list(LANGUAGES)

    def omissions(self) -> list[str]:
        if self.languages:
            return []
        return describe_unread(languages_of_files(self.data).unread) if "{lang}" in self.data else []

    def _files(self, pattern: str, code: str) -> list[Location]:
        """The files of a language, by the first of its names that has any."""
        spelled = dict.fromkeys(pattern.replace("{lang}", name) for name in names_of(code))
        return next(filter(None, (Location.parse(name).glob() for name in spelled)), [])

    def _companions(self, location: Location) -> list[Location]:
        """Files that are read together with another."""
        return []

    def sources(self, languages: Sequence[str] = ()) -> list[Location]:
        tested = [location for code in self._tested() for location in self._files(self.data, code)]
        if not tested:
            raise DataError(f"{self.label}: there are no test data at {self.data}", "Check the path.")
        learned = [location for code in self.learned for location in self._files(self.train, code)]
        if not learned:
            codes = ", ".join(self.learned)
            raise DataError(f"{self.label}: there are no training data of {codes} at {self.train}", "Check the path.")
        files = dict.fromkeys([*tested, *learned])
        return [*dict.fromkeys(file for location in files for file in (location, *self._companions(location)))]

    def training_data(self) -> dict[str, list[Any]]:
        """The training examples, by language."""
        return self._all(self.train, self.learned, training=True, needed=True)

    def test_data(self) -> dict[str, list[Any]]:
        """The test examples, by language."""
        return self._all(self.data, self._tested(), training=False, needed=bool(self.languages))

    def _all(self, pattern: str, codes: Sequence[str], training: bool, needed: bool) -> dict[str, list[Any]]:
        examples = {}
        for code in codes:
            items = [item for location in self._files(pattern, code) for item in self._read(location, code, training)]
            if items:
                examples[code] = items
            elif needed:
                raise DataError(f"{self.label}: there are no examples of {code!r} at {pattern}", "Check the path.")
        if not examples:
            raise DataError(f"{self.label}: there are no examples at {pattern}", "Check the path.")
        return examples

    def answers(
        self, path: AnyPath, seed: int, progress: Callable[[int, int], None] | None = None
    ) -> dict[str, list[Any]]:
        """The answers of an encoder, fine-tuned with one seed, to all tests, by language, as JSON values."""
        from babelray.encoder.layers import longest_input
        from babelray.encoder.load import load_tokenizer, load_with_head
        from babelray.models.mapped import is_mapped
        from babelray.objectives.labelled import LabelledObjective
        from babelray.training.fine_tuning import fine_tune

        if is_mapped(path):
            problem = f"{self.label}: {path} is a mapped encoder, which cannot be fine-tuned"
            raise DataError(problem, "Give an encoder, or a benchmark that trains nothing, such as tatoeba.")
        learned, tested = self.training_data(), self.test_data()
        labels = self._labels(learned)
        tokenizer, model = load_tokenizer(path, masks=False), load_with_head(path, self.head, labels, seed)
        reading = Reading(tokenizer, min(self.max_tokens, longest_input(model, tokenizer)), labels)
        examples = {code: self._examples(items, reading) for code, items in learned.items()}
        objective = LabelledObjective(examples, self._apply_head(), tokenizer, self.fine_tuning.batch_size, seed)
        fine_tune(model, objective, self.fine_tuning, progress)
        return {code: self._answer(model, items, reading) for code, items in tested.items()}

    def result(self, answers: Mapping[int, Mapping[str, list[Any]]]) -> Result:
        """The scores of the `answers` of each seed."""
        labels = self._labels(self.training_data())
        scores, predictions, chance, intervals = {}, {}, {}, {}
        for code, items in self.test_data().items():
            by_seed = [self._score_answers(items, own[code], labels, code) for own in answers.values()]
            spread = [metrics[self.main_metric] for metrics, _ in by_seed]
            means = {name: fmean(metrics[name] for metrics, _ in by_seed) for name in by_seed[0][0]}
            deviation = stdev(spread) if len(spread) > 1 else 0.0
            scores[code] = {"examples": len(items), **means, f"{self.main_metric}_spread": deviation}
            predictions[code] = {
                "example_scores": [
                    round(fmean(seeds), 6)
                    for seeds in zip(*(example_scores for _, example_scores in by_seed), strict=True)
                ],
                "answers": {str(seed): own[code] for seed, own in answers.items()},
                "gold": [self._gold(item) for item in items],
            }
            chance[code] = self._chance(items)
            intervals[code] = self._interval(items, [own[code] for own in answers.values()])
        return Result(
            scores,
            predictions,
            chance={code: share for code, share in chance.items() if share is not None},
            intervals={code: interval for code, interval in intervals.items() if interval is not None},
        )

    def score(self, system: System) -> Result:
        """Fine-tune the encoder with each seed, and score it in every language."""
        return self.result({seed: self.answers(system.encoder, seed) for seed in self.seeds})

    def _labels(self, learned: Mapping[str, list[Any]]) -> list[str]:
        """All possible answers; at least two."""
        labels = sorted({label for items in learned.values() for item in items for label in self._labels_of(item)})
        if len(labels) < 2:
            raise DataError(
                f"{self.label}: all training examples are {labels[0]!r}", f"Give other data at {self.train}."
            )
        return labels

    @abstractmethod
    def _read(self, location: Location, code: str, training: bool) -> list[Any]:
        """The examples of a language in a file."""

    @abstractmethod
    def _labels_of(self, item: Any) -> Sequence[str]: ...

    @abstractmethod
    def _apply_head(self) -> Head:
        """The function that gives the logits of a batch."""

    @abstractmethod
    def _examples(self, items: list[Any], reading: Reading) -> list[Example]:
        """Training examples for the encoder."""

    @abstractmethod
    def _answer(self, model: PreTrainedModel, items: list[Any], reading: Reading) -> list[Any]: ...

    @abstractmethod
    def _score_answers(
        self, items: list[Any], answers: list[Any], labels: Sequence[str], code: str
    ) -> tuple[Mapping[str, float], list[float]]:
        """The metrics, and the score of each example between 0 and 1."""

    def _chance(self, items: list[Any]) -> float | None:
        """The main metric of giving the same answer always, the best one; None if that cannot be said."""
        return None

    def _interval(self, items: list[Any], answers: list[list[Any]]) -> Interval | None:
        """The interval of the main metric, if it is not the mean of the scores of examples; `answers` by seed."""
        return None

    @abstractmethod
    def _gold(self, item: Any) -> Any:
        """The right answer, as a JSON value."""

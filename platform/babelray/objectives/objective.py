"""What an objective is: its config, the examples of a step, tensors of them, and a loss for each term.

An objective registers its config with `@OBJECTIVES.register`; the recipe, the command and the model card know it from
there. The config says which data it needs and builds the objective.

What a step draws depends only on (seed, objective, step), never on what came before or on the number of workers: a run
that resumes at a step draws what it would have drawn, and on another number of workers it draws the same examples.

Shapes: N examples or terms of a step, B those of one part of it, T subwords, D width.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator

from babelray.config import Config
from babelray.errors import DataError
from babelray.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

    from babelray.storage import Location

Batch = dict[str, "Tensor"]
Examples = list[tuple[str, int]]
"""Languages, and rows of their data."""
Need = Literal["text", "parallel", "dictionary", "induced", "vectors", "alignments"]
"""Data of a run: its text, its parallel text and its dictionaries (keys of `corpus` in the recipe); dictionaries and
word vectors of the align stage; word alignments that are learned from the parallel text."""


class ObjectiveOptions(Config):
    """What every objective has, whether a recipe describes it or a task builds it from labelled examples."""

    kind: str
    name: str | None = None
    """Its name in logs and plots, when a kind is used twice; the kind by default."""
    weight: float | dict[float, float] = 1.0
    """Its factor in the sum that is minimised. Or how that changes: {0: 0.0, 0.2: 1.0} rises over the first fifth of
    the steps and then stays; where the weight is 0 the objective is not computed."""
    batch_size: int = Field(ge=1)
    """Examples per step, over all workers and accumulated parts."""
    sampling: Literal["temperature", "epochs"] = "temperature"
    """How examples are drawn: languages by temperature and any of their examples; or all examples once per epoch, in an
    order that depends on the seed and the epoch alone."""
    temperature: float = Field(0.7, ge=0, le=1)
    """How languages are drawn: 1 in proportion to their data, 0 uniformly."""

    @property
    def label(self) -> str:
        return self.name or self.kind

    @field_validator("weight")
    @classmethod
    def _check_weight(cls, weight: float | dict[float, float]) -> float | dict[float, float]:
        points = weight if isinstance(weight, dict) else {0.0: weight}
        if not points or min(points.values()) < 0 or max(points.values()) <= 0:
            raise ValueError("a weight must not be negative, nor 0 all the time")
        if min(points) < 0 or max(points) > 1:
            raise ValueError("a weight changes with the completed share of the steps, from 0 to 1")
        return weight

    def weight_at(self, completed: float) -> float:
        """The weight when a share of the steps is completed: linear between the given points.

        >>> options = ObjectiveOptions(kind="mlm", weight={0: 0.0, 0.5: 1.0}, batch_size=1)
        >>> options.weight_at(0.25), options.weight_at(0.9)
        (0.5, 1.0)
        """
        if not isinstance(self.weight, dict):
            return self.weight
        points = sorted(self.weight.items())
        return float(np.interp(completed, [share for share, _ in points], [value for _, value in points]))


@dataclass(frozen=True)
class Preparation:
    """What a task does for an objective before the training."""

    function: Callable[[TrainingData], None]
    encodes: bool = False
    """Whether it runs an encoder."""

    def __call__(self, training_data: TrainingData) -> None:
        self.function(training_data)


class ObjectiveConfig(ObjectiveOptions):
    """An objective that a recipe can name. The docstring of a subclass is its description, in one sentence."""

    title: ClassVar[str] = ""
    """Its name in tables and legends."""
    needs: ClassVar[tuple[Need, ...]] = ()
    """The data that it can draw from."""

    @classmethod
    def description(cls) -> str:
        """The docstring, as one line."""
        return " ".join((cls.__doc__ or "").split())

    def required_data(self) -> tuple[Need, ...]:
        """The data that it draws from with these settings."""
        return self.needs

    def sources(self, languages: Sequence[str], hub: str) -> list[Location]:
        """The files that it reads itself, besides the artifacts of earlier stages."""
        return []

    def preparations(self, languages: Sequence[str], hub: str) -> list[dict[str, Preparation]]:
        """What tasks on the cluster do before the training: in each phase independent ones, by name. Objectives that
        need the same name it alike; it is done once.
        """
        return []

    @abstractmethod
    def build(self, training_data: TrainingData) -> Objective:
        """The objective on the data of a run."""


def merge_preparations(
    objectives: Sequence[ObjectiveConfig], languages: Sequence[str], hub: str
) -> list[dict[str, Preparation]]:
    """The preparations of several objectives: in each phase, those of the same name once."""
    phases = [objective.preparations(languages, hub) for objective in objectives]
    return [
        {name: preparation for preparations in phase for name, preparation in preparations.items()}
        for phase in zip_longest(*phases, fillvalue={})
    ]


OBJECTIVES = Registry[ObjectiveConfig]("OBJECTIVES", "objective", "kind", "babelray.objectives")
AnyObjective = Annotated[SerializeAsAny[ObjectiveConfig], BeforeValidator(OBJECTIVES.parse)]


class TrainingData(Protocol):
    """The data of a run, read when they are first used."""

    languages: list[str]
    hub: str
    seed: int

    def prepared(self, name: str) -> Location:
        """A folder for what tasks prepare for objectives; it is deleted after the training."""

    @property
    def max_tokens(self) -> int: ...

    @property
    def width(self) -> int:
        """The width of the encoder's vectors."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase: ...

    def words_of(self, code: str, text: str) -> list[str]:
        """The words of a sentence."""

    def sentences(self, code: str) -> Sequence[str]: ...

    def parallel(self, code: str) -> tuple[list[str], list[str]]:
        """Training sentences of a language and their translations in the hub."""

    def dictionary(self, code: str) -> tuple[list[str], list[str]]:
        """Training words of a language and their translations in the hub."""

    def induced_dictionary(self, code: str) -> tuple[list[str], list[str]]:
        """Words of a language and their translations in the hub, as the align stage induced them."""

    def synonyms(self, code: str, path: str) -> tuple[list[str], list[str]]:
        """Names of the same concepts in a language and in the hub, from the files at a path with {lang} in it."""

    def learn_word_alignments(self, code: str) -> None:
        """Align the words of a language's parallel text, for `word_alignments`."""

    def word_alignments(self, code: str, path: str | None) -> list[tuple[str, str, list[tuple[int, int]]]]:
        """Sentences of a language, their translations, and the positions of words that translate each other; from a
        file, or learned.
        """

    def vectors(self, code: str) -> tuple[list[str], Tensor]:
        """Aligned word vectors of a language."""

    def vocabulary(self, code: str, count: int) -> list[str]:
        """The most frequent words of a language."""

    def initial_encoder(self) -> PreTrainedModel:
        """The encoder as it was before training, frozen."""


class Objective(ABC):
    """A training loss with its data. `sizes` are the examples of each language; a subclass defines `collate` and
    `loss_terms`.
    """

    def __init__(self, config: ObjectiveOptions, training_data: TrainingData, sizes: Mapping[str, int]) -> None:
        self.label = config.label
        self.weight_at = config.weight_at
        self.batch_size = config.batch_size
        self.training_data = training_data
        self.codes = [code for code, size in sizes.items() if size]
        if not self.codes:
            raise DataError(f"the objective {self.label} has nothing to learn from", "No language has data for it.")
        self._sizes = np.array([sizes[code] for code in self.codes])
        self._shares = language_shares(self._sizes, config.temperature)
        self._by_epochs = config.sampling == "epochs"
        self._ends = self._sizes.cumsum()
        self._order = lru_cache(maxsize=2)(lambda epoch: self.generator(epoch).permutation(self.count))

    @property
    def count(self) -> int:
        """The number of examples."""
        return int(self._ends[-1])

    def examples(self, step: int) -> Examples:
        """The examples of a whole step."""
        return self._epoch_examples(step) if self._by_epochs else self._sampled_examples(step)

    def _epoch_examples(self, step: int) -> Examples:
        """The next examples of the epoch: all epochs in a row, cut into batches."""
        first = step * self.batch_size
        positions = (divmod(position, self.count) for position in range(first, first + self.batch_size))
        numbers = np.array([self._order(epoch)[position] for epoch, position in positions])
        languages = self._ends.searchsorted(numbers, side="right")
        rows = numbers - (self._ends - self._sizes)[languages]
        return [(self.codes[language], row) for language, row in zip(languages.tolist(), rows.tolist(), strict=True)]

    def _sampled_examples(self, step: int) -> Examples:
        """Languages by temperature, rows of each uniformly."""
        generator = self.generator(step)
        languages = generator.choice(len(self.codes), size=self.batch_size, p=self._shares)
        rows = (generator.random(self.batch_size) * self._sizes[languages]).astype(int)
        return [(self.codes[language], row) for language, row in zip(languages.tolist(), rows.tolist(), strict=True)]

    def generator(self, *numbers: int) -> np.random.Generator:
        """The random generator of this objective at a step, or whatever else the numbers stand for."""
        return np.random.default_rng([self.training_data.seed, zlib.crc32(self.label.encode()), *numbers])

    def batch(self, step: int, part: int = 0, parts: int = 1) -> Batch:
        """The tensors of one part of a step. `language` holds the number of each term's language."""
        size = self.batch_size // parts
        return self.collate(self.examples(step)[part * size : (part + 1) * size], self.generator(step, 1 + part))

    def start(self, device: torch.device) -> None:  # noqa: B027 (most have nothing to do)
        """Prepare the first step, on the device that trains; called once."""

    def needs_refresh(self, step: int) -> bool:
        """Whether `refresh` has to be called before a step."""
        return False

    def refresh(self, model: PreTrainedModel, device: torch.device) -> None:  # noqa: B027
        """Update what depends on the encoder's present weights; no batch is drawn meanwhile."""

    @property
    def state(self) -> Any:
        """JSON values for the checkpoint; None if nothing depends on earlier weights of the encoder."""
        return None

    def restore(self, state: Any) -> None:  # noqa: B027
        """Take over the state of a checkpoint; called before `start`."""

    def language_numbers(self, codes: Sequence[str]) -> Tensor:
        import torch

        return torch.tensor([self.training_data.languages.index(code) for code in codes])

    def tokenize(self, texts: list[str], others: list[str] | None = None) -> BatchEncoding:
        """Texts as subwords, padded; with `others`, pairs of texts, joined as the tokenizer joins two."""
        return self.training_data.tokenizer(
            texts,
            others,
            padding=True,
            truncation=True,
            max_length=self.training_data.max_tokens,
            return_special_tokens_mask=True,
        )

    def encode(self, texts: list[str], others: list[str] | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Subwords (B, T), the attention mask, and the mask of subwords that are neither special nor padding."""
        return subword_tensors(self.tokenize(texts, others))

    @abstractmethod
    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        """The tensors of examples, among them `language`; `generator` draws all else, such as masks."""

    @abstractmethod
    def loss_terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The loss of each term; the objective's loss is their mean over the whole step."""


class GlobalObjective(Objective):
    """An objective whose loss is a function of all examples of a step, such as one with in-batch negatives.

    The encoder reads them part by part; their vectors are then gathered from all workers and accumulated parts.
    """

    @abstractmethod
    def vectors(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The encoder's vectors of a part's examples: (B, D), or (B, several, D)."""

    def global_context(self, step: int) -> Batch:
        """Further tensors of all examples of a step, for `global_terms`."""
        return {}

    @abstractmethod
    def global_terms(self, vectors_ND: Tensor, global_context: Batch) -> Tensor:
        """The share of each example in the loss; their mean is the loss."""

    def loss_terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        raise NotImplementedError("the loss is a function of a whole step: see `vectors` and `global_terms`")


def subword_tensors(encoded: BatchEncoding) -> tuple[Tensor, Tensor, Tensor]:
    """The result of `Objective.encode` for texts that are already tokenized."""
    import torch

    # Through numpy: transformers' own conversion takes several times as long as the tokenization.
    names = ("input_ids", "attention_mask", "special_tokens_mask")
    ids_BT, attended_BT, special_BT = (torch.from_numpy(np.array(encoded[name])) for name in names)
    return ids_BT, attended_BT, attended_BT.bool() & (special_BT == 0)


def language_shares(sizes: Sequence[int] | np.ndarray, temperature: float) -> np.ndarray:
    """The probability of each language: p ∝ n^temperature (1: in proportion to the data, 0: uniform).

    >>> language_shares([100, 1], temperature=0.5).round(2).tolist()
    [0.91, 0.09]
    """
    weights = np.asarray(sizes, dtype=float) ** temperature
    return weights / weights.sum()

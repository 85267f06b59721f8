"""What an objective is: examples for a step, tensors of them, and a loss for each term.

What a step draws depends only on (seed, objective, step), never on what came before or on how many workers share it: a
run that resumes at a step draws what it would have drawn, and on another number of workers it draws the same examples.

Shapes: N examples or terms of a step, B those of one part of it, T subwords, D width.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from pydantic import Field, field_validator

from babelray.config import Config
from babelray.errors import DataError

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

Batch = dict[str, "Tensor"]
Examples = list[tuple[str, int]]
"""Languages, and rows of what the objective draws from there."""


class ObjectiveConfig(Config):
    """What every objective's config has."""

    kind: str
    name: str | None = None
    """What it is called in logs and plots, when a kind is used twice; the kind by default."""
    weight: float | dict[float, float] = 1.0
    """Its share of the sum that is minimised. Or how that changes: {0: 0.0, 0.2: 1.0} rises over the first fifth of the
    steps and then stays; where the weight is 0 the objective is not computed."""
    batch_size: int = Field(ge=1)
    """Examples a step, over all workers and accumulated parts."""
    draw: Literal["temperature", "turns"] = "temperature"
    """How examples are drawn: languages by temperature and any of their examples; or each example in turn, all once in
    an epoch, in an order that depends on the seed and the epoch alone."""
    temperature: float = Field(0.7, ge=0, le=1)
    """How languages are drawn: 1 as the data, 0 all alike."""

    @property
    def label(self) -> str:
        return self.name or self.kind

    @field_validator("weight")
    @classmethod
    def _weights_make_sense(cls, weight: float | dict[float, float]) -> float | dict[float, float]:
        points = weight if isinstance(weight, dict) else {0.0: weight}
        if not points or min(points.values()) < 0 or max(points.values()) <= 0:
            raise ValueError("a weight must not be negative, nor 0 all the time")
        if min(points) < 0 or max(points) > 1:
            raise ValueError("a weight changes with the share of the steps that are done, from 0 to 1")
        return weight

    def weight_at(self, done: float) -> float:
        """The weight when a share of the steps is done: straight lines between the points that are given.

        >>> config = ObjectiveConfig(kind="mlm", weight={0: 0.0, 0.5: 1.0}, batch_size=1)
        >>> config.weight_at(0.25), config.weight_at(0.9)
        (0.5, 1.0)
        """
        if not isinstance(self.weight, dict):
            return self.weight
        points = sorted(self.weight.items())
        return float(np.interp(done, [share for share, _ in points], [value for _, value in points]))


class Materials(Protocol):
    """What objectives draw from; read when first asked for."""

    languages: list[str]
    hub: str
    seed: int

    @property
    def max_tokens(self) -> int: ...

    @property
    def width(self) -> int:
        """How wide the encoder is."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase: ...

    def words_of(self, code: str, text: str) -> list[str]:
        """The words that a sentence of a language is cut into."""

    def sentences(self, code: str) -> Sequence[str]: ...

    def parallel(self, code: str) -> tuple[list[str], list[str]]:
        """Training sentences of a language and their translations in the hub."""

    def dictionary(self, code: str) -> tuple[list[str], list[str]]:
        """Training words of a language and their translations in the hub."""

    def induced(self, code: str) -> tuple[list[str], list[str]]:
        """Words of a language and those of the hub that the align stage found to translate them."""

    def synonyms(self, code: str, path: str) -> tuple[list[str], list[str]]:
        """Names of concepts in a language and in the hub, of the files at a path with {lang} in it."""

    def linked(self, code: str, path: str | None) -> list[tuple[str, str, list[tuple[int, int]]]]:
        """Sentences of a language, their translations, and which words translate which; of a file, or induced."""

    def vectors(self, code: str) -> tuple[list[str], Tensor]:
        """Aligned word vectors of a language."""

    def vocabulary(self, code: str, count: int) -> list[str]:
        """The most frequent words of a language."""

    def initial_encoder(self) -> PreTrainedModel:
        """The encoder as it was before training, frozen."""


class Objective(ABC):
    """A training loss with its data. A subclass says what it draws from, `sizes`, and fills `make` and `terms`."""

    def __init__(self, config: ObjectiveConfig, materials: Materials, sizes: Mapping[str, int]) -> None:
        self.label = config.label
        self.weight_at = config.weight_at
        self.batch_size = config.batch_size
        self.materials = materials
        self.codes = [code for code, size in sizes.items() if size]
        if not self.codes:
            raise DataError(f"the objective {self.label} has nothing to learn from", "No language has data for it.")
        self._sizes = np.array([sizes[code] for code in self.codes])
        self._shares = language_shares(self._sizes, config.temperature)
        self._in_turn = config.draw == "turns"
        self._ends = self._sizes.cumsum()
        self._order = lru_cache(maxsize=2)(lambda epoch: self.generator(epoch).permutation(self.count))

    @property
    def count(self) -> int:
        """Examples that there are."""
        return int(self._ends[-1])

    def examples(self, step: int) -> Examples:
        """What the whole step draws."""
        return self._turns(step) if self._in_turn else self._drawn(step)

    def _turns(self, step: int) -> Examples:
        """Those whose turn it is: all epochs in a row, cut into batches."""
        first = step * self.batch_size
        turns = (divmod(place, self.count) for place in range(first, first + self.batch_size))
        places = np.array([self._order(epoch)[place] for epoch, place in turns])
        languages = self._ends.searchsorted(places, side="right")
        rows = places - (self._ends - self._sizes)[languages]
        return [(self.codes[language], row) for language, row in zip(languages.tolist(), rows.tolist(), strict=True)]

    def _drawn(self, step: int) -> Examples:
        """Languages by temperature, rows of each evenly."""
        generator = self.generator(step)
        chosen = generator.choice(len(self.codes), size=self.batch_size, p=self._shares)
        rows = (generator.random(self.batch_size) * self._sizes[chosen]).astype(int)
        return [(self.codes[language], row) for language, row in zip(chosen.tolist(), rows.tolist(), strict=True)]

    def generator(self, *numbers: int) -> np.random.Generator:
        """The random numbers of this objective at a step, or at what else the numbers name."""
        return np.random.default_rng([self.materials.seed, zlib.crc32(self.label.encode()), *numbers])

    def batch(self, step: int, part: int = 0, parts: int = 1) -> Batch:
        """The tensors of one part of a step. `language` holds the number of each term's language."""
        size = self.batch_size // parts
        return self.make(self.examples(step)[part * size : (part + 1) * size], self.generator(step, 1 + part))

    def start(self, device: torch.device) -> None:  # noqa: B027 (most have nothing to do)
        """What is to be done once, on the device that trains, before the first step."""

    def renews(self, step: int) -> bool:
        """Whether it looks at the encoder again before a step, as it is by then."""
        return False

    def renew(self, model: PreTrainedModel, device: torch.device) -> None:  # noqa: B027
        """Look at the encoder again; nothing is drawn meanwhile."""

    @property
    def state(self) -> Any:
        """What a checkpoint must keep of what it saw, as JSON has it; nothing, if that can be found again."""
        return None

    def restore(self, state: Any) -> None:  # noqa: B027
        """Go on with the state of a checkpoint, instead of `start`."""

    def language_numbers(self, codes: Sequence[str]) -> Tensor:
        import torch

        return torch.tensor([self.materials.languages.index(code) for code in codes])

    def tokenize(self, texts: list[str], others: list[str] | None = None) -> BatchEncoding:
        """Texts as subwords, padded; with `others` each is read together with its other, as the tokenizer joins two."""
        return self.materials.tokenizer(
            texts,
            others,
            padding=True,
            truncation=True,
            max_length=self.materials.max_tokens,
            return_special_tokens_mask=True,
        )

    def encode(self, texts: list[str], others: list[str] | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Subwords (B, T), the attention mask, and where subwords stand that are neither special nor padding."""
        return parts(self.tokenize(texts, others))

    @abstractmethod
    def make(self, examples: Examples, generator: np.random.Generator) -> Batch:
        """The tensors of some examples, among them `language`; `generator` is for what else is drawn, such as masks."""

    @abstractmethod
    def terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The loss of each term; the objective's loss is their mean over the whole step."""


class WholeObjective(Objective):
    """An objective whose loss is one of all examples of a step together, not of each by itself.

    The encoder sees them part by part; their vectors are then gathered from all workers and accumulated parts.
    """

    @abstractmethod
    def vectors(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The encoder's vectors of a part's examples: (B, D), or (B, several, D)."""

    def whole(self, step: int) -> Batch:
        """What else `whole_terms` needs of all examples of a step."""
        return {}

    @abstractmethod
    def whole_terms(self, vectors_ND: Tensor, whole: Batch) -> Tensor:
        """The share of each example in the loss; their mean is the loss."""

    def terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        raise NotImplementedError("the loss is of a whole step: see `vectors` and `whole_terms`")


def parts(encoded: BatchEncoding) -> tuple[Tensor, Tensor, Tensor]:
    """What `Objective.encode` gives, of texts that are tokenized already."""
    import torch

    # By way of numpy: transformers' own conversion costs several times what tokenizing does.
    names = ("input_ids", "attention_mask", "special_tokens_mask")
    ids_BT, attended_BT, special_BT = (torch.from_numpy(np.array(encoded[name])) for name in names)
    return ids_BT, attended_BT, attended_BT.bool() & (special_BT == 0)


def language_shares(sizes: Sequence[int] | np.ndarray, temperature: float) -> np.ndarray:
    """How often each language is drawn: p ∝ n^temperature (1: as the data, 0: all alike).

    >>> language_shares([100, 1], temperature=0.5).round(2).tolist()
    [0.91, 0.09]
    """
    weights = np.asarray(sizes, dtype=float) ** temperature
    return weights / weights.sum()

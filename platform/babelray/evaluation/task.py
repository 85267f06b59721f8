"""What every evaluation task is: a config that names its data and scores an encoder on them; and what comes out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from babelray.config import Config
from babelray.errors import DataError

if TYPE_CHECKING:
    from babelray.encoder.text_encoder import TextEncoder
    from babelray.storage import Place

TaskName = Literal[
    "classification",
    "contextual-bli",
    "entity-linking",
    "geometry",
    "mt-quality",
    "question-answering",
    "tagging",
    "tatoeba",
    "word-alignment",
]
PAPER_LAYER = 7
"""The layer that Hämmerl et al. (2022) and others before them read sentences from."""


@dataclass(frozen=True)
class Result:
    """Scores by language (or pair of languages) and measure; what the encoder answered, to look at errors."""

    scores: Mapping[str, Mapping[str, float]]
    predictions: Mapping[str, Any] = field(default_factory=dict)

    def mean(self, measure: str) -> float:
        """Over languages."""
        return fmean(values[measure] for values in self.scores.values())


class EvaluationTask(Config):
    """A task: `main` is the measure that stands for it in tables, `columns` those that a table shows."""

    main: ClassVar[str]
    columns: ClassVar[Mapping[str, str]]
    """Measures and how they are shown: `%` for shares, `.3f` and the like for others."""

    task: TaskName
    name: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """What it is called in tables, when a task is used on several data sets; the task's own name by default."""
    data: str
    """Where the data lie: a folder, a file or a pattern, local or on S3."""
    required: bool = True
    """Whether it is an error if the data are not there; if not, the task is left out."""
    layer: int | None = None
    """The layer whose vectors are compared: 7, or the last of an encoder that has fewer; negative numbers count from
    the last."""
    batch_tokens: int = Field(8192, ge=64)
    """Subwords in a batch, padding included."""

    @property
    def label(self) -> str:
        return self.name or self.task

    @abstractmethod
    def sources(self) -> list[Place]:
        """The files that are read; an error if there are none."""

    def missing(self) -> str | None:
        """What of its data is not there, if that may be; an error if they must be there; None if all are."""
        try:
            if not self.sources():
                raise DataError(f"there is nothing at {self.data}", "Check the path under evaluate.tasks.")
        except DataError as error:
            if self.required:
                raise
            return error.problem
        return None

    def run(self, encoder: TextEncoder) -> Result:
        """Score an encoder that is only read; a task that trains it overrides `score` instead."""
        raise TypeError(f"{self.task} cannot be scored with an encoder that is only read: use `score`")

    def score(self, path: str) -> Result:
        """Score the encoder in a folder, or of a name; one that is mapped at the layer that its mappings are of, a
        lexical one with its mixed vectors.
        """
        from babelray.encoder.lexical import LexicalEncoder, LexicalReader, is_lexical
        from babelray.encoder.load import load_encoder, load_tokenizer
        from babelray.encoder.mapped import MappedEncoder, is_mapped
        from babelray.encoder.text_encoder import TextEncoder

        if is_mapped(path):
            return self.run(MappedEncoder.open(path, batch_tokens=self.batch_tokens))
        if is_lexical(path):
            return self.run(LexicalReader(LexicalEncoder.open(path, self.batch_tokens)))
        model = load_encoder(path)
        layer = min(PAPER_LAYER, model.config.num_hidden_layers) if self.layer is None else self.layer
        return self.run(TextEncoder.of(model, load_tokenizer(path, masks=False), layer, self.batch_tokens))

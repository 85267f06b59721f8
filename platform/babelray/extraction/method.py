"""What an extraction method is: its settings, and how a language's vectors are made.

A method registers itself with `@EXTRACTION_METHODS.register`. The modules that do load no torch when they are imported:
a recipe reads them.

Shapes: V words of the vocabulary, D width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from babelray.config import Config, operational
from babelray.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.extraction.language import LanguageExtraction
    from babelray.extraction.occurrences import Batch
    from babelray.storage import Location
    from babelray.vectors.word_vectors import WordVectors

    Tensors = Mapping[str, Tensor]
    ReadBlocks = Callable[[], Iterable[Tensors]]
    """The encoded blocks of a language, in order; they can be read as often as needed."""

OnProgress = Callable[[int], None]


class ExtractionMethod(Config):
    """A way to make the static vectors of a language. The docstring of a subclass is its help."""

    needs: ClassVar[tuple[str, ...]] = ()
    """What it reads: the `encoder`, and the `text` of the corpus. A method that needs no encoder implements `read`; one
    that needs an encoder derives from `EncoderMethod`. Without text, the vocabulary is what is encoded."""

    method: str

    @classmethod
    def description(cls) -> str:
        """What the vectors are: the docstring, as one paragraph."""
        return " ".join((cls.__doc__ or "").split())

    def sources(self, languages: Sequence[str]) -> list[Location]:
        """The files that it reads besides the corpus and the encoder."""
        return []

    def read(self, code: str) -> WordVectors:
        """The vectors of a language, for a method that needs no encoder."""
        raise NotImplementedError


EXTRACTION_METHODS = Registry[ExtractionMethod](
    "EXTRACTION_METHODS", "extraction method", "method", "babelray.extraction", default="x2static"
)
AnyExtractionMethod = Annotated[SerializeAsAny[ExtractionMethod], BeforeValidator(EXTRACTION_METHODS.parse)]


def default_method() -> ExtractionMethod:
    """The method of a recipe that names none, with its default settings."""
    return EXTRACTION_METHODS.parse({})


@dataclass
class PreparedBlock:
    """A block of a language's text, or of its vocabulary, ready for the encoder."""

    number: int
    """The block's position among those of the language."""
    start: int
    """The first row of the text, or the first word of the vocabulary."""
    count: int
    batches: Sequence[Batch] = ()
    """The text in batches; none for a block of the vocabulary."""
    counts: Counter[str] = field(default_factory=Counter)
    """Sentences and words that were read, split or left out."""


class EncoderMethod(ExtractionMethod):
    """A method that takes static vectors from one layer of the encoder, or from several.

    The text, or the vocabulary, is cut into blocks. Blocks are encoded anywhere and in any order; then the vectors of a
    language are computed from all its blocks.
    """

    needs: ClassVar[tuple[str, ...]] = ("encoder", "text")
    single_layer: ClassVar[bool] = False
    """Whether it reads one layer only."""

    layer: int = 6
    """Layer whose vectors are used; 0 is the embedding layer, negative numbers count from the last."""
    also_layers: list[int] | Literal["all"] = Field(default_factory=list)
    """Further layers in the same pass, written beside as `layer-N/`; for methods that can read several."""
    min_count: int = Field(1, ge=1)
    """Words that occur less often in the corpus get no vector; those of rare words are mostly noise."""
    remove_dimensions: int = Field(0, ge=0)
    """Rogue dimensions that are set to zero (Timkey and van Schijndel, 2021), counted from the largest."""
    standardise: bool = False
    """Whether every dimension gets mean 0 and variance 1 over the words of a language."""
    batch_tokens: int = Field(8192, ge=64)
    """Subwords per batch, padding included."""
    block_sentences: int = Field(4096, ge=1)
    """Sentences per block, or words if the vocabulary is encoded. A lost worker costs at most the blocks that were
    being encoded."""
    workers: int | None = operational(None, ge=1)
    """Worker processes; each language is spread over all of them. By default one per GPU, or two without GPUs."""
    zero_stage: Literal[0, 3] = 0
    """3: DeepSpeed shards the encoder over the workers, for one that is too large for one device."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`auto`: bf16 on GPUs, fp32 on CPUs."""

    @model_validator(mode="after")
    def _method_reads_all_layers(self) -> EncoderMethod:
        if self.also_layers and self.single_layer:
            several = [
                name
                for name, other in EXTRACTION_METHODS.items()
                if issubclass(other, EncoderMethod) and not other.single_layer
            ]
            raise ValueError(f"also_layers: {self.method} reads one layer; use {' or '.join(several)} for several")
        return self

    @property
    def reads_paragraphs(self) -> bool:
        """Whether the encoder reads whole paragraphs at once, not sentences."""
        return False

    @abstractmethod
    def encode(self, language: LanguageExtraction, block: PreparedBlock, on_progress: OnProgress) -> dict[str, Tensor]:
        """What the method keeps of a block. `on_progress` receives the number of rows that have been encoded."""

    @abstractmethod
    def combine(
        self, language: LanguageExtraction, blocks: ReadBlocks, layer: int, on_progress: OnProgress
    ) -> tuple[Tensor, Tensor]:
        """The vectors (V, D) at a layer from all encoded blocks, and the counts (V); a word of count 0 has none."""

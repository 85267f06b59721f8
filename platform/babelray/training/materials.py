"""What training draws from, read from the artifacts of earlier stages when first asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from babelray.encoder.load import load_masked_lm, load_tokenizer
from babelray.errors import DataError
from babelray.lexicon.pairs import read_induced, read_pairs
from babelray.storage import Place
from babelray.text.corpus import read_sentences
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass
class ArtifactMaterials:
    """Materials for the objectives, from the corpus and the aligned vectors."""

    encoder: str
    corpus: Place
    aligned: Place | None
    languages: list[str]
    hub: str
    seed: int
    rank: int
    max_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.max_tokens = min(self.tokenizer.model_max_length, 512)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self.encoder)

    def sentences(self, code: str) -> list[str]:
        return read_sentences(self.corpus, code)["text"].to_pylist()

    def parallel(self, code: str) -> tuple[list[str], list[str]]:
        return self._pairs("parallel", code)

    def dictionary(self, code: str) -> tuple[list[str], list[str]]:
        return self._pairs("dictionary", code)

    def _pairs(self, kind: str, code: str) -> tuple[list[str], list[str]]:
        place = self.corpus / kind / f"{code}-{self.hub}"
        if not place.exists():
            named = {"parallel": "parallel text", "dictionary": "a dictionary"}[kind]
            raise DataError(f"an objective needs {named}", f"Name it in the recipe under `corpus.{kind}`.")
        pairs = read_pairs(place, "train")
        return [pair.source for pair in pairs], [pair.target for pair in pairs]

    def induced(self, code: str) -> tuple[list[str], list[str]]:
        pairs = read_induced(self._aligned() / "dictionary" / f"{code}-{self.hub}.tsv")
        return [source for source, _ in pairs], [target for _, target in pairs]

    def vectors(self, code: str) -> tuple[list[str], Tensor]:
        vectors = WordVectors.load(self._aligned() / "vectors" / code)
        return vectors.words, vectors.matrix

    def _aligned(self) -> Place:
        if self.aligned is None:
            raise DataError("an objective needs aligned vectors", "They come from the align stage, before pretrain.")
        return self.aligned

    def initial_encoder(self) -> PreTrainedModel:
        return load_masked_lm(self.encoder).base_model.eval().requires_grad_(False)

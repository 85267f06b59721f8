"""Training data without artifacts: the starter corpus of ten languages, and random static vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

import babelray
from babelray.encoder.load import load_masked_lm, load_tokenizer
from babelray.lexicon.statistical_alignment import align_words
from babelray.text.segment import Segmenter

STARTER = Path(babelray.__file__).parent / "starter"
LANGUAGES = ["en", "de", "fr", "es", "ru", "ar", "hi", "ja", "zh", "sw"]


@cache
def text(code: str) -> list[str]:
    lines = (STARTER / "text" / f"{code}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip()]


def sentences() -> list[str]:
    return [line for code in LANGUAGES for line in text(code)]


@dataclass
class StarterTrainingData:
    """The hub is English."""

    encoder: str
    languages: list[str] = field(default_factory=lambda: LANGUAGES)
    hub: str = "en"
    seed: int = 1
    max_tokens: int = 128

    def __post_init__(self) -> None:
        self.tokenizer = load_tokenizer(self.encoder)
        self._initial: Any = None

    def words_of(self, code: str, line: str) -> list[str]:
        return Segmenter.for_language(code).tokens(line)

    def sentences(self, code: str) -> list[str]:
        return text(code)

    def parallel(self, code: str) -> tuple[list[str], list[str]]:
        return text(code), text("en")

    dictionary = induced_dictionary = parallel

    def word_alignments(self, code: str, path: str | None) -> list[tuple[str, str, list[tuple[int, int]]]]:
        sides = self.parallel(code)
        words = [[self.words_of(c, line) for line in side] for c, side in zip((code, "en"), sides, strict=True)]
        return list(zip(*sides, align_words(words[0], words[1], 2), strict=True))

    def vectors(self, code: str) -> tuple[list[str], torch.Tensor]:
        words = sorted({word for line in text(code) for word in self.words_of(code, line)})
        return words, torch.randn(len(words), 100, generator=torch.Generator().manual_seed(0))

    def initial_encoder(self) -> Any:
        self._initial = self._initial or load_masked_lm(self.encoder).base_model.eval().requires_grad_(False)
        return self._initial

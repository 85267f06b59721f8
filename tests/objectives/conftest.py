"""What objectives draw from, without artifacts: a few words and sentences of two languages."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch

from babelray.encoder.load import load_tokenizer


@dataclass
class FewMaterials:
    """Materials that fit on a page. The hub is English."""

    encoder: str
    languages: list[str] = field(default_factory=lambda: ["en", "de"])
    hub: str = "en"
    seed: int = 1
    rank: int = 0
    max_tokens: int = 64
    width: int = 32

    def __post_init__(self) -> None:
        self.tokenizer = load_tokenizer(self.encoder)

    def sentences(self, code: str) -> list[str]:
        german = ["Die Katze schläft.", "Ein Hund."]
        return german if code == "de" else ["The cat sleeps on the warm bed.", "A dog barks."]

    def parallel(self, code: str) -> tuple[list[str], list[str]]:
        return self.sentences(code), self.sentences("en")

    def dictionary(self, code: str) -> tuple[list[str], list[str]]:
        return ["Katze", "Hund"], ["cat", "dog"]

    def induced(self, code: str) -> tuple[list[str], list[str]]:
        return ["schläft"], ["sleeps"]

    def vectors(self, code: str) -> tuple[list[str], torch.Tensor]:
        words = {"en": ["cat", "dog", "sleeps"], "de": ["Katze", "Hund"]}[code]
        return words, torch.arange(len(words) * self.width).reshape(len(words), -1) / 100.0


@pytest.fixture
def materials(tiny_encoder: str) -> FewMaterials:
    return FewMaterials(tiny_encoder)

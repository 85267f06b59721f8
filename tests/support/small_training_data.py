"""Training data without artifacts: a few words and sentences of two languages."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from babelray.encoder.load import load_masked_lm, load_tokenizer
from babelray.objectives.objective import ObjectiveConfig, merge_preparations
from babelray.storage import Location

WORDS = {
    "en": ["cat", "dog", "sleeps", "barks", "house", "bed"],
    "de": ["Katze", "Hund", "schläft", "bellt", "Haus", "Bett"],
}


@dataclass
class SmallTrainingData:
    """The hub is English."""

    encoder: str
    languages: list[str] = field(default_factory=lambda: ["en", "de"])
    hub: str = "en"
    seed: int = 1
    max_tokens: int = 64
    width: int = 32
    work: Path | None = None

    def prepared(self, name: str) -> Location:
        assert self.work is not None
        return Location.parse(self.work / name)

    def prepare(self, *configs: ObjectiveConfig) -> None:
        """What a stage does before a training."""
        for phase in merge_preparations(configs, self.languages, self.hub):
            for preparation in phase.values():
                preparation(self)

    def learn_word_alignments(self, code: str) -> None:
        pass

    def __post_init__(self) -> None:
        self.tokenizer = load_tokenizer(self.encoder)

    def words_of(self, code: str, text: str) -> list[str]:
        return text.replace(".", " .").split()

    def sentences(self, code: str) -> list[str]:
        german = ["Die Katze schläft.", "Ein Hund."]
        return german if code == "de" else ["The cat sleeps on the warm bed.", "A dog barks."]

    def held_out_sentences(self, code: str) -> list[str]:
        return ["Das Haus."] if code == "de" else ["The house."]

    def parallel(self, code: str) -> tuple[list[str], list[str]]:
        return self.sentences(code), self.sentences("en")

    held_out_parallel = parallel

    def dictionary(self, code: str) -> tuple[list[str], list[str]]:
        return WORDS["de"], WORDS["en"]

    def induced_dictionary(self, code: str) -> tuple[list[str], list[str]]:
        return ["schläft"], ["sleeps"]

    def word_alignments(self, code: str, path: str | None) -> list[tuple[str, str, list[tuple[int, int]]]]:
        return [(*pair, [(0, 0), (1, 1)]) for pair in zip(*self.parallel(code), strict=True)]

    def vectors(self, code: str) -> tuple[list[str], torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        return WORDS[code], torch.randn(len(WORDS[code]), self.width, generator=generator)

    def vocabulary(self, code: str, count: int) -> list[str]:
        return WORDS[code][:count]

    def initial_encoder(self) -> Any:
        return load_masked_lm(self.encoder).base_model.eval().requires_grad_(False)

"""Squared distance between words in context and their translations (Cao et al., 2020).

    L = Σ_(i,j) ‖ c(i) − c(j) ‖² + λ Σ_j ‖c(j) − c₀(j)‖²

over the word pairs (i, j) of a sentence and its translation, one-to-one, from word alignments: those of a file, or
learned from the run's own parallel text before training (`lexicon/statistical_alignment`), as fast_align's intersected
alignments are. The second term is that of `sentence_pairs`.

Use it as the baseline of `transport`, which needs no alignment beforehand.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from babelray.objectives.objective import OBJECTIVES, Batch, Examples, Need, Preparation
from babelray.objectives.sentence_pairs import SentencePairs, SentencePairsConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from torch import Tensor

    from babelray.objectives.objective import TrainingData
    from babelray.storage import Location


@OBJECTIVES.register
class WordL2Config(SentencePairsConfig):
    """Aligned words of a sentence and its translation approach each other."""

    title: ClassVar[str] = "Word L2"
    needs: ClassVar[tuple[Need, ...]] = ("parallel", "alignments")

    kind: Literal["word-l2"] = "word-l2"
    level: Literal["words"] = "words"
    alignments: str | None = None
    """A file for each language, such as "{data}/{lang}-{hub}.tsv": a sentence, its translation, both with a space
    between words, and the aligned positions, such as 0-0 1-2. Null: alignments are learned from the parallel text."""

    def required_data(self) -> tuple[Need, ...]:
        return self.needs if self.alignments is None else ()

    def sources(self, languages: Sequence[str], hub: str) -> list[Location]:
        if self.alignments is None:
            return []
        from babelray.lexicon.statistical_alignment import links_file

        return [links_file(self.alignments, code, hub) for code in languages if code != hub]

    def preparations(self, languages: Sequence[str], hub: str) -> list[dict[str, Preparation]]:
        if self.alignments is not None:
            return []
        return [
            {
                f"alignments of {code}": Preparation(partial(_learn_alignments, code))
                for code in languages
                if code != hub
            }
        ]

    def build(self, training_data: TrainingData) -> WordL2:
        return WordL2(self, training_data)


def _learn_alignments(code: str, training_data: TrainingData) -> None:
    training_data.learn_word_alignments(code)


def word_distances(source_BSD: Tensor, target_BTD: Tensor, links_L3: Tensor) -> Tensor:
    """Σ ‖x − y‖² over the aligned words of each sentence pair (B,); a link is (pair, source word, target word)."""
    import torch

    pair_L, source_L, target_L = links_L3.T
    distances_L = (source_BSD[pair_L, source_L] - target_BTD[pair_L, target_L]).float().square().sum(-1)
    zeros_B = torch.zeros(len(source_BSD), dtype=distances_L.dtype, device=distances_L.device)
    return zeros_B.index_add(0, pair_L, distances_L)


class WordL2(SentencePairs):
    """Aligned words of parallel text of all languages with the hub."""

    def __init__(self, config: WordL2Config, training_data: TrainingData) -> None:
        self.from_files = config.alignments is not None
        self.rows = {
            code: training_data.word_alignments(code, config.alignments)
            for code in training_data.languages
            if code != training_data.hub
        }
        super().__init__(config, training_data, {code: len(rows) for code, rows in self.rows.items()})

    def pair(self, code: str, row: int) -> tuple[str, str]:
        source, target, _ = self.rows[code][row]
        return source, target

    def words_of(self, code: str, text: str) -> list[str]:
        return text.split() if self.from_files else super().words_of(code, text)

    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        import torch

        batch = super().collate(examples, generator)
        links = [(number, i, j) for number, (code, row) in enumerate(examples) for i, j in self.rows[code][row][2]]
        links_L3 = torch.tensor(links, dtype=torch.long).reshape(-1, 3)
        widest = torch.tensor([batch["source_words"].shape[1], batch["target_words"].shape[1]])
        links_L3 = links_L3[(links_L3[:, 1:] < widest).all(1)]
        pair_L, source_L, target_L = links_L3.T
        present_L = batch["source_words"][pair_L, source_L] & batch["target_words"][pair_L, target_L]
        return batch | {"links": links_L3[present_L]}

    def alignment(self, source_BSD: Tensor, target_BTD: Tensor, batch: Batch) -> Tensor:
        return word_distances(source_BSD, target_BTD, batch["links"])

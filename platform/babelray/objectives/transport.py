"""Optimal transport between a sentence and its translation (Alqahtani et al., 2021).

    L = S_ε(α, β) + λ Σ_j ‖c(j) − c₀(j)‖²

S_ε is the debiased Sinkhorn divergence between the words, or subwords, of the two sentences, each with uniform weights:
one transport per sentence pair, which aligns words softly while the encoder learns. The second term is that of
`sentence_pairs`.

Where we differ from the paper's text: equation 2 has a minus before S_ε, a slip, since the divergence is to be
minimised; and the ground cost is called Euclidean, while the paper used geomloss' defaults, which are p = 2 (half the
squared distance) and blur = 0.05, a length in the space of the vectors (ε = blur^p). geomloss' defaults are ours, p = 1
is the other. The paper draws the same number of pairs from every language (`temperature: 0`), 24 twice for a step.

Use it when there is parallel text and no word alignment. `babelray transport show` prints its soft alignment of two
sentences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from babelray.objectives.objective import OBJECTIVES, Need
from babelray.objectives.sentence_pairs import SentencePairs, SentencePairsConfig

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.objectives.objective import Batch, TrainingData


@OBJECTIVES.register
class TransportConfig(SentencePairsConfig):
    """The words of a sentence are moved onto those of its translation by optimal transport."""

    title: ClassVar[str] = "Optimal transport"
    needs: ClassVar[tuple[Need, ...]] = ("parallel",)

    kind: Literal["transport"] = "transport"
    blur: float = Field(0.05, gt=0)
    """Finest scale of the transport, in the units of the vectors; ε = blur^p."""
    p: Literal[1, 2] = 2
    """Ground cost: 1 the distance, 2 half its square."""
    scaling: float = Field(0.5, gt=0, lt=1)
    """Factor from one scale to the next, down to `blur`; values nearer to 1 are slower and more exact."""
    iterations: int | None = Field(None, ge=1)
    """Further iterations at the finest scale; none by default, as in geomloss."""
    debias: bool = True
    """Whether the transport of each sentence to itself is subtracted, so that equal sentences have distance 0."""

    def build(self, training_data: TrainingData) -> Transport:
        return Transport(self, training_data)


class Transport(SentencePairs):
    """Sinkhorn divergence on parallel text of all languages with the hub."""

    def __init__(self, config: TransportConfig, training_data: TrainingData) -> None:
        self.config = config
        self.pairs = {
            code: training_data.parallel(code) for code in training_data.languages if code != training_data.hub
        }
        super().__init__(config, training_data, {code: len(sources) for code, (sources, _) in self.pairs.items()})

    def pair(self, code: str, row: int) -> tuple[str, str]:
        sources, targets = self.pairs[code]
        return sources[row], targets[row]

    def alignment(self, source_BSD: Tensor, target_BTD: Tensor, batch: Batch) -> Tensor:
        from babelray.objectives.sinkhorn import sinkhorn_divergence

        c = self.config
        words = batch["source_words"], batch["target_words"]
        return sinkhorn_divergence(
            source_BSD, words[0], target_BTD, words[1], c.blur, c.p, c.scaling, c.iterations, c.debias
        )

"""Optimal transport between a sentence and its translation (Alqahtani et al., 2021).

    L = S_ε(α, β) + λ Σ_j ‖c(j) − c₀(j)‖²

S_ε is the debiased Sinkhorn divergence between the subword vectors of the two sentences, each with uniform
weights: one transport per sentence pair, so that words find their translations while the encoder learns.
The second term keeps the hub's vectors c near those of the initial encoder c₀ (section 4.3).

Where we differ from the paper's text: equation 2 has a minus before S_ε, a slip, since the divergence is to be
minimised; and the ground cost is called Euclidean, while the paper used geomloss' defaults, which are
p = 2 (half the squared distance) and blur = 0.05 (ε = blur^p). We keep geomloss' defaults; p = 1 is the other.

Use it when there is parallel text and no word alignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.objectives.objective import Batch, Materials, Objective, ObjectiveConfig, language_shares

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class TransportConfig(ObjectiveConfig):
    kind: Literal["transport"] = "transport"
    batch_size: int = Field(24, ge=1)
    """Sentence pairs per worker and step."""
    blur: float = Field(0.05, gt=0)
    """Finest scale of the transport, in the units of the vectors; ε = blur^p."""
    p: Literal[1, 2] = 2
    """Ground cost: 1 the distance, 2 half its square."""
    scaling: float = Field(0.5, gt=0, lt=1)
    """Factor between one scale and the next on the way down to `blur`; nearer to 1 is slower and more exact."""
    regulariser: float = Field(1.0, ge=0)
    """λ: how strongly the hub's vectors are held where they were."""
    temperature: float = Field(0.7, ge=0, le=1)
    """How languages are drawn: 1 as the data, 0 all alike."""


def sinkhorn_divergence(
    source_BSD: Tensor,
    source_mask_BS: Tensor,
    target_BTD: Tensor,
    target_mask_BT: Tensor,
    blur: float,
    p: int,
    scaling: float = 0.5,
) -> Tensor:
    """S_ε of each pair (B,), with uniform weights over the positions where the masks are set.

    Padding has weight zero and, lest it stretch the range of scales that geomloss descends through, stands where
    a real word stands: it changes neither the value nor the gradient.
    """
    import torch
    from geomloss import SamplesLoss

    divergence = SamplesLoss("sinkhorn", p=p, blur=blur, scaling=scaling, debias=True, backend="tensorized")
    sides = []
    for points, mask in ((source_BSD, source_mask_BS.bool()), (target_BTD, target_mask_BT.bool())):
        first = mask.int().argmax(1, keepdim=True).unsqueeze(-1).expand(-1, 1, points.shape[-1])
        real = points.gather(1, first).detach()
        sides += [mask.float() / mask.sum(1, keepdim=True), torch.where(mask.unsqueeze(-1), points, real).float()]
    return divergence(*sides)


def drift(current_BTD: Tensor, initial_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """Σ_j ‖c(j) − c₀(j)‖², summed over a sentence's subwords, averaged over sentences."""
    squared_BT = (current_BTD - initial_BTD).square().sum(-1)
    return (squared_BT * mask_BT).sum(1).mean()


class Transport(Objective):
    """Sinkhorn divergence on parallel text of all languages with the hub."""

    def __init__(self, config: TransportConfig, materials: Materials) -> None:
        super().__init__(config, materials)
        self.config = config
        self.pairs = [materials.parallel(code) for code in materials.languages if code != materials.hub]
        self.shares = language_shares([len(source) for source, _ in self.pairs], config.temperature)
        self.initial = materials.initial_encoder() if config.regulariser else None

    def batch(self, step: int) -> Batch:
        generator = self.generator(step)
        chosen = generator.choice(len(self.pairs), size=self.config.batch_size, p=self.shares)
        rows = [(language, generator.integers(len(self.pairs[language][0]))) for language in chosen]
        batch: Batch = {}
        for side, name in enumerate(("source", "target")):
            texts = [self.pairs[language][side][row] for language, row in rows]
            batch[f"{name}_ids"], batch[f"{name}_mask"], batch[f"{name}_words"] = self.encode(texts)
        return batch

    def loss(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        import torch

        source_BSD, target_BTD = (
            model.base_model(input_ids=batch[f"{side}_ids"], attention_mask=batch[f"{side}_mask"]).last_hidden_state
            for side in ("source", "target")
        )
        words = batch["source_words"], batch["target_words"]
        c = self.config
        loss = sinkhorn_divergence(source_BSD, words[0], target_BTD, words[1], c.blur, c.p, c.scaling).mean()
        if self.initial is None:
            return loss
        with torch.no_grad():
            initial_BTD = self.initial(
                input_ids=batch["target_ids"], attention_mask=batch["target_mask"]
            ).last_hidden_state
        return loss + c.regulariser * drift(target_BTD, initial_BTD, words[1])

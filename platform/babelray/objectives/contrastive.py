"""Contrastive alignment of translations: the multiple-negatives ranking loss.

    L = −1/B Σ_i log  exp(C · cos(x_i, y_i)) / Σ_{j ∈ N(i)} exp(C · cos(x_i, y_j)),   both directions averaged

x_i and y_i are the mean-pooled vectors of a word or sentence and of its translation in the hub, C = 20 is the scale
(an inverse temperature), and N(i) holds i and every other pair of the step that is not a translation of i, gathered
from all workers and accumulated parts. With hard negatives, N(i) of the first direction also holds, for every pair of
the step, the hub's entries that the encoder took for its translations before training, wrongly. A pair with the same
text on either side, or a text that the dictionary gives as another translation, is never a negative.

Henderson et al. (2017); for words encoded in isolation Vulić et al. (2023). Use it when there are dictionary pairs or
parallel sentences: of the objectives here it moves retrieval most with little data, since it asks not only that
translations be near but that others be far.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.objectives.objective import Batch, Examples, Materials, ObjectiveConfig, WholeObjective

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel


class ContrastiveConfig(ObjectiveConfig):
    kind: Literal["contrastive"] = "contrastive"
    pairs: Literal["words", "induced", "sentences"] = "sentences"
    """What is paired: entries of the dictionary, encoded alone; of the one that the align stage induced; or parallel
    sentences."""
    batch_size: int = Field(128, ge=2)
    """Pairs a step, over all workers and accumulated parts."""
    scale: float = Field(20.0, gt=0)
    """C: how sharply the nearest negatives count."""
    hard_negatives: int = Field(0, ge=0)
    """For each pair, how many of the hub's entries nearest to its source, by the encoder before training, are negatives
    too."""


def ranking_terms(
    source_ND: Tensor,
    target_ND: Tensor,
    same_NN: Tensor,
    scale: float,
    negatives_MD: Tensor | None = None,
    translates_NM: Tensor | None = None,
) -> Tensor:
    """The multiple-negatives ranking loss of each pair (N,), the mean of both directions.

    `same_NN[i, j]` is true where pair j is a translation of pair i, as every pair is of itself: such a pair is never a
    negative. `negatives_MD` are more negatives for the sources, but for those that a source translates to.
    """
    import torch
    from torch.nn import functional

    source_ND, target_ND = functional.normalize(source_ND.float()), functional.normalize(target_ND.float())
    cosine_NN = source_ND @ target_ND.T
    diagonal_NN = torch.eye(len(cosine_NN), dtype=torch.bool, device=cosine_NN.device)
    logits_NN = (scale * cosine_NN).masked_fill(same_NN & ~diagonal_NN, float("-inf"))
    labels_N = torch.arange(len(logits_NN), device=logits_NN.device)
    backward_N = functional.cross_entropy(logits_NN.T, labels_N, reduction="none")
    if negatives_MD is not None and translates_NM is not None:
        hard_NM = scale * source_ND @ functional.normalize(negatives_MD.float()).T
        logits_NN = torch.cat([logits_NN, hard_NM.masked_fill(translates_NM, float("-inf"))], 1)
    return (functional.cross_entropy(logits_NN, labels_N, reduction="none") + backward_N) / 2


class Contrastive(WholeObjective):
    """Translations of all languages with the hub, mixed in one batch."""

    def __init__(self, config: ContrastiveConfig, materials: Materials) -> None:
        self.config = config
        read = {"words": materials.dictionary, "induced": materials.induced, "sentences": materials.parallel}
        self.pairs = {code: read[config.pairs](code) for code in materials.languages if code != materials.hub}
        super().__init__(config, materials, {code: len(sources) for code, (sources, _) in self.pairs.items()})
        self.translations: dict[tuple[str, str], set[str]] = defaultdict(set)
        for code, (sources, targets) in self.pairs.items():
            for source, target in zip(sources, targets, strict=True):
                self.translations[code, source].add(target)
        self.hard: dict[tuple[str, str], list[str]] = {}

    def start(self, device: torch.device) -> None:
        if self.config.hard_negatives:
            self._mine(device)

    def _mine(self, device: torch.device) -> None:
        """For every source, the hub's entries nearest to it that are not its translations."""
        from babelray.encoder.text_encoder import TextEncoder
        from babelray.vectors.retrieval import nearest

        model = self.materials.initial_encoder().to(device)

        def read(ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
            return model(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state

        encode = TextEncoder(read, device, self.materials.tokenizer, self.materials.max_tokens).sentences
        hub = sorted({target for _, targets in self.pairs.values() for target in targets})
        hub_MD = encode(hub)
        wanted = self.config.hard_negatives
        for code, (sources, _) in self.pairs.items():
            distinct = sorted(set(sources))
            if not distinct:
                continue
            most = max(len(self.translations[code, source]) for source in distinct)
            _, found_NK = nearest(encode(distinct), hub_MD, min(len(hub), wanted + most))
            for source, row in zip(distinct, found_NK.tolist(), strict=True):
                others = [hub[i] for i in row if hub[i] not in self.translations[code, source]]
                self.hard[code, source] = others[:wanted]

    def make(self, examples: Examples, generator: np.random.Generator) -> Batch:
        batch: Batch = {"language": self.language_numbers([code for code, _ in examples])}
        sides = {"source": self._texts(examples, 0), "target": self._texts(examples, 1)}
        if self.config.hard_negatives:
            sides["hard"] = self._hard(examples)
        for name, texts in sides.items():
            batch[f"{name}_ids"], batch[f"{name}_mask"], batch[f"{name}_pooled"] = self.encode(texts)
        return batch

    def _texts(self, examples: Examples, side: int) -> list[str]:
        return [self.pairs[code][side][row] for code, row in examples]

    def _hard(self, examples: Examples) -> list[str]:
        """The same number for every example: where there are too few, the first stands for the others."""
        texts: list[str] = []
        for code, source in zip((code for code, _ in examples), self._texts(examples, 0), strict=True):
            found = self.hard[code, source] or [min(self.translations[code, source])]
            texts += (found + found[:1] * self.config.hard_negatives)[: self.config.hard_negatives]
        return texts

    def whole(self, step: int) -> Batch:
        """Which pair, and which hard negative, translates which source."""
        examples = self.examples(step)
        sources = list(zip((code for code, _ in examples), self._texts(examples, 0), strict=True))
        targets = self._texts(examples, 1)
        known = [self.translations[source] for source in sources]
        same_NN = _stands_in(known, targets)
        same_NN = same_NN | same_NN.T | equal(targets) | equal(sources)
        if not self.config.hard_negatives:
            return {"same": same_NN}
        return {"same": same_NN, "translates": _stands_in(known, self._hard(examples))}

    def vectors(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """Of each pair its source, its target and its hard negatives: (B, 2 + H, D)."""
        import torch

        from babelray.encoder.pool import mean_pool, read_by_length

        def encoded(side: str) -> Tensor:
            hidden_BTD = read_by_length(model.base_model, batch[f"{side}_ids"], batch[f"{side}_mask"])
            return mean_pool(hidden_BTD, batch[f"{side}_pooled"])

        sides = [encoded("source").unsqueeze(1), encoded("target").unsqueeze(1)]
        if self.config.hard_negatives:
            sides.append(encoded("hard").unflatten(0, (-1, self.config.hard_negatives)))
        return torch.cat(sides, 1)

    def whole_terms(self, vectors_ND: Tensor, whole: Batch) -> Tensor:
        source_ND, target_ND, hard_NHD = vectors_ND[:, 0], vectors_ND[:, 1], vectors_ND[:, 2:]
        hard = (hard_NHD.flatten(0, 1), whole["translates"]) if self.config.hard_negatives else ()
        return ranking_terms(source_ND, target_ND, whole["same"], self.config.scale, *hard)


def _stands_in(sets: Sequence[set[str]], texts: Sequence[str]) -> Tensor:
    """Which text (M) stands in which set (N): (N, M)."""
    import torch

    places: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        places[text].append(place)
    found_NM = torch.zeros(len(sets), len(texts), dtype=torch.bool)
    for row, members in enumerate(sets):
        found_NM[row, [place for member in members if member in places for place in places[member]]] = True
    return found_NM


def equal(values: Sequence[object]) -> Tensor:
    """Which of N values are equal: (N, N)."""
    import torch

    first = {value: number for number, value in reversed(list(enumerate(values)))}
    numbers_N = torch.tensor([first[value] for value in values])
    return numbers_N.unsqueeze(0) == numbers_N.unsqueeze(1)

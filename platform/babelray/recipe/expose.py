"""How an encoder is tuned on dictionary entries and mixed with static vectors (Vulić et al., 2023)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from babelray.metrics.word_similarity import WordSimilaritySource
from babelray.objectives.contrastive import ContrastiveConfig
from babelray.training.config import OptimizationConfig, TrainingConfig


class ExposeConfig(OptimizationConfig):
    """Contrastive tuning and interpolation; the defaults are the paper's (section 3)."""

    pairs: Literal["words", "induced", "synonyms"] = "words"
    """What is learned: entries of the training dictionary, of the dictionary that the align stage induced, or names of
    the same concept, such as those of UMLS."""
    synonyms: str | None = None
    """`synonyms`: files of names, one `CUI||name` per line, with {lang} in the path. Languages without are skipped."""
    limit: int | None = Field(5000, ge=1)
    """The number of entries of each language that are used, the first ones; null for all."""
    multilingual: bool = False
    """Whether one encoder is tuned for all languages; otherwise one per language with the hub, as in the paper."""
    steps: int = Field(0, ge=0)
    """Training steps, regardless of `epochs`; 0: the steps of all epochs."""
    epochs: int = Field(5, ge=1)
    """Passes over the entries."""
    batch_size: int = Field(128, ge=2)
    """Entries per step."""
    learning_rate: float = Field(2e-5, gt=0)
    scale: float = Field(20.0, gt=0)
    """C, an inverse temperature: the larger, the more the nearest negatives count."""
    form: Literal["softmax", "paper"] = "softmax"
    """The form of the loss: see `objectives/contrastive.py`."""
    hard_negatives: int = Field(10, ge=0)
    """Negatives per entry: the words most similar to it that are not its translations."""
    candidates: int = Field(200_000, ge=0)
    """Hard negatives are searched among the entries of the dictionary and this number of the most frequent words."""
    refresh_negatives: Literal["once", "every epoch"] = "once"
    """Whether hard negatives are searched once, with the encoder before tuning, or again after every epoch."""
    symmetric_negatives: bool = True
    """Whether entries of the hub also get hard negatives, in the other language."""
    lambdas: list[float] = Field(default=[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], min_length=1)
    """Values of λ, the weight of the encoder in the mixture with static vectors, that are scored."""
    lambda_: float | None = Field(None, alias="lambda", ge=0, le=1)
    """λ of the vectors that are written; null: the best value for the development language."""
    development: str | None = None
    """The language whose test words choose λ; the first that is not the hub by default."""
    similarity: list[WordSimilaritySource] = Field(default_factory=list)
    """Word pairs rated by people, such as Multi-SimLex, on which every mixture is scored too."""
    words: int = Field(200_000, ge=1)
    """The most static vectors per language, those of the most frequent words."""

    @field_validator("lambdas")
    @classmethod
    def _lambdas_are_shares(cls, lambdas: list[float]) -> list[float]:
        if not all(0 <= value <= 1 for value in lambdas):
            raise ValueError("λ lies between 0 (static vectors alone) and 1 (the encoder alone)")
        return sorted(set(lambdas))

    def objective(self) -> ContrastiveConfig:
        return ContrastiveConfig(
            pairs=self.pairs,
            synonyms=self.synonyms,
            limit=self.limit,
            batch_size=self.batch_size,
            scale=self.scale,
            form=self.form,
            hard_negatives=self.hard_negatives,
            candidates=self.candidates,
            refresh_negatives=self.refresh_negatives,
            symmetric_negatives=self.symmetric_negatives,
            special_tokens=True,
            sampling="epochs",
        )

    def training(self, entries: int, workers: int | None = None) -> TrainingConfig:
        """The training that sees this number of entries `epochs` times."""
        settings = {name: getattr(self, name) for name in OptimizationConfig.model_fields}
        settings["workers"] = workers or self.workers
        steps = self.steps or max(1, round(self.epochs * entries / self.batch_size))
        return TrainingConfig(**settings | {"steps": steps}, objectives=[self.objective()])

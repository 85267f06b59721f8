"""How an encoder is tuned on dictionary entries and mixed with static vectors (Vulić et al., 2023)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from babelray.config import operational
from babelray.evaluation.word_similarity import WordSimilaritySource
from babelray.objectives.contrastive import ContrastiveConfig
from babelray.training.config import OptimizationConfig, TrainingConfig


class ExposeConfig(OptimizationConfig):
    """Contrastive tuning and interpolation; the defaults are the paper's (section 3)."""

    pairs: Literal["words", "induced", "synonyms"] = "words"
    """What is learned: entries of the training dictionary, of the one that the align stage induced, or names of one
    concept, such as UMLS'."""
    synonyms: str | None = None
    """`synonyms`: files of names, `CUI||name` a line, with {lang} in their path. Not every language must have one."""
    limit: int | None = Field(5000, ge=1)
    """Only the first so many entries of each language; null for all."""
    together: bool = False
    """Whether one encoder is tuned for all languages; otherwise one for each language and the hub, as in the paper."""
    steps: int = Field(0, ge=0)
    """So many, whatever `epochs` says; 0: as many as the epochs have."""
    epochs: int = Field(5, ge=1)
    """How often each entry is seen."""
    batch_size: int = Field(128, ge=2)
    """Entries a step."""
    learning_rate: float = Field(2e-5, gt=0)
    scale: float = Field(20.0, gt=0)
    """C: how sharply the nearest negatives count."""
    form: Literal["softmax", "paper"] = "softmax"
    """The form of the loss: see `objectives/contrastive.py`."""
    hard_negatives: int = Field(10, ge=0)
    """For each entry, how many of the words most like it that are not its translations."""
    candidates: int = Field(200_000, ge=0)
    """Hard negatives are looked for among the dictionary's entries, and so many of the most frequent words."""
    mine: Literal["once", "every epoch"] = "once"
    """Whether hard negatives are those of the encoder before tuning, or looked for again after every epoch."""
    both_ways: bool = True
    """Whether the hub's entries get hard negatives too, in the other language."""
    shares: list[float] = Field(default=[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], min_length=1)
    """λ: the encoder's shares in the mixture with static vectors that are tried …"""
    share: float | None = Field(None, ge=0, le=1)
    """… and the one that the vectors are written with; null: the best for the development language."""
    development: str | None = None
    """The language whose test words choose the share; the first that is not the hub by default."""
    similarity: list[WordSimilaritySource] = Field(default_factory=list)
    """Word pairs rated by people, such as Multi-SimLex', that every mixture is judged by too."""
    words: int = operational(200_000, ge=1)
    """At most so many of each language's static vectors are used, the most frequent words'."""

    @field_validator("shares")
    @classmethod
    def _shares_are_shares(cls, shares: list[float]) -> list[float]:
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError("shares lie between 0 (static vectors alone) and 1 (the encoder alone)")
        return sorted(set(shares))

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
            mine=self.mine,
            both_ways=self.both_ways,
            special_tokens=True,
            draw="turns",
        )

    def training(self, entries: int, workers: int | None = None) -> TrainingConfig:
        """The training that sees so many entries `epochs` times."""
        shared = {name: getattr(self, name) for name in OptimizationConfig.model_fields}
        shared["workers"] = workers or self.workers
        steps = self.steps or max(1, round(self.epochs * entries / self.batch_size))
        return TrainingConfig(**shared | {"steps": steps}, objectives=[self.objective()])

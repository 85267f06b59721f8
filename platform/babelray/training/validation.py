"""Measuring an encoder while it trains, on held-out data.

- mlm: the masked-language-modelling loss of held-out sentences; less is better.
- retrieval: how often a held-out sentence's nearest neighbour is its translation, mean of both directions.
- semantic: the mean cosine of the most confident translations among the most frequent words (Lample et al., 2018; the
  semantic criterion of Zhao et al., 2022, section 4.2). It needs no parallel data. Words are encoded alone; each
  language's mean is taken off first, since an encoder whose vectors all point one way would otherwise look best; and
  the translations are those that both directions of CSLS agree on.

Every metric is a mean over languages. Languages are distributed over the workers, except under ZeRO 3, where all must
run the encoder together.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from babelray.encoder.load import resolve_layer
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.mapping.induction import induce
from babelray.metrics.retrieval import retrieval_accuracy
from babelray.training.perplexity import mlm_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from babelray.training.config import ValidationConfig
    from babelray.training.mixture import Group
    from babelray.training.training_data import ArtifactTrainingData

BATCH_TOKENS = 4096


class Validation:
    """The metrics, and the data that they are computed on, read once."""

    def __init__(
        self, config: ValidationConfig, engine: Any, training_data: ArtifactTrainingData, group: Group
    ) -> None:
        self.config = config
        self.model = engine.module.model
        self.device = engine.device
        self.tokenizer = training_data.tokenizer
        self.max_tokens = training_data.max_tokens
        self.group = group
        self.hub = training_data.hub
        self.layer = resolve_layer(config.layer, self.model.config.num_hidden_layers)
        others = [code for code in training_data.languages if code != self.hub]
        most = config.sentences
        self.sentences = {code: list(training_data.held_out_sentences(code)[:most]) for code in training_data.languages}
        pairs = {code: training_data.held_out_parallel(code) for code in others}
        self.pairs = {code: (a[:most], b[:most]) for code, (a, b) in pairs.items() if len(a) > 1}
        self.words = {code: training_data.vocabulary(code, config.words) for code in training_data.languages}
        has = {"mlm": any(self.sentences.values()), "retrieval": bool(self.pairs), "semantic": bool(others)}
        if not has[config.best]:
            raise DataError(
                f"nothing is held out to measure {config.best} with",
                "Raise validation.held_out, give more text, or choose another validation.best.",
            )
        self.together = engine.zero_optimization_stage() == 3

    def measure(self) -> dict[str, float]:
        """Every metric that there is data for; the same on every worker."""
        self.model.eval()
        with torch.no_grad():
            hub_MD = self._centred(self.hub)
            values = {
                "mlm": self._over([c for c, texts in self.sentences.items() if texts], self._mlm),
                "retrieval": self._over(list(self.pairs), self._retrieval),
                "semantic": self._over([c for c in self.words if c != self.hub], lambda c: self._semantic(c, hub_MD)),
            }
        self.model.train()
        return {f"validation/{name}": value for name, value in values.items() if value is not None}

    def _over(self, codes: Sequence[str], metric: Callable[[str], float]) -> float | None:
        """The mean over languages, each measured by one worker."""
        if not codes:
            return None
        if self.together:
            return fmean(metric(code) for code in codes)
        own = codes[self.group.rank :: self.group.count]
        total = torch.tensor(sum(metric(code) for code in own), dtype=torch.float64, device=self.device)
        return self.group.sum(total).item() / len(codes)

    def _mlm(self, code: str) -> float:
        texts = self.sentences[code]
        return mlm_loss(self.model, self.device, self.tokenizer, texts, self.max_tokens, BATCH_TOKENS)

    def _retrieval(self, code: str) -> float:
        sources, targets = self.pairs[code]
        return retrieval_accuracy(self._vectors(sources), self._vectors(targets))["mean"]

    def _semantic(self, code: str, z_MD: Tensor) -> float:
        x_ND = self._centred(code)
        dictionary = induce(x_ND, z_MD, csls=10, direction="mutual")
        best = dictionary.confidence_P.argsort(descending=True, stable=True)[: self.config.pairs]
        cosines = (x_ND[dictionary.source_P[best]] * z_MD[dictionary.target_P[best]]).sum(1)
        return cosines.mean().item() if len(cosines) else 0.0

    def _centred(self, code: str) -> Tensor:
        """Vectors of the most frequent words of a language."""
        vectors_ND = self._vectors(self.words[code])
        return functional.normalize(vectors_ND - vectors_ND.mean(0))

    def _vectors(self, texts: list[str]) -> Tensor:
        """Mean-pooled vectors at the layer."""
        return TextEncoder(self._read, self.device, self.tokenizer, self.max_tokens, BATCH_TOKENS).encode(texts)

    def _read(self, ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        output = self.model.base_model(input_ids=ids_BT, attention_mask=mask_BT, output_hidden_states=True)
        last = self.layer == self.model.config.num_hidden_layers
        return output.last_hidden_state if last else output.hidden_states[self.layer]


class Best:
    """The best validation score so far, and whether patience has run out."""

    def __init__(self, config: ValidationConfig | None, state: dict[str, Any] | None) -> None:
        self.metric = config.best if config else ""
        self.patience = config.patience if config else None
        self.state = dict(state or {"score": None, "step": 0, "worse": 0})
        self.last: dict[str, float] = {}

    def add(self, values: dict[str, float], step: int) -> dict[str, float]:
        """Record the metrics of a step; return them."""
        value = values[f"validation/{self.metric}"]
        score = -value if self.metric == "mlm" else value
        self.last = {SCORE: score}
        if self.state["score"] is None or score > self.state["score"]:
            self.state = {"score": score, "step": step, "worse": 0}
        else:
            self.state["worse"] += 1
        return values

    @property
    def enough(self) -> bool:
        return self.patience is not None and self.state["worse"] >= self.patience


SCORE = "score"
"""The metric that ranks checkpoints: the higher the better."""

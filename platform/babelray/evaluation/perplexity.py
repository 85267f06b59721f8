"""The encoder as a language model, on held-out sentences: see `training/perplexity.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from babelray.evaluation.benchmark import BATCH_TOKENS, BENCHMARKS, Benchmark, Result, System
from babelray.evaluation.held_out import held_out_pairs
from babelray.metrics.intervals import Interval, bootstrap_interval, interval_of_mean


@BENCHMARKS.register
class Perplexity(Benchmark):
    """The encoder as a language model on held-out sentences; lower is better. The loss of masked language modelling,
    the pseudo-perplexity (every subword hidden alone and predicted from the others), and bits per character.
    """

    title: ClassVar[str] = "The encoder as a language model"
    main_metric: ClassVar[str] = "bits_per_character"
    columns: ClassVar[Mapping[str, str]] = {
        "sentences": ",.0f",
        "mlm": ",.2f",
        "pseudo_perplexity": ",.2f",
        "bits_per_character": ",.2f",
    }
    metric_titles: ClassVar[Mapping[str, str]] = {"mlm": "loss", "pseudo_perplexity": "pseudo-perplexity"}
    lower_is_better: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("encoder", "corpus")
    held_out: ClassVar[bool] = True

    benchmark: Literal["perplexity"] = "perplexity"
    sentences: int = Field(20, ge=1)
    """Sentences of each language."""
    batch_tokens: int | None = Field(None, ge=64)
    """Subwords in a batch, padding included; `evaluate.batch_tokens` by default."""

    def score(self, system: System) -> Result:
        import torch

        from babelray.encoder.layers import longest_input
        from babelray.encoder.load import load_masked_lm, load_tokenizer
        from babelray.training.perplexity import bits_per_character, mlm_loss, perplexity_of, surprises

        tokenizer, model = load_tokenizer(system.encoder), load_masked_lm(system.encoder).eval()
        device, longest = torch.device(system.device), longest_input(model, tokenizer)
        model.to(device)
        budget = self.batch_tokens or BATCH_TOKENS
        scores: dict[str, dict[str, float]] = {}
        intervals: dict[str, Interval] = {}
        for code, texts in self._texts(system).items():
            loss = mlm_loss(model, device, tokenizer, texts, longest, budget)
            counts_N3 = surprises(model, device, tokenizer, texts, longest, budget)
            scores[code] = perplexity_of(counts_N3) | {"mlm": loss, "sentences": len(texts)}
            intervals[code] = bootstrap_interval(counts_N3, bits_per_character)
        if scores:  # many sentences translate each other
            bits = {code: own[self.main_metric] for code, own in scores.items()}
            intervals[""] = interval_of_mean(bits, intervals, independent=False)
        return Result(scores, intervals=intervals)

    def _texts(self, system: System) -> dict[str, list[str]]:
        """Held-out sentences of every language, evenly from all."""
        pairs = held_out_pairs(system, "parallel")
        texts = {system.hub: list(dict.fromkeys(target for own in pairs.values() for _, target in own))}
        texts |= {code: [source for source, _ in own] for code, own in pairs.items()}
        count = self.sentences
        return {code: own[:: max(1, len(own) // count)][:count] for code, own in texts.items() if own}

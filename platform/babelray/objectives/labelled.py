"""Labelled examples: cross-entropy of what a head on the encoder says of them, for fine-tuning on a task.

    L = −1/|M| Σ_{(n, l) ∈ M} log softmax(z_nl)[y_nl]

where z_nl are the logits of the l-th question that example n asks, y_nl is its label, and M holds all questions that
have one. What is asked depends on the head (`Head`): a text has one question, its class; a sentence one for each of
its subwords, the tag of the word that begins there; a question of question answering two, where in the text the answer
starts and ends. This is how Devlin et al. (2019, section 4) fine-tune.

Every epoch sees each example once, in an order that depends on the seed and the epoch alone; the last batch of an epoch
is filled from the next.

Shapes: B batch, T subwords, L questions an example asks, C what can be answered, M questions that have a label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from babelray.objectives.objective import Batch, Examples, Objective, ObjectiveConfig

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Inputs = Mapping[str, Sequence[int]]
"""What a tokenizer makes of one text, or of two that are read together: `input_ids`, `attention_mask` and the like."""
Head = Callable[[Any, "Tensor"], "Tensor"]
"""Logits (B, L, C) from what a model returns and the mask (B, T) of what it read."""
NO_LABEL = -100


@dataclass(frozen=True)
class Example:
    """What the encoder reads, and the labels of its L questions; `NO_LABEL` where there is none."""

    inputs: Inputs
    labels: Sequence[int]


def text_head(output: Any, mask_BT: Tensor) -> Tensor:
    """Logits (B, 1, C) of the class of each text."""
    return output.logits.unsqueeze(1)


def word_head(output: Any, mask_BT: Tensor) -> Tensor:
    """Logits (B, T, C) of the tag of each subword."""
    return output.logits


def span_head(output: Any, mask_BT: Tensor) -> Tensor:
    """Logits (B, 2, T) of where the answer starts and ends; padding is never the answer."""
    import torch

    logits_B2T = torch.stack([output.start_logits, output.end_logits], 1)
    return logits_B2T.masked_fill(mask_BT.unsqueeze(1) == 0, -torch.inf)


def split_inputs(encoded: Any, tokenizer: PreTrainedTokenizerBase) -> list[Inputs]:
    """What the encoder is given of each text, of all that the tokenizer said of several."""
    names = [name for name in tokenizer.model_input_names if name in encoded]
    return [{name: encoded[name][row] for name in names} for row in range(len(encoded["input_ids"]))]


def pad(inputs: Sequence[Inputs], tokenizer: PreTrainedTokenizerBase) -> Batch:
    """Inputs of unequal length as tensors (B, T), filled up on the right."""
    import torch

    fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    longest = max(len(some["input_ids"]) for some in inputs)
    return {
        name: torch.from_numpy(_filled([some[name] for some in inputs], longest, fill.get(name, 0)))
        for name in inputs[0]
    }


def _filled(rows: Sequence[Sequence[int]], width: int, fill: int) -> np.ndarray:
    return np.array([[*row, *[fill] * (width - len(row))] for row in rows], dtype=np.int64)


@dataclass
class LabelledMaterials:
    """The few materials that labelled examples need of all that objectives can draw from."""

    languages: list[str]
    seed: int
    tokenizer: PreTrainedTokenizerBase


class LabelledObjective(Objective):
    """Cross-entropy on labelled examples, given by language. Those without any label are left out."""

    def __init__(
        self,
        examples: Mapping[str, Sequence[Example]],
        head: Head,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: int,
        seed: int,
    ) -> None:
        self.head = head
        self.data = {
            code: [example for example in some if any(label != NO_LABEL for label in example.labels)]
            for code, some in examples.items()
        }
        materials: Any = LabelledMaterials(list(self.data), seed, tokenizer)
        config = ObjectiveConfig(kind="labelled", batch_size=batch_size, draw="turns")
        super().__init__(config, materials, {code: len(some) for code, some in self.data.items()})

    def make(self, examples: Examples, generator: np.random.Generator) -> Batch:
        """What the encoder reads under its own names, `labels` (B, L), and the `language` of each label (M)."""
        import torch

        chosen = [self.data[code][row] for code, row in examples]
        most = max(len(example.labels) for example in chosen)
        labels_BL = torch.from_numpy(_filled([example.labels for example in chosen], most, NO_LABEL))
        languages_B = self.language_numbers([code for code, _ in examples])
        rows_M = (labels_BL != NO_LABEL).nonzero()[:, 0]
        inputs = pad([example.inputs for example in chosen], self.materials.tokenizer)
        return {**inputs, "labels": labels_BL, "language": languages_B[rows_M]}

    def terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        inputs = {name: tensor for name, tensor in batch.items() if name not in ("labels", "language")}
        return labelled_terms(self.head(model(**inputs), inputs["attention_mask"]), batch["labels"])


def labelled_terms(logits_BLC: Tensor, labels_BL: Tensor) -> Tensor:
    """Cross-entropy (M) at each label, as in the module's docstring."""
    from torch.nn import functional

    labelled_BL = labels_BL != NO_LABEL
    return functional.cross_entropy(logits_BLC[labelled_BL].float(), labels_BL[labelled_BL], reduction="none")


def predict(
    model: PreTrainedModel, head: Head, inputs: Sequence[Inputs], tokenizer: PreTrainedTokenizerBase, batch_tokens: int
) -> list[Tensor]:
    """The logits (L, C) of each of the inputs, in their order; padding may follow in either direction.

    Those of like length are read together, at most `batch_tokens` subwords at once.
    """
    import torch

    from babelray.encoder.pool import token_budget_batches

    found: dict[int, Tensor] = {}
    device = next(model.parameters()).device
    model.eval()
    for rows in token_budget_batches([len(some["input_ids"]) for some in inputs], batch_tokens):
        batch = {name: tensor.to(device) for name, tensor in pad([inputs[row] for row in rows], tokenizer).items()}
        with torch.no_grad():
            logits_BLC = head(model(**batch), batch["attention_mask"]).float().cpu()
        found |= zip(rows, logits_BLC, strict=True)
    return [found[row] for row in range(len(inputs))]

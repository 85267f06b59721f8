"""Labelled examples: the cross-entropy of a task's head on the encoder, for fine-tuning.

    L = −1/|M| Σ_{(n, l) ∈ M} log softmax(z_nl)[y_nl]

where z_nl are the logits of the l-th prediction for example n, y_nl is its label, and M holds all predictions that have
one. The head (`Head`) determines what is predicted: one class per text; one tag per subword, that of the word which
begins there; or two positions per question, the start and the end of its answer in the text. This is how Devlin et al.
(2019, section 4) fine-tune.

Every epoch has each example once, in an order that depends on the seed and the epoch alone; the last batch of an epoch
is filled from the next.

Shapes: B batch, T subwords, L predictions per example, C classes or positions, M predictions that have a label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from babelray.objectives.objective import Batch, Examples, Objective, ObjectiveOptions

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Inputs = Mapping[str, Sequence[int]]
"""A tokenizer's output for one text, or for two that are read together: `input_ids`, `attention_mask` and others."""
Head = Callable[[Any, "Tensor"], "Tensor"]
"""Logits (B, L, C) from a model's output and the attention mask (B, T) of its input."""
NO_LABEL = -100


@dataclass(frozen=True)
class Example:
    """The encoder's input and its L labels; `NO_LABEL` where there is none."""

    inputs: Inputs
    labels: Sequence[int]


def text_head(output: Any, mask_BT: Tensor) -> Tensor:
    """Logits (B, 1, C) of the class of each text."""
    return output.logits.unsqueeze(1)


def word_head(output: Any, mask_BT: Tensor) -> Tensor:
    """Logits (B, T, C) of the tag of each subword."""
    return output.logits


def span_head(output: Any, mask_BT: Tensor) -> Tensor:
    """Logits (B, 2, T) of the start and the end of the answer; padding is never the answer."""
    import torch

    logits_B2T = torch.stack([output.start_logits, output.end_logits], 1)
    return logits_B2T.masked_fill(mask_BT.unsqueeze(1) == 0, -torch.inf)


def split_inputs(encoded: Any, tokenizer: PreTrainedTokenizerBase) -> list[Inputs]:
    """The encoder's input of each text, from the tokenizer's output for several."""
    names = [name for name in tokenizer.model_input_names if name in encoded]
    return [{name: encoded[name][row] for name in names} for row in range(len(encoded["input_ids"]))]


def pad(inputs: Sequence[Inputs], tokenizer: PreTrainedTokenizerBase) -> Batch:
    """Inputs of unequal length as tensors (B, T), padded on the right."""
    import torch

    fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    longest = max(len(text["input_ids"]) for text in inputs)
    return {
        name: torch.from_numpy(_padded([text[name] for text in inputs], longest, fill.get(name, 0)))
        for name in inputs[0]
    }


def _padded(rows: Sequence[Sequence[int]], width: int, fill: int) -> np.ndarray:
    return np.array([[*row, *[fill] * (width - len(row))] for row in rows], dtype=np.int64)


@dataclass
class LabelledTrainingData:
    """The part of `TrainingData` that labelled examples need."""

    languages: list[str]
    seed: int
    tokenizer: PreTrainedTokenizerBase


class LabelledObjective(Objective):
    """Cross-entropy on labelled examples, by language. Examples without any label are left out."""

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
            code: [example for example in column if any(label != NO_LABEL for label in example.labels)]
            for code, column in examples.items()
        }
        training_data: Any = LabelledTrainingData(list(self.data), seed, tokenizer)
        options = ObjectiveOptions(kind="labelled", batch_size=batch_size, sampling="epochs")
        super().__init__(options, training_data, {code: len(column) for code, column in self.data.items()})

    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        """The encoder's inputs under their own names, `labels` (B, L), and the `language` of each label (M)."""
        import torch

        labelled = [self.data[code][row] for code, row in examples]
        most = max(len(example.labels) for example in labelled)
        labels_BL = torch.from_numpy(_padded([example.labels for example in labelled], most, NO_LABEL))
        languages_B = self.language_numbers([code for code, _ in examples])
        rows_M = (labels_BL != NO_LABEL).nonzero()[:, 0]
        inputs = pad([example.inputs for example in labelled], self.training_data.tokenizer)
        return {**inputs, "labels": labels_BL, "language": languages_B[rows_M]}

    def loss_terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
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
    """The logits (L, C) of each input, in the order of the inputs; padding may follow in either dimension.

    Inputs of similar length are batched, with at most `batch_tokens` subwords per batch.
    """
    import torch

    from babelray.encoder.pool import token_budget_batches

    logits: dict[int, Tensor] = {}
    device = next(model.parameters()).device
    model.eval()
    for rows in token_budget_batches([len(text["input_ids"]) for text in inputs], batch_tokens):
        batch = {name: tensor.to(device) for name, tensor in pad([inputs[row] for row in rows], tokenizer).items()}
        with torch.no_grad():
            logits_BLC = head(model(**batch), batch["attention_mask"]).float().cpu()
        logits |= zip(rows, logits_BLC, strict=True)
    return [logits[row] for row in range(len(inputs))]

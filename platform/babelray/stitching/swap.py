"""Other input embeddings in an encoder: those of another language, with its own vocabulary.

Shapes: V pieces of the vocabulary, U of them that are used, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.objectives.labelled import Example

SPECIAL = ("pad", "bos", "eos", "cls", "sep")


def swap_embeddings(model: PreTrainedModel, embeddings_VD: Tensor, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give the model the embeddings of a tokenizer's pieces. Those of positions and types stay, and so does the body.

    A head that shares its weights with the embeddings goes on to share them.
    """
    model.resize_token_embeddings(len(embeddings_VD), mean_resizing=False)
    embeddings = model.get_input_embeddings()
    embeddings.weight = torch.nn.Parameter(embeddings_VD.to(embeddings.weight, copy=True))
    model.tie_weights()
    for name in SPECIAL:
        if getattr(model.config, f"{name}_token_id", None) is not None:
            setattr(model.config, f"{name}_token_id", getattr(tokenizer, f"{name}_token_id"))


@contextmanager
def only_used(
    model: PreTrainedModel, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase
) -> Iterator[list[Example]]:
    """While it lasts the model has only the embeddings that the examples need; gives the examples renumbered.

    Others have no gradient: training them takes time and changes nothing but what weight decay does, which then leaves
    them alone. What was trained is put back.
    """
    whole_VD = model.get_input_embeddings().weight.detach().clone()
    seen = {number for example in examples for number in example.inputs["input_ids"]}
    first = range((tokenizer.pad_token_id or 0) + 1)  # padding keeps its number
    used_U = torch.tensor(sorted({*first, *tokenizer.all_special_ids, *seen}))
    numbers = {number: place for place, number in enumerate(used_U.tolist())}
    swap_embeddings(model, whole_VD[used_U], tokenizer)
    yield [
        replace(e, inputs={**e.inputs, "input_ids": [numbers[number] for number in e.inputs["input_ids"]]})
        for e in examples
    ]
    whole_VD[used_U] = model.get_input_embeddings().weight.detach().to(whole_VD)
    swap_embeddings(model, whole_VD, tokenizer)

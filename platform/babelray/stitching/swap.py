"""Replacing the input embeddings of an encoder by those of another vocabulary.

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

    A head that is tied to the embeddings stays tied.
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
    """Within the block the model has only the embeddings that the examples use; yields the examples with new ids.

    The others have no gradient: training them takes time and would only let weight decay shrink them. After the block
    the model has all embeddings again, with the trained ones in their places.
    """
    all_VD = model.get_input_embeddings().weight.detach().clone()
    in_use = {number for example in examples for number in example.inputs["input_ids"]}
    first = range((tokenizer.pad_token_id or 0) + 1)  # padding keeps its id
    used_U = torch.tensor(sorted({*first, *tokenizer.all_special_ids, *in_use}))
    new_ids = {number: position for position, number in enumerate(used_U.tolist())}
    swap_embeddings(model, all_VD[used_U], tokenizer)
    yield [
        replace(e, inputs={**e.inputs, "input_ids": [new_ids[number] for number in e.inputs["input_ids"]]})
        for e in examples
    ]
    all_VD[used_U] = model.get_input_embeddings().weight.detach().to(all_VD)
    swap_embeddings(model, all_VD, tokenizer)

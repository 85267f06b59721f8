"""The hidden states of chosen layers of an encoder, which runs no further than the last of them.

Shapes: B batch, T subwords, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class LayerReader:
    """The vectors of chosen layers: 0 is the embedding layer, the last one comes with the encoder's final norm.

    Layers above are removed from the model. Hooks read each layer's own output: some encoders normalise the output of
    the last layer, so that a shortened one would return other values than `output_hidden_states` of the complete one.
    """

    mode: Callable[[], Any] = torch.inference_mode

    def __init__(self, model: PreTrainedModel, layers: Sequence[int]) -> None:
        self.model = model
        self.layers = sorted(set(layers))
        self._count = model.config.num_hidden_layers
        self._outputs: dict[int, Tensor] = {}
        stack = find_layers(model)
        self._all_layers = stack is None  # such as ALBERT, whose layers are one module: run all, return the chosen
        if stack is None:
            return
        if self.layers[-1] < self._count:
            del stack[max(1, self.layers[-1]) :]
        for layer in self.layers:
            if layer == 0:
                stack[0].register_forward_pre_hook(self._keep_input, with_kwargs=True)
            elif layer < self._count:
                stack[layer - 1].register_forward_hook(self._keeper(layer))

    def _keep_input(self, module: nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._outputs[0] = positional[0] if positional else named["hidden_states"]

    def _keeper(self, layer: int) -> Any:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            self._outputs[layer] = output[0] if isinstance(output, tuple) else output

        return keep

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def __call__(self, ids_BT: Tensor, mask_BT: Tensor) -> dict[int, Tensor]:
        """The vectors (B, T, D) of each chosen layer."""
        with self.mode():
            output = self.model(input_ids=ids_BT, attention_mask=mask_BT, output_hidden_states=self._all_layers)
        if self._all_layers:
            return {layer: output.hidden_states[layer] for layer in self.layers}
        hidden = {**self._outputs, self._count: output.last_hidden_state}
        self._outputs.clear()
        return {layer: hidden[layer] for layer in self.layers}

    def highest(self, ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """The vectors (B, T, D) of the highest chosen layer."""
        return self(ids_BT, mask_BT)[self.layers[-1]]


def find_layers(model: nn.Module) -> nn.ModuleList | None:
    """The list of an encoder's layers, whatever its name in the model; None if there is no such list."""
    count = model.config.num_hidden_layers  # type: ignore[union-attr]
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count]
    return max(lists, key=lambda modules: sum(p.numel() for p in modules.parameters()), default=None)


def longest_input(model: PreTrainedModel, tokenizer: Any) -> int:
    """Maximum number of subwords, special ones included; positions of the RoBERTa family start at 2."""
    positions = getattr(model.config, "max_position_embeddings", None) or 514
    return int(min(positions - 2, tokenizer.model_max_length))

"""Reading an encoder at some of its layers, running it no further than the last of them.

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

    Layers above are cut off the model. What a layer gives is taken where it comes out: some encoders normalise
    what leaves the last layer, and a cut one would then give something else than `output_hidden_states` does.
    """

    mode: Callable[[], Any] = torch.inference_mode

    def __init__(self, model: PreTrainedModel, layers: Sequence[int]) -> None:
        self.model = model
        self.layers = sorted(set(layers))
        self._count = model.config.num_hidden_layers
        self._seen: dict[int, Tensor] = {}
        stack = find_layers(model)
        self._whole = stack is None  # such as ALBERT, whose layers are one layer: run all, take those asked for
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
        self._seen[0] = positional[0] if positional else named["hidden_states"]

    def _keeper(self, layer: int) -> Any:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            self._seen[layer] = output[0] if isinstance(output, tuple) else output

        return keep

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def __call__(self, ids_BT: Tensor, mask_BT: Tensor) -> dict[int, Tensor]:
        """Layers with their vectors (B, T, D)."""
        with self.mode():
            output = self.model(input_ids=ids_BT, attention_mask=mask_BT, output_hidden_states=self._whole)
        if self._whole:
            return {layer: output.hidden_states[layer] for layer in self.layers}
        found = {**self._seen, self._count: output.last_hidden_state}
        self._seen.clear()
        return {layer: found[layer] for layer in self.layers}

    def highest(self, ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """The vectors (B, T, D) of the highest layer that was chosen."""
        return self(ids_BT, mask_BT)[self.layers[-1]]


def find_layers(model: nn.Module) -> nn.ModuleList | None:
    """The list of an encoder's layers, whatever its family calls it; None if it has no such list."""
    count = model.config.num_hidden_layers  # type: ignore[union-attr]
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count]
    return max(lists, key=lambda found: sum(p.numel() for p in found.parameters()), default=None)


def longest_input(model: PreTrainedModel, tokenizer: Any) -> int:
    """Subwords that the encoder takes at most, special ones included; positions of the RoBERTa family start at 2."""
    positions = getattr(model.config, "max_position_embeddings", None) or 514
    return int(min(positions - 2, tokenizer.model_max_length))

"""An encoder that a group of workers reads from: a whole one on each, or one that DeepSpeed shards over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from babelray.encoder.layers import LayerReader
from babelray.encoder.load import load_encoder, load_tokenizer, resolve_layer

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


@dataclass
class OpenEncoder:
    tokenizer: PreTrainedTokenizerBase
    reader: LayerReader
    layer: int
    wait_for_all: Callable[[], None]
    """To be called by every worker when it has read what it had to, as often as the others do."""


def open_encoder(folder: str, layer: int, also: list[int] | str, zero_stage: int, precision: str) -> OpenEncoder:
    """The encoder in a folder, cut above the layers that are asked for, on this worker's device."""
    from transformers import AutoConfig

    tokenizer = load_tokenizer(folder, masks=False)
    count = AutoConfig.from_pretrained(folder, trust_remote_code=False).num_hidden_layers
    layer = resolve_layer(layer, count)
    further = range(count + 1) if also == "all" else [resolve_layer(int(one), count) for one in also]
    layers = [layer, *further]
    cuda = torch.cuda.is_available()
    bf16 = precision == "bf16" or (precision == "auto" and cuda)
    if zero_stage == 3:
        reader = _ShardedReader.load(folder, layers, "bf16" if bf16 else "fp32")
        return OpenEncoder(tokenizer, reader, layer, reader.wait_for_all)
    dtype = torch.bfloat16 if bf16 else torch.float32
    model = load_encoder(folder, device="cuda" if cuda else "cpu", dtype=dtype)
    return OpenEncoder(tokenizer, LayerReader(model, layers), layer, _barrier)


def _barrier() -> None:
    import ray.train.collective

    ray.train.collective.barrier()


class _ShardedReader(LayerReader):
    """Workers with nothing left to read keep step with the others, since each holds a part of every weight."""

    mode = torch.no_grad  # DeepSpeed changes weights in place, which inference mode forbids

    @classmethod
    def load(cls, folder: str, layers: list[int], precision: str) -> _ShardedReader:
        from babelray.training.engine import shard_encoder

        made: list[_ShardedReader] = []
        alive = shard_encoder(folder, precision, lambda model: made.append(cls(model, layers)))
        made[0]._alive = alive
        return made[0]

    _alive: Any = None

    def __call__(self, ids_BT: Tensor, mask_BT: Tensor) -> dict[int, Tensor]:
        self._readers(1)
        return super().__call__(ids_BT, mask_BT)

    def wait_for_all(self) -> None:
        ids = torch.zeros(1, 2, dtype=torch.long, device=self.device)
        while self._readers(0):
            super().__call__(ids, torch.ones_like(ids))

    def _readers(self, mine: int) -> int:
        """How many workers are about to read."""
        count = torch.tensor([mine], device=self.device)
        torch.distributed.all_reduce(count)
        return int(count)

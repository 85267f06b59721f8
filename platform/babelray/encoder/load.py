"""Any Hugging Face encoder, from a folder or by name, with its tokenizer. Weights are never unpickled."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from babelray.errors import DataError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


HeadKind = Literal["classification", "tagging", "question-answering"]

SAFE = {"use_safetensors": True, "trust_remote_code": False}
"""No pickled weights, and no code that lies beside them."""
SHIPPED = {"babelray-mini": Path(__file__).resolve().parent.parent / "mini"}
"""Encoders that come with Babelray, by the names that stand for them."""


def located(path: str) -> str:
    """The folder of an encoder that is shipped, or in MLflow's registry; any other name or folder as it is."""
    if path.startswith("models:/"):
        from babelray.tracking.registry import fetched
        from babelray.tracking.tracker import tracking_uri

        return fetched(path, tracking_uri("runs"))
    return str(SHIPPED.get(path, path))


def load_tokenizer(path: str, masks: bool = True) -> PreTrainedTokenizerBase:
    """The tokenizer of an encoder; it must be a fast one, since words are found by character offsets.

    `masks` says whether it must have a pad and a mask token, as training needs; reading an encoder needs neither.
    """
    from transformers import AutoTokenizer

    with _explained(path):
        tokenizer = AutoTokenizer.from_pretrained(located(path), trust_remote_code=False)
    if not tokenizer.is_fast:
        raise DataError(f"the tokenizer of {path} is a slow one", "Save it with its tokenizer.json (a fast tokenizer).")
    if masks and (tokenizer.pad_token_id is None or tokenizer.mask_token_id is None):
        raise DataError(f"the tokenizer of {path} has no pad or no mask token", "Use an encoder trained with MLM.")
    return tokenizer


def load_masked_lm(path: str) -> PreTrainedModel:
    """The encoder with its language-modelling head, in float32."""
    import torch
    from transformers import AutoModelForMaskedLM

    with _explained(path):
        return AutoModelForMaskedLM.from_pretrained(located(path), dtype=torch.float32, **SAFE)


def load_encoder(path: str, device: str | None = "cpu", dtype: torch.dtype | None = None) -> PreTrainedModel:
    """The bare encoder, ready to be read from.

    Weights go straight to the device (accelerate's `device_map`), without a copy in main memory; a device of None
    leaves their place to DeepSpeed.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    options: dict[str, Any] = {"dtype": dtype or torch.float32, **SAFE}
    if device is not None:
        options["device_map"] = {"": device}
    with _explained(path), _quiet():
        folder = located(path)
        family = AutoModel._model_mapping[type(AutoConfig.from_pretrained(folder, trust_remote_code=False))]
        if "add_pooling_layer" in inspect.signature(family.__init__).parameters:
            options["add_pooling_layer"] = False
        return AutoModel.from_pretrained(folder, **options).eval()


def load_with_head(path: str, head: HeadKind, labels: Sequence[str] = (), seed: int = 0) -> PreTrainedModel:
    """The encoder with a new head for a task, in float32; `labels` are what it can answer, but for questions.

    The head's weights are drawn by the seed; no other random numbers are touched.
    """
    import torch
    import transformers

    options: dict[str, Any] = {"dtype": torch.float32, **SAFE}
    if head != "question-answering":
        options["id2label"] = dict(enumerate(labels))
        options["label2id"] = {label: number for number, label in enumerate(labels)}
    family = {
        "classification": transformers.AutoModelForSequenceClassification,
        "tagging": transformers.AutoModelForTokenClassification,
        "question-answering": transformers.AutoModelForQuestionAnswering,
    }[head]
    with _explained(path), _quiet(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        try:
            return family.from_pretrained(located(path), **options)
        except RuntimeError as error:  # a head for other labels is there already, or weights do not fit the config
            raise ValueError(f"its weights do not fit a head for {head} with {len(labels)} labels") from error


def save_encoder(model: PreTrainedModel, folder: Path, weights: str = "float32") -> None:
    """Save as `save_pretrained` does, with weights that take less room; they are read as float32 all the same."""
    import torch

    model.to(getattr(torch, weights)).save_pretrained(folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"dtype": "float32"}, indent=2), encoding="utf-8")


def resolve_layer(layer: int, count: int) -> int:
    """A layer as a number from 0 (embeddings) to `count`; negative numbers count from the last.

    >>> resolve_layer(-1, 12), resolve_layer(6, 12), resolve_layer(0, 12)
    (12, 6, 0)
    """
    resolved = layer + count + 1 if layer < 0 else layer
    if not 0 <= resolved <= count:
        raise DataError(f"the encoder has {count} layers, there is no layer {layer}", f"Choose one from 0 to {count}.")
    return resolved


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn what transformers raises on a bad folder or name into an error for the user."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        if Path(path).is_dir():
            remedy = "It must hold config.json, model.safetensors and tokenizer.json, as save_pretrained writes them."
        else:
            remedy = "Check the name; where no model hub can be reached, give a local folder."
        first = str(error).strip().splitlines()[0][:200]
        raise DataError(f"cannot load the encoder {path}: {first}", remedy) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what transformers says of weights that an encoder does not need, such as a head's."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        logging.enable_progress_bar()

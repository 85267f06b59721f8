"""Loading and saving Hugging Face encoders and tokenizers, from a folder or by name. Nothing is unpickled."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from babelray.errors import DataError
from babelray.storage.runs import find_encoder

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from babelray.storage import AnyPath, Location

HeadKind = Literal["classification", "tagging", "question-answering"]

SAFE = {"use_safetensors": True, "trust_remote_code": False}
"""No pickled weights, and no code from the same folder."""
ENCODER_REMEDY = (
    "Name a folder written by `save_pretrained`, a Hugging Face name such as `xlm-roberta-base`, or `babelray-mini`."
)
SHIPPED = {"babelray-mini": Path(__file__).resolve().parent.parent / "mini"}
"""Encoders that are part of Babelray, by name."""


def locate_encoder(path: AnyPath) -> str:
    """The folder of an encoder that is part of Babelray, in an artifact or in MLflow's registry; others unchanged."""
    path = str(path)
    if path.startswith("models:/"):
        from babelray.tracking.registry import download_version
        from babelray.tracking.tracker import tracking_uri

        return download_version(path, tracking_uri("runs"))
    return str(SHIPPED[path]) if path in SHIPPED else find_encoder(path)


def check_encoder_path(path: AnyPath) -> None:
    """Raise an error if a path is that of a missing folder. No model hub is asked."""
    folder = locate_encoder(path)
    if folder.startswith(("s3://", "models:/")):
        return
    if not os.path.isdir(folder):
        if near := difflib.get_close_matches(folder, SHIPPED, n=1):
            raise DataError(f"there is no encoder {path!r}", f"Did you mean {near[0]!r}?")
        if folder.startswith(("/", ".", "~")) or folder.count("/") > 1:
            raise DataError(f"there is no folder {path} with an encoder", ENCODER_REMEDY)


def check_encoder_files(path: AnyPath) -> None:
    """Raise an error if an encoder cannot be loaded: its configuration, its tokenizer or its weights are missing."""
    read_config(path)
    folder = locate_encoder(path)
    if os.path.isdir(folder):
        load_tokenizer(path)
        if not any(Path(folder).glob("*.safetensors")):
            raise DataError(
                f"the folder {path} has no model.safetensors", "Pickled weights are not loaded: save it anew."
            )


def read_config(path: AnyPath) -> PretrainedConfig:
    """The configuration of the encoder in a folder, also on S3, or of a name."""
    from transformers import AutoConfig

    from babelray.storage import Location

    check_encoder_path(path)
    with contextlib.ExitStack() as stack:
        source = locate_encoder(path)
        if os.path.isdir(source) and not (Path(source) / "config.json").exists():
            raise DataError(f"the folder {path} holds no encoder: it has no config.json", ENCODER_REMEDY)
        if source.startswith("s3://"):
            source = str(stack.enter_context((Location.parse(source) / "config.json").local_input()))
        stack.enter_context(_explain_errors(path))
        return AutoConfig.from_pretrained(source, trust_remote_code=False)


def encoder_files(path: AnyPath) -> list[Location]:
    """The files of an encoder in a folder, without texts about it; none of one that a name stands for."""
    from babelray.storage import Location

    folder = locate_encoder(path)
    if not (folder.startswith("s3://") or os.path.isdir(folder)):
        return []
    return [Location.parse(folder) / name for name in Location.parse(folder).files() if not name.endswith(".md")]


def load_tokenizer(path: AnyPath, masks: bool = True) -> PreTrainedTokenizerBase:
    """The tokenizer of an encoder; it must be a fast one, since words are located by character offsets.

    `masks`: whether it must have a pad and a mask token, which training needs and inference does not.
    """
    from transformers import AutoTokenizer

    with _explain_errors(path):
        tokenizer = AutoTokenizer.from_pretrained(locate_encoder(path), trust_remote_code=False)
    if not tokenizer.is_fast:
        raise DataError(f"the tokenizer of {path} is a slow one", "Save it with its tokenizer.json (a fast tokenizer).")
    if masks and (tokenizer.pad_token_id is None or tokenizer.mask_token_id is None):
        raise DataError(f"the tokenizer of {path} has no pad or no mask token", "Use an encoder trained with MLM.")
    return tokenizer


def load_masked_lm(path: AnyPath) -> PreTrainedModel:
    """The encoder with its language-modelling head, in float32."""
    import torch
    from transformers import AutoModelForMaskedLM

    with _explain_errors(path):
        return AutoModelForMaskedLM.from_pretrained(locate_encoder(path), dtype=torch.float32, **SAFE)


def load_encoder(path: AnyPath, device: str | None = "cpu", dtype: torch.dtype | None = None) -> PreTrainedModel:
    """The encoder without a head, in evaluation mode.

    Weights are loaded directly to the device (accelerate's `device_map`), without a copy in main memory; with a device
    of None, DeepSpeed places them.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    options: dict[str, Any] = {"dtype": dtype or torch.float32, **SAFE}
    if device is not None:
        options["device_map"] = {"": device}
    with _explain_errors(path), _quiet():
        folder = locate_encoder(path)
        family = AutoModel._model_mapping[type(AutoConfig.from_pretrained(folder, trust_remote_code=False))]
        if "add_pooling_layer" in inspect.signature(family.__init__).parameters:
            options["add_pooling_layer"] = False
        return AutoModel.from_pretrained(folder, **options).eval()


def load_with_head(path: AnyPath, head: HeadKind, labels: Sequence[str] = (), seed: int = 0) -> PreTrainedModel:
    """The encoder with a new head for a task, in float32; `labels` are its classes, none for question answering.

    The seed determines the head's weights; the global random state does not change.
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
    with _explain_errors(path), _quiet(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        try:
            return family.from_pretrained(locate_encoder(path), **options)
        except RuntimeError as error:  # it has a head for other labels, or weights that do not fit the config
            raise ValueError(f"its weights do not fit a head for {head} with {len(labels)} labels") from error


def save_encoder(model: PreTrainedModel, folder: Path, weights: str = "float32") -> None:
    """Save as `save_pretrained` does, with weights of another number format, which load as float32."""
    import torch

    model.to(getattr(torch, weights)).save_pretrained(folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"dtype": "float32"}, indent=2), encoding="utf-8")


def resolve_layer(layer: int, count: int) -> int:
    """The number of a layer, from 0 (embeddings) to `count`; negative numbers count from the last.

    >>> resolve_layer(-1, 12), resolve_layer(6, 12), resolve_layer(0, 12)
    (12, 6, 0)
    """
    resolved = layer + count + 1 if layer < 0 else layer
    if not 0 <= resolved <= count:
        raise DataError(f"the encoder has {count} layers, there is no layer {layer}", f"Choose one from 0 to {count}.")
    return resolved


@contextlib.contextmanager
def _explain_errors(path: AnyPath) -> Iterator[None]:
    """Convert errors of transformers about a folder or a name into a `DataError`."""
    from safetensors import SafetensorError

    check_encoder_path(path)
    try:
        yield
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        if Path(str(path)).is_dir():
            remedy = "It must hold config.json, model.safetensors and tokenizer.json, as save_pretrained writes them."
        else:
            remedy = "Check the name; where no model hub can be reached, give a local folder."
        first = str(error).strip().splitlines()[0][:200]
        raise DataError(f"cannot load the encoder {path}: {first}", remedy) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress messages of transformers about unused weights, such as a head's."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        logging.enable_progress_bar()

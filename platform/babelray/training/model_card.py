"""The model card of a trained encoder, and its configuration for sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from babelray.training.config import TrainingConfig


def model_card(
    name: str,
    languages: list[str],
    hub: str,
    training: TrainingConfig,
    metrics: dict[str, Any],
    model: PreTrainedModel,
) -> str:
    """A README.md with the front matter that model hubs read."""
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: sentence-similarity",
        f"language: [{', '.join(languages)}]",
        "tags: [babelray, multilingual, cross-lingual-alignment]",
        "---",
        "",
        f"# {name}",
        "",
        f"A multilingual encoder of {len(languages)} languages, aligned to `{hub}` by Babelray.",
        "",
        *_model_lines(model, languages),
        *_training_lines(training, metrics["step"]),
        *_score_lines(metrics),
        *USAGE,
    ]
    return "\n".join(lines)


def encoder_usage(folder: str) -> list[str]:
    """The lines of Python that load an encoder and use it."""
    return [
        "from sentence_transformers import SentenceTransformer",
        f'encoder = SentenceTransformer("{folder}")',
        'vectors = encoder.encode(["A sentence.", "Ein Satz."])',
    ]


USAGE = [
    "## Usage",
    "",
    "```python",
    "from transformers import AutoModel, AutoTokenizer",
    'model, tokenizer = AutoModel.from_pretrained("."), AutoTokenizer.from_pretrained(".")',
    "",
    *encoder_usage("."),
    "```",
    "",
]


def _model_lines(model: PreTrainedModel, languages: list[str]) -> list[str]:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return [
        "## Model",
        "",
        f"- {type(model).__name__}: {model.config.num_hidden_layers} layers, {model.config.hidden_size} wide, "
        f"{model.config.vocab_size:,} subwords, {parameters:,} parameters",
        f"- Languages: {', '.join(languages)}",
        "- The vector of a sentence or a word is the mean of its subwords' vectors at the last layer",
        "",
    ]


def _training_lines(training: TrainingConfig, step: int) -> list[str]:
    return [
        "## Training",
        "",
        f"{step:,} steps, learning rate {training.learning_rate:g}, {training.precision}; in each step the objectives",
        "",
        "| objective | kind | examples per step | weight |",
        "|---|---|---|---|",
        *(f"| {o.label} | {o.kind} | {o.batch_size} | {_weight(o.weight)} |" for o in training.objectives),
        "",
        "The manifest of the artifact that holds this folder names the corpus, its sources and the code.",
        "",
    ]


def _score_lines(metrics: dict[str, Any]) -> list[str]:
    """The scores on held-out data, or without any the last losses."""
    scores = [(key.partition("/")[2], value) for key, value in metrics.items() if key.startswith("validation/")]
    losses = [(key.partition("/")[2], value) for key, value in metrics.items() if key.startswith("loss/")]
    if scores:
        intro = "On held-out data during training, mean over languages:"
        table = ["| metric | value |", "|---|---|", *(f"| {key} | {value:.4f} |" for key, value in scores)]
    else:
        intro = "There was no validation during training (`validation` in the recipe). The last losses:"
        table = ["| loss | value |", "|---|---|", *(f"| {key} | {value:.4f} |" for key, value in losses)]
    return ["## Scores", "", intro, "", *table, ""]


def _weight(weight: float | dict[float, float]) -> str:
    if not isinstance(weight, dict):
        return f"{weight:g}"
    return ", ".join(f"{value:g} at {100 * share:g} %" for share, value in sorted(weight.items()))


def sentence_transformer(folder: Path, width: int, max_tokens: int) -> None:
    """Configure sentence-transformers to take the mean over the subwords."""
    kinds = {"": "sentence_transformers.models.Transformer", "1_Pooling": "sentence_transformers.models.Pooling"}
    modules = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(kinds.items())]
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    for name, content in {
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": max_tokens, "do_lower_case": False},
        "1_Pooling/config.json": pooling,
    }.items():
        (folder / name).write_text(json.dumps(content, indent=2), encoding="utf-8")

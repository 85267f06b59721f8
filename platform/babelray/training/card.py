"""What a trained encoder's folder says of itself: to people, and to sentence-transformers."""

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
    figures: dict[str, Any],
    model: PreTrainedModel,
) -> str:
    """A README.md with the front matter that model hubs read."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    objectives = [f"| {o.label} | {o.kind} | {o.batch_size} | {_weight(o.weight)} |" for o in training.objectives]
    scores = [(key.partition("/")[2], value) for key, value in figures.items() if key.startswith("validation/")]
    losses = [(key.partition("/")[2], value) for key, value in figures.items() if key.startswith("loss/")]
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
        "## What it is",
        "",
        f"- {type(model).__name__}: {model.config.num_hidden_layers} layers, {model.config.hidden_size} wide, "
        f"{model.config.vocab_size:,} subwords, {parameters:,} parameters",
        f"- Languages: {', '.join(languages)}",
        "- A sentence or a word is the mean of its subwords' vectors at the last layer",
        "",
        "## What it was trained on",
        "",
        f"{figures['step']:,} steps, learning rate {training.learning_rate:g}, {training.precision}; "
        "in each step the objectives",
        "",
        "| objective | kind | examples a step | weight |",
        "|---|---|---|---|",
        *objectives,
        "",
        "The manifest of the artifact that this folder lies in names the corpus, its sources and the code.",
        "",
        "## How it scores",
        "",
    ]
    if scores:
        lines += ["On held-out data while training, mean over languages:", "", "| measure | value |", "|---|---|"]
        lines += [f"| {key} | {value:.4f} |" for key, value in scores]
    else:
        lines += ["Nothing was measured on held-out data while training (`validation` in the recipe). The last losses:"]
        lines += ["", "| loss | value |", "|---|---|", *(f"| {key} | {value:.4f} |" for key, value in losses)]
    lines += [
        "",
        "## How to use it",
        "",
        "```python",
        "from transformers import AutoModel, AutoTokenizer",
        'model, tokenizer = AutoModel.from_pretrained("."), AutoTokenizer.from_pretrained(".")',
        "",
        "from sentence_transformers import SentenceTransformer",
        'vectors = SentenceTransformer(".").encode(["A sentence.", "Ein Satz."])',
        "```",
        "",
    ]
    return "\n".join(lines)


def _weight(weight: float | dict[float, float]) -> str:
    if not isinstance(weight, dict):
        return f"{weight:g}"
    return ", ".join(f"{value:g} at {100 * share:g} %" for share, value in sorted(weight.items()))


def sentence_transformer(folder: Path, width: int, max_tokens: int) -> None:
    """Tell sentence-transformers to take the mean over the subwords, so that it need not guess."""
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

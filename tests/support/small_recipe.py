"""A recipe on three languages of the starter corpus, with an encoder of seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MLM = {"kind": "mlm", "batch_size": 4}
SCRATCH = {"vocabulary": 1500, "width": 32, "layers": 2, "heads": 2}


def small_recipe(folder: Path, **changes: Any) -> dict[str, Any]:
    """The values of the recipe, with others for some keys."""
    corpus = {
        "text": {"path": "starter:text/{lang}.txt", "format": "sentences"},
        "parallel": "starter:text/{lang}.txt",
        "dictionary": "starter:words/{lang}.txt",
        "cleaning": {"min_tokens": 3},
    }
    return {
        "name": "small",
        "languages": ["en", "de", "zh"],
        "storage": str(folder / "runs"),
        "corpus": corpus,
        "encoder": {"scratch": SCRATCH | {"training": {"steps": 3, "objectives": [MLM]}}},
        "extract": {"layer": -1},
        "pretrain": {"steps": 4, "objectives": [MLM]},
        "evaluate": {"layer": -1},
    } | changes


def write_recipe(path: Path, recipe: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(recipe, allow_unicode=True), encoding="utf-8")
    return path

"""Shared fixtures. Tests get a HOME of their own, so that nothing of the user's is read or written."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

_home = tempfile.TemporaryDirectory(prefix="babelray-home-", ignore_cleanup_errors=True)
os.environ.update(
    HOME=_home.name,
    HF_HUB_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
    RAY_USAGE_STATS_ENABLED="0",
    CUDA_VISIBLE_DEVICES="",
)
for name in ("RAY_ADDRESS", "MLFLOW_TRACKING_URI", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
    os.environ.pop(name, None)

# A busy machine may stand still for a second in the middle of any example.
settings.register_profile("babelray", settings.get_profile(settings.get_current_profile_name()), deadline=None)
settings.load_profile("babelray")

SENTENCES = [
    "The cat sleeps on the warm bed.",
    "A dog runs in the big garden.",
    "Die Katze schläft auf dem warmen Bett.",
    "Ein Hund läuft im großen Garten.",
    "Кошка спит на тёплой кровати.",
    "猫在温暖的床上睡觉。",
] * 20


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a random encoder (2 layers, 32 wide) and a tokenizer trained on a few sentences."""
    from babelray.encoder.config import ScratchConfig
    from babelray.encoder.scratch import random_encoder, train_tokenizer

    training = {"objectives": [{"kind": "mlm"}]}
    config = ScratchConfig(vocabulary=300, width=32, layers=2, heads=2, max_tokens=64, training=training)
    tokenizer = train_tokenizer(SENTENCES, config.vocabulary, config.max_tokens)
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer.save_pretrained(folder)
    random_encoder(config, len(tokenizer), seed=0).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def babelray() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command as a user would; returns the finished process with its output."""

    def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "babelray.cli", *arguments],
            cwd=cwd or ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "platform"), "COLUMNS": "140", **environment},
            capture_output=True,
            text=True,
            timeout=500,
        )

    return run


@pytest.fixture
def recipe_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a small recipe; its text is three languages of the starter corpus."""

    def write(**changes: object) -> Path:
        import yaml

        recipe = {
            "name": "small",
            "languages": ["en", "de", "zh"],
            "storage": str(tmp_path / "runs"),
            "corpus": {
                "text": {"path": "starter:text/{lang}.txt", "format": "sentences"},
                "parallel": "starter:text/{lang}.txt",
                "dictionary": "starter:words/{lang}.txt",
                "cleaning": {"min_tokens": 3},
            },
            "encoder": {
                "scratch": {
                    "vocabulary": 1500,
                    "width": 32,
                    "layers": 2,
                    "heads": 2,
                    "training": {"steps": 3, "objectives": [{"kind": "mlm", "batch_size": 4}]},
                }
            },
            "extract": {"layer": -1},
            "pretrain": {"steps": 4, "objectives": [{"kind": "mlm", "batch_size": 4}]},
            "evaluate": {"layer": -1},
        }
        recipe.update(changes)
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe, allow_unicode=True), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """One Ray on this machine for the whole test session."""
    from babelray import cluster

    cluster.connect()
    yield
    cluster.disconnect()

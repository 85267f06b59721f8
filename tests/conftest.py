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

from support.cli import call
from support.small_recipe import small_recipe, write_recipe

Command = Callable[..., subprocess.CompletedProcess[str]]
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

NOT_UNIT = {"babelray", "local_ray", "s3_server", "in_namespace"}
"""Fixtures that start processes or Ray."""
NOT_UNIT_FOLDERS = {"integration", "faults", "multinode", "browser"}
LONGEST = ("integration/test_pipeline.py", "training/test_loop.py", "sweeping/test_run.py", "docs/test_commands.py")
"""Files that take minutes; they start first, so that no worker waits for the other at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test-fast` leaves out; start with the longest files."""
    for item in items:
        path = item.path.relative_to(ROOT)
        fixtures = {*getattr(item, "fixturenames", ())}
        if NOT_UNIT & fixtures or NOT_UNIT_FOLDERS & {*path.parts[:-1]}:
            item.add_marker("integration")
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.relative_to(ROOT).as_posix().removeprefix("tests/"), len(order)))


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
    from babelray.encoder.scratch import random_encoder, train_tokenizer
    from babelray.recipe.encoder import ScratchConfig

    training = {"objectives": [{"kind": "mlm"}]}
    config = ScratchConfig(vocabulary=300, width=32, layers=2, heads=2, max_tokens=64, training=training)
    tokenizer = train_tokenizer(SENTENCES, config.vocabulary, config.max_tokens)
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer.save_pretrained(folder)
    random_encoder(config, len(tokenizer), seed=0).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def babelray() -> Command:
    """Run the command as a user would, in a process; returns the finished process with its output."""

    def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "babelray.commands.app", *arguments],
            cwd=cwd or ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "platform"), "COLUMNS": "140", **environment},
            capture_output=True,
            text=True,
            timeout=500,
        )

    return run


@pytest.fixture(scope="session")
def cli() -> Command:
    """Run the command inside this process: for what needs no Ray, such as help, plans and errors."""
    return call


@pytest.fixture
def recipe_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a small recipe; its text is three languages of the starter corpus."""

    def write(**changes: object) -> Path:
        return write_recipe(tmp_path / "recipe.yaml", small_recipe(tmp_path, **changes))

    return write


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """One Ray on this machine for the whole test session."""
    from babelray.cluster import session as cluster

    cluster.connect()
    yield
    cluster.disconnect()

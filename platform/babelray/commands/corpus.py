"""`babelray corpus inspect`: the statistics of a corpus, and a few sentences of each language."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from babelray.errors import ArtifactError
from babelray.storage import AnyPath, Location
from babelray.storage.artifact import Artifact
from babelray.storage.runs import find_artifact
from babelray.storage.tables import read_table
from babelray.text.corpus import list_shards

if TYPE_CHECKING:
    from rich.console import Console

SENTENCES = 3
"""Sentences shown per language."""


def show_corpus(location: AnyPath, console: Console) -> None:
    """Print the table of statistics, then random sentences with their tokens."""
    from babelray.commands.summary import print_table
    from babelray.stages.corpus import statistics_table

    artifact = Artifact.load(find_artifact(location))
    if artifact is None or artifact.manifest["stage"] != "corpus":
        raise ArtifactError(f"{location} is not a corpus", "Name a folder under runs/corpus.")
    statistics = (artifact.location / "statistics.json").read_json()["text"]
    print_table(statistics_table(statistics, artifact.manifest["settings"]["segmenters"]), console)
    for code in statistics:
        console.print(f"\n[bold]{code}[/]")
        for text, tokens in sample_sentences(artifact.location, code, seed=code):
            console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)
            console.print("  " + " · ".join(tokens), style="dim", markup=False, highlight=False, soft_wrap=True)


def sample_sentences(corpus: Location, code: str, seed: str) -> list[tuple[str, list[str]]]:
    """A few sentences of one shard, with their tokens; the same ones every time."""
    generator = random.Random(seed)
    table = read_table(generator.choice(list_shards(corpus, code)), ["text", "tokens"])
    rows = sorted(generator.sample(range(len(table)), min(SENTENCES, len(table))))
    return [(table["text"][row].as_py(), table["tokens"][row].as_py()) for row in rows]

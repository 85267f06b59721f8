"""What is in a corpus: its statistics, and a few sentences of each language to look at."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from babelray.errors import ArtifactError
from babelray.stages.artifact import Artifact
from babelray.storage import Place
from babelray.text.corpus import shards
from babelray.text.tables import read_table

if TYPE_CHECKING:
    from rich.console import Console

SENTENCES = 3


def show(place: str, console: Console) -> None:
    """Print the table of statistics, then random sentences with their tokens."""
    from rich.table import Table

    artifact = Artifact.load(Place.parse(place))
    if artifact is None or artifact.manifest["stage"] != "corpus":
        raise ArtifactError(f"{place} is not a corpus", "Name a folder under runs/corpus.")
    statistics = (artifact.place / "statistics.json").read_json()["text"]
    names = ["read", "kept", "tokens", "types"]
    reasons = sorted({name for counts in statistics.values() for name in counts} - set(names))
    table = Table("", "segmenter", box=None, pad_edge=False)
    for name in [*names, *reasons]:
        table.add_column(name.removeprefix("dropped: "), justify="right")
    segmenters = artifact.manifest["settings"]["segmenters"]
    for code, counts in statistics.items():
        table.add_row(code, segmenters[code], *(f"{counts.get(name, 0):,}" for name in [*names, *reasons]))
    console.print(table)
    for code in statistics:
        console.print(f"\n[bold]{code}[/]")
        for text, tokens in sample(artifact.place, code, seed=code):
            console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)
            console.print("  " + " · ".join(tokens), style="dim", markup=False, highlight=False, soft_wrap=True)


def sample(corpus: Place, code: str, seed: str) -> list[tuple[str, list[str]]]:
    """A few sentences of one shard, the same ones every time."""
    generator = random.Random(seed)
    table = read_table(generator.choice(shards(corpus, code)), ["text", "tokens"])
    rows = sorted(generator.sample(range(len(table)), min(SENTENCES, len(table))))
    return [(table["text"][row].as_py(), table["tokens"][row].as_py()) for row in rows]

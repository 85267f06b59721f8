"""The corpus of many languages, built on the cluster with Ray Data.

Four steps, each of small pieces that are written atomically and not computed again after an interruption:

1. every chunk of every file is segmented, cleaned and written (`work/chunks/`);
2. per language, duplicates and sentences over the limit are determined from the sentences' keys alone;
3. the selected sentences are written in shards (`sentences/`), and their tokens counted;
4. per language, the vocabulary is computed from the counts (`vocabulary/`).

The output depends on the files, the recipe and the seed, not on the number of workers.
"""

from __future__ import annotations

import functools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from babelray import errors
from babelray.cluster.tasks import Task, run_tasks
from babelray.errors import BabelrayError, DataError
from babelray.storage import Location
from babelray.storage.tables import (
    SENTENCES,
    TokenCounter,
    read_arrow,
    schema,
    sum_counts,
    take_rows,
    write_arrow,
    write_parquet,
    write_rows,
)
from babelray.text.clean import KEYED, clean
from babelray.text.config import TextConfig
from babelray.text.read import Chunk, check_encoding, list_chunks, read_groups, source_files
from babelray.text.segment import Segmenter
from babelray.text.select import select_rows
from babelray.text.tally import Tally

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from babelray.cluster.progress import Progress

Statistics = dict[str, int]


class CorpusStatistics(NamedTuple):
    """What was read, kept and dropped of each language."""

    counts: dict[str, Statistics]
    examples: dict[str, dict[str, str]]
    """Of each language, by the name of a count of dropped lines or sentences, one of them."""


CPUS = 0.5
"""CPUs per task: two tasks share a core, so that one computes while the other waits for storage or Ray Data."""


@dataclass(frozen=True)
class CorpusLayout:
    """The settings and the locations of all files of a corpus."""

    config: TextConfig
    segmenters: Mapping[str, str]
    seed: int
    out: Location

    def chunk(self, code: str, number: int) -> Location:
        return self.out / "work" / "chunks" / code / f"{number:06}.arrow"

    def chunk_counts(self, code: str, number: int) -> Location:
        """The counts of a chunk; written last, they mark the chunk complete."""
        return self.out / "work" / "chunks" / code / f"{number:06}.json"

    def selected_rows(self, code: str, number: int) -> Location:
        return self.out / "work" / "selected" / code / f"{number:06}.arrow"

    def shard(self, code: str, number: int) -> Location:
        return self.out / "sentences" / code / f"{number:05}.parquet"

    def token_counts(self, code: str, number: int) -> Location:
        return self.out / "work" / "counts" / code / f"{number:05}.arrow"

    def vocabulary(self, code: str) -> Location:
        return self.out / "vocabulary" / f"{code}.parquet"


def build_corpus(layout: CorpusLayout, held_out: Mapping[str, frozenset[str]], progress: Progress) -> CorpusStatistics:
    """Build every language; return the statistics of each."""
    chunks = find_chunks(layout.config, list(layout.segmenters))
    numbered: dict[str, list[Chunk]] = {code: [c for c in chunks if c.code == code] for code in layout.segmenters}
    work = [(code, number, chunk) for code, own in numbered.items() for number, chunk in enumerate(own)]
    total = sum(chunk.bytes for chunk in chunks) / 1e6
    done = 0.0
    statistics: dict[str, Counter[str]] = {code: Counter(read=0, kept=0) for code in layout.segmenters}
    examples: dict[tuple[str, int], dict[str, str]] = {}
    process = functools.partial(clean_chunk, layout, held_out)
    progress.update(0, total, "MB")
    for (code, number, chunk), outcome in map_on_cluster(process, work):
        statistics[code].update(outcome["counts"])
        examples[code, number] = outcome["examples"]
        done += chunk.bytes / 1e6
        progress.update(done, total, "MB", code)
    selections = [Task(code, select_chunk_rows, (layout, code, len(own))) for code, own in numbered.items()]
    shards: list[tuple[str, int, list[int]]] = []
    for code, outcome in run_tasks(selections, progress, "languages").items():
        statistics[code].update(outcome["counts"])
        shards += [(code, number, group) for number, group in enumerate(outcome["groups"])]
    for number, _ in enumerate(map_on_cluster(functools.partial(write_shard, layout), shards), 1):
        progress.update(number, len(shards), "shards")
    vocabularies = [
        Task(code, write_vocabulary, (layout, code, sum(s[0] == code for s in shards))) for code in numbered
    ]
    for code, counts in run_tasks(vocabularies, progress, "vocabularies").items():
        statistics[code].update(counts)
    first: dict[str, dict[str, str]] = {code: {} for code in layout.segmenters}
    for code, number in sorted(examples, reverse=True):
        first[code] |= examples[code, number]
    counts = {code: _check_not_empty(code, counts, first[code]) for code, counts in statistics.items()}
    return CorpusStatistics(counts, first)


def _check_not_empty(code: str, counts: Counter[str], examples: Mapping[str, str]) -> Statistics:
    """The counts that are not zero; an error if no sentence was kept."""
    if not counts["kept"]:
        reasons = ", ".join(
            f"{name} {count}" + (f", such as {examples[name]!r}" if name in examples else "")
            for name, count in counts.items()
        )
        raise DataError(f"nothing is left of the text of {code!r} ({reasons})", "Check `corpus` in the recipe.")
    return dict(sorted((name, count) for name, count in counts.items() if count))


def find_chunks(config: TextConfig, codes: Sequence[str]) -> list[Chunk]:
    """The pieces of all files of all languages; a language without any file is an error."""
    files = {code: [(s, file) for s in config.text for file in source_files(s, code)] for code in codes}
    for code, own in files.items():
        if not own:
            paths = ", ".join(source.path.replace("{lang}", code) for source in config.text)
            raise DataError(f"no file for language {code!r} at {paths}", "Give it a source or leave the language out.")
    return list_chunks(files, config.chunk_bytes)


def map_on_cluster(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Apply a function to every item with Ray Data; yields items with their results as they complete."""
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    shared = ray.put((function, items))

    def apply(row: dict[str, int]) -> dict[str, Any]:
        function, items = ray.get(shared)
        try:
            return {"number": row["id"], "result": json.dumps(function(items[row["id"]])), "error": ""}
        except BabelrayError as error:  # as a value: Ray would wrap it in its own traceback
            fields = [type(error).__name__, error.problem, error.remedy]
            return {"number": row["id"], "result": "", "error": json.dumps(fields)}

    if not items:
        return
    dataset = ray.data.range(len(items), override_num_blocks=len(items)).map(apply, num_cpus=CPUS)
    for row in dataset.iter_rows():
        if row["error"]:
            kind, problem, remedy = json.loads(row["error"])
            raise getattr(errors, kind)(problem, remedy)
        yield items[row["number"]], json.loads(row["result"])


def clean_chunk(
    layout: CorpusLayout, held_out: Mapping[str, frozenset[str]], item: tuple[str, int, Chunk]
) -> dict[str, Any]:
    """Step 1: write the clean sentences of a chunk, with their keys; return what was read and dropped."""
    code, number, chunk = item
    location = layout.chunk(code, number)
    if layout.chunk_counts(code, number).exists():
        return layout.chunk_counts(code, number).read_json()
    counts = Tally()
    batches = clean(
        read_groups(chunk, layout.config, counts),
        Segmenter.for_language(code, layout.segmenters[code]),
        layout.config.cleaning,
        chunk.source.format == "sentences",
        held_out.get(code, frozenset()),
        layout.seed,
        counts,
    )
    rows = write_arrow(location, batches, KEYED)
    check_encoding(chunk, counts)
    outcome = {"rows": rows, "counts": counts, "examples": counts.examples}
    layout.chunk_counts(code, number).write_json(outcome)
    return outcome


def select_chunk_rows(layout: CorpusLayout, code: str, chunks: int) -> dict[str, Any]:
    """Step 2: select rows of each chunk of a language; return the counts, and the chunks of each shard."""
    import pyarrow as pa

    locations = [layout.chunk(code, number) for number in range(chunks)]
    rows = sum(layout.chunk_counts(code, number).read_json()["rows"] for number in range(chunks))
    pieces = [functools.partial(_keys, location) for location in locations]
    selected, distinct = select_rows(pieces, rows, layout.config.cleaning.max_sentences)
    for number, positions in enumerate(selected):
        write_arrow(layout.selected_rows(code, number), [pa.record_batch([positions], schema=schema("row"))], ["row"])
    sizes = [len(positions) for positions in selected]
    counts = {
        "dropped: duplicate": rows - distinct,
        "dropped: over the limit": distinct - sum(sizes),
        "kept": sum(sizes),
    }
    return {"counts": counts, "groups": group_chunks(sizes, layout.config.shard_sentences)}


def _keys(location: Location) -> Iterator[np.ndarray]:
    for batch in read_arrow(location, "key"):
        yield batch.column(0).to_numpy()


def group_chunks(sizes: Sequence[int], least: int) -> list[list[int]]:
    """Consecutive chunks, joined until a shard has at least `least` sentences.

    >>> group_chunks([3, 0, 4, 9, 1], 5)
    [[0, 1, 2], [3], [4]]
    """
    groups: list[list[int]] = []
    waiting: list[int] = []
    total = 0
    for number, count in enumerate(sizes):
        waiting.append(number)
        total += count
        if total >= least:
            groups.append(waiting)
            waiting, total = [], 0
    if total:
        groups.append(waiting)
    return groups


def write_shard(layout: CorpusLayout, item: tuple[str, int, list[int]]) -> None:
    """Step 3: write one shard and the counts of its tokens; the counts, written last, mark it complete."""
    code, number, chunks = item
    if layout.token_counts(code, number).exists():
        return
    counter = TokenCounter()
    batches = (
        batch
        for chunk in chunks
        for selected in read_arrow(layout.selected_rows(code, chunk), "row")
        for batch in take_rows(layout.chunk(code, chunk), selected.column(0).to_numpy())
    )
    write_parquet(layout.shard(code, number), counter.count(batches), SENTENCES)
    write_arrow(layout.token_counts(code, number), counter.table().to_batches(), ["word", "count"])


def write_vocabulary(layout: CorpusLayout, code: str, shards: int) -> Statistics:
    """Step 4: write the vocabulary of a language, from the counts of its shards."""
    import pyarrow as pa

    locations = [layout.token_counts(code, number) for number in range(shards)]
    tables = [
        pa.Table.from_batches([batch]) for location in locations for batch in read_arrow(location, "word", "count")
    ]
    tokens = sum_counts(tables)
    words = select_vocabulary(tokens, layout.config.min_count, layout.config.max_words)
    write_rows(layout.vocabulary(code), ({"word": w, "count": n} for w, n in words), ["word", "count"])
    return {"tokens": sum(tokens["count"].to_pylist()), "types": len(words)}


def select_vocabulary(tokens: pa.Table, min_count: int, max_words: int | None = None) -> list[tuple[str, int]]:
    """Lower-cased words by falling count, then by code point; tokens without letter or digit are left out."""
    import pyarrow.compute as pc

    words: Counter[str] = Counter()
    with_letters = tokens.filter(pc.match_substring_regex(tokens["word"], r"[\p{L}\p{N}]"))
    for token, count in zip(with_letters["word"].to_pylist(), with_letters["count"].to_pylist(), strict=True):
        words[token.lower()] += count
    frequent = [(word, count) for word, count in words.items() if count >= min_count]
    return sorted(frequent, key=lambda item: (-item[1], item[0]))[:max_words]

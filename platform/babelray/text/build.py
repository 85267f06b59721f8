"""The corpus of many languages, built on the cluster with Ray Data.

Four steps, each of small pieces that are written whole and, after an interruption, not done again:

1. every chunk of every file is cut, cleaned and written (`work/chunks/`);
2. per language, duplicates and what is over the limit are found from the sentences' keys alone;
3. the sentences that stay are written in shards (`sentences/`), and their tokens counted;
4. per language, the counts make the vocabulary (`vocabulary/`).

What is written depends on the files, the recipe and the seed, not on the number of workers.
"""

from __future__ import annotations

import functools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray import errors
from babelray.errors import BabelrayError, DataError
from babelray.storage import Place
from babelray.tasks import Task, run_tasks
from babelray.text.clean import KEYED, clean
from babelray.text.config import CorpusConfig
from babelray.text.read import Chunk, list_chunks, read_groups, source_files
from babelray.text.segment import Segmenter
from babelray.text.select import choose
from babelray.text.tables import (
    SENTENCES,
    TokenCounter,
    kept_rows,
    read_arrow,
    schema,
    sum_counts,
    write_arrow,
    write_parquet,
    write_rows,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from babelray.progress import Progress

Statistics = dict[str, int]
CPUS = 0.5
"""Of a task: two for a core, so that one computes while the other waits for the storage or for Ray Data."""


@dataclass(frozen=True)
class Plan:
    """What every piece of work needs to know."""

    config: CorpusConfig
    segmenters: Mapping[str, str]
    seed: int
    out: Place

    def chunk(self, code: str, number: int) -> Place:
        return self.out / "work" / "chunks" / code / f"{number:06}.arrow"

    def notes(self, code: str, number: int) -> Place:
        """What was counted in a chunk; written last, it marks the chunk done."""
        return self.out / "work" / "chunks" / code / f"{number:06}.json"

    def kept(self, code: str, number: int) -> Place:
        return self.out / "work" / "kept" / code / f"{number:06}.arrow"

    def shard(self, code: str, number: int) -> Place:
        return self.out / "sentences" / code / f"{number:05}.parquet"

    def counts(self, code: str, number: int) -> Place:
        return self.out / "work" / "counts" / code / f"{number:05}.arrow"

    def vocabulary(self, code: str) -> Place:
        return self.out / "vocabulary" / f"{code}.parquet"


def build_corpus(plan: Plan, held_out: Mapping[str, frozenset[str]], progress: Progress) -> dict[str, Statistics]:
    """Build every language; return the statistics of each."""
    chunks = find_chunks(plan.config, list(plan.segmenters))
    numbered: dict[str, list[Chunk]] = {code: [c for c in chunks if c.code == code] for code in plan.segmenters}
    work = [(code, number, chunk) for code, own in numbered.items() for number, chunk in enumerate(own)]
    total = sum(chunk.bytes for chunk in chunks) / 1e6
    done = 0.0
    found: dict[str, Counter[str]] = {code: Counter(read=0, kept=0) for code in plan.segmenters}
    cut = functools.partial(cut_chunk, plan, held_out)
    progress.update(0, total, "MB")
    for (code, _, chunk), counts in on_cluster(cut, work):
        found[code].update(counts)
        done += chunk.bytes / 1e6
        progress.update(done, total, "MB", code)
    choosing = [Task(code, choose_rows, (plan, code, len(own))) for code, own in numbered.items()]
    shards: list[tuple[str, int, list[int]]] = []
    for code, outcome in run_tasks(choosing, progress, "languages").items():
        found[code].update(outcome["counts"])
        shards += [(code, number, group) for number, group in enumerate(outcome["groups"])]
    for number, _ in enumerate(on_cluster(functools.partial(write_shard, plan), shards), 1):
        progress.update(number, len(shards), "shards")
    counting = [Task(code, write_vocabulary, (plan, code, sum(s[0] == code for s in shards))) for code in numbered]
    for code, counts in run_tasks(counting, progress, "vocabularies").items():
        found[code].update(counts)
    return {code: _checked(code, counts) for code, counts in found.items()}


def _checked(code: str, counts: Counter[str]) -> Statistics:
    if not counts["kept"]:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise DataError(f"nothing is left of the text of {code!r} ({told})", "Check `corpus` in the recipe.")
    return dict(sorted((name, count) for name, count in counts.items() if count))


def find_chunks(config: CorpusConfig, codes: Sequence[str]) -> list[Chunk]:
    """The pieces of all files of all languages; a language without any file is an error."""
    files = {code: [(s, file) for s in config.text for file in source_files(s, code)] for code in codes}
    for code, own in files.items():
        if not own:
            looked = ", ".join(source.path.replace("{lang}", code) for source in config.text)
            raise DataError(f"no file for language {code!r} at {looked}", "Give it a source or leave the language out.")
    return list_chunks(files, config.chunk_bytes)


def on_cluster(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Apply a function to every item with Ray Data; yields items with their results as they are done."""
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    shared = ray.put((function, items))

    def apply(row: dict[str, int]) -> dict[str, Any]:
        function, items = ray.get(shared)
        try:
            return {"number": row["id"], "result": json.dumps(function(items[row["id"]])), "error": ""}
        except BabelrayError as error:  # as a value: Ray would wrap it in its own traceback
            told = [type(error).__name__, error.problem, error.remedy]
            return {"number": row["id"], "result": "", "error": json.dumps(told)}

    if not items:
        return
    dataset = ray.data.range(len(items), override_num_blocks=len(items)).map(apply, num_cpus=CPUS)
    for row in dataset.iter_rows():
        if row["error"]:
            kind, problem, remedy = json.loads(row["error"])
            raise getattr(errors, kind)(problem, remedy)
        yield items[row["number"]], json.loads(row["result"])


def cut_chunk(plan: Plan, held_out: Mapping[str, frozenset[str]], item: tuple[str, int, Chunk]) -> Counter[str]:
    """Step 1: the clean sentences of a chunk, with their keys; returns what was read and dropped."""
    code, number, chunk = item
    place = plan.chunk(code, number)
    if plan.notes(code, number).exists():
        return Counter(plan.notes(code, number).read_json()["counts"])
    counts: Counter[str] = Counter()
    batches = clean(
        read_groups(chunk, plan.config, counts),
        Segmenter.of(code, plan.segmenters[code]),
        plan.config.cleaning,
        chunk.source.format != "sentences",
        held_out.get(code, frozenset()),
        plan.seed,
        counts,
    )
    rows = write_arrow(place, batches, KEYED)
    plan.notes(code, number).write_json({"rows": rows, "counts": counts})
    return counts


def choose_rows(plan: Plan, code: str, chunks: int) -> dict[str, Any]:
    """Step 2: which rows of each chunk of a language stay; returns the counts and which chunks make which shard."""
    import pyarrow as pa

    places = [plan.chunk(code, number) for number in range(chunks)]
    rows = sum(plan.notes(code, number).read_json()["rows"] for number in range(chunks))
    pieces = [functools.partial(_keys, place) for place in places]
    kept, distinct = choose(pieces, rows, plan.config.cleaning.max_sentences)
    for number, positions in enumerate(kept):
        write_arrow(plan.kept(code, number), [pa.record_batch([positions], schema=schema("row"))], ["row"])
    sizes = [len(positions) for positions in kept]
    counts = {
        "dropped: duplicate": rows - distinct,
        "dropped: over the limit": distinct - sum(sizes),
        "kept": sum(sizes),
    }
    return {"counts": counts, "groups": shard_groups(sizes, plan.config.shard_sentences)}


def _keys(place: Place) -> Iterator[np.ndarray]:
    for batch in read_arrow(place, "key"):
        yield batch.column(0).to_numpy()


def shard_groups(kept: Sequence[int], least: int) -> list[list[int]]:
    """Consecutive chunks, joined until a shard has at least so many sentences.

    >>> shard_groups([3, 0, 4, 9, 1], 5)
    [[0, 1, 2], [3], [4]]
    """
    groups: list[list[int]] = []
    waiting: list[int] = []
    total = 0
    for number, count in enumerate(kept):
        waiting.append(number)
        total += count
        if total >= least:
            groups.append(waiting)
            waiting, total = [], 0
    if total:
        groups.append(waiting)
    return groups


def write_shard(plan: Plan, item: tuple[str, int, list[int]]) -> None:
    """Step 3: one shard and the counts of its tokens; the counts, written last, mark it done."""
    code, number, chunks = item
    if plan.counts(code, number).exists():
        return
    counter = TokenCounter()
    batches = (
        batch
        for chunk in chunks
        for kept in read_arrow(plan.kept(code, chunk), "row")
        for batch in kept_rows(plan.chunk(code, chunk), kept.column(0).to_numpy())
    )
    write_parquet(plan.shard(code, number), counter.watch(batches), SENTENCES)
    write_arrow(plan.counts(code, number), counter.table().to_batches(), ["word", "count"])


def write_vocabulary(plan: Plan, code: str, shards: int) -> Statistics:
    """Step 4: the words of a language, from the counts of its shards."""
    import pyarrow as pa

    places = [plan.counts(code, number) for number in range(shards)]
    tables = [pa.Table.from_batches([batch]) for place in places for batch in read_arrow(place, "word", "count")]
    tokens = sum_counts(tables)
    words = vocabulary(tokens, plan.config)
    write_rows(plan.vocabulary(code), ({"word": w, "count": n} for w, n in words), ["word", "count"])
    return {"tokens": sum(tokens["count"].to_pylist()), "types": len(words)}


def vocabulary(tokens: pa.Table, config: CorpusConfig) -> list[tuple[str, int]]:
    """Lower-cased words by falling count, then by code point; a token without letter or digit is no word."""
    import pyarrow.compute as pc

    words: Counter[str] = Counter()
    with_letters = tokens.filter(pc.match_substring_regex(tokens["word"], r"[\p{L}\p{N}]"))
    for token, count in zip(with_letters["word"].to_pylist(), with_letters["count"].to_pylist(), strict=True):
        words[token.lower()] += count
    frequent = [(word, count) for word, count in words.items() if count >= config.min_count]
    return sorted(frequent, key=lambda item: (-item[1], item[0]))[: config.max_words]

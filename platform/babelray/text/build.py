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
from babelray.text.clean import clean
from babelray.text.config import CorpusConfig
from babelray.text.read import Chunk, list_chunks, read_groups, source_files
from babelray.text.segment import Segmenter, is_word
from babelray.text.select import choose
from babelray.text.tables import (
    SENTENCES,
    count_tokens,
    kept_rows,
    read_batches,
    read_notes,
    read_table,
    write_batches,
    write_rows,
)

if TYPE_CHECKING:
    import numpy as np

    from babelray.progress import Progress

Statistics = dict[str, int]


@dataclass(frozen=True)
class Plan:
    """What every piece of work needs to know."""

    config: CorpusConfig
    segmenters: Mapping[str, str]
    seed: int
    out: Place

    def chunk(self, code: str, number: int) -> Place:
        return self.out / "work" / "chunks" / code / f"{number:06}.parquet"

    def kept(self, code: str, number: int) -> Place:
        return self.out / "work" / "kept" / code / f"{number:06}.parquet"

    def shard(self, code: str, number: int) -> Place:
        return self.out / "sentences" / code / f"{number:05}.parquet"

    def counts(self, code: str, number: int) -> Place:
        return self.out / "work" / "counts" / code / f"{number:05}.parquet"

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
    languages = [(code, len(own)) for code, own in numbered.items()]
    shards: list[tuple[str, int, list[int]]] = []
    for (code, _), outcome in on_cluster(functools.partial(choose_rows, plan), languages):
        found[code].update(outcome["counts"])
        shards += [(code, number, group) for number, group in enumerate(outcome["groups"])]
        progress.update(done, total, "MB", f"{code}: duplicates")
    for number, _ in enumerate(on_cluster(functools.partial(write_shard, plan), sorted(shards)), 1):
        progress.update(number, len(shards), "shards")
    counted = [(code, sum(shard[0] == code for shard in shards)) for code in numbered]
    for number, ((code, _), counts) in enumerate(on_cluster(functools.partial(write_vocabulary, plan), counted), 1):
        found[code].update(counts)
        progress.update(number, len(counted), "vocabularies", code)
    (plan.out / "work").delete()
    return {code: _checked(code, counts) for code, counts in found.items()}


def _checked(code: str, counts: Counter[str]) -> Statistics:
    if not counts["kept"]:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise DataError(f"nothing is left of the text of {code!r} ({told})", "Check `corpus` in the recipe.")
    return dict(sorted(counts.items()))


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
    dataset = ray.data.range(len(items), override_num_blocks=len(items)).map(apply, num_cpus=1)
    for row in dataset.iter_rows():
        if row["error"]:
            kind, problem, remedy = json.loads(row["error"])
            raise getattr(errors, kind)(problem, remedy)
        yield items[row["number"]], json.loads(row["result"])


def cut_chunk(plan: Plan, held_out: Mapping[str, frozenset[str]], item: tuple[str, int, Chunk]) -> Counter[str]:
    """Step 1: the clean sentences of a chunk, with their keys; returns what was read and dropped."""
    code, number, chunk = item
    place = plan.chunk(code, number)
    if place.exists():
        return Counter(read_notes(place))
    counts: Counter[str] = Counter()
    rows = clean(
        read_groups(chunk, plan.config, counts),
        Segmenter.of(code, plan.segmenters[code]),
        plan.config.cleaning,
        chunk.source.format != "sentences",
        held_out.get(code, frozenset()),
        plan.seed,
        counts,
    )
    write_rows(place, rows, (*SENTENCES, "key"), counts)
    return counts


def choose_rows(plan: Plan, item: tuple[str, int]) -> dict[str, Any]:
    """Step 2: which rows of each chunk of a language stay; returns the counts and which chunks make which shard."""
    code, chunks = item
    places = [plan.chunk(code, number) for number in range(chunks)]
    rows = sum(_rows(place) for place in places)
    pieces = [functools.partial(_keys, place) for place in places]
    kept, distinct = choose(pieces, rows, plan.config.cleaning.max_sentences)
    for number, positions in enumerate(kept):
        write_rows(plan.kept(code, number), ({"row": row} for row in positions.tolist()), ["row"])
    sizes = [len(positions) for positions in kept]
    counts = {
        "dropped: duplicate": rows - distinct,
        "dropped: over the limit": distinct - sum(sizes),
        "kept": sum(sizes),
    }
    return {"counts": counts, "groups": shard_groups(sizes, plan.config.shard_sentences)}


def _rows(place: Place) -> int:
    import pyarrow.parquet as pq

    with place.open() as stream:
        return int(pq.ParquetFile(stream).metadata.num_rows)


def _keys(place: Place) -> Iterator[np.ndarray]:
    for batch in read_batches(place, ["key"]):
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
    counts: Counter[str] = Counter()
    batches = (
        batch
        for chunk in chunks
        for batch in kept_rows(plan.chunk(code, chunk), read_table(plan.kept(code, chunk))["row"].to_numpy())
    )
    write_batches(plan.shard(code, number), count_tokens(batches, counts), SENTENCES)
    write_rows(plan.counts(code, number), ({"word": w, "count": n} for w, n in counts.items()), ["word", "count"])


def write_vocabulary(plan: Plan, item: tuple[str, int]) -> Statistics:
    """Step 4: the words of a language, from the counts of its shards."""
    code, shards = item
    tokens: Counter[str] = Counter()
    for number in range(shards):
        table = read_table(plan.counts(code, number))
        for token, count in zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True):
            tokens[token] += count
    words = vocabulary(tokens, plan.config)
    write_rows(plan.vocabulary(code), ({"word": w, "count": n} for w, n in words), ["word", "count"])
    return {"tokens": sum(tokens.values()), "types": len(words)}


def vocabulary(tokens: Mapping[str, int], config: CorpusConfig) -> list[tuple[str, int]]:
    """Lower-cased words by falling count, then by code point."""
    words: Counter[str] = Counter()
    for token, count in tokens.items():
        if is_word(token):
            words[token.lower()] += count
    frequent = [(word, count) for word, count in words.items() if count >= config.min_count]
    return sorted(frequent, key=lambda item: (-item[1], item[0]))[: config.max_words]

"""Samples of the files that a recipe names, read before a run: a file that cannot be used is found in a moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from babelray.errors import CollectedErrors, DataError
from babelray.lexicon.read import Problems, read_translations, translation_files
from babelray.text.read import list_chunks, read_groups, source_files
from babelray.text.tally import Tally

if TYPE_CHECKING:
    from babelray.lexicon.config import TranslationSource
    from babelray.recipe.corpus import CorpusConfig
    from babelray.storage import Location
    from babelray.text.config import TextConfig, TextSource

PARAGRAPHS, PAIRS = 200, 200
"""Those that are read of a file."""
SAMPLE_BYTES = 1 << 20
LARGEST_WHOLE = 5 << 20
"""Bytes up to which files are read that can only be read whole, such as those aligned by line."""


def check_corpus_files(config: CorpusConfig, languages: Sequence[str], hub: str, errors: CollectedErrors) -> None:
    """Read a sample of the first file of each source and language, and collect what is wrong with it."""
    for code in languages:
        for source in config.text:
            with errors.attempt():
                _check_text(source, code, config)
    for translations in (*config.parallel, *config.dictionary):
        for code in languages:
            if code != hub:
                with errors.attempt():
                    _check_translations(translations, code, hub)


def _check_text(source: TextSource, code: str, config: TextConfig) -> None:
    """Raise an error if as much of the sample is dropped as is usable."""
    files = source_files(source, code)
    if not files:
        return
    counts = Tally()
    chunk = list_chunks({code: [(source, files[0])]}, config.chunk_bytes)[0]
    if chunk.end is None and files[0].name.endswith((".txt", ".jsonl", ".tsv")):
        chunk = dataclasses.replace(chunk, end=min(chunk.bytes, SAMPLE_BYTES))
    usable = sum(len(group.texts) for group in islice(read_groups(chunk, config, counts), PARAGRAPHS))
    if counts["read"] and counts["read"] >= usable:
        reason, _ = max(((n, c) for n, c in counts.items() if n.startswith("dropped: ")), key=lambda entry: entry[1])
        raise DataError(
            f"{code}: {counts['read']} of the first {counts['read'] + usable} lines of {files[0]} cannot be used: "
            f"{reason.removeprefix('dropped: ')}",
            "Check its encoding (UTF-8), and `format`, `field` and `column` in the recipe's `corpus.text`.",
        )


def _check_translations(source: TranslationSource, code: str, hub: str) -> None:
    """Raise an error if no line of the sample is a pair."""
    files = translation_files(source, code, hub)
    if not files or (_is_read_whole(source) and sum(file.size() for file in files) > LARGEST_WHOLE):
        return
    if source.layout is None and source.resolved_layout == "aligned":
        _check_not_keyed(files)
    problems = Problems()
    sampled = source.model_copy(update={"max_pairs": None})
    if any(True for _ in islice(read_translations(sampled, code, hub, problems), PAIRS)):
        return
    if source.resolved_layout == "table" and not source.required:
        return
    first = f"; {problems.summaries[0]}" if problems.summaries else ""
    raise DataError(f"{code}: no pairs in {_names(files)} (layout {source.resolved_layout}){first}", _remedy(source))


def _check_not_keyed(files: Sequence[Location]) -> None:
    """Raise an error if files that would be read by line begin every line with a key and a tab, in both languages."""
    keys = [{line.split(b"\t")[0] for line in islice(_raw_lines(file), PAIRS) if b"\t" in line} for file in files]
    if len(keys[0]) > 1 and keys[0] == keys[1]:
        raise DataError(
            f"{_names(files)} hold a key and a tab before each text, but are read line by line",
            "Set `layout: keyed`: `{path: …, layout: keyed}`.",
        )


def _raw_lines(file: Location) -> Iterator[bytes]:
    with file.open() as stream:
        yield from stream


def _is_read_whole(source: TranslationSource) -> bool:
    return source.resolved_layout in ("aligned", "keyed") or "{side}" in source.path


def _names(files: Sequence[Location]) -> str:
    return " and ".join(map(str, files))


def _remedy(source: TranslationSource) -> str:
    lines = {
        "aligned": "Line n of one file translates line n of the other.",
        "keyed": "A line holds a key, a tab and the text; both files have the same keys.",
        "table": "The first line names the languages; `where` must leave some rows.",
        "pairs": "A line holds a word, a tab and its translation.",
    }
    return f"{lines[source.resolved_layout]} Set `layout` if the files are laid out in another way."

"""Files of translations, in each of their layouts, into pairs; unusable lines are counted and reported."""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from babelray.errors import DataError
from babelray.storage import AnyPath, Location

if TYPE_CHECKING:
    from babelray.lexicon.config import TranslationSource

NOT_UTF8 = "not UTF-8"
LEAST_BAD, MAX_BAD = 3, 0.05
"""So many lines that are not UTF-8, and a larger share than this, are an error."""
MAX_KINDS = 3
"""Kinds of problems of a file that are reported, the most frequent first."""


@dataclass
class FileProblems:
    """The unusable lines of a file."""

    lines: int = 0
    """Lines that were read."""
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each kind of problem the number of lines, and the first of them."""

    @property
    def count(self) -> int:
        return sum(count for count, _ in self.kinds.values())

    def check_encoding(self, file: str) -> None:
        """Raise an error if many lines are not UTF-8: those with accents would be lost."""
        bad, first = self.kinds.get(NOT_UTF8, (0, 0))
        if bad >= LEAST_BAD and bad > MAX_BAD * self.lines:
            problem = f"{file} is not UTF-8: {bad:,} of {self.lines:,} lines (first: line {first})"
            raise DataError(problem, "Convert it to UTF-8: iconv -f ENCODING -t UTF-8, such as LATIN1 or UTF-16.")

    def describe(self, file: str) -> str:
        """One sentence about the file."""
        kinds = sorted(self.kinds.items(), key=lambda item: -item[1][0])
        parts = [f"{kind}: {count:,}, first in line {first}" for kind, (count, first) in kinds[:MAX_KINDS]]
        more = f"; and {len(kinds) - MAX_KINDS} other kinds" if len(kinds) > MAX_KINDS else ""
        return f"{file}: {self.count:,} of {self.lines:,} lines are unusable ({'; '.join(parts)}{more})"


@dataclass
class Problems:
    """The unusable lines of files, by the file's path."""

    files: dict[str, FileProblems] = field(default_factory=dict)

    def of(self, file: Location) -> FileProblems:
        return self.files.setdefault(str(file), FileProblems())

    def add(self, file: Location, line: int, problem: str) -> None:
        kinds = self.of(file).kinds
        count, first = kinds.get(problem, (0, line))
        kinds[problem] = count + 1, first

    @property
    def count(self) -> int:
        return sum(file.count for file in self.files.values())

    def check_encoding(self) -> None:
        """Raise an error if a file is not UTF-8."""
        for file, problems in self.files.items():
            problems.check_encoding(file)

    @property
    def summaries(self) -> list[str]:
        """One sentence for each file that has any."""
        return [problems.describe(file) for file, problems in self.files.items() if problems.count]

    def merge(self, other: Problems) -> None:
        """Add those of other files; of a file that both have read, those of the one that found more."""
        for file, problems in other.files.items():
            if file not in self.files or problems.count > self.files[file].count:
                self.files[file] = problems


@dataclass(frozen=True)
class Translation:
    """`source` is in the language, `target` in the hub; entries of one `group` are held out together."""

    source: str
    target: str
    group: str


def translation_files(config: TranslationSource, code: str, hub: str) -> list[Location]:
    """The files with the translations of a language with the hub; none if they are missing and not required."""
    if config.languages is not None and code not in config.languages:
        return []
    names = [config.path]
    if config.resolved_layout == "pairs":
        sides = [code, hub] if "{side}" in config.path else [""]
        names = [config.path.replace("{hub}", hub).replace("{lang}", code).replace("{side}", side) for side in sides]
    elif config.resolved_layout != "table":
        names = [config.path.replace("{lang}", language) for language in (code, hub)]
    locations = [Location.parse(name) for name in names]
    missing = [location for location in locations if not location.is_file()]
    if not missing:
        return locations
    if config.required:
        raise DataError(f"no translations of language {code!r} at {missing[0]}", "Check the path in the recipe.")
    return []


def read_translations(config: TranslationSource, code: str, hub: str, problems: Problems) -> Iterator[Translation]:
    """The translations of a language with the hub."""
    files = translation_files(config, code, hub)
    if not files:
        return
    entries = _LAYOUTS[_layout(config)](config, files, code, hub, problems)
    yield from entries if config.max_pairs is None else _sample(list(entries), config.max_pairs)


def _sample(entries: list[Translation], count: int) -> list[Translation]:
    """At most a number of the entries, in their order: those whose side in the hub has the smallest hashes, so that the
    samples of several languages overlap.
    """
    order = sorted(range(len(entries)), key=lambda row: (zlib.crc32(entries[row].target.encode()), row))
    return [entries[row] for row in sorted(order[:count])]


def _layout(config: TranslationSource) -> str:
    return "moses" if config.resolved_layout == "pairs" and "{side}" in config.path else config.resolved_layout


def _lines(file: Location, problems: Problems) -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers; those that are not UTF-8 are empty, and counted."""
    with file.open() as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError:
                text = None
            if text is None or 4 * raw.count(b"\0") > len(raw):  # zeros: UTF-16
                problems.add(file, number, NOT_UTF8)
                text = ""
            problems.of(file).lines = number
            yield number, unicodedata.normalize("NFC", text.lstrip("\ufeff").replace("\0", " ")).strip("\r\n ")


def _aligned(
    config: TranslationSource, files: list[Location], code: str, hub: str, problems: Problems
) -> Iterator[Translation]:
    """Line n translates line n; blank lines, in both, separate paragraphs."""
    left, right = ([line.strip() for _, line in _lines(file, problems)] for file in files)
    if len(left) != len(right):
        problem = f"{files[0]} has {len(left)} lines, {files[1]} has {len(right)}"
        raise DataError(problem, "Files aligned by line must have the same number of lines.")
    paragraphs = any(not a and not b for a, b in zip(left, right, strict=True))
    paragraph = 0
    for number, (source, target) in enumerate(zip(left, right, strict=True), start=1):
        if not source and not target:
            paragraph += 1
        elif source and target:
            yield Translation(source, target, str(paragraph if paragraphs else number))
        else:
            problems.add(files[0] if target else files[1], number, "empty here but not in the other language")


_moses = _aligned


def _keyed(
    config: TranslationSource, files: list[Location], code: str, hub: str, problems: Problems
) -> Iterator[Translation]:
    """`key<TAB>text`, joined by the key; the group (a chapter) is the part of the key before its last colon."""
    texts: list[dict[str, str]] = []
    for file in files:
        by_key: dict[str, str] = {}
        for number, line in _lines(file, problems):
            key, tab, text = line.partition("\t")
            if line and not (tab and key.strip() and text.strip()):
                problems.add(file, number, "not `key<TAB>text`")
            elif line:
                by_key[key.strip()] = text.strip()
        texts.append(by_key)
    for key, source in texts[0].items():
        if key in texts[1]:
            yield Translation(source, texts[1][key], key.rpartition(":")[0] or key)


def _table(
    config: TranslationSource, files: list[Location], code: str, hub: str, problems: Problems
) -> Iterator[Translation]:
    """A header with language codes, then one row per entry."""
    lines = _lines(files[0], problems)
    header = next(lines, (0, ""))[1].split("\t")
    for language in (code, hub):
        if language not in header:
            if config.required:
                raise DataError(f"{files[0]}, line 1: no column {language!r}", f"It has: {', '.join(header)}.")
            return
    for name in config.where:
        if name not in header:
            raise DataError(
                f"{files[0]}, line 1: no column {name!r}", f"`where` names it. It has: {', '.join(header)}."
            )
    columns = header.index(code), header.index(hub)
    for number, line in lines:
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != len(header):
            problems.add(files[0], number, f"{len(cells)} columns instead of {len(header)}")
            continue
        try:
            selected = all(
                low <= float(cells[header.index(name)]) <= high for name, (low, high) in config.where.items()
            )
        except ValueError:
            problems.add(files[0], number, "no number in a column of `where`")
            continue
        if selected and cells[columns[0]] and cells[columns[1]]:
            yield Translation(cells[columns[0]], cells[columns[1]], str(number))


def _pairs(
    config: TranslationSource, files: list[Location], code: str, hub: str, problems: Problems
) -> Iterator[Translation]:
    hub_first = "{hub}" in config.path and config.path.index("{hub}") < config.path.index("{lang}")
    for number, first, second in read_columns(files[0], problems):
        source, target = (second, first) if hub_first else (first, second)
        yield Translation(source, target, str(number))


def read_columns(path: AnyPath, problems: Problems) -> Iterator[tuple[int, str, str]]:
    """Line numbers and two columns, separated by a tab, or by a space if there is no tab; more columns are ignored."""
    file = Location.parse(path)
    for number, line in _lines(file, problems):
        if not line:
            continue
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
        if "\t" not in line and _has_other_separator(cells):
            problems.add(file, number, "separated by a comma or semicolon instead of a tab")
        elif len(cells) < 2 or not cells[0] or not cells[1]:
            problems.add(file, number, "fewer than two columns")
        elif "\t" not in line and len(cells) > 2:
            problems.add(file, number, "more than two words and no tab: the beginning of the translation is unclear")
        else:
            yield number, cells[0], cells[1]


def _has_other_separator(cells: list[str]) -> bool:
    """Whether a line, of which these are the parts between spaces, has a comma or semicolon instead of a tab.

    >>> [_has_other_separator(line.split()) for line in ("Hund,dog", "Hund; dog", "ein Tag,a day", "1,5 1.5", ", ,")]
    [True, True, True, False, False]
    """
    if len(cells) == 2:  # a word may contain a comma
        return len(cells[0]) > 1 and cells[0][-1] in ",;"
    return any(mark in " ".join(cells)[1:-1] for mark in ",;")


_LAYOUTS = {"aligned": _aligned, "moses": _moses, "keyed": _keyed, "table": _table, "pairs": _pairs}

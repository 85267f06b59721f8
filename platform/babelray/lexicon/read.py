"""Files of translations, in each of their layouts, into pairs; lines that cannot be used are counted and shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from babelray.errors import DataError
from babelray.storage import Place

if TYPE_CHECKING:
    from babelray.lexicon.config import TranslationSource

SHOWN = 10


@dataclass
class Problems:
    """Lines that were passed over: how many, and the first few."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, file: Place, line: int, what: str) -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(f"{file}, line {line}: {what}")


@dataclass(frozen=True)
class Translation:
    """`source` is in the language, `target` in the hub; entries of one `group` are held out together."""

    source: str
    target: str
    group: str


def files_of(config: TranslationSource, code: str, hub: str) -> list[Place]:
    """The files that hold the translations of a language with the hub; empty if it may be and is without."""
    if config.languages is not None and code not in config.languages:
        return []
    names = [config.path]
    if config.resolved_layout == "pairs":
        sides = [code, hub] if "{side}" in config.path else [""]
        names = [config.path.replace("{hub}", hub).replace("{lang}", code).replace("{side}", side) for side in sides]
    elif config.resolved_layout != "table":
        names = [config.path.replace("{lang}", language) for language in (code, hub)]
    places = [Place.parse(name) for name in names]
    missing = [place for place in places if not place.is_file()]
    if not missing:
        return places
    if config.required:
        raise DataError(f"no translations of language {code!r} at {missing[0]}", "Check the path in the recipe.")
    return []


def read_translations(config: TranslationSource, code: str, hub: str, problems: Problems) -> Iterator[Translation]:
    """The translations of a language with the hub."""
    files = files_of(config, code, hub)
    if files:
        yield from _LAYOUTS[_layout(config)](config, files, code, hub, problems)


def _layout(config: TranslationSource) -> str:
    return "moses" if config.resolved_layout == "pairs" and "{side}" in config.path else config.resolved_layout


def _lines(file: Place, problems: Problems) -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers; those that are not UTF-8 come as empty, and are counted."""
    with file.open() as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError:
                problems.add(file, number, "not valid UTF-8")
                text = ""
            yield number, unicodedata.normalize("NFC", text.lstrip("\ufeff").replace("\0", " ")).strip("\r\n ")


def _aligned(
    config: TranslationSource, files: list[Place], code: str, hub: str, problems: Problems
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
    config: TranslationSource, files: list[Place], code: str, hub: str, problems: Problems
) -> Iterator[Translation]:
    """`key<TAB>text`, joined by the key; what stands before the last colon of the key is the group (a chapter)."""
    texts: list[dict[str, str]] = []
    for file in files:
        found: dict[str, str] = {}
        for number, line in _lines(file, problems):
            key, tab, text = line.partition("\t")
            if line and not (tab and key.strip() and text.strip()):
                problems.add(file, number, "not `key<TAB>text`")
            elif line:
                found[key.strip()] = text.strip()
        texts.append(found)
    for key, source in texts[0].items():
        if key in texts[1]:
            yield Translation(source, texts[1][key], key.rpartition(":")[0] or key)


def _table(
    config: TranslationSource, files: list[Place], code: str, hub: str, problems: Problems
) -> Iterator[Translation]:
    """A header with language codes, then a row an entry."""
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
            wanted = all(low <= float(cells[header.index(name)]) <= high for name, (low, high) in config.where.items())
        except ValueError:
            problems.add(files[0], number, "no number where `where` asks for one")
            continue
        if wanted and cells[columns[0]] and cells[columns[1]]:
            yield Translation(cells[columns[0]], cells[columns[1]], str(number))


def _pairs(
    config: TranslationSource, files: list[Place], code: str, hub: str, problems: Problems
) -> Iterator[Translation]:
    hub_first = config.path.index("{hub}") < config.path.index("{lang}")
    for number, first, second in read_columns(files[0], problems):
        source, target = (second, first) if hub_first else (first, second)
        yield Translation(source, target, str(number))


def read_columns(file: Place, problems: Problems) -> Iterator[tuple[int, str, str]]:
    """Line numbers and two columns, separated by a tab, or by a space if there is no tab; more columns are ignored."""
    for number, line in _lines(file, problems):
        if not line:
            continue
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
        if len(cells) < 2 or not cells[0] or not cells[1]:
            problems.add(file, number, "fewer than two columns")
        elif "\t" not in line and len(cells) > 2:
            problems.add(file, number, "more than two words and no tab: where does the translation begin?")
        else:
            yield number, cells[0], cells[1]


_LAYOUTS = {"aligned": _aligned, "moses": _moses, "keyed": _keyed, "table": _table, "pairs": _pairs}

"""Parallel sentences, read from the layouts in which they are published, and the base of benchmarks on them.

    tatoeba.deu-eng.deu, tatoeba.deu-eng.eng    LASER's Tatoeba (Artetxe and Schwenk, 2019), with ISO 639-3 codes
    de-en.de, de-en.en                          XTREME's Tatoeba (Hu et al., 2020)
    news.en-de.de, news.en-de.en                Moses: any name, the languages in either order
    test.tsv                                    a table: a header with language codes, one column per language

In the first three line n translates line n; they may also lie in a folder `tatoeba/` of the one that is given. The
layout is recognised by the names.

XTREME's own download sorts the English sentences, so that the answers are not given away: line n then no longer
translates line n. Such files are refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

from pydantic import Field

from babelray.errors import DataError
from babelray.evaluation.benchmark import EncoderBenchmark, Result
from babelray.evaluation.data_languages import codes_of, describe_unread, further_languages
from babelray.evaluation.tables import checked_number
from babelray.languages import LANGUAGES, Language, resolve
from babelray.storage import Location

LAYOUTS = (
    "Give a folder with LASER's `tatoeba.deu-eng.deu` and `.eng`, XTREME's `de-en.de` and `.en`, Moses' "
    "`name.de-en.de` and `.en`, or `.tsv` tables with a header of language codes."
)
SORTED_LINES = 12
"""With at least this many different lines, alphabetical order is no coincidence (one in half a billion)."""
IDENTICAL = 0.2
"""If a larger share of the pairs is the same text twice, they may not be translations."""
MAX_COLUMNS = 8
"""Columns or files that an error names."""
WHERE = "`where` asks for numbers in this column."

_CODE = r"[a-z]{2,3}(?:_[A-Za-z]+)?"
_PAIR = re.compile(rf"(?:(?P<name>.+)\.)?(?P<first>{_CODE})-(?P<second>{_CODE})\.(?P<side>{_CODE})")


class ParallelSentences(NamedTuple):
    """The sentences of a language and, in the same order, their translations into the hub."""

    language: str
    sentences: list[str]
    translations: list[str]


class ParallelBenchmark(EncoderBenchmark):
    """A benchmark on parallel sentences: see `read_parallel` for the layouts."""

    examples: ClassVar[Mapping[str, str]] = {
        "data": "tatoeba/ (a folder with `name.de-en.de` and `name.de-en.en`: line n translates line n)",
    }
    data: str
    """A folder, a file or a pattern, local or on S3."""
    hub: str = "en"
    languages: list[str] | None = None
    """Only these, by their codes; by default all that have data, also beyond the 40."""
    extra_languages: list[Language] = Field(default_factory=list)
    """Languages beyond the 40, or other settings for one of them, as in a recipe."""
    where: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """For tables: only rows whose numbers in these columns are in these ranges, ends included."""

    def sources(self, languages: Sequence[str] = ()) -> list[Location]:
        location = Location.parse(self.data)
        if location.exists() and not location.is_file():
            files = [location / name for name in _readable(location)]
            if not files:
                raise DataError(f"{self.label}: {_describe_unreadable(location)}", LAYOUTS)
        else:
            files = location.glob()
        if not files:
            raise DataError(f"{self.label}: there is nothing at {self.data}", "Check the path.")
        return files

    def read(self) -> list[ParallelSentences]:
        languages = LANGUAGES | {language.code: language for language in self.extra_languages}
        if self.languages is not None:
            languages = resolve(self.languages, self.extra_languages, any_iso=True)
        location = Location.parse(self.data)
        return list(read_parallel(location, self.hub, languages, self.where, further=self.languages is None))

    def omissions(self) -> list[str]:
        if self.languages is not None:
            return []
        languages = LANGUAGES | {language.code: language for language in self.extra_languages}
        return unread_parallel(self.sources(), self.hub, languages)

    def remarks(self, result: Result) -> list[str]:
        return describe_identical(self.read())


def describe_identical(pairs: Iterable[ParallelSentences]) -> list[str]:
    """A sentence about each language many of whose pairs are the same text on both sides.

    >>> describe_identical([ParallelSentences("de", ["Taxi", "Nein"], ["Taxi", "No"])])
    ['de: 1 of 2 pairs are identical on both sides']
    """
    counts = (
        (one.language, sum(map(str.__eq__, one.sentences, one.translations)), len(one.sentences)) for one in pairs
    )
    return [
        f"{code}: {same:,} of {count:,} pairs are identical on both sides"
        for code, same, count in counts
        if same > IDENTICAL * count
    ]


def read_parallel(
    location: Location,
    hub: str = "en",
    languages: Mapping[str, Language] = LANGUAGES,
    where: Mapping[str, tuple[float, float]] | None = None,
    further: bool = False,
) -> Iterator[ParallelSentences]:
    """The parallel sentences of each language, in the order of `languages`; all files are checked before the first.

    `location` is a folder, a table, or a pattern of tables such as `dir/*.tsv`; several tables are read one after the
    other. Files and columns of other languages are skipped, unless `further` is set: then they follow by their codes.
    `where`: only rows of tables whose numbers in these columns are in these ranges, ends included.
    """
    codes = _Codes(languages, hub, further)
    if location.is_file() or not location.exists():
        tables = [location] if location.is_file() else location.glob()
        if not tables:
            raise DataError(f"there is no {location}", LAYOUTS)
        return _tables(tables, codes, where or {})
    names = _readable(location)
    files = _pair_files(location, names, codes)
    tables = [location / name for name in names if name.endswith(".tsv")]
    if files and where:
        raise DataError(f"{location} has files for each language, no table", "Leave out `where`: it is for tables.")
    if files:
        return iter([_aligned(files[code], code) for code in codes.ordered(files)])
    if tables:
        return _tables(tables, codes, where or {})
    raise DataError(f"no parallel sentences of {hub!r} and another language in {location}", LAYOUTS)


def _readable(location: Location) -> list[str]:
    """The files of a folder whose names are those of parallel sentences."""
    near = [name for name in location.files() if name.rpartition("/")[0] in ("", "tatoeba")]
    return [
        name for name in near if _PAIR.fullmatch(name.rpartition("/")[2]) or (name.endswith(".tsv") and "/" not in name)
    ]


def _describe_unreadable(location: Location) -> str:
    """What a folder without parallel sentences has instead."""
    names = sorted({name.partition("/")[0] + "/" * ("/" in name) for name in location.files()})
    more = f" and {len(names) - MAX_COLUMNS} more" if len(names) > MAX_COLUMNS else ""
    content = f"it has {', '.join(names[:MAX_COLUMNS])}{more}" if names else "it is empty"
    return f"no file in {location} is named like parallel sentences; {content}"


def unread_parallel(files: Sequence[Location], hub: str, languages: Mapping[str, Language] = LANGUAGES) -> list[str]:
    """Sentences about files and columns that are not read as sentences of a language."""
    codes = _Codes(languages, hub, further=True)
    names, columns = [], []
    for file in files:
        if match := _PAIR.fullmatch(file.name):
            pair = {codes.of(match["first"]), codes.of(match["second"])}
            if None in pair or hub not in pair:
                names.append(file.name)
        else:
            header = [name.strip() for name in _lines(file)[0].split("\t")]
            columns += [name for name, code in zip(header, codes.of_columns(header), strict=True) if code is None]
    without = f"not read, since they are not of {hub!r} and another language: "
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    sentences = [f"{without}{', '.join(names[:5])}{more}"] if names else []
    return [*sentences, *describe_unread(dict.fromkeys(columns), "columns ")]


class _Codes:
    """The languages of the codes in names and headers."""

    def __init__(self, languages: Mapping[str, Language], hub: str, further: bool = False) -> None:
        self.hub = hub
        self.languages = languages
        self.further = further
        every = [*languages.values(), *([LANGUAGES[hub]] if hub in LANGUAGES else [])]
        self._codes = codes_of({language.code: language.iso639_3 for language in every}) | {hub: hub}

    def of(self, text: str) -> str | None:
        """The language of a code in the name of a file."""
        text = text.strip()
        return self._codes.get(text) or (text if self.further and further_languages([text], []) else None)

    def of_columns(self, header: Sequence[str]) -> list[str | None]:
        """The languages of columns: others than the known ones only if their codes are written like that of the hub."""
        header = [name.strip() for name in header]
        known = [self._codes.get(name) for name in header]
        hubs = [name for name, code in zip(header, known, strict=True) if code == self.hub]
        others = further_languages(header, hubs) if self.further and hubs else []
        return [code or (name if name in others else None) for name, code in zip(header, known, strict=True)]

    def ordered(self, found: Collection[str]) -> list[str]:
        """The languages that were found, the known ones first, in their order."""
        known = [code for code in self.languages if code in found]
        return [*known, *sorted(code for code in found if code not in self.languages)]


class _PairFiles(NamedTuple):
    language: Location
    hub: Location
    of_xtreme: bool


def _pair_files(location: Location, names: list[str], codes: _Codes) -> dict[str, _PairFiles]:
    """The two files of each language."""
    files: dict[str, _PairFiles] = {}
    for name in names:
        match = _PAIR.fullmatch(name.rpartition("/")[2])
        if not match or match["side"] not in (match["first"], match["second"]):
            continue
        code = codes.of(match["side"])
        other = match["second"] if match["side"] == match["first"] else match["first"]
        if code is None or codes.of(other) is None or (code == codes.hub) == (codes.of(other) == codes.hub):
            continue
        partner = name.removesuffix(match["side"]) + other
        if partner not in names:
            raise DataError(
                f"{location / name} has no {location / partner} beside it", "Give both sides of every pair."
            )
        if code == codes.hub:
            continue
        if code in files:
            problem = f"{files[code].language} and {location / name} are both sentences of language {code!r}"
            raise DataError(problem, "Give each language once: put one of the two into another folder.")
        of_xtreme = match["name"] is None and match["side"] == match["first"]
        files[code] = _PairFiles(location / name, location / partner, of_xtreme)
    return files


def _aligned(files: _PairFiles, code: str) -> ParallelSentences:
    """Line n translates line n; lines that are empty in both files are skipped."""
    left, right = ([line.strip() for line in _lines(file)] for file in files[:2])
    if len(left) != len(right):
        (count, shorter), (more, longer) = sorted([(len(left), files.language), (len(right), files.hub)])
        problem = f"{shorter}, line {count}: the last of {count} lines, but {longer} has {more}"
        raise DataError(problem, "Line n must translate line n: get both files again.")
    for number, (sentence, translation) in enumerate(zip(left, right, strict=True), start=1):
        if bool(sentence) != bool(translation):
            empty, full = (files.hub, files.language) if sentence else (files.language, files.hub)
            raise DataError(f"{empty}, line {number}: empty, but not in {full}", "Delete the line in both files.")
    sentences, translations = ([line for line in side if line] for side in (left, right))
    if not sentences:
        raise DataError(f"{files.language}, line 1: there are no sentences", "Give at least one.")
    if files.of_xtreme and _is_sorted(translations):
        raise DataError(
            f"{files.hub}, line 1: the sentences are in alphabetical order, as in XTREME's download: line n "
            f"does not translate line n of {files.language}",
            "Use LASER's files, from which XTREME takes them. If the lines are translations all the same, call the "
            f"files `sorted.{files.language.name}` and `sorted.{files.hub.name}`.",
        )
    return ParallelSentences(code, sentences, translations)


def _is_sorted(lines: list[str]) -> bool:
    return len(set(lines)) >= SORTED_LINES and all(a <= b for a, b in pairwise(lines))


def _tables(
    locations: list[Location], codes: _Codes, where: Mapping[str, tuple[float, float]]
) -> Iterator[ParallelSentences]:
    """The languages of all tables, which are read and checked first. Tables without the hub are skipped."""
    pairs_of: dict[str, list[tuple[str, str]]] = {}
    contents = {location: [line.split("\t") for line in _lines(location)] for location in locations}
    tables = {
        location: rows
        for location, rows in contents.items()
        if codes.hub in codes.of_columns([name.strip() for name in rows[0]])
    }
    if not tables:
        columns = ", ".join(contents[locations[0]][0][:MAX_COLUMNS])
        raise DataError(f"{locations[0]}, line 1: no column {codes.hub!r}", f"It has: {columns}. {LAYOUTS}")
    for location, rows in tables.items():
        for code, pairs in _table(location, rows, codes, where).items():
            pairs_of.setdefault(code, []).extend(pairs)
    if not pairs_of:
        rows_of = " in the rows that `where` asks for" if where else ""
        problem = f"{next(iter(tables))}, line 1: no sentence in {codes.hub!r} and another language{rows_of}"
        raise DataError(problem, "Name the columns by language codes, such as `de`.")
    return (ParallelSentences(code, *map(list, zip(*pairs_of[code], strict=True))) for code in codes.ordered(pairs_of))


def _table(
    location: Location, lines: list[list[str]], codes: _Codes, where: Mapping[str, tuple[float, float]]
) -> dict[str, list[tuple[str, str]]]:
    """The pairs of each language: rows where both cells are filled."""
    header = [name.strip() for name in lines[0]]
    for name in where:
        if name not in header:
            columns_there = ", ".join(header[:MAX_COLUMNS])
            raise DataError(f"{location}, line 1: no column {name!r}", f"`where` names it. It has: {columns_there}.")
    rows = []
    for number, cells in enumerate(lines[1:], start=2):
        if cells == [""]:
            continue
        if len(cells) != len(header):
            problem = f"{location}, line {number}: {len(cells)} columns instead of {len(header)}"
            raise DataError(problem, "Give every row the columns of the header, separated by tabs.")
        line = f"{location}, line {number}"
        if all(
            low <= checked_number(line, name, cells[header.index(name)], WHERE) <= high
            for name, (low, high) in where.items()
        ):
            rows.append([cell.strip() for cell in cells])
    columns: dict[str, int] = {}
    for column, code in enumerate(codes.of_columns(header)):
        if code is None or not any(_has_letters(row[column]) for row in rows):
            continue
        if code in columns:
            raise DataError(f"{location}, line 1: two columns of language {code!r}", "Give each language one column.")
        columns[code] = column
    hub = columns.pop(codes.hub, None)
    if hub is None:
        return {}
    pairs = {code: [(row[i], row[hub]) for row in rows if row[i] and row[hub]] for code, i in columns.items()}
    return {code: some for code, some in pairs.items() if some}


def _has_letters(text: str) -> bool:
    """Whether a text has letters: a column `id` may hold the numbers of rows, not Indonesian sentences."""
    return any(map(str.isalpha, text))


def _lines(location: Location) -> list[str]:
    """The lines of a file, in one normal form, without the ends that editors leave."""
    text = unicodedata.normalize("NFC", location.read_text().removeprefix("\ufeff").replace("\0", " "))
    return [line.strip("\r ") for line in text.removesuffix("\n").split("\n")]

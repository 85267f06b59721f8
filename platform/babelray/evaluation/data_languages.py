"""Which languages data sets have: from the names of files and columns, in any of the codes in use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from babelray.languages import LANGUAGES, describe_language
from babelray.storage import Location

MACROLANGUAGES = {"ara": "arb", "est": "ekk", "fas": "pes", "msa": "zsm", "swa": "swh", "zho": "cmn"}
"""ISO 639-3 codes of groups of languages, and the member that is meant; Tatoeba has `ara` and `est`."""


def names_of(code: str) -> list[str]:
    """The names that files and columns may give a language: `de`, `deu`, `deu_Latn`.

    >>> names_of("zh")
    ['zh', 'cmn', 'cmn_Hans', 'zho', 'zho_Hans']
    """
    if code not in LANGUAGES:
        return [code]
    language = LANGUAGES[code]
    codes = [language.iso639_3, *(macro for macro, own in MACROLANGUAGES.items() if own == language.iso639_3)]
    return [code, *(name for iso in codes for name in (iso, f"{iso}_{language.script}"))]


def further_languages(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Of some names, those that are codes of languages and written like the `known` ones, such as `yue` beside `deu`.

    Any three letters may be a code (`url`, `key`, `dev` are): beside `de` and `en` they are something else.

    >>> further_languages(["yue", "url", "xx", "is", "ace_Arab"], ["de", "en"])
    ['is', 'ace_Arab']
    """
    lengths = {len(name) for name in known}
    return [name for name in names if (not lengths or len(name) in lengths or "_" in name) and describe_language(name)]


class FileLanguages(NamedTuple):
    """The languages of the files of a pattern, and the files whose names are no language's."""

    codes: list[str]
    """The built-in ones first, in their order."""
    unread: list[str]


def languages_of_files(pattern: str) -> FileLanguages:
    """The languages that have a file, where `{lang}` in the pattern stands for any of their names."""
    spelled = {name: code for code in LANGUAGES for name in names_of(code)}
    uri = (
        re.escape(Location.parse(pattern.replace("{lang}", "LANG")).uri).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    )
    form = re.compile(uri.replace("LANG", "(?P<lang>[^/.]+)", 1).replace("LANG", "(?P=lang)"))
    matches = (form.fullmatch(file.uri) for file in Location.parse(pattern.replace("{lang}", "*")).glob())
    names = list(dict.fromkeys(match["lang"] for match in matches if match))
    known = [name for name in names if name in spelled]
    further = further_languages([name for name in names if name not in spelled], known)
    codes = {spelled[name] for name in known}
    unread = [pattern.replace("{lang}", name) for name in names if name not in spelled and name not in further]
    return FileLanguages([*(code for code in LANGUAGES if code in codes), *sorted(further)], sorted(unread))


def describe_unread(names: Iterable[str], kind: str = "") -> list[str]:
    """A sentence about files or columns that were not taken for data of a language; none if there are none."""
    some = list(names)
    more = f" and {len(some) - 5} more" if len(some) > 5 else ""
    return [f"not read, since their names are no language codes: {kind}{', '.join(some[:5])}{more}"] if some else []


def codes_of(languages: Mapping[str, str]) -> dict[str, str]:
    """The code that stands for each name of a language, from ISO 639-3 codes by the languages' own codes."""
    codes = {iso: code for code, iso in languages.items()}
    codes |= {macro: codes[own] for macro, own in MACROLANGUAGES.items() if own in codes}
    codes |= {f"{iso}_{LANGUAGES[code].script}": code for iso, code in codes.items() if code in LANGUAGES}
    return codes | {code: code for code in languages}

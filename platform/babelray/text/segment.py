"""Text into sentences, sentences into tokens.

ICU cuts every language; for some another segmenter cuts words better and is used when it is installed (the
`segmenters` extra). Whatever cuts them, tokens are pieces of the text in their order.
"""

from __future__ import annotations

import functools
import importlib.util
import unicodedata
from collections.abc import Callable, Iterator, Mapping

from babelray.errors import RecipeError
from babelray.languages import Language

PACKAGES = {"icu": "icu4py", "fugashi": "fugashi", "jieba": "jieba", "pythainlp": "pythainlp", "kiwipiepy": "kiwipiepy"}
"""Segmenters and the packages they come in."""


def resolve_segmenters(
    languages: Mapping[str, Language], chosen: Mapping[str, str], missing: str
) -> tuple[dict[str, str], list[str]]:
    """Which segmenter cuts which language, and what to tell the user about those that are not installed."""
    found: dict[str, str] = {}
    remarks: list[str] = []
    for code in chosen:
        if code not in languages:
            raise RecipeError(
                f"corpus.segmenters: {code!r} is not among the languages", "Remove it or add the language."
            )
    for code, language in languages.items():
        name = chosen.get(code, language.segmenter)
        if name not in PACKAGES:
            raise RecipeError(f"unknown segmenter {name!r} for language {code!r}", f"Known: {', '.join(PACKAGES)}.")
        if importlib.util.find_spec(PACKAGES[name]) is None:
            if missing == "error":
                remedy = "Install it: pip install 'babelray[segmenters]', or set corpus.missing_segmenter to icu."
                raise RecipeError(f"the segmenter {name!r} for language {code!r} is not installed", remedy)
            remarks.append(f"{code}: {name} is not installed, words are cut by ICU")
            name = "icu"
        found[code] = name
    return found, remarks


class Segmenter:
    """Sentences and tokens of one language.

    >>> Segmenter.of("zh").tokens("我喜欢喝茶。")
    ['我', '喜欢', '喝茶', '。']
    """

    def __init__(self, code: str, name: str) -> None:
        from icu4py.breakers import SentenceBreaker

        self._sentences = SentenceBreaker
        self.locale = code.split("_")[0]
        self.tokens: Callable[[str], list[str]] = _WORDS[name](self.locale)
        """The tokens of a sentence: words, numbers and marks, no space."""

    @classmethod
    @functools.cache
    def of(cls, code: str, name: str = "icu") -> Segmenter:
        """One for a process: some load a dictionary of many megabytes."""
        return cls(code, name)

    def sentences(self, paragraph: str) -> list[str]:
        """The sentences of a paragraph, without surrounding space."""
        return [s for piece in self._sentences(paragraph, self.locale) if (s := piece.strip())]


def _icu(locale: str) -> Callable[[str], list[str]]:
    from icu4py.breakers import WordBreaker

    return lambda text: [piece for piece in WordBreaker(text, locale) if not piece.isspace()]


def _fugashi(locale: str) -> Callable[[str], list[str]]:
    import fugashi

    tagger = fugashi.Tagger("-Owakati")
    return lambda text: [word.surface for word in tagger(text)]


def _jieba(locale: str) -> Callable[[str], list[str]]:
    import logging

    import jieba

    jieba.setLogLevel(logging.WARNING)
    return lambda text: [piece for piece in jieba.cut(text) if not piece.isspace()]


def _pythainlp(locale: str) -> Callable[[str], list[str]]:
    from pythainlp.tokenize import word_tokenize

    return lambda text: [piece for piece in word_tokenize(text, engine="newmm") if not piece.isspace()]


def _kiwipiepy(locale: str) -> Callable[[str], list[str]]:
    """Morphemes by the characters they stand for; those that share characters (contractions) are one token."""
    from kiwipiepy import Kiwi

    kiwi = Kiwi(num_workers=1)

    def tokens(text: str) -> list[str]:
        pieces: list[str] = []
        position = 0
        for morpheme in kiwi.tokenize(text):
            start, end = max(morpheme.start, position), morpheme.end
            if end > start:
                pieces.append(text[start:end])
                position = end
        return [piece for piece in pieces if not piece.isspace()]

    return tokens


_WORDS = {"icu": _icu, "fugashi": _fugashi, "jieba": _jieba, "pythainlp": _pythainlp, "kiwipiepy": _kiwipiepy}


def is_word(token: str) -> bool:
    """Whether a token has a letter or a digit in it, so that it is more than punctuation."""
    return any(unicodedata.category(character)[0] in "LN" for character in token)


def paragraphs(lines: Iterator[str], one_sentence_a_line: bool) -> Iterator[list[str]]:
    """Group lines into paragraphs.

    With a sentence a line a blank line ends a paragraph, which then comes as its sentences; otherwise every
    line is a paragraph, and comes as a list of one.
    """
    group: list[str] = []
    for line in lines:
        if not one_sentence_a_line:
            if line:
                yield [line]
        elif line:
            group.append(line)
        elif group:
            yield group
            group = []
    if group:
        yield group

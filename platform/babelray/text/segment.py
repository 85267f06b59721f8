"""Text into sentences, sentences into tokens, with ICU's rules and dictionaries for every language."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator

from babelray.languages import Language


class Segmenter:
    """Sentences and tokens of one language.

    >>> from babelray.languages import LANGUAGES
    >>> segmenter = Segmenter.of(LANGUAGES["zh"])
    >>> segmenter.tokens("我喜欢喝茶。")
    ['我', '喜欢', '喝茶', '。']
    """

    def __init__(self, language: Language) -> None:
        from icu4py.breakers import SentenceBreaker, WordBreaker

        self._sentences = SentenceBreaker
        self._words = WordBreaker
        self.locale = language.code

    @classmethod
    @functools.cache
    def of(cls, language: Language) -> Segmenter:
        return cls(language)

    def sentences(self, paragraph: str) -> list[str]:
        """The sentences of a paragraph, without surrounding space."""
        return [s for piece in self._sentences(paragraph, self.locale) if (s := str(piece).strip())]

    def tokens(self, sentence: str) -> list[str]:
        """The tokens of a sentence: words, numbers and marks, no space."""
        return [t for piece in self._words(sentence, self.locale) if (t := str(piece).strip())]


def is_word(token: str) -> bool:
    """Whether a token has a letter or a digit in it, so that it is more than punctuation."""
    return any(unicodedata.category(character)[0] in "LN" for character in token)


def paragraphs(lines: Iterator[str], one_sentence_a_line: bool) -> Iterator[list[str]]:
    """Group lines into paragraphs.

    With a sentence a line a blank line ends a paragraph, which then comes as its sentences; otherwise every
    line is a paragraph, and comes as a list of one.
    """
    group: list[str] = []
    for raw in lines:
        line = unicodedata.normalize("NFC", raw).strip()
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

"""Text into sentences, sentences into tokens.

ICU segments every language; for some languages another segmenter finds better words and is used if it is installed (the
`segmenters` extra). With every segmenter, tokens are pieces of the text in their order.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from babelray.errors import RecipeError
from babelray.languages import LANGUAGES, Language, resolve

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGES = {"icu": "icu4py", "fugashi": "fugashi", "jieba": "jieba", "pythainlp": "pythainlp", "kiwipiepy": "kiwipiepy"}
"""Segmenters and their packages."""


def resolve_segmenters(
    languages: Mapping[str, Language], overrides: Mapping[str, str], missing: str
) -> tuple[dict[str, str], list[str]]:
    """The segmenter of each language, and messages about those that are not installed."""
    names: dict[str, str] = {}
    remarks: list[str] = []
    for code in overrides:
        if code not in languages:
            raise RecipeError(
                f"corpus.segmenters: {code!r} is not among the languages", "Remove it or add the language."
            )
    for code, language in languages.items():
        name = overrides.get(code, language.segmenter)
        if name not in PACKAGES:
            raise RecipeError(f"unknown segmenter {name!r} for language {code!r}", f"Known: {', '.join(PACKAGES)}.")
        if importlib.util.find_spec(PACKAGES[name]) is None:
            if missing == "error":
                remedy = "Install it: pip install 'babelray[segmenters]', or set corpus.missing_segmenter to icu."
                raise RecipeError(f"the segmenter {name!r} for language {code!r} is not installed", remedy)
            remarks.append(f"{code}: {name} is not installed, ICU segments its words")
            name = "icu"
        names[code] = name
    return names, remarks


class Segmenter:
    """Splits text of one language into sentences and tokens.

    >>> Segmenter.for_language("zh").tokens("我喜欢喝茶。")
    ['我', '喜欢', '喝茶', '。']
    """

    def __init__(self, code: str, name: str) -> None:
        from icu4py.breakers import SentenceBreaker, WordBreaker

        self._sentences, self._words = SentenceBreaker, WordBreaker
        self.locale = code.split("_")[0]
        self._split_words = None if name == "icu" else _SPLITTERS[name]()

    @classmethod
    @functools.cache
    def for_language(cls, code: str, name: str = "icu") -> Segmenter:
        """The segmenter of a language, one per process: some load a dictionary of many megabytes."""
        return cls(code, name)

    def sentences(self, paragraph: str) -> list[str]:
        """The sentences of a paragraph, without surrounding space."""
        return [s for piece in self._sentences(paragraph, self.locale) if (s := piece.strip())]

    def tokens(self, sentence: str) -> list[str]:
        """The tokens of a sentence: words, numbers and punctuation, no space."""
        pieces = self._split_words(sentence) if self._split_words else self._words(sentence, self.locale)
        return [piece for piece in pieces if not piece.isspace()]

    def sentences_of_each(self, paragraphs: Sequence[str]) -> list[list[str]]:
        """The sentences of several paragraphs, none of which contains a line break.

        Setting ICU up costs as much as segmenting a short paragraph, and a line break always ends a sentence (rule SB4
        of Unicode's UAX 29): all are segmented at once.
        """
        sentences: list[list[str]] = [[]]
        for piece in self._sentences("\n".join(paragraphs), self.locale):
            if sentence := piece.strip():
                sentences[-1].append(sentence)
            if piece[-1] == "\n":
                sentences.append([])
        return sentences

    def pieces_of_all(self, sentences: Sequence[str]) -> pa.StringArray:
        r"""The tokens of several sentences, none of which contains a line break, with `\n` after each sentence.

        There may be pieces of other white space between tokens. A line break is always a piece of its own (rules WB3a
        and WB3b of UAX 29), so that segmenting all at once gives the same tokens as segmenting each alone.
        """
        import numpy as np
        import pyarrow as pa

        if self._split_words is not None:
            pieces: list[str] = []
            for sentence in sentences:
                pieces.extend(self._split_words(sentence))
                pieces.append("\n")
            return pa.array(pieces, pa.string())
        # ICU's pieces cover the text completely: their lengths are enough to split its bytes.
        text = "\n".join([*sentences, ""])
        ends = np.cumsum(np.fromiter(map(len, self._words(text, self.locale)), np.int32))
        data = text.encode()
        if len(data) > len(text):
            starts = np.flatnonzero((np.frombuffer(data, np.uint8) & 0xC0) != 0x80)
            ends = np.append(starts, len(data))[ends]
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))


def segmenter_of(code: str) -> Segmenter:
    """The best segmenter of a language that is installed; ICU's for one beyond the built-in ones."""
    is_another_name = code in {language.iso639_3 for language in LANGUAGES.values()}  # `deu`: an error that names `de`
    names, _ = resolve_segmenters(resolve([code], any_iso=not is_another_name), {}, missing="icu")
    return Segmenter.for_language(code, names[code])


def _fugashi() -> Callable[[str], Iterable[str]]:
    import fugashi

    tagger = fugashi.Tagger("-Owakati")
    return lambda text: [word.surface for word in tagger(text)]


def _jieba() -> Callable[[str], Iterable[str]]:
    import logging

    import jieba

    jieba.setLogLevel(logging.WARNING)
    return jieba.cut


def _pythainlp() -> Callable[[str], Iterable[str]]:
    from pythainlp.tokenize import word_tokenize

    return lambda text: word_tokenize(text, engine="newmm")


def _kiwipiepy() -> Callable[[str], Iterable[str]]:
    """Morphemes by the characters they cover; those that share characters (contractions) are one token."""
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
        return pieces

    return tokens


_SPLITTERS = {"fugashi": _fugashi, "jieba": _jieba, "pythainlp": _pythainlp, "kiwipiepy": _kiwipiepy}

"""Which words of a sentence translate which words of another."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from babelray.api.encoders import LAST, Encoder, as_encoder
from babelray.api.tables import Tabular
from babelray.errors import DataError
from babelray.pipeline.summary import Column, Table

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.evaluation.word_alignment import Level, Method
    from babelray.storage import AnyPath

    Sentence = str | Sequence[str]
    """A text, or its words."""

ICU = "und"
"""The code of no language in particular, for which ICU's general rules find words."""


@dataclass(frozen=True)
class WordLinks(Tabular):
    """The words of a sentence and of its translation, and which of them are linked."""

    source: list[str]
    """The words of the sentence."""
    target: list[str]
    """The words of its translation."""
    links: list[tuple[int, int]]
    """Positions of linked words, from 0, in the order of the sentence."""

    @property
    def words(self) -> list[tuple[str, str]]:
        """The linked words."""
        return [(self.source[i], self.target[j]) for i, j in self.links]

    def table(self) -> Table:
        partners = {i: [self.target[j] for own, j in self.links if own == i] for i in range(len(self.source))}
        rows = [(word, " ".join(partners[i]) or None) for i, word in enumerate(self.source)]
        return Table("Word alignment", [Column("source"), Column("target")], rows)

    def to_pharaoh(self) -> str:
        """The links in Pharaoh's format, as `0-0 1-2`."""
        return " ".join(f"{i}-{j}" for i, j in self.links)


@overload
def word_align(  # type: ignore[overload-overlap]  # a text is a sequence of texts too
    encoder: Encoder | AnyPath,
    source: str,
    target: str,
    method: Method = "itermax",
    *,
    level: Level = "subwords",
    languages: tuple[str, str] | None = None,
) -> WordLinks: ...
@overload
def word_align(
    encoder: Encoder | AnyPath,
    source: Sequence[Sentence],
    target: Sequence[Sentence],
    method: Method = "itermax",
    *,
    level: Level = "subwords",
    languages: tuple[str, str] | None = None,
) -> list[WordLinks]: ...
def word_align(
    encoder: Encoder | AnyPath,
    source: str | Sequence[Sentence],
    target: str | Sequence[Sentence],
    method: Method = "itermax",
    *,
    level: Level = "subwords",
    languages: tuple[str, str] | None = None,
) -> WordLinks | list[WordLinks]:
    """Link the words of sentences with those of their translations, as SimAlign does (Jalili Sabet et al., 2020).

    Args:
        encoder: An encoder, or its name or folder. Middle layers align best: `load_encoder(path, layer=8)`.
        source: A sentence, or a list of sentences; each is a text, or the list of its words.
        target: Its translation, or as many translations.
        method: `"argmax"` is the most precise, `"match"` links every word of the shorter sentence, `"itermax"` lies
            between.
        level: Whether vectors of words are compared, or those of subwords, which is better for rare words.
        languages: The languages of both sides, such as `("de", "en")`: they choose what splits texts into words, and
            an encoder that maps languages needs them. Without them, ICU's general rules split texts.

    Returns:
        The links of the sentence, or a list of them, one for each sentence.

    Warns:
        UserWarning: Some words are not read: they lie beyond the encoder's longest input, or have no subword.

    Examples:
        >>> import babelray as br
        >>> encoder = br.load_encoder("babelray-mini")
        >>> languages = ("en", "de")
        >>> result = br.word_align(
        ...     encoder, "A dog barks.", "Ein Hund bellt.", "match", level="words", languages=languages
        ... )
        >>> result.source, len(result.links)
        (['A', 'dog', 'barks', '.'], 4)
        >>> results = br.word_align(encoder, [["A", "dog"], ["Two", "cats"]], [["A", "dog"], ["Two", "cats"]])
        >>> [result.to_pharaoh() for result in results], results[1].words
        (['0-0 1-1', '0-0 1-1'], [('Two', 'Two'), ('cats', 'cats')])
    """
    from babelray.evaluation.word_alignment import Level, Method, align_pairs

    _check_choice("method", method, get_args(Method))
    _check_choice("level", level, get_args(Level))
    if languages is not None:
        _check_languages(languages)
    if isinstance(source, str) and isinstance(target, str):
        return word_align(encoder, [source], [target], method, level=level, languages=languages)[0]
    if isinstance(source, str) or isinstance(target, str) or len(source) != len(target):
        problem = "source and target are not as many sentences"
        raise DataError(problem, "Give two sentences, or two lists of sentences of the same length.")
    sides = [_words(side, languages and languages[i]) for i, side in enumerate((source, target))]
    reader = as_encoder(encoder).reader
    readers = (reader.for_language(*languages), reader.for_language(*languages[::-1])) if languages else (reader, None)
    pairs = list(zip(*sides, strict=True))
    alignments = align_pairs(readers[0], pairs, method, level, readers[1])
    if alignments.unread:
        reason = "the encoder's longest input ends before them, or its tokenizer has no subword for them"
        warnings.warn(f"{alignments.unread:,} words are not read: {reason}", stacklevel=2)
    return [WordLinks(own, other, links) for (own, other), links in zip(pairs, alignments.links, strict=True)]


@dataclass(frozen=True, repr=False)
class SoftLinks(Tabular):
    """How the weight of each word of a sentence is spread over the words of its translation."""

    source: list[str]
    """The words, or subwords, of the sentence."""
    target: list[str]
    """Those of its translation."""
    shares: Tensor
    """The share (S, T) of the weight of each source word that goes to each target word."""
    divergence: float
    """The Sinkhorn divergence of the two sentences: 0 if they are the same."""

    def table(self) -> Table:
        columns = [Column("source"), *(Column(word, "%") for word in self.target)]
        rows = [(word, *row) for word, row in zip(self.source, self.shares.tolist(), strict=True)]
        return Table("Soft word alignment", columns, rows, notes=[f"divergence {self.divergence:.4g}"])

    def __repr__(self) -> str:
        return f"SoftLinks({len(self.source)} and {len(self.target)} words, divergence {self.divergence:.4g})"


def soft_align(
    encoder: Encoder | AnyPath,
    source: str,
    target: str,
    *,
    languages: tuple[str, str],
    level: Level = "words",
    pooling: Literal["last", "mean"] = "last",
    blur: float = 0.05,
    p: Literal[1, 2] = 2,
) -> SoftLinks:
    """Align the words of a sentence with those of its translation by optimal transport, as the objective `transport`.

    Args:
        encoder: An encoder, or its name or folder; a loaded one is read at its own layer.
        source: A sentence.
        target: Its translation.
        languages: The languages of both, such as `("de", "en")`, which decide how texts are split into words.
        level: The units that are aligned.
        pooling: The vector of a word: that of its last subword, or the mean of all.
        blur: The finest scale of the transport, in the units of the vectors.
        p: The ground cost: 1 the distance, 2 half its square.

    Returns:
        The shares, as a table in a notebook.

    Examples:
        >>> import babelray as br
        >>> result = br.soft_align("babelray-mini", "A dog barks.", "A dog barks.", languages=("en", "en"))
        >>> result.shares.argmax(1).tolist(), round(abs(result.divergence), 3)
        ([0, 1, 2, 3], 0.0)
    """
    from babelray.evaluation.soft_alignment import soft_alignment
    from babelray.evaluation.word_alignment import Level

    _check_choice("level", level, get_args(Level))
    _check_choice("pooling", pooling, ("last", "mean"))
    _check_languages(languages)
    path, layer = (encoder.path, encoder.layer) if isinstance(encoder, Encoder) else (encoder, LAST)
    return SoftLinks(*soft_alignment(path, source, target, level, languages, layer, blur, p, pooling))


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DataError(f"there is no {name} {value!r}{hint}", f"Known: {', '.join(choices)}.")


def _check_languages(languages: Any) -> None:
    pair = isinstance(languages, Sequence) and not isinstance(languages, str) and len(languages) == 2
    if not pair or not all(isinstance(code, str) for code in languages):
        raise DataError(f"{languages!r} is not two languages", "Give two languages, such as ('de', 'en').")


def _words(sentences: Sequence[Sentence], language: str | None) -> list[list[str]]:
    from babelray.text.segment import Segmenter, segmenter_of

    segmenter = segmenter_of(language) if language else Segmenter.for_language(ICU)
    return [segmenter.tokens(text) if isinstance(text, str) else list(text) for text in sentences]

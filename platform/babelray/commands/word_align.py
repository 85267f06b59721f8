"""The command `word-align`: which words of a sentence translate which words of its translation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from babelray.commands.options import console, errors
from babelray.errors import DataError
from babelray.storage import Location
from babelray.storage.writable import check_new_file

if TYPE_CHECKING:
    from babelray.lexicon.statistical_alignment import Links

UNKNOWN = "und"
"""The code of no language in particular, for which ICU's general rules find words."""
UNSPACED, LONG = 0.5, 20
"""A file is not split into words if more than this share of its lines, each of so many characters, has no space."""


def word_align(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A sentence; or a file, one sentence per line.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Its translation; or a file, line by line.")],
    model: Annotated[
        str, typer.Option(metavar="DIR", help="An encoder: a folder, a name, or babelray-mini.")
    ] = "babelray-mini",
    source_language: Annotated[
        str, typer.Option("--from", metavar="LANG", help="The language of the source, such as de.")
    ] = UNKNOWN,
    target_language: Annotated[
        str, typer.Option("--to", metavar="LANG", help="The language of the target, such as en.")
    ] = UNKNOWN,
    method: Annotated[
        Literal["argmax", "itermax", "match"],
        typer.Option(help="argmax is the most precise, match links most words, itermax lies between."),
    ] = "itermax",
    level: Annotated[Literal["words", "subwords"], typer.Option(help="The units that are compared.")] = "subwords",
    layer: Annotated[
        int | None, typer.Option(help="The layer that is read. [default: 7, or the last of an encoder with fewer]")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write the links of two files here.")] = None,
) -> None:
    """Link the words of sentences and their translations (SimAlign); no training.

    `babelray word-align "Ein Hund bellt." "A dog barks." --from de --to en`

    Of two sentences it prints the links; of two files, whose words are separated by spaces, a line of links in
    Pharaoh's format, such as `0-0 1-2`, for each line.
    """
    from babelray.evaluation.benchmark import open_encoder
    from babelray.evaluation.word_alignment import align_pairs, write_pharaoh
    from babelray.text.segment import Segmenter, segmenter_of

    of_files = _are_files(source, target)
    if out is not None:
        if not of_files:
            raise DataError("--out is for the links of two files", "Give two files, or no --out: links are printed.")
        check_new_file(out)
    if of_files:
        sides = [_read_words(path) for path in (source, target)]
        _check_lengths(source, target, *map(len, sides))
    else:
        codes = list(zip((source, target), (source_language, target_language), strict=True))
        segmenters = (Segmenter.for_language(code) if code == UNKNOWN else segmenter_of(code) for _, code in codes)
        sides = [[segmenter.tokens(text)] for segmenter, (text, _) in zip(segmenters, codes, strict=True)]
        if not all(words for (words,) in sides):
            raise DataError("one of the two sentences has no word", "Give a sentence and its translation.")
    encoder = open_encoder(model, layer, None)
    languages = source_language, target_language
    readers = encoder.for_language(*languages), encoder.for_language(*languages[::-1])
    alignments = align_pairs(readers[0], list(zip(*sides, strict=True)), method, level, readers[1])
    if not of_files:
        _print_links(sides[0][0], sides[1][0], alignments.links[0])
    elif out:
        write_pharaoh(Location.parse(out), alignments.links)
        errors.print(f"{len(alignments.links):,} lines → {out}", highlight=False, soft_wrap=True)
    else:
        for links in alignments.links:
            typer.echo(format_links(links))
    if alignments.unread:
        count = sum(len(words) for side in sides for words in side)
        problem = "the encoder's longest input ends before them, or its tokenizer has no subword for them"
        errors.print(f"[yellow]warning:[/] {alignments.unread:,} of {count:,} words are not read: {problem}")


def format_links(links: Links) -> str:
    """Links in Pharaoh's format.

    >>> format_links([(0, 0), (1, 2)])
    '0-0 1-2'
    """
    return " ".join(f"{i}-{j}" for i, j in links)


def _are_files(source: str, target: str) -> bool:
    """Whether both are files; an error if only one is."""
    first, second = (_may_be_a_path(text) and Location.parse(text).is_file() for text in (source, target))
    if not first and not second and _looks_like_a_path(source) and _looks_like_a_path(target):
        raise DataError(f"neither {source} nor {target} exists", "Give two sentences, or two files that exist.")
    if first == second:
        return first
    for text, other, is_file in ((source, target, first), (target, source, second)):
        if is_file:
            raise DataError(f"{text} is a file, {other!r} is not", "Give two sentences, or two files that exist.")
    return False


def _may_be_a_path(text: str) -> bool:
    return bool(text) and "\n" not in text and len(text.encode()) < 1000


def _looks_like_a_path(text: str) -> bool:
    """Whether a text is one word with a path separator, or with an ending such as `.txt` or `.de`.

    >>> [_looks_like_a_path(text) for text in ("a.txt", "data/train", "corpus.de-en.de", "Hund.", "a b.txt", "3.14")]
    [True, True, True, False, False, False]
    """
    return re.fullmatch(r"\S*/\S*|\S*\w\.[A-Za-z][A-Za-z0-9]{0,5}", text) is not None


def _read_words(path: str) -> list[list[str]]:
    """The words of each line; an error if they do not seem to be separated by spaces."""
    lines = Location.parse(path).read_text().removeprefix("\ufeff").splitlines()
    unspaced = sum(len(line) >= LONG and len(line.split()) == 1 for line in lines)
    if unspaced > UNSPACED * len(lines):
        raise DataError(
            f"{path}: {unspaced:,} of {len(lines):,} lines have no space",
            "Links are between words: separate them by spaces, as a segmenter of the language does.",
        )
    return [line.split() for line in lines]


def _check_lengths(source: str, target: str, first: int, second: int) -> None:
    if first != second:
        problem = f"{source} has {first:,} lines, {target} has {second:,}"
        raise DataError(problem, "Line n of the one must be the translation of line n of the other.")


def _print_links(source: list[str], target: list[str], links: Links) -> None:
    """The words of a sentence with those that they are linked with, and the links in Pharaoh's format."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for i, word in enumerate(source):
        linked = [target[j] for own, j in links if own == i]
        table.add_row(Text(word), Text("–" if not linked else " ".join(linked)))
    console.print(table)
    console.print(format_links(links), style="dim", highlight=False)

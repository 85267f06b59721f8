"""The command groups `vectors` and `transport`: looking into artifacts and encoders."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from babelray.commands.options import console
from babelray.errors import BabelrayError

vectors = typer.Typer(help="Inspect static vectors, and export them for other programs.", no_args_is_help=True)
transport = typer.Typer(help="Inspect the transport from a sentence to its translation.", no_args_is_help=True)

ArtifactPath = Annotated[
    str,
    typer.Argument(
        metavar="ARTIFACT",
        help="An artifact of extract or align (runs/align/FINGERPRINT), or the folder of `align --source`.",
    ),
]


@vectors.command()
def neighbours(
    place: Annotated[
        str,
        typer.Argument(
            metavar="VECTORS",
            help="An artifact of extract or align, the folder of `align --source`, a folder of files, or one file.",
        ),
    ],
    words: Annotated[
        list[str],
        typer.Argument(metavar="[LANG] WORD", help="The language and a word of it; of one file the word alone."),
    ],
    to: Annotated[
        str | None, typer.Option(metavar="LANG|FILE", help="Find neighbours in another language; of one file, a file.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many to print.")] = 10,
) -> None:
    """Print the nearest neighbours of a word, in its own language or in another.

    `babelray vectors neighbours runs/align/FINGERPRINT de Hund --to en`

    `babelray vectors neighbours mapped source Hund --to target`

    `babelray vectors neighbours de.vec Hund`
    """
    from babelray.commands.vectors import show_neighbours

    if len(words) > 2:
        raise BabelrayError("neighbours needs a language and one word, or one word", "Quote a word that has spaces.")
    language, word = ("", words[0]) if len(words) == 1 else words
    show_neighbours(place, language, word, count, console, to)


@vectors.command()
def export(
    artifact: ArtifactPath,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder to write to; a local path or an s3:// URI.")],
    languages: Annotated[
        str, typer.Option(metavar="CODES", help="Only these, such as en,de; of two files source or target.")
    ] = "",
    ending: Annotated[Literal["vec", "vec.gz", "bin"], typer.Option("--format", help="The word2vec format.")] = "vec",
) -> None:
    """Write one file of vectors per language, as fastText, gensim and others read them."""
    from babelray.commands.vectors import export

    export(artifact, out, [code.strip() for code in languages.split(",") if code.strip()], ending, console)


@transport.command("show")
def show_transport(
    encoder: Annotated[
        str, typer.Argument(metavar="ENCODER", help="A Hugging Face name, or a folder made by save_pretrained.")
    ],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="A sentence.")],
    translation: Annotated[str, typer.Argument(metavar="TRANSLATION", help="Its translation.")],
    source: Annotated[str, typer.Option("--from", metavar="LANG", help="The language of the sentence, such as de.")],
    target: Annotated[str, typer.Option("--to", metavar="LANG", help="The language of the translation.")] = "en",
    level: Annotated[Literal["words", "subwords"], typer.Option(help="The units to align.")] = "words",
    pooling: Annotated[
        Literal["last", "mean"], typer.Option(help="The vector of a word: of its last subword, or the mean of all.")
    ] = "last",
    layer: Annotated[int, typer.Option(help="0 is the embedding layer; negative numbers count from the last.")] = -1,
    blur: Annotated[float, typer.Option(help="Finest scale of the transport, in the units of the vectors.")] = 0.05,
    p: Annotated[int, typer.Option("-p", min=1, max=2, help="Ground cost: 1 the distance, 2 half its square.")] = 2,
) -> None:
    """Print which words of a translation an encoder aligns with those of a sentence, in percent.

    `babelray transport show babelray-mini "Der Hund schläft im Garten." "The dog sleeps in the garden." --from de`
    """
    from babelray.evaluation.soft_alignment import show, soft_alignment

    show(soft_alignment(encoder, sentence, translation, level, (source, target), layer, blur, p, pooling), console)

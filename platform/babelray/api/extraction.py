"""Static word vectors from an encoder and sentences in memory."""

from __future__ import annotations

import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from babelray.api.components import configure_component
from babelray.api.encoders import Encoder, as_encoder
from babelray.api.progress import report_progress
from babelray.errors import DataError, RecipeError

if TYPE_CHECKING:
    from babelray.extraction.method import EncoderMethod, ExtractionMethod
    from babelray.extraction.occurrences import Sentence
    from babelray.storage import AnyPath
    from babelray.vectors.word_vectors import WordVectors

OF_RECIPES = ("also_layers", "workers", "zero_stage", "precision")
"""Settings of runs on several workers, which have no meaning here."""


def extract(
    encoder: Encoder | AnyPath,
    sentences: Iterable[str],
    language: str,
    method: str | ExtractionMethod = "x2static",
    *,
    seed: int = 1,
    progress: bool = True,
    **settings: Any,
) -> WordVectors:
    """Make static word vectors of a language from an encoder, in this process. Recipes do it on many workers.

    Args:
        encoder: An encoder, or its name or folder.
        sentences: The text. The encoder reads one item at a time, so that an item may also be a paragraph.
        language: The code of the language, such as `"de"`, which decides how text is split into words.
        method: `"x2static"`, `"aggregate"` or `"isolated"` (`babelray components` lists them), or the method's config.
        seed: The same seed gives the same result.
        progress: Whether progress is shown, on the standard error stream.
        **settings: Settings of the method, by the names that recipes use: `min_count=5`. The default of `layer` is
            here the layer of the encoder.

    Returns:
        The vectors of all lower-cased words of the text, the most frequent first, with their counts.

    Warns:
        UserWarning: Sentences were longer than the encoder allows, or occurrences of words were left out.

    Examples:
        The first lines of the shipped starter corpus:

        >>> import babelray as br
        >>> from babelray.storage import Location
        >>> sentences = Location.parse("starter:text/de.txt").read_text().splitlines()[:50]
        >>> vectors = br.extract("babelray-mini", sentences, "de", method="aggregate", progress=False)
        >>> vectors.words[:3], vectors.dimension
        (['und', 'der', 'die'], 256)
    """
    from babelray.encoder.layers import LayerReader
    from babelray.encoder.load import load_encoder, load_tokenizer, resolve_layer
    from babelray.extraction.in_memory import extract_words
    from babelray.extraction.language import LanguageExtraction
    from babelray.stages.extract import remarks

    encoder = as_encoder(encoder)
    config = _configure(method, encoder.layer, settings)
    tokenized = _tokenize(sentences, language)
    vocabulary = _vocabulary(tokenized, config.min_count)
    model, tokenizer = load_encoder(encoder.path, str(encoder.reader.device)), load_tokenizer(encoder.path, masks=False)
    layer = resolve_layer(config.layer, model.config.num_hidden_layers)
    extraction = LanguageExtraction(config, LayerReader(model, [layer]), tokenizer, vocabulary, layer, seed)
    with report_progress(f"extract {language}", progress) as notify:

        def show(unit: str, total: int, done: int) -> None:
            notify(f"{done:,}/{total:,} {unit}" if total else f"{done:,} {unit}")

        vectors, counts = extract_words(extraction, tokenized, show)
    for remark in remarks({language: counts}):
        warnings.warn(f"{language}: {remark}", stacklevel=2)
    return vectors


def _configure(method: str | ExtractionMethod, layer: int, settings: dict[str, Any]) -> EncoderMethod:
    from babelray.extraction.method import EXTRACTION_METHODS, EncoderMethod

    if useless := [name for name in OF_RECIPES if name in settings]:
        raise RecipeError(f"{useless[0]} is for runs on several workers", "Leave it out, or use a recipe.")
    if isinstance(method, str) and issubclass(EXTRACTION_METHODS.get(method, EncoderMethod), EncoderMethod):
        settings = {"layer": layer, **settings}
    config = configure_component(EXTRACTION_METHODS, method, settings)
    if not isinstance(config, EncoderMethod):
        raise RecipeError(f"the method {config.method} needs no encoder", "Use load_vectors to read vectors.")
    return config


def _tokenize(sentences: Iterable[str], language: str) -> list[Sentence]:
    from babelray.extraction.occurrences import Sentence
    from babelray.text.segment import segmenter_of

    if isinstance(sentences, str):
        raise DataError("one text is not a list of sentences", "Give a list of sentences.")
    segmenter = segmenter_of(language)
    texts = (" ".join(unicodedata.normalize("NFC", text).split()) for text in sentences)
    return [Sentence(text, segmenter.tokens(text)) for text in texts if text]


def _vocabulary(sentences: list[Sentence], min_count: int) -> dict[str, int]:
    """The words of the text with their counts, as the corpus stage chooses them."""
    import pyarrow as pa

    from babelray.storage.tables import count_table
    from babelray.text.build import select_vocabulary

    tokens = Counter(token for sentence in sentences for token in sentence.tokens)
    counts = count_table(pa.array([*tokens], pa.string()), pa.array([*tokens.values()], pa.int64()))
    words = dict(select_vocabulary(counts, min_count))
    if not words:
        raise DataError(f"no word occurs {min_count} times in the text", "Give more sentences, or lower min_count.")
    return words

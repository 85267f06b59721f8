"""Raw text of one language into clean sentences with their tokens, and a vocabulary with counts.

Cleaning as in Hämmerl et al. (2022), appendix C: sentences of at least `min_tokens` tokens, only from
paragraphs of at least `min_sentences` sentences, exact duplicates once. Sentences that evaluation holds out
are dropped too, so that nothing that is tested was ever trained on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from babelray.errors import DataError
from babelray.text.segment import Segmenter, is_word, paragraphs

if TYPE_CHECKING:
    import pyarrow as pa

    from babelray.languages import Language
    from babelray.storage import Place
    from babelray.text.config import CorpusConfig


def source_files(pattern: str, code: str) -> list[Place]:
    """The files of a language; at least one, or an error that says what was looked for."""
    from babelray.storage import Place

    place = Place.parse(pattern.replace("{lang}", code))
    found = place.glob()
    if not found:
        raise DataError(f"no file for language {code!r} at {place}", "Check the path in the recipe's `corpus`.")
    return found


def read_lines(files: Iterable[Place]) -> Iterator[str]:
    """The lines of several files, with a blank line after each so that no paragraph crosses two files."""
    for file in files:
        yield from file.read_text().splitlines()
        yield ""


def clean(
    lines: Iterator[str], language: Language, config: CorpusConfig, held_out: frozenset[str]
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """The sentences to keep, as rows, and how many were read, kept and dropped by reason."""
    segmenter = Segmenter.of(language)
    statistics: Counter[str] = Counter(read=0, kept=0)
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    for number, group in enumerate(paragraphs(lines, config.format == "sentences")):
        sentences = group if config.format == "sentences" else segmenter.sentences(group[0])
        statistics["read"] += len(sentences)
        if len(sentences) < config.min_sentences:
            statistics["dropped: short paragraph"] += len(sentences)
            continue
        for position, text in enumerate(sentences):
            tokens = segmenter.tokens(text)
            if text in held_out:
                statistics["dropped: held out"] += 1
            elif len(tokens) < config.min_tokens:
                statistics["dropped: short sentence"] += 1
            elif text in seen:
                statistics["dropped: duplicate"] += 1
            else:
                seen.add(text)
                statistics["kept"] += 1
                statistics["tokens"] += len(tokens)
                rows.append({"paragraph": number, "sentence": position, "text": text, "tokens": tokens})
    return rows, statistics


def count_words(rows: Iterable[dict[str, Any]], config: CorpusConfig) -> list[tuple[str, int]]:
    """The vocabulary: lower-cased words by falling count, then by code point."""
    counts = Counter(token.lower() for row in rows for token in row["tokens"] if is_word(token))
    frequent = [(word, count) for word, count in counts.items() if count >= config.min_count]
    return sorted(frequent, key=lambda item: (-item[1], item[0]))[: config.max_words]


def build_language(
    language: Language, files: list[Place], out: Place, config: CorpusConfig, held_out: frozenset[str]
) -> dict[str, int]:
    """Read, clean and write one language; the vocabulary, written last, marks it complete."""
    rows, statistics = clean(read_lines(files), language, config, held_out)
    if not rows:
        counted = ", ".join(f"{name} {count}" for name, count in statistics.items())
        raise DataError(
            f"nothing is left of the text of {language.code!r} ({counted})", "Check `corpus` in the recipe."
        )
    vocabulary = count_words(rows, config)
    statistics["types"] = len(vocabulary)
    write_table(out / "sentences" / f"{language.code}.parquet", rows, SENTENCES)
    write_table(
        out / "vocabulary" / f"{language.code}.parquet",
        [{"word": word, "count": count} for word, count in vocabulary],
        {"word": "string", "count": "int64"},
    )
    return dict(statistics)


SENTENCES = {"paragraph": "int64", "sentence": "int32", "text": "string", "tokens": "list<string>"}


def write_table(place: Place, rows: list[dict[str, Any]], columns: dict[str, str]) -> None:
    """Write rows as parquet, atomically."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"string": pa.string(), "int32": pa.int32(), "int64": pa.int64(), "list<string>": pa.list_(pa.string())}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), buffer, compression="zstd")
    place.write_bytes(buffer.getvalue())


def read_table(place: Place) -> pa.Table:
    """A parquet file of an artifact."""
    import io

    import pyarrow.parquet as pq

    return pq.read_table(io.BytesIO(place.read_bytes()))


def read_sentences(corpus: Place, code: str) -> pa.Table:
    """Sentences of a language: paragraph, sentence, text, tokens."""
    return read_table(corpus / "sentences" / f"{code}.parquet")


def read_vocabulary(corpus: Place, code: str) -> dict[str, int]:
    """Words of a language with their counts, the most frequent first."""
    table = read_table(corpus / "vocabulary" / f"{code}.parquet")
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))

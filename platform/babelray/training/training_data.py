"""Training data: the corpus and the aligned vectors, read from the artifacts of earlier stages when first used."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from babelray.encoder.load import load_masked_lm, load_tokenizer
from babelray.errors import DataError
from babelray.lexicon.pairs import read_induced, read_pairs
from babelray.lexicon.statistical_alignment import align_words, links_file, read_links, write_links
from babelray.lexicon.synonyms import names_by_concept, synonym_pairs
from babelray.storage import Location
from babelray.text.corpus import iter_sentences, read_vocabulary
from babelray.text.segment import Segmenter
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Pairs = tuple[list[str], list[str]]
Alignments = list[tuple[str, str, list[tuple[int, int]]]]
Value = TypeVar("Value")


def is_held_out_text(text: str, share: float) -> bool:
    """Whether a sentence is held out from training: a function of its text, the same in every run."""
    return zlib.crc32(text.encode()) < share * 2**32


class Texts(Sequence[str]):
    """Strings in Arrow's memory, a fraction of a list's."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, location: int) -> str: ...
    @overload
    def __getitem__(self, location: slice) -> Texts: ...
    def __getitem__(self, location: int | slice) -> str | Texts:
        return Texts(self._values[location]) if isinstance(location, slice) else self._values[location].as_py()


@dataclass
class ArtifactTrainingData:
    """`TrainingData` from the corpus and the aligned vectors."""

    encoder: str
    corpus: Location
    aligned: Location | None
    languages: list[str]
    hub: str
    seed: int
    segmenters: dict[str, str]
    """The word segmenter of each language."""
    held_out: float = 0.0
    """Share of the sentences and sentence pairs that are held out from training."""
    alignments: Location | None = None
    """The folder of the word alignments that were learned for this training."""
    work: Location | None = None
    """The folder of what was prepared for this training, and is deleted after it."""
    _cache: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False)
    """Data in memory, shared by the objectives that use them."""

    def prepared(self, name: str) -> Location:
        if self.work is None:
            raise DataError("an objective needs data that tasks prepare", "The stages that train prepare them.")
        return self.work / name

    @cached_property
    def max_tokens(self) -> int:
        return min(self.tokenizer.model_max_length, 512)

    @cached_property
    def width(self) -> int:
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(self.encoder, trust_remote_code=False).hidden_size

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        tokenizer = load_tokenizer(self.encoder)
        tokenizer.padding_side = "right"  # grouping by length relies on it
        return tokenizer

    def words_of(self, code: str, text: str) -> list[str]:
        return Segmenter.for_language(code, self.segmenters[code]).tokens(text)

    def sentences(self, code: str) -> Texts:
        return self._cached("sentences", code, self._sentences)[0]

    def held_out_sentences(self, code: str) -> Texts:
        return self._cached("sentences", code, self._sentences)[1]

    def _cached(self, kind: str, code: str, read: Callable[[str], Value]) -> Value:
        if (kind, code) not in self._cache:
            self._cache[kind, code] = read(code)
        return self._cache[kind, code]

    def _sentences(self, code: str) -> tuple[Texts, Texts]:
        """Training and held-out sentences. Sentences of held-out pairs are held out too."""
        import pyarrow as pa

        in_pairs = set(self.held_out_parallel(code)[0]) if self.held_out and code != self.hub else set()
        chunks: tuple[list[pa.Array], list[pa.Array]] = ([], [])
        for batch in iter_sentences(self.corpus, code):
            texts = batch["text"].cast(pa.large_string())
            if not self.held_out:
                chunks[0].append(texts)
                continue
            marks = [is_held_out_text(text, self.held_out) or text in in_pairs for text in texts.to_pylist()]
            held_out = pa.array(marks)
            chunks[0].append(texts.filter(pa.compute.invert(held_out)))
            chunks[1].append(texts.filter(held_out))
        empty = pa.array([], pa.large_string())
        train, validation = (Texts(pa.concat_arrays([empty, *arrays])) for arrays in chunks)
        return train, validation

    def parallel(self, code: str) -> Pairs:
        return self._cached("parallel", code, self._parallel)[0]

    def held_out_parallel(self, code: str) -> Pairs:
        """Held-out sentence pairs; none if there is no parallel text."""
        if not (self.corpus / "parallel" / f"{code}-{self.hub}").exists():
            return [], []
        return self._cached("parallel", code, self._parallel)[1]

    def _parallel(self, code: str) -> tuple[Pairs, Pairs]:
        """Training and held-out sentence pairs."""
        splits: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
        for pair in self._pairs("parallel", code):
            splits[is_held_out_text(pair[1], self.held_out)].append(pair)
        return _unzip(splits[0]), _unzip(splits[1])

    def dictionary(self, code: str) -> Pairs:
        return _unzip(self._pairs("dictionary", code))

    def _pairs(self, kind: str, code: str) -> list[tuple[str, str]]:
        location = self.corpus / kind / f"{code}-{self.hub}"
        if not location.exists():
            noun = {"parallel": "parallel text", "dictionary": "a dictionary"}[kind]
            raise DataError(f"an objective needs {noun}", f"Give it in the recipe under `corpus.{kind}`.")
        return [(pair.source, pair.target) for pair in read_pairs(location, "train")]

    def learn_word_alignments(self, code: str) -> None:
        location = self._links(code)
        if location.exists():
            return
        sources, targets = self.parallel(code)
        links = align_words(
            [self.words_of(code, text) for text in sources], [self.words_of(self.hub, text) for text in targets]
        )
        write_links(location, list(zip(sources, targets, links, strict=True)))

    def word_alignments(self, code: str, path: str | None) -> Alignments:
        if path is not None:
            return read_links(links_file(path, code, self.hub))
        return read_links(self._links(code))

    def _links(self, code: str) -> Location:
        if self.alignments is None:
            raise DataError("word-l2 needs word alignments", "They are learned by the pretrain stage.")
        return self.alignments / f"{code}-{self.hub}.tsv"

    def induced_dictionary(self, code: str) -> Pairs:
        return _unzip(read_induced(self._aligned() / "dictionary" / f"{code}-{self.hub}.tsv"))

    def synonyms(self, code: str, path: str) -> Pairs:
        files = [Location.parse(path.replace("{lang}", language)) for language in (code, self.hub)]
        return _unzip(synonym_pairs(*map(names_by_concept, files))) if files[0].is_file() else ([], [])

    def vectors(self, code: str) -> tuple[list[str], Tensor]:
        vectors = WordVectors.load(self._aligned() / "vectors" / code)
        return vectors.words, vectors.matrix

    def vocabulary(self, code: str, count: int) -> list[str]:
        """The most frequent words of a language."""
        return list(read_vocabulary(self.corpus, code))[:count]

    def _aligned(self) -> Location:
        if self.aligned is None:
            raise DataError("an objective needs aligned vectors", "They come from the align stage, before pretrain.")
        return self.aligned

    def initial_encoder(self) -> PreTrainedModel:
        return _frozen(self.encoder)


@cache
def _frozen(encoder: str) -> PreTrainedModel:
    """The encoder, shared by all objectives that compare with it."""
    return load_masked_lm(encoder).base_model.eval().requires_grad_(False)


def _unzip(pairs: Iterable[tuple[str, str]]) -> Pairs:
    rows = list(pairs)
    return [source for source, _ in rows], [target for _, target in rows]

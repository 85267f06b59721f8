"""What training draws from, read from the artifacts of earlier stages when first asked for."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from babelray.encoder.load import load_masked_lm, load_tokenizer
from babelray.errors import DataError
from babelray.lexicon.pairs import read_induced, read_pairs
from babelray.lexicon.synonyms import names_by_concept, synonym_pairs
from babelray.lexicon.word_alignment import links_file, read_links
from babelray.storage import Place
from babelray.text.corpus import iter_sentences, read_vocabulary
from babelray.text.segment import Segmenter
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Pairs = tuple[list[str], list[str]]
Links = list[tuple[str, str, list[tuple[int, int]]]]
Read = TypeVar("Read")


def is_kept_back(text: str, share: float) -> bool:
    """Whether a sentence is kept from training, to measure with: by its own letters, the same in every run."""
    return zlib.crc32(text.encode()) < share * 2**32


class Texts(Sequence[str]):
    """Strings in Arrow's memory, which takes a fraction of a list's."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Texts: ...
    def __getitem__(self, place: int | slice) -> str | Texts:
        return Texts(self._values[place]) if isinstance(place, slice) else self._values[place].as_py()


@dataclass
class ArtifactMaterials:
    """Materials for the objectives, from the corpus and the aligned vectors."""

    encoder: str
    corpus: Place
    aligned: Place | None
    languages: list[str]
    hub: str
    seed: int
    segmenters: dict[str, str]
    """What cuts the text of each language into words."""
    held_out: float = 0.0
    """Share of the sentences and sentence pairs that training does not see."""
    alignments: Place | None = None
    """Where the word alignments lie that were learned for this training."""
    _known: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False)
    """What was read: objectives that draw from the same text share it."""

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
        tokenizer.padding_side = "right"  # what groups texts by length counts on it
        return tokenizer

    def words_of(self, code: str, text: str) -> list[str]:
        return Segmenter.of(code, self.segmenters[code]).tokens(text)

    def sentences(self, code: str) -> Texts:
        return self._once("sentences", code, self._sentences)[0]

    def held_out_sentences(self, code: str) -> Texts:
        return self._once("sentences", code, self._sentences)[1]

    def _once(self, what: str, code: str, read: Callable[[str], Read]) -> Read:
        if (what, code) not in self._known:
            self._known[what, code] = read(code)
        return self._known[what, code]

    def _sentences(self, code: str) -> tuple[Texts, Texts]:
        """Those to train on, and those to measure with."""
        import pyarrow as pa

        also = set(self.held_out_parallel(code)[0]) if self.held_out and code != self.hub else set()
        chunks: tuple[list[pa.Array], list[pa.Array]] = ([], [])
        for batch in iter_sentences(self.corpus, code):
            texts = batch["text"].cast(pa.large_string())
            if not self.held_out:
                chunks[0].append(texts)
                continue
            kept_back = pa.array([is_kept_back(text, self.held_out) or text in also for text in texts.to_pylist()])
            chunks[0].append(texts.filter(pa.compute.invert(kept_back)))
            chunks[1].append(texts.filter(kept_back))
        empty = pa.array([], pa.large_string())
        train, held_out = (Texts(pa.concat_arrays([empty, *arrays])) for arrays in chunks)
        return train, held_out

    def parallel(self, code: str) -> Pairs:
        return self._once("parallel", code, self._parallel)[0]

    def held_out_parallel(self, code: str) -> Pairs:
        """Sentence pairs to measure with; none if there is no parallel text."""
        if not (self.corpus / "parallel" / f"{code}-{self.hub}").exists():
            return [], []
        return self._once("parallel", code, self._parallel)[1]

    def _parallel(self, code: str) -> tuple[Pairs, Pairs]:
        """Pairs to train on, and those to measure with."""
        chosen: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
        for pair in self._pairs("parallel", code):
            chosen[is_kept_back(pair[1], self.held_out)].append(pair)
        return _unzip(chosen[0]), _unzip(chosen[1])

    def dictionary(self, code: str) -> Pairs:
        return _unzip(self._pairs("dictionary", code))

    def _pairs(self, kind: str, code: str) -> list[tuple[str, str]]:
        place = self.corpus / kind / f"{code}-{self.hub}"
        if not place.exists():
            named = {"parallel": "parallel text", "dictionary": "a dictionary"}[kind]
            raise DataError(f"an objective needs {named}", f"Name it in the recipe under `corpus.{kind}`.")
        return [(pair.source, pair.target) for pair in read_pairs(place, "train")]

    def linked(self, code: str, path: str | None) -> Links:
        if path is not None:
            return read_links(links_file(path, code, self.hub))
        if self.alignments is None:
            raise DataError("word-l2 needs word alignments", "They are learned by the pretrain stage.")
        return read_links(self.alignments / f"{code}-{self.hub}.tsv")

    def induced(self, code: str) -> Pairs:
        return _unzip(read_induced(self._aligned() / "dictionary" / f"{code}-{self.hub}.tsv"))

    def synonyms(self, code: str, path: str) -> Pairs:
        files = [Place.parse(path.replace("{lang}", language)) for language in (code, self.hub)]
        return _unzip(synonym_pairs(*map(names_by_concept, files))) if files[0].is_file() else ([], [])

    def vectors(self, code: str) -> tuple[list[str], Tensor]:
        vectors = WordVectors.load(self._aligned() / "vectors" / code)
        return vectors.words, vectors.matrix

    def vocabulary(self, code: str, count: int) -> list[str]:
        """The most frequent words of a language."""
        return list(read_vocabulary(self.corpus, code))[:count]

    def _aligned(self) -> Place:
        if self.aligned is None:
            raise DataError("an objective needs aligned vectors", "They come from the align stage, before pretrain.")
        return self.aligned

    def initial_encoder(self) -> PreTrainedModel:
        return _frozen(self.encoder)


@cache
def _frozen(encoder: str) -> PreTrainedModel:
    """One copy, however many objectives compare with it."""
    return load_masked_lm(encoder).base_model.eval().requires_grad_(False)


def _unzip(pairs: Iterable[tuple[str, str]]) -> Pairs:
    listed = list(pairs)
    return [source for source, _ in listed], [target for _, target in listed]

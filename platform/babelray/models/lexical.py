"""An encoder of words: mixed vectors for words in the vocabulary, the encoder's own for all other words and phrases.

The expose stage writes such a folder: `encoder/`, which AutoModel loads, and `vectors/<language>/`, in which static
vectors and the encoder's are mixed (Vulić et al., 2023, equation 1). Both are in the space of the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from babelray.encoder.load import locate_encoder
from babelray.encoder.text_encoder import Pooling, TextEncoder
from babelray.errors import DataError
from babelray.storage import AnyPath, Location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from babelray.vectors.word_vectors import WordVectors


ROTATION = "rotation.safetensors"
"""The rotation of static vectors into the space of the encoder."""


def is_lexical(path: AnyPath) -> bool:
    """Whether a folder holds a lexical encoder."""
    return (Location.parse(locate_encoder(path)) / ROTATION).exists()


@dataclass(frozen=True)
class LexicalEncoder:
    """Vectors of length 1 for words of several languages.

    >>> encoder = LexicalEncoder.from_pretrained("runs/expose/FINGERPRINT/de-en")  # doctest: +SKIP
    >>> encoder.words(["Hund", "Dackelwelpe"], "de").shape                         # doctest: +SKIP
    torch.Size([2, 768])
    """

    encoder: TextEncoder
    vectors: Mapping[str, WordVectors]
    """By language."""

    @classmethod
    def from_pretrained(cls, path: AnyPath, batch_tokens: int = 8192, device: str = "cpu") -> LexicalEncoder:
        """The folder of one tuned encoder that the expose stage wrote, local or on S3."""
        from babelray.vectors.word_vectors import WordVectors

        location = Location.parse(path)
        codes = sorted({name.split("/")[1] for name in location.files() if name.startswith("vectors/")})
        if not codes or not (location / "encoder" / "config.json").exists():
            raise DataError(f"{path} holds no lexical encoder", "Give the folder of one encoder that expose wrote.")
        with (location / "encoder").local_input() as folder:
            encoder = TextEncoder.from_pretrained(str(folder), batch_tokens=batch_tokens, device=device)
        return cls(encoder, {code: WordVectors.load(location / "vectors" / code) for code in codes})

    def words(self, words: Sequence[str], language: str) -> Tensor:
        """The vectors (N, D) of words or phrases of a language."""
        import torch
        from torch.nn import functional

        if language not in self.vectors:
            raise DataError(f"there are no vectors of {language!r}", f"Languages: {', '.join(self.vectors)}.")
        vectors = self.vectors[language]
        inside = [i for i, word in enumerate(words) if word in vectors.position]
        outside = [i for i, word in enumerate(words) if word not in vectors.position]
        words_ND = torch.empty(len(words), vectors.dimension)
        if inside:
            words_ND[inside] = vectors.matrix[[vectors.position[words[i]] for i in inside]]
        if outside:
            words_ND[outside] = self.encoder.encode([words[i] for i in outside], "all")
        return functional.normalize(words_ND)


class LexicalReader(TextEncoder):
    """A lexical encoder as benchmarks use it: each text is a word or phrase of a language, which must be given.

    >>> reader = LexicalReader(LexicalEncoder.from_pretrained("runs/expose/FINGERPRINT/de-en"))  # doctest: +SKIP
    >>> reader.for_language("de", "en").encode(["Hund", "Dackelwelpe"]).shape                    # doctest: +SKIP
    torch.Size([2, 768])
    """

    def __init__(self, lexical: LexicalEncoder, language: str | None = None) -> None:
        plain = lexical.encoder
        super().__init__(plain.read, plain.device, plain.tokenizer, plain.longest, plain.batch_tokens)
        self._lexical, self._language = lexical, language
        self._readers: dict[str, LexicalReader] = {}

    def for_language(self, language: str, paired_with: str) -> LexicalReader:
        return self._readers.setdefault(language, LexicalReader(self._lexical, language))

    def encode(self, texts: Sequence[str], pooling: Pooling = "all") -> Tensor:
        """Mixed vectors, or means over all subwords, regardless of the pooling: both must be in one space."""
        if self._language is None:
            raise DataError("a lexical encoder needs a language", "Use reader.for_language(language, hub).")
        return self._lexical.words(texts, self._language)

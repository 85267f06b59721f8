"""An encoder of words: mixed vectors where there are some, and what the encoder makes of any other word or phrase.

The expose stage leaves such a folder: `encoder/`, which AutoModel loads, and `vectors/<language>/`, in which static
vectors and the encoder's are mixed (Vulić et al., 2023, equation 1). Both lie in one space, the encoder's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from babelray.encoder.load import located
from babelray.encoder.text_encoder import Pooling, TextEncoder
from babelray.errors import DataError
from babelray.storage import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from babelray.vectors.word_vectors import WordVectors


TURN = "turn.safetensors"
"""What brought static vectors into the encoder's space."""


def is_lexical(path: str) -> bool:
    """Whether a folder holds a lexical encoder."""
    return (Place.parse(located(path)) / TURN).exists()


@dataclass(frozen=True)
class LexicalEncoder:
    """Vectors of length 1 for words of several languages.

    >>> encoder = LexicalEncoder.open("runs/expose/FINGERPRINT/de-en")           # doctest: +SKIP
    >>> encoder.words(["Hund", "Dackelwelpe"], "de").shape                       # doctest: +SKIP
    torch.Size([2, 768])
    """

    encoder: TextEncoder
    known: Mapping[str, WordVectors]

    @classmethod
    def open(cls, path: str, batch_tokens: int = 8192, device: str = "cpu") -> LexicalEncoder:
        """The folder of one tuned encoder that the expose stage left, local or on S3."""
        from babelray.vectors.word_vectors import WordVectors

        place = Place.parse(path)
        codes = sorted({name.split("/")[1] for name in place.files() if name.startswith("vectors/")})
        if not codes or not (place / "encoder" / "config.json").exists():
            raise DataError(f"{path} holds no lexical encoder", "Give the folder of one encoder that expose left.")
        with (place / "encoder").local_input() as folder:
            encoder = TextEncoder.open(str(folder), batch_tokens=batch_tokens, device=device)
        return cls(encoder, {code: WordVectors.load(place / "vectors" / code) for code in codes})

    def words(self, words: Sequence[str], language: str) -> Tensor:
        """The vectors (N, D) of words or phrases of a language."""
        import torch
        from torch.nn import functional

        if language not in self.known:
            raise DataError(f"there are no vectors of {language!r}", f"Languages: {', '.join(self.known)}.")
        vectors = self.known[language]
        unknown = [i for i, word in enumerate(words) if word not in vectors.position]
        found_ND = torch.empty(len(words), vectors.dimension)
        there = [i for i, word in enumerate(words) if word in vectors.position]
        if there:
            found_ND[there] = vectors.matrix[[vectors.position[words[i]] for i in there]]
        if unknown:
            found_ND[unknown] = self.encoder.sentences([words[i] for i in unknown], "all")
        return functional.normalize(found_ND)


class LexicalReader(TextEncoder):
    """A lexical encoder as evaluation tasks ask it: a whole text is a word or phrase of a language, which must be said.

    >>> reader = LexicalReader(LexicalEncoder.open("runs/expose/FINGERPRINT/de-en"))          # doctest: +SKIP
    >>> reader.speaking("de", "en").sentences(["Hund", "Dackelwelpe"]).shape                  # doctest: +SKIP
    torch.Size([2, 768])
    """

    def __init__(self, lexical: LexicalEncoder, language: str | None = None) -> None:
        plain = lexical.encoder
        super().__init__(plain.read, plain.device, plain.tokenizer, plain.longest, plain.batch_tokens)
        self._lexical, self._language = lexical, language
        self._speaking: dict[str, LexicalReader] = {}

    def speaking(self, language: str, beside: str) -> LexicalReader:
        return self._speaking.setdefault(language, LexicalReader(self._lexical, language))

    def sentences(self, texts: Sequence[str], pooling: Pooling = "all") -> Tensor:
        """Mixed vectors, or means over all subwords, whatever the pooling: both must lie in one space."""
        if self._language is None:
            raise DataError("a lexical encoder must be told the language", "Use reader.speaking(language, beside).")
        return self._lexical.words(texts, self._language)

"""Encoders: vectors of sentences and of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from babelray.storage import AnyPath

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.text_encoder import TextEncoder

LAST = -1


@dataclass(frozen=True, repr=False)
class Encoder:
    """An encoder at one of its layers. `load_encoder` makes one.

    Examples:
        >>> import babelray as br
        >>> encoder = br.load_encoder("babelray-mini")
        >>> encoder.encode(["A dog barks.", "Ein Hund bellt."]).shape
        torch.Size([2, 256])
    """

    path: str
    """The name or folder that it was loaded from."""
    layer: int
    """The layer that is read; 0 is the embedding layer, negative numbers count from the last."""
    reader: TextEncoder
    """What runs the encoder, in batches of texts of similar length."""

    def encode(
        self,
        sentences: str | Sequence[str],
        language: str | None = None,
        pooling: Literal["mean", "first", "last", "all"] = "mean",
        paired_with: str | None = None,
    ) -> Tensor:
        """Encode sentences.

        Args:
            sentences: One sentence, or several.
            language: The language of the sentences. Only an encoder that maps languages, or mixes in their word
                vectors, needs it.
            pooling: The vector of a sentence: the mean over its subwords without special ones, the vector of its first
                token (`[CLS]` or `<s>`) or of its last subword, or the mean over all tokens, special ones included, as
                in sentence-transformers.
            paired_with: The language that the vectors are compared with, by default the hub; for encoders that map
                the hub differently for each language.

        Returns:
            A vector (D) for one sentence, a matrix (N, D) for several.

        Examples:
            >>> import babelray as br
            >>> encoder = br.load_encoder("babelray-mini")
            >>> vectors = encoder.encode(["A dog barks.", "Ein Hund bellt.", "The train is late."])
            >>> vectors.shape
            torch.Size([3, 256])
            >>> vector = encoder.encode("A dog barks.")
            >>> bool(vector.allclose(vectors[0], atol=1e-4))
            True
        """
        reader = self._reader_of(language, paired_with)
        if isinstance(sentences, str):
            return reader.encode([sentences], pooling)[0]
        if not len(sentences):
            return reader.encode([""], pooling)[:0]
        return reader.encode(sentences, pooling)

    def encode_words(
        self, words: str | Sequence[str], language: str | None = None, paired_with: str | None = None
    ) -> Tensor:
        """Encode words, each as if it were a sentence: the mean over all its tokens (Vulić et al., 2022).

        Args:
            words: One word or phrase, or several.
            language: The language of the words; see `encode`.
            paired_with: The language that the vectors are compared with; see `encode`.

        Returns:
            A vector (D) for one word, a matrix (N, D) for several.

        Examples:
            >>> import babelray as br
            >>> encoder = br.load_encoder("babelray-mini")
            >>> encoder.encode_words(["dog", "cat", "water"], language="en").shape
            torch.Size([3, 256])
        """
        return self.encode(words, language, "all", paired_with)

    def _reader_of(self, language: str | None, paired_with: str | None) -> TextEncoder:
        if language is None:
            return self.reader
        hub: str = getattr(self.reader, "hub", language)
        return self.reader.for_language(language, paired_with or hub)

    def __repr__(self) -> str:
        return f"Encoder({self.path!r}, layer={self.layer})"


def load_encoder(path: AnyPath, layer: int = LAST, *, batch_tokens: int = 8192, device: str = "cpu") -> Encoder:
    """Load an encoder. Weights are read from safetensors; nothing is unpickled, and no code beside them runs.

    Args:
        path: `"babelray-mini"`, which is shipped; a name on the Hugging Face hub, such as `"xlm-roberta-base"`; a
            folder that `save_pretrained` or a run wrote; or `"models:/name@alias"`, a model in MLflow's registry.
        layer: The layer whose vectors are read, by default the last; 0 is the embedding layer, and negative numbers
            count from the last. The layers above it do not run. A mapped encoder has its own layer.
        batch_tokens: Subwords per batch, padding included.
        device: The device that it runs on: `"cpu"`, `"cuda"`, `"cuda:1"`.

    Returns:
        The encoder.

    Examples:
        >>> import babelray as br
        >>> br.load_encoder("babelray-mini")
        Encoder('babelray-mini', layer=-1)
    """
    from babelray.evaluation.benchmark import open_encoder

    return Encoder(str(path), layer, open_encoder(path, layer, batch_tokens, device))


def as_encoder(encoder: Encoder | AnyPath) -> Encoder:
    """An encoder, or the one in a folder or of a name."""
    return encoder if isinstance(encoder, Encoder) else load_encoder(encoder)

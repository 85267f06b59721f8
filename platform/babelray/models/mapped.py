"""An encoder whose languages are mapped: the vectors of a text at one layer, in the space that the language shares
with the hub.

Its folder holds `mapped.json`, with the layer that is mapped and the hub, and for each other language
`mappings/<language>/own`, its own mapping, and `mappings/<language>/hub`, the hub's for pairs with it; the latter is
missing where the hub stays as it is. The hub may be mapped differently for each language: pairs are mapped
independently (Zhao and Eger, "Constrained Density Matching and Modeling", section 4.1), and some methods change both
sides.
`encoder/` lies in the folder, or next to it, where several mapped encoders share it.

A word is mapped once it is pooled, as it was when mappings were fitted; a sentence is the mean of its mapped subwords.

Shapes: N words or subwords, B batch, T subwords, D width, E width of the shared space.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from babelray.encoder.load import load_encoder, load_tokenizer, locate_encoder
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.storage import AnyPath, Location

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.fitted import Mapping as Fitted

DESCRIPTION = "mapped.json"


class Sides(NamedTuple):
    """The mapping of a language, and the hub's for pairs with it; None where the hub stays as it is."""

    own: Fitted
    hub: Fitted | None = None

    def save(self, location: Location) -> None:
        self.own.save(location / "own")
        if self.hub is not None:
            self.hub.save(location / "hub")

    @classmethod
    def load(cls, location: Location) -> Sides:
        from babelray.mapping.fitted import load_mapping

        return cls(
            load_mapping(location / "own"), load_mapping(location / "hub") if (location / "hub").exists() else None
        )


class MappedEncoder(TextEncoder):
    """An encoder with a mapping for each language. It needs the language of each text:

    >>> encoder = MappedEncoder.from_pretrained("runs/map/FINGERPRINT/real-nvp")                       # doctest: +SKIP
    >>> encoder.for_language("de", "en").encode(["Ein Hund bellt."]).shape                   # doctest: +SKIP
    torch.Size([1, 768])
    >>> encoder.for_language("en", "de").encode(["A dog barks."])                            # doctest: +SKIP
    """

    def __init__(self, plain: TextEncoder, mappings: Mapping[str, Sides], hub: str) -> None:
        """`plain` reads the layer that the mappings were fitted on."""
        super().__init__(_no_language, plain.device, plain.tokenizer, plain.longest, plain.batch_tokens)
        self.plain = plain
        self.mappings = mappings
        self.hub = hub
        self._encoders = {
            (code, other): plain if mapping is None else _ForLanguage(plain, mapping)
            for language, sides in mappings.items()
            for code, other, mapping in ((language, "", sides.own), (hub, language, sides.hub))
        }
        self._encoders[hub, hub] = plain

    @classmethod
    def from_pretrained(
        cls, path: AnyPath, layer: int = -1, batch_tokens: int = 8192, device: str = "cpu"
    ) -> MappedEncoder:
        """The mapped encoder in a folder, local or on S3; its layer is stored with it, and `layer` ignored."""
        location = Location.parse(path)
        if not is_mapped(path):
            raise DataError(f"{path} holds no mapped encoder", "Give the folder of one method in an artifact of `map`.")
        description = (location / DESCRIPTION).read_json()
        with encoder_of(location).local_input() as folder:
            model, tokenizer = load_encoder(str(folder), device), load_tokenizer(str(folder), masks=False)
        codes = sorted({name.split("/")[1] for name in location.files() if name.startswith("mappings/")})
        mappings = {code: Sides.load(location / "mappings" / code) for code in codes}
        return cls(
            TextEncoder.from_model(model, tokenizer, description["layer"], batch_tokens), mappings, description["hub"]
        )

    def for_language(self, language: str, paired_with: str) -> TextEncoder:
        """The encoder for texts of a language that are compared with texts of another."""
        key = (language, paired_with if language == self.hub else "")
        if key not in self._encoders:
            raise DataError(
                f"this encoder has no mapping for {language!r} paired with {paired_with!r}",
                f"It maps {', '.join(self.mappings)} to {self.hub}: ask for these only.",
            )
        return self._encoders[key]


class _ForLanguage(TextEncoder):
    """An encoder of one language, whose vectors are mapped."""

    def __init__(self, plain: TextEncoder, mapping: Fitted) -> None:
        def read(ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
            hidden_BTD = plain.read(ids_BT, mask_BT)
            return mapping.transform(hidden_BTD.float().flatten(0, 1)).unflatten(0, hidden_BTD.shape[:2])

        super().__init__(read, plain.device, plain.tokenizer, plain.longest, plain.batch_tokens)
        self._plain, self._mapping = plain, mapping

    def words(
        self, texts: Sequence[str], tokens: Sequence[Sequence[str]], pooling: Literal["mean", "last"] = "mean"
    ) -> list[tuple[list[int], Tensor]]:
        words = self._plain.words(texts, tokens, pooling)
        vectors_ND = torch.cat([vectors_WD for _, vectors_WD in words])
        if not len(vectors_ND):
            return words
        mapped_NE = self._mapping.transform(vectors_ND)
        blocks = mapped_NE.split([len(positions) for positions, _ in words])
        return [(positions, vectors_WE) for (positions, _), vectors_WE in zip(words, blocks, strict=True)]


def _no_language(*texts: Any) -> Tensor:
    raise DataError("a mapped encoder needs the language of a text", "Use encoder.for_language(language, paired_with).")


def is_mapped(path: AnyPath) -> bool:
    """Whether a folder holds a mapped encoder."""
    return (Location.parse(locate_encoder(path)) / DESCRIPTION).exists()


def encoder_of(location: Location) -> Location:
    """The encoder of a mapped encoder's folder: in it, or next to it."""
    return next(
        (p / "encoder" for p in (location, location.parent) if (p / "encoder" / "config.json").exists()), location
    )


def describe(location: Location, layer: int, hub: str) -> None:
    """Write the description that completes a folder of mappings."""
    (location / DESCRIPTION).write_json({"layer": layer, "hub": hub})


def save_mapped(location: Location, encoder: Location, layer: int, hub: str, mappings: Mapping[str, Sides]) -> None:
    """Write a folder that is complete by itself: the encoder is copied into it."""
    copy_encoder(encoder, location)
    for code, sides in mappings.items():
        sides.save(location / "mappings" / code)
    describe(location, layer, hub)


def copy_encoder(encoder: Location, location: Location) -> None:
    """Copy an encoder's folder into another."""
    with encoder.local_input() as source, (location / "encoder").local_output() as target:
        shutil.copytree(source, target, dirs_exist_ok=True)

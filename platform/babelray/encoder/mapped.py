"""An encoder whose languages are mapped: what it makes of a text at one layer, in the space that the language shares
with the hub.

A folder of it holds `mapped.json`, with the layer that is mapped and the hub, and for each other language
`mappings/<language>/own`, its own mapping, and `mappings/<language>/hub`, the hub's beside it; the latter is not there
where the hub stays as it is. The hub may be mapped in another way beside each language: pairs are mapped independently
(Zhao and Eger, "Constrained Density Matching and Modeling", section 4.1), and some methods change both sides.
`encoder/` lies in the folder, or next to it, where several mapped encoders share it.

A word is mapped once it is pooled, as it was when mappings were fitted; a sentence is the mean of its mapped subwords.

Shapes: N words or subwords, B batch, T subwords, D width, E width of the shared space.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from babelray.encoder.load import load_encoder, load_tokenizer, located
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.storage import Place

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.fitted import Mapping as Fitted

ABOUT = "mapped.json"


class Sides(NamedTuple):
    """The mapping of a language, and the hub's beside it; None where the hub stays as it is."""

    own: Fitted
    hub: Fitted | None = None

    def save(self, place: Place) -> None:
        self.own.save(place / "own")
        if self.hub is not None:
            self.hub.save(place / "hub")

    @classmethod
    def load(cls, place: Place) -> Sides:
        from babelray.mapping.fitted import load_mapping

        return cls(load_mapping(place / "own"), load_mapping(place / "hub") if (place / "hub").exists() else None)


class MappedEncoder(TextEncoder):
    """An encoder with a mapping for each language. Which language a text is in must be said:

    >>> encoder = MappedEncoder.open("runs/map/FINGERPRINT/real-nvp")                       # doctest: +SKIP
    >>> encoder.speaking("de", "en").sentences(["Ein Hund bellt."]).shape                   # doctest: +SKIP
    torch.Size([1, 768])
    >>> encoder.speaking("en", "de").sentences(["A dog barks."])                            # doctest: +SKIP
    """

    def __init__(self, plain: TextEncoder, mappings: Mapping[str, Sides], hub: str) -> None:
        """`plain` reads the layer that the mappings were fitted on."""
        super().__init__(_no_language, plain.device, plain.tokenizer, plain.longest, plain.batch_tokens)
        self.plain = plain
        self.mappings = mappings
        self.hub = hub
        self._speaking = {
            (code, other): plain if mapping is None else _Speaking(plain, mapping)
            for beside, sides in mappings.items()
            for code, other, mapping in ((beside, "", sides.own), (hub, beside, sides.hub))
        }
        self._speaking[hub, hub] = plain

    @classmethod
    def open(cls, path: str, layer: int = -1, batch_tokens: int = 8192, device: str = "cpu") -> MappedEncoder:
        """The mapped encoder in a folder, local or on S3; it knows its layer, whatever `layer` says."""
        place = Place.parse(path)
        if not is_mapped(path):
            raise DataError(f"{path} holds no mapped encoder", "Give the folder of one method that `map` left.")
        about = (place / ABOUT).read_json()
        with encoder_of(place).local_input() as folder:
            model, tokenizer = load_encoder(str(folder), device), load_tokenizer(str(folder), masks=False)
        codes = sorted({name.split("/")[1] for name in place.files() if name.startswith("mappings/")})
        mappings = {code: Sides.load(place / "mappings" / code) for code in codes}
        return cls(TextEncoder.of(model, tokenizer, about["layer"], batch_tokens), mappings, about["hub"])

    def speaking(self, language: str, beside: str) -> TextEncoder:
        """The encoder for texts of a language that are compared with texts of another."""
        key = (language, beside if language == self.hub else "")
        if key not in self._speaking:
            raise DataError(
                f"this encoder has no mapping for {language!r} beside {beside!r}",
                f"It maps {', '.join(self.mappings)} to {self.hub}: ask for these only.",
            )
        return self._speaking[key]


class _Speaking(TextEncoder):
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
        found = self._plain.words(texts, tokens, pooling)
        vectors_ND = torch.cat([vectors_WD for _, vectors_WD in found])
        if not len(vectors_ND):
            return found
        mapped_NE = self._mapping.transform(vectors_ND)
        there = mapped_NE.split([len(places) for places, _ in found])
        return [(places, vectors_WE) for (places, _), vectors_WE in zip(found, there, strict=True)]


def _no_language(*texts: Any) -> Tensor:
    raise DataError("a mapped encoder must be told the language", "Use encoder.speaking(language, beside).")


def is_mapped(path: str) -> bool:
    """Whether a folder holds a mapped encoder."""
    return (Place.parse(located(path)) / ABOUT).exists()


def encoder_of(place: Place) -> Place:
    """The encoder of a mapped encoder's folder: in it, or next to it."""
    return next((p / "encoder" for p in (place, place.parent) if (p / "encoder" / "config.json").exists()), place)


def describe(place: Place, layer: int, hub: str) -> None:
    """Mark a folder of mappings as complete."""
    (place / ABOUT).write_json({"layer": layer, "hub": hub})


def save_mapped(place: Place, encoder: Place, layer: int, hub: str, mappings: Mapping[str, Sides]) -> None:
    """A folder that stands for itself: the encoder is copied into it."""
    copy_encoder(encoder, place)
    for code, sides in mappings.items():
        sides.save(place / "mappings" / code)
    describe(place, layer, hub)


def copy_encoder(encoder: Place, place: Place) -> None:
    """Copy an encoder's folder into another."""
    with encoder.local_input() as source, (place / "encoder").local_output() as target:
        shutil.copytree(source, target, dirs_exist_ok=True)

"""Zero-shot transfer: a multilingual encoder that is fine-tuned in the hub and reads the other languages as it is."""

from __future__ import annotations

from typing import ClassVar, Literal

from babelray.stitching.method import STITCHING_METHODS, FineTunedMethod, Start


@STITCHING_METHODS.register
class ZeroShot(FineTunedMethod):
    """A multilingual encoder, without stitching."""

    swaps: ClassVar[bool] = False

    method: Literal["zero-shot"] = "zero-shot"
    encoder: str | None = None
    """Another encoder, a name or a folder; the run's own by default."""

    def start(self) -> Start:
        return super().start()._replace(encoder=self.encoder)

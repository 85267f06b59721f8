"""Vector space normalisation: every language with mean 0 and variance 1 in each dimension (Zhao et al., 2021).

    x ↦ (x − μ_X) / σ_X

Where the vectors of one encoder differ by language only in location and spread, no more is needed (Libovický et al.,
2020, only centre). It needs no translations. A dimension without variance becomes 0.

Shapes: N and M words, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from babelray.errors import DataError
from babelray.mapping.method import MAPPING_METHODS, MappingMethod, Notify

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.fitted import Mapping
    from babelray.mapping.linear import Dictionary, LinearMapping


@MAPPING_METHODS.register
class NormalisationConfig(MappingMethod):
    """Mean 0 and variance 1 in each language, whatever `normalise` says (Zhao et al., 2021)."""

    method: Literal["normalisation"] = "normalisation"

    @property
    def unsupervised(self) -> bool:
        return True

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[LinearMapping, LinearMapping]:
        return normalisation(source_ND, target_MD)

    def fit_to_hub(self, source_ND: Tensor, hub_MD: Tensor, dictionary: Dictionary | None, seed: int) -> Mapping:
        """The language with the spread of the hub."""
        import torch

        from babelray.mapping.linear import check_pairs, unit_centred

        check_pairs(source_ND, hub_MD, dictionary, self.same_width)
        source, _ = normalisation(source_ND, hub_MD)
        return source.then(torch.diag(unit_centred(hub_MD)[0].std(0, correction=0)))


def standardisation(vectors_ND: Tensor) -> LinearMapping:
    """The mapping of one language."""
    import torch

    from babelray.mapping.linear import LinearMapping

    deviation_D, mean_D = torch.std_mean(vectors_ND, 0, correction=0)
    if not deviation_D.any():
        raise DataError("all vectors of a language are the same", "Make the vectors again.")
    inverse_D = torch.where(deviation_D > 0, 1 / deviation_D, 0)
    return LinearMapping(mean_D, torch.diag(inverse_D), unit=False)


def normalisation(source_ND: Tensor, target_MD: Tensor) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, each independent of the other."""
    return standardisation(source_ND), standardisation(target_MD)

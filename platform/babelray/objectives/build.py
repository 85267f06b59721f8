"""From an objective's config to the objective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from babelray.objectives.contrastive import Contrastive
from babelray.objectives.distillation import Distillation
from babelray.objectives.mlm import Mlm
from babelray.objectives.static_dcca import StaticDcca
from babelray.objectives.static_mse import StaticMse
from babelray.objectives.tlm import Tlm
from babelray.objectives.transport import Transport
from babelray.objectives.word_l2 import WordL2

if TYPE_CHECKING:
    from babelray.objectives.objective import Materials, Objective

OBJECTIVES: dict[str, Any] = {
    "contrastive": Contrastive,
    "distillation": Distillation,
    "mlm": Mlm,
    "static-dcca": StaticDcca,
    "static-mse": StaticMse,
    "tlm": Tlm,
    "transport": Transport,
    "word-l2": WordL2,
}


def build_objective(config: Any, materials: Materials) -> Objective:
    return OBJECTIVES[config.kind](config, materials)

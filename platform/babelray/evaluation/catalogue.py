"""All evaluation tasks, by the names that a recipe and the command line call them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from babelray.evaluation.lexical_tasks import ContextualBli, EntityLinking
from babelray.evaluation.task import EvaluationTask, TaskName
from babelray.evaluation.tasks import Geometry, MtQuality, Tatoeba, WordAlignment
from babelray.evaluation.transfer_tasks import Classification, QuestionAnswering, Tagging

AnyTask = Annotated[
    Classification
    | ContextualBli
    | EntityLinking
    | Geometry
    | MtQuality
    | QuestionAnswering
    | Tagging
    | Tatoeba
    | WordAlignment,
    Field(discriminator="task"),
]

TASKS: dict[TaskName, type[EvaluationTask]] = {
    "classification": Classification,
    "contextual-bli": ContextualBli,
    "entity-linking": EntityLinking,
    "geometry": Geometry,
    "mt-quality": MtQuality,
    "question-answering": QuestionAnswering,
    "tagging": Tagging,
    "tatoeba": Tatoeba,
    "word-alignment": WordAlignment,
}

"""Objectives are found by their kind, and one class adds a new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import yaml
from pydantic import ValidationError

from babelray.errors import RecipeError
from babelray.objectives.mlm import Mlm
from babelray.objectives.objective import OBJECTIVES, Need, ObjectiveConfig, TrainingData
from babelray.recipe.load import load_recipe
from babelray.training.config import TrainingConfig
from babelray.training.engine import import_deepspeed
from support.process_group import free_port, run, start_group

pytestmark = pytest.mark.integration  # a process group and DeepSpeed

KINDS = ["contrastive", "distillation", "mlm", "static-dcca", "static-mse", "tlm", "transport", "word-l2"]


class ToyConfig(ObjectiveConfig):
    """Every second subword is predicted."""

    title: ClassVar[str] = "Toy"
    needs: ClassVar[tuple[Need, ...]] = ("text",)

    kind: Literal["toy"] = "toy"
    batch_size: int = 4
    mask: float = 0.5
    whole_words: bool = False

    def build(self, training_data: TrainingData) -> Mlm:
        return Mlm(self, training_data)  # type: ignore[arg-type]


@pytest.fixture
def toy() -> Iterator[None]:
    OBJECTIVES.register(ToyConfig)
    yield
    OBJECTIVES.remove("toy")


@pytest.fixture
def process_group() -> Iterator[None]:
    before = dict(os.environ)
    start_group(0, 1, free_port())
    yield
    import_deepspeed().comm.destroy_process_group()
    os.environ.clear()
    os.environ.update(before)


def test_all_objectives_are_registered_and_described() -> None:
    assert list(OBJECTIVES) == KINDS
    for config in OBJECTIVES.values():
        assert config.title and config.needs
        assert config.description().endswith(".") and config.description().count(". ") == 0
        assert {*config().required_data()} <= {*config.needs}


def test_needed_data_depend_on_the_settings() -> None:
    required = {
        ("contrastive", "pairs", "words"): ("dictionary",),
        ("contrastive", "pairs", "induced"): ("induced",),
        ("contrastive", "pairs", "sentences"): ("parallel",),
        ("distillation", "texts", "words"): ("dictionary",),
        ("distillation", "texts", "sentences"): ("text", "parallel"),
        ("word-l2", "alignments", "{lang}.tsv"): (),
        ("word-l2", "alignments", None): ("parallel", "alignments"),
    }
    for (kind, key, value), needs in required.items():
        assert OBJECTIVES[kind](**{key: value}).required_data() == needs


def test_a_kind_by_name_alone_and_a_wrong_one() -> None:
    assert TrainingConfig(objectives=["mlm"]) == TrainingConfig(objectives=[{"kind": "mlm"}])
    with pytest.raises(ValidationError, match="no objective 'transprot'; did you mean 'transport'"):
        TrainingConfig(objectives=["transprot"])
    with pytest.raises(ValidationError, match="two objectives have the same name"):
        TrainingConfig(objectives=["mlm", "mlm"])


def test_unknown_keys_are_explained(recipe_file) -> None:
    path = recipe_file(pretrain={"objectives": [{"kind": "transport", "blurr": 0.1}]})
    with pytest.raises(RecipeError, match=r"pretrain.objectives.0.blurr: unknown key; did you mean 'blur'"):
        load_recipe(path)


def test_one_class_adds_an_objective(toy: None, process_group: None, recipe_file, tiny_encoder: str, tmp_path) -> None:
    """It is chosen in a recipe, keeps its own settings there, and trains."""
    recipe = load_recipe(recipe_file(pretrain={"steps": 2, "objectives": [{"kind": "toy", "mask": 0.6}]}))
    assert recipe.pretrain is not None and recipe.pretrain.objectives == [ToyConfig(mask=0.6)]
    objective = yaml.safe_load(recipe.to_yaml())["pretrain"]["objectives"][0]
    assert objective["kind"] == "toy" and objective["mask"] == 0.6
    training = {"objectives": [objective], "steps": 2, "log_every": 1, "learning_rate": 1e-2}
    losses = run(tiny_encoder, training, Path(tmp_path, "run")).losses("toy")
    assert len(losses) == 2 and losses[1] < losses[0]


def test_a_removed_objective_is_unknown() -> None:
    with pytest.raises(ValidationError, match="there is no objective 'toy'"):
        TrainingConfig(objectives=["toy"])

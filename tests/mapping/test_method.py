"""The registry of mapping methods: a method is one class, and recipes, the stages and the command know it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import torch

from babelray.commands.align_files import configure_method
from babelray.errors import DataError, RecipeError
from babelray.mapping.fcnn import FcnnConfig
from babelray.mapping.linear import LinearMapping
from babelray.mapping.method import MAPPING_METHODS, MappingMethod, fit_mappings
from babelray.mapping.vecmap import VecMapConfig
from babelray.recipe.align import AlignConfig
from babelray.recipe.load import load_recipe
from babelray.recipe.map import MapConfig
from babelray.recipe.simulation import SimulateConfig


@pytest.fixture
def toy() -> Iterator[type[MappingMethod]]:
    @MAPPING_METHODS.register
    class ToyConfig(MappingMethod):
        """Vectors times a number."""

        method: Literal["toy"] = "toy"
        factor: float = 2.0

        @property
        def unsupervised(self) -> bool:
            return True

        def fit(self, source_ND: Any, target_MD: Any, dictionary: Any, seed: int, notify: Any) -> Any:
            notify("multiplied")
            identity = LinearMapping.identity(source_ND, self.normalise)
            return identity.then(self.factor * identity.matrix_DE), LinearMapping.identity(target_MD, self.normalise)

    yield ToyConfig
    MAPPING_METHODS.remove("toy")


def test_a_new_method_is_one_class(toy: type[MappingMethod], recipe_file) -> None:
    overrides = [
        "align.mapping={method: toy, factor: 3}",
        "align.dictionary=none",
        "map={methods: [toy, {method: toy, name: larger, factor: 5}]}",
    ]
    recipe = load_recipe(recipe_file(), overrides)
    assert recipe.align.mapping == toy(factor=3)
    assert [(method.label, method.factor) for method in recipe.map.methods] == [("toy", 2), ("larger", 5)]
    assert "factor: 3.0" in recipe.to_yaml()
    vectors, messages = torch.randn(20, 4), []
    source, target = fit_mappings(vectors, vectors, None, recipe.align.mapping, 1, messages.append)
    assert torch.allclose(source.transform(vectors), 3 * target.transform(vectors), atol=1e-6)
    assert torch.equal(recipe.align.mapping.fit_to_hub(vectors, vectors, None, 1).matrix_DE, source.matrix_DE)
    assert messages == ["multiplied"] and toy.description() == "Vectors times a number."
    assert configure_method("toy", ["factor=7"], None) == toy(factor=7)
    simulated = SimulateConfig.model_validate({"methods": {"a": {"mapping": "toy"}}}).methods["a"].mapping
    assert simulated == toy(normalise="none")
    with pytest.raises(RecipeError, match=r"align.mapping.facto: unknown key; did you mean 'factor'"):
        load_recipe(recipe_file(), ["align.mapping={method: toy, facto: 3}"])
    with pytest.raises(DataError, match=r"use a method that needs none: .*toy"):
        fit_mappings(vectors, vectors, None, MAPPING_METHODS.parse("procrustes"), 1)


def test_a_method_that_was_removed_is_unknown() -> None:
    with pytest.raises(ValueError, match="there is no mapping method 'toy'"):
        AlignConfig(mapping="toy")
    with pytest.raises(RecipeError, match="did you mean 'vecmap'"):
        configure_method("vecmapp", [], None)


def test_all_methods_describe_themselves_and_load_no_torch() -> None:
    assert len(MAPPING_METHODS) == 10 and all(method.description() for method in MAPPING_METHODS.values())
    code = (
        "import sys; from babelray.mapping.method import MAPPING_METHODS; "
        "assert len(MAPPING_METHODS) == 10; assert not {'torch', 'numpy', 'zuko'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_values_survive_a_round_through_json() -> None:
    config = AlignConfig(
        mapping={"method": "muse", "bootstrap": {"weight": 3}},
        dictionary="induced",
        induced_by={"method": "vecmap", "csls": 5},
    )
    again = AlignConfig.model_validate(config.model_dump(mode="json"))
    assert again == config and again.mapping.bootstrap.weight == 3 and again.induced_by.csls == 5
    assert config.identity()["mapping"]["bootstrap"]["weight"] == 3


def test_every_method_has_as_many_steps_on_little_text() -> None:
    network = FcnnConfig(epochs=10, batch_size=100, hidden=7)
    longer = network.with_equal_steps(rows=150, most_rows=2000)
    assert (longer.epochs, longer.hidden) == (100, 7), "20 steps per epoch become 2"
    assert network.with_equal_steps(2000, 2000) == network
    for name in ("procrustes", "muse"):
        assert MAPPING_METHODS.parse(name).with_equal_steps(5, 9) == MAPPING_METHODS.parse(name)


def test_memory_is_asked_for_what_is_compared() -> None:
    assert AlignConfig().compared_words == 20_000, "the dictionary that is induced in the end"
    assert AlignConfig(mapping={"method": "vecmap", "cutoff": 40_000}).compared_words == 40_000
    induced = {"dictionary": "induced", "induced_by": {"method": "vecmap", "cutoff": 30_000}}
    assert AlignConfig(**induced).compared_words == 30_000
    assert MAPPING_METHODS.parse({"method": "muse", "bootstrap": {"words": 60_000}}).compared_words == 60_000


def test_what_induces_dictionaries_must_not_need_one() -> None:
    for method in ("procrustes", {"method": "vecmap", "self_learning": False}):
        with pytest.raises(ValueError, match=r"induced_by: .* needs a dictionary itself"):
            AlignConfig(dictionary="induced", induced_by=method)
    assert AlignConfig(dictionary="induced").induced_by == VecMapConfig()
    with pytest.raises(ValueError, match="induced_by is for dictionary: induced, this is train"):
        AlignConfig(induced_by="vecmap")


def test_two_files_share_their_space_with_no_other() -> None:
    assert configure_method("vecmap", [], None) == VecMapConfig(reweight="symmetric")
    assert configure_method("vecmap", [], "identical").self_learning
    assert not configure_method("vecmap", [], "de-en.txt").self_learning
    assert configure_method("vecmap", [], "de-en.txt", self_learning=True).self_learning
    with pytest.raises(RecipeError, match="self_learning: unknown key"):
        configure_method("procrustes", [], "de-en.txt", self_learning=True)


def test_labels_of_a_map_are_unique() -> None:
    with pytest.raises(ValueError, match="two methods have the same name"):
        MapConfig(methods=["muse", "muse"])

import math

import pytest
import torch
from pydantic import ValidationError

from babelray.errors import RecipeError
from babelray.recipe.load import configure, load_run
from babelray.recipe.simulation import SimulateConfig, Simulation
from babelray.simulation.density import LARGEST_ANGLE, REACH, SIDE, DensityWorld, precision, rotations
from conftest import ROOT


def test_words_are_clouds_of_occurrences_at_their_places() -> None:
    world = DensityWorld.make(words=20, seed=3)
    assert world.location_V2.shape == (20, 2) and world.location_V2.abs().max() <= SIDE
    assert world.location_V2.std() == pytest.approx(2 * SIDE / math.sqrt(12), rel=0.25), "even within the square"
    for epsilon in (0.0, 5.0):
        text = world.text(4000, epsilon, seed=1)
        offset_VK2 = (text.source_N2 - epsilon - world.location_V2[text.word_N]).view(20, 4000, 2)
        assert torch.allclose(offset_VK2.mean(1), torch.zeros(20, 2), atol=0.08)
        assert torch.allclose(torch.cov(offset_VK2.flatten(0, 1).T), torch.eye(2), atol=0.02)


def test_same_seed_same_world() -> None:
    first, again, other = (DensityWorld.make(20, 5, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.text(3, 0.0, 1).target_N2, again.text(3, 0.0, 1).target_N2)
    assert not torch.equal(first.location_V2, other.location_V2)
    more = DensityWorld.make(20, 8, seed=1)
    assert torch.equal(more.location_V2, first.location_V2) and torch.equal(more.centre_W2[:4], first.centre_W2)


def test_isomorphic_languages_differ_by_a_rotation() -> None:
    for seed in range(5):
        world = DensityWorld.make(t=1, turn=30, seed=seed)
        text = world.text(10, 0.0, seed=1)
        found_22 = torch.linalg.lstsq(text.source_N2, text.target_N2).solution
        assert torch.allclose(found_22 @ found_22.T, torch.eye(2), atol=1e-4)
        assert torch.linalg.det(found_22) == pytest.approx(1, abs=1e-4)
        assert math.degrees(math.acos(min(1.0, found_22[0, 0].item()))) <= 30.1


def test_others_are_not_linear_but_one_to_one_and_keep_areas() -> None:
    world = DensityWorld.make(t=5, seed=1)
    x_N2 = world.text(10, 0.0, seed=1).source_N2
    design_N3 = torch.cat([x_N2, torch.ones(len(x_N2), 1)], 1)
    y_N2 = world.translate(x_N2)
    left_N2 = y_N2 - design_N3 @ torch.linalg.lstsq(design_N3, y_N2).solution
    assert left_N2.square().mean().sqrt() > 0.1, "no affine mapping does it"
    x_N2.requires_grad_()
    jacobian_N22 = torch.stack([torch.autograd.grad(world.translate(x_N2)[:, i].sum(), x_N2)[0] for i in (0, 1)], 1)
    assert torch.allclose(torch.linalg.det(jacobian_N22), torch.ones(len(x_N2)), atol=1e-3)


def test_a_whirl_turns_its_centre_and_leaves_what_is_far() -> None:
    eye_22 = torch.eye(2)
    whirl = DensityWorld(torch.zeros(1, 2), eye_22, torch.tensor([[1.0, 2]]), torch.tensor([LARGEST_ANGLE]))
    centre_12 = torch.tensor([[1.0, 2]])
    near_22, far_12 = centre_12 + 1e-3 * eye_22, centre_12 + torch.tensor([[8 * REACH, 0]])
    turned_22 = (whirl.translate(near_22) - centre_12) / 1e-3
    assert torch.allclose(turned_22, rotations(torch.tensor([LARGEST_ANGLE]))[0], atol=1e-2)
    assert torch.allclose(whirl.translate(far_12), far_12, atol=1e-5)
    ring_12 = centre_12 + torch.tensor([[0, REACH]])
    assert (whirl.translate(ring_12) - centre_12).norm() == pytest.approx(REACH, abs=1e-5)
    angle = LARGEST_ANGLE * math.exp(-0.5)
    expected_12 = centre_12 + REACH * torch.tensor([[-math.sin(angle), math.cos(angle)]])
    assert torch.allclose(whirl.translate(ring_12), expected_12, atol=1e-5)


def test_precision_of_occurrences_and_of_words() -> None:
    target_42, word_4 = torch.tensor([[0.0, 0], [1, 0], [5, 0], [6, 0]]), torch.tensor([0, 0, 1, 1])
    assert precision(target_42 + 0.1, target_42, word_4) == {"p1": 1.0, "word_p1": 1.0}
    assert precision(target_42[[1, 0, 3, 2]], target_42, word_4) == {"p1": 0.0, "word_p1": 1.0}
    assert precision(target_42.flip(0), target_42, word_4) == {"p1": 0.0, "word_p1": 0.0}


METHODS = {"methods": {"rotation": {"mapping": "procrustes"}}}


def test_the_shipped_recipe() -> None:
    recipe = load_run(Simulation, ROOT / "jobs/recipes/simulation.yaml")
    assert recipe.name == "simulation" and recipe.simulate.runs == 10 and recipe.simulate.words == 20
    assert {1, 5} <= set(recipe.simulate.t) and {5, 100} <= set(recipe.simulate.occurrences)
    assert min(recipe.simulate.epsilon) == 0 and max(recipe.simulate.epsilon) == 5


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("t=[0]", "at least 1"),
        ("occurrences=[]", "occurrences"),
        ("methods={}", "methods"),
        ("methods.a b={mapping: muse}", "needs a name"),
        ("methods.rotation.t=[3]", "among those of the simulation"),
        ("methods.rotation.maping=muse", "did you mean 'mapping'"),
        ("methods.rotation.mapping={metod: muse}", "method: this key is required; known: fcnn"),
        ("methods.rotation.mapping={method: muse, epoch: 1}", "did you mean 'epochs'"),
        ("epsilonn=[1]", "did you mean 'epsilon'"),
    ],
)
def test_what_cannot_be_simulated(override: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        configure(SimulateConfig, {"methods": {"rotation": {"mapping": "procrustes"}}}, [override])


def test_lengths_count_unless_a_method_says_otherwise() -> None:
    config = SimulateConfig.model_validate(METHODS)
    assert config.methods["rotation"].mapping.normalise == "none"
    with pytest.raises(ValidationError, match="vecmap needs normalise: unit"):
        SimulateConfig.model_validate({"methods": {"vecmap": {"mapping": "vecmap"}}})

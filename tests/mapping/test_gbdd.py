import pytest
import torch

from babelray.mapping.gbdd import GbddConfig, bias_directions, gbdd
from babelray.mapping.method import fit_mappings
from babelray.recipe.align import AlignConfig
from babelray.vectors.retrieval import nearest


def world() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One space in which a direction says which language a word is of."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 20, generator=generator)
    bias = torch.nn.functional.normalize(torch.randn(20, generator=generator), dim=0)
    return x + 6 * bias, x - 6 * bias + 0.3 * torch.randn(300, 20, generator=generator), bias


def test_the_direction_is_the_first_singular_vector() -> None:
    x, y, bias = world()
    found = bias_directions(x, y, 3)
    expected = torch.linalg.svd((x - y).double()).Vh[:3].float()
    assert torch.allclose((found * expected).sum(1).abs(), torch.ones(3), atol=1e-4)
    assert torch.allclose(found @ found.T, torch.eye(3), atol=1e-5)
    assert abs(found[0] @ bias) > 0.99


@pytest.mark.parametrize("normalise", ["unit", "none"])
def test_both_sides_lose_the_direction_and_nothing_else(normalise: str) -> None:
    x, y, _ = world()
    pairs = (torch.arange(100), torch.arange(100))
    source, target = gbdd(x, y, pairs, normalise=normalise)
    seen = [torch.nn.functional.normalize(side) if normalise == "unit" else side for side in (x, y)]
    v = bias_directions(seen[0][:100], seen[1][:100])[0]
    for mapping, side in ((source, seen[0]), (target, seen[1])):
        mapped = mapping.transform(side)
        assert torch.allclose(mapped @ v, torch.zeros(300), atol=1e-5)
        assert torch.allclose(mapped, side - (side @ v)[:, None] * v, atol=1e-5)


def test_words_that_it_never_saw_find_their_translations() -> None:
    x, y, _ = world()

    def right(a: torch.Tensor, b: torch.Tensor) -> float:
        return (nearest(a[100:], b[100:])[1].flatten() == torch.arange(200)).float().mean().item()

    source, target = fit_mappings(x, y, (torch.arange(5), torch.arange(5)), GbddConfig(), seed=1)
    assert right(source.transform(x), target.transform(y)) > right(x, y) + 0.2


def test_a_recipe_cannot_have_it() -> None:
    with pytest.raises(ValueError, match="gbdd changes the hub too"):
        AlignConfig(mapping="gbdd")

import torch

from babelray.extraction.dimensions import contributions, remove_rogue_dimensions, standardise


def test_contributions_add_up_to_the_mean_cosine() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(50, 8) + torch.tensor([5.0] + [0.0] * 7)
    unit = torch.nn.functional.normalize(vectors, dim=1)
    assert torch.allclose(contributions(vectors).sum(), (unit @ unit.T).mean(), atol=1e-5)
    changed = remove_rogue_dimensions(vectors, 1)
    assert (changed[:, 0] == 0).all() and torch.equal(changed[:, 1:], vectors[:, 1:])
    assert torch.equal(remove_rogue_dimensions(vectors, 0), vectors)
    assert (remove_rogue_dimensions(vectors, 99) == 0).all()


def test_standardised() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(50, 4) * torch.tensor([1.0, 100.0, 0.01, 0.0]) + 3
    changed = standardise(vectors)
    assert torch.allclose(changed.mean(0), torch.zeros(4), atol=1e-4)
    assert torch.allclose(changed.std(0, correction=0), torch.tensor([1.0, 1.0, 1.0, 0.0]), atol=1e-4)

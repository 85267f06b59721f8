import torch

from babelray.mapping.collapse import detect_collapse


def world(noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(12, 20, generator=generator)[torch.randint(12, (600,), generator=generator)]
    x = centres + 0.5 * torch.randn(600, 20, generator=generator)
    return x, x + noise * torch.randn(600, 20, generator=generator)


def test_a_mapping_that_found_translations() -> None:
    health = detect_collapse(*world(0.3))
    assert not health.collapsed
    assert health.mutual > 0.8 and health.random_mutual < 0.5 and health.objective > health.random_objective


def test_a_wrong_rotation_has_collapsed() -> None:
    x, z = world(0.3)
    turn = torch.linalg.qr(torch.randn(20, 20, generator=torch.Generator().manual_seed(1))).Q
    health = detect_collapse(x @ turn, z)
    assert health.collapsed
    assert f"{health.mutual:.0%} of the words are mutual neighbours" in str(health)


def test_unrelated_spaces_have_collapsed_even_after_refinement() -> None:
    """Refined noise fits itself, but no better than noise that starts anywhere."""
    from babelray.mapping.vecmap import VecMapConfig, vecmap

    x, _ = world(0.0)
    z = torch.randn(600, 20, generator=torch.Generator().manual_seed(2))
    mappings = vecmap(x, z, None, VecMapConfig(patience=5, reweight="none"))
    assert detect_collapse(mappings[0].transform(x), mappings[1].transform(z)).collapsed

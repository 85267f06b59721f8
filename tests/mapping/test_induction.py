import pytest
import torch
from torch.nn import functional

from babelray.mapping import induction
from babelray.mapping.induction import induce, similarities


def space(count: int, seed: int, width: int = 8) -> torch.Tensor:
    return functional.normalize(torch.randn(count, width, generator=torch.Generator().manual_seed(seed)))


def by_definition(x: torch.Tensor, z: torch.Tensor, k: int) -> tuple[list[int], list[int], float]:
    """CSLS from the whole matrix; the penalty of a word's own side does not change its order."""
    cosine = x @ z.T
    own_x = cosine.topk(k, dim=1).values.mean(1)
    own_z = cosine.T.topk(k, dim=1).values.mean(1)
    forward = (2 * cosine - own_z).argmax(1)
    backward = (2 * cosine.T - own_x).argmax(1)
    objective = (cosine.gather(1, forward[:, None]).mean() + cosine.T.gather(1, backward[:, None]).mean()) / 2
    return forward.tolist(), backward.tolist(), objective.item()


@pytest.mark.parametrize("tile", [3, 7, 100])
def test_same_as_the_definition_in_any_tiles(monkeypatch: pytest.MonkeyPatch, tile: int) -> None:
    monkeypatch.setattr(induction, "TILE", tile)
    x, z = space(20, 1), space(33, 2)
    forward, backward, objective = by_definition(x, z, 4)
    found = induce(x, z, csls=4)
    assert found.source_P.tolist() == [*range(20), *backward]
    assert found.target_P.tolist() == [*forward, *range(33)]
    assert found.objective == pytest.approx(objective, abs=1e-6)
    assert induce(x, z, 4, direction="forward").target_P.tolist() == forward
    assert induce(x, z, 4, direction="backward").source_P.tolist() == backward
    mutual = induce(x, z, 4, direction="mutual")
    expected = [(i, j) for i, j in enumerate(forward) if backward[j] == i]
    assert list(zip(mutual.source_P.tolist(), mutual.target_P.tolist(), strict=True)) == expected
    assert torch.allclose(similarities(x, z, 4)[0], x @ z.T)


def test_a_drawn_rank_is_what_dropping_cells_gives() -> None:
    """How often each column is chosen for a row, against dropping cells one by one."""
    x, z = space(1, 3).expand(4000, 8), space(30, 4)
    keep = 0.3
    found = induce(x, z, 0, keep, torch.Generator().manual_seed(0), direction="forward").target_P
    scores = (x[:1] @ z.T).expand(4000, 30).clone()
    scores[torch.rand(4000, 30, generator=torch.Generator().manual_seed(1)) >= keep] = -9
    masked = scores.argmax(1)
    counts = [torch.bincount(side, minlength=30).double() / 4000 for side in (found, masked)]
    assert (counts[0] - counts[1]).abs().max() < 0.03
    order = (x[0] @ z.T).argsort(descending=True)
    expected = keep * (1 - keep) ** torch.arange(30).double()
    assert (counts[0][order] - expected)[:10].abs().max() < 0.03


def test_ranks_beyond_those_looked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x, z = space(50, 5), space(60, 6)
    expected = induce(x, z, 3, 0.05, torch.Generator().manual_seed(0))
    monkeypatch.setattr(induction, "RANKS", 2)
    found = induce(x, z, 3, 0.05, torch.Generator().manual_seed(0))
    assert torch.equal(found.source_P, expected.source_P) and torch.equal(found.target_P, expected.target_P)

import pytest
import torch
from torch.nn import functional

from babelray.mapping import induction
from babelray.mapping.induction import Inducer, induce


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


@pytest.mark.parametrize(("rows", "count", "other_count"), [(32, 20, 33), (32, 70, 5), (64, 100, 40), (512, 33, 100)])
def test_same_as_the_definition_in_any_blocks(
    monkeypatch: pytest.MonkeyPatch, rows: int, count: int, other_count: int
) -> None:
    monkeypatch.setattr(induction, "ROWS", rows)
    x, z = space(count, 1), space(other_count, 2)
    forward, backward, objective = by_definition(x, z, 4)
    found = induce(x, z, csls=4)
    assert found.source_P.tolist() == [*range(count), *backward]
    assert found.target_P.tolist() == [*forward, *range(other_count)]
    assert found.objective == pytest.approx(objective, abs=1e-6)
    assert induce(x, z, 4, "forward").target_P.tolist() == forward
    assert induce(x, z, 4, "backward").source_P.tolist() == backward
    mutual = induce(x, z, 4, "mutual")
    expected = [(i, j) for i, j in enumerate(forward) if backward[j] == i]
    assert list(zip(mutual.source_P.tolist(), mutual.target_P.tolist(), strict=True)) == expected


def test_confidence_is_csls() -> None:
    x, z = space(40, 1), space(50, 2)
    cosine = x @ z.T
    csls = 2 * cosine - cosine.topk(4, dim=1).values.mean(1)[:, None] - cosine.T.topk(4, dim=1).values.mean(1)
    found = induce(x, z, 4)
    assert torch.allclose(found.confidence_P, csls[found.source_P, found.target_P], atol=1e-6)


def test_an_inducer_forgets_what_it_saw_before() -> None:
    first, x, z = space(20, 7), space(20, 1), space(33, 2)
    inducer = Inducer(20, 33, 4)
    inducer(first, z)
    found, expected = inducer(x, z), induce(x, z, 4)
    assert torch.equal(found.source_P, expected.source_P) and torch.equal(found.target_P, expected.target_P)
    assert found.objective == expected.objective


def test_a_drawn_rank_is_what_dropping_cells_gives() -> None:
    """How often each column is chosen for a row, against dropping cells one by one."""
    x, z = space(1, 3).expand(4000, 8), space(30, 4)
    keep = 0.3
    found = Inducer(4000, 30, 0)(x, z, keep, torch.Generator().manual_seed(0), "forward").target_P
    scores = (x[:1] @ z.T).expand(4000, 30).clone()
    scores[torch.rand(4000, 30, generator=torch.Generator().manual_seed(1)) >= keep] = -9
    masked = scores.argmax(1)
    counts = [torch.bincount(side, minlength=30).double() / 4000 for side in (found, masked)]
    assert (counts[0] - counts[1]).abs().max() < 0.03
    order = (x[0] @ z.T).argsort(descending=True)
    expected = keep * (1 - keep) ** torch.arange(30).double()
    assert (counts[0][order] - expected)[:10].abs().max() < 0.03


@pytest.mark.parametrize("keep", [0.5, 0.05, 0.001])
def test_the_chosen_translation_has_the_drawn_rank(keep: float) -> None:
    x, z = space(200, 5), space(150, 6)
    found = Inducer(200, 150, 0)(x, z, keep, torch.Generator().manual_seed(0), "forward").target_P
    uniform = torch.rand(200, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    rank = (uniform.log() / torch.tensor(1 - keep, dtype=torch.double).log()).floor().long().clamp(max=149)
    order = (x @ z.T).argsort(dim=1, descending=True)
    assert torch.equal(found, order.gather(1, rank[:, None]).flatten())
    assert rank.max() > 2

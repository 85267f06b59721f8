import pytest
import torch

from babelray.mapping import adversarial_rotation
from babelray.mapping import muse as module
from babelray.mapping.linear import unit_centred
from babelray.mapping.muse import MuseConfig, criterion, muse, refine, train_adversarially
from babelray.mapping.procrustes import procrustes, rotation
from babelray.vectors.retrieval import nearest

SMALL = MuseConfig(epochs=2, steps=300, hidden=128, orthogonality=0.05)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def turn(width: int, angle: float, generator: torch.Generator) -> torch.Tensor:
    """A rotation whose largest angle (in radians) is given."""
    skew = torch.randn(width, width, generator=generator)
    skew = skew - skew.T
    return torch.matrix_exp(skew / torch.linalg.matrix_norm(skew, 2) * angle)


def world(noise: float, angle: float = 2.0, words: int = 800, width: int = 10, seed: int = 2):
    """A space that is skewed and differently wide in each direction, and the same turned; word i translates word i."""
    generator = seeded(seed)
    x = -torch.rand(words, width, generator=generator).clamp(min=1e-6).log() * torch.logspace(0, -0.7, width)
    true = turn(width, angle, generator)
    return x, x @ true + noise * torch.randn(words, width, generator=generator), true


def accuracy(mappings, x: torch.Tensor, z: torch.Tensor) -> float:
    found = nearest(mappings[0].transform(x), mappings[1].transform(z), csls=10)[1].flatten()
    return (found == torch.arange(len(x))).float().mean().item()


def test_criterion_by_definition_and_of_the_true_rotation() -> None:
    x, z, true = world(noise=0.05, words=300)
    x, z = unit_centred(x)[0], unit_centred(z)[0]
    cosine = x[:100] @ z.T
    penalty = cosine.T.topk(7, dim=1).values.mean(1)
    expected = cosine.gather(1, (2 * cosine - penalty).argmax(1, keepdim=True)).mean()
    assert criterion(3 * x, z, csls=7, words=100) == pytest.approx(expected.item(), abs=1e-6), "lengths do not count"
    others = [turn(10, 3.0, seeded(seed)) for seed in range(5)]
    assert criterion(x @ true, z, 10, 300) > max(criterion(x @ w, z, 10, 300) for w in others) + 0.05


def test_supervised_is_better_than_procrustes_where_pairs_are_few() -> None:
    x, z, true = world(noise=0.1)
    pairs = (torch.arange(12), torch.arange(12))
    told: list[int] = []
    refined = muse(x, z, pairs, MuseConfig(), on_progress=lambda number, value: told.append(number))
    start = procrustes(x, z, pairs)
    assert accuracy(refined, x, z) > accuracy(start, x, z) + 0.1
    assert (refined[0].matrix_DE - true).norm() < 0.5 * (start[0].matrix_DE - true).norm()
    assert told == [1, 2, 3, 4, 5]


def test_unsupervised() -> None:
    x, z, true = world(noise=0.02)
    unit_x, unit_z = unit_centred(x)[0], unit_centred(z)[0]
    alone = nearest(unit_x @ refine(unit_x, unit_z, torch.eye(10), SMALL), unit_z, csls=10)[1].flatten()
    assert (alone == torch.arange(800)).float().mean() < 0.2, "refinement alone does not find it"
    told: list[tuple[int, float]] = []
    learned = muse(x, z, None, SMALL, on_progress=lambda number, value: told.append((number, value)))
    assert accuracy(learned, x, z) > 0.9
    assert torch.allclose(learned[0].matrix_DE, true, atol=0.1)
    assert [number for number, _ in told] == [1, 2, 3, 4, 5, 6, 7] and told[-1][1] > told[0][1]


def test_the_same_seed_gives_the_same_bits_and_no_global_randomness() -> None:
    x, z, _ = world(noise=0.02, words=100)
    config = MuseConfig(epochs=2, steps=5, hidden=16, refinements=0)
    state = torch.random.get_rng_state()
    first, again, other = (muse(x, z, None, config, seed)[0].matrix_DE for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)
    with torch.random.fork_rng():
        torch.manual_seed(12345)
        assert torch.equal(muse(x, z, None, config, 1)[0].matrix_DE, first), "the global state has no say"


def test_the_rate_is_halved_when_the_criterion_falls_and_the_best_epoch_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = turn(4, 0.3, seeded(0))
    rates: list[float] = []
    seen: list[tuple[float, float, int]] = []

    def counted(sides, w, layers, rate, config, generator, constraint) -> torch.Tensor:
        rates.append(rate)
        seen.append((*(side.norm(dim=1).mean().item() for side in sides), id(layers)))
        return 3 * w @ step

    values = iter([0.5, 0.7, 0.6, 0.6, 0.1])
    monkeypatch.setattr(adversarial_rotation, "train_epoch", counted)
    monkeypatch.setattr(module, "criterion", lambda *_: next(values))
    x = torch.eye(4)
    config = MuseConfig(epochs=5, learning_rate=1, decay=0.9, hidden=2)
    w = train_adversarially(x, x, config, seeded(0), lambda epoch, value: None)
    assert rates == pytest.approx([1, 0.9, 0.81, 0.81 * 0.45, 0.81 * 0.45 * 0.9])
    assert torch.allclose(w, step @ step, atol=1e-5), "the second epoch was best, and only its rotation is kept"
    assert len(set(seen)) == 1 and seen[0][:2] == (2, 2), "one discriminator, and vectors of length √4"


@pytest.mark.parametrize(("values", "kept"), [([0.5, 0.4, 0.3], 0), ([0.5, 0.7, 0.6], 1), ([0.5, 0.6, 0.7], 2)])
def test_the_best_refinement_is_kept(monkeypatch: pytest.MonkeyPatch, values: list[float], kept: int) -> None:
    x, z, _ = world(noise=0.3, angle=1.5, words=200)
    x, z = unit_centred(x)[0], unit_centred(z)[0]
    judged: list[torch.Tensor] = []

    def told(turned: torch.Tensor, *_) -> float:
        judged.append(turned)
        return values[len(judged) - 1]

    monkeypatch.setattr(module, "criterion", told)
    w = refine(x, z, torch.eye(10), MuseConfig(refinements=2))
    assert len({float(side.sum()) for side in judged}) == 3, "each differs from the others"
    assert torch.equal(x @ w, judged[kept])


def test_a_refinement_by_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    x, z, _ = world(noise=0.3, angle=1.5, words=60)
    x, z = unit_centred(x)[0], unit_centred(z)[0]
    rising = iter([0.1, 0.2])
    monkeypatch.setattr(module, "criterion", lambda *_: next(rising))
    found = refine(x, z, torch.eye(10), MuseConfig(refinements=1, refine_words=40, csls=3))
    cosine = x[:40] @ z[:40].T
    csls = 2 * cosine - cosine.topk(3, dim=1).values.mean(1)[:, None] - cosine.topk(3, dim=0).values.mean(0)
    forward, backward = csls.argmax(1), csls.argmax(0)
    mutual = [(i, int(j)) for i, j in enumerate(forward) if backward[j] == i]
    assert 10 < len(mutual) < 40
    rows, columns = map(list, zip(*mutual, strict=True))
    assert torch.allclose(found, rotation(x[rows], z[columns]), atol=1e-5)


def test_only_frequent_words_are_looked_at_except_in_the_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    x, z, _ = world(noise=0.02, words=100)
    unit_x, unit_z = unit_centred(x)[0], unit_centred(z)[0]
    seen: list[torch.Tensor] = []

    def kept(x: torch.Tensor, z: torch.Tensor, w: torch.Tensor, *_) -> torch.Tensor:
        seen.extend([x, z])
        return w

    monkeypatch.setattr(module, "train_adversarially", lambda x, z, *_: kept(x, z, torch.eye(10)))
    monkeypatch.setattr(module, "refine", kept)
    muse(x, z, None, MuseConfig(frequent=60))
    for found, expected in zip(seen, [unit_x[:60], unit_z[:60]] * 2, strict=True):
        assert torch.equal(found, expected)
    rare = torch.arange(70, 100)
    assert torch.equal(
        muse(x, z, (rare, rare), MuseConfig(frequent=60))[0].matrix_DE, rotation(unit_x[rare], unit_z[rare])
    )


def test_one_pair_and_fewer_words_than_neighbours() -> None:
    x, z, _ = world(noise=0.02, words=6, width=4)
    pair = (torch.tensor([2]), torch.tensor([2]))
    mapping, same = muse(x, z, pair, MuseConfig(csls=50))
    assert torch.allclose(mapping.matrix_DE @ mapping.matrix_DE.T, torch.eye(4), atol=1e-5)
    assert torch.allclose(mapping.mean_D, unit_centred(x)[1]) and torch.allclose(same.transform(z), unit_centred(z)[0])
    start = muse(x, z, pair, MuseConfig(refinements=0))[0].matrix_DE
    unit_x, unit_z = unit_centred(x)[0], unit_centred(z)[0]
    assert torch.equal(start, rotation(unit_x[2:3], unit_z[2:3]))
    assert torch.allclose(unit_x[2] @ start, unit_z[2], atol=1e-5)

"""Speed of transport. Prints one line of JSON per measurement.

    python tests/benchmarks/transport.py sinkhorn --pairs 64 --dimension 768

sinkhorn  the Sinkhorn divergence of ragged sentence pairs and its gradient: Babelray's; geomloss, pair by pair;
          geomloss for all pairs with padding, whose scales descend from the size of the whole batch; and POT, pair by
          pair, with as many iterations as Babelray's longest descent (POT does not descend through scales, and needs
          many more to converge). The largest difference is that between Babelray's and geomloss' values in float64.
          Training workers run like `--threads 1`.
steps     a training step of `transport` against one of `word-l2`, on the same sentence pairs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import torch
from torch import Tensor

TURNS = 7


def milliseconds(actions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median time of each action, measured alternately after a warm-up round."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(TURNS + 1):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            if turn:
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: median(column) for name, column in times.items()}


def sentences(pairs: int, dimension: int, shortest: int, longest: int) -> tuple[list[Tensor], list[Tensor]]:
    """Two padded sides that require gradients, and their masks."""
    generator = torch.Generator().manual_seed(0)
    sides, masks = [], []
    for _ in range(2):
        lengths = torch.randint(shortest, longest + 1, (pairs, 1), generator=generator)
        masks.append(torch.arange(int(lengths.max())) < lengths)
        sides.append(torch.randn(*masks[-1].shape, dimension, generator=generator).requires_grad_())
    return sides, masks


def sinkhorn(pairs: int, dimension: int, shortest: int, longest: int, p: int, blur: float) -> dict[str, object]:
    import ot
    from geomloss import SamplesLoss

    from babelray.objectives.sinkhorn import Descent, sinkhorn_divergence

    (x, y), (x_mask, y_mask) = sentences(pairs, dimension, shortest, longest)
    geomloss = SamplesLoss("sinkhorn", p=p, blur=blur, backend="tensorized")
    diameter = (torch.cat([x, y], 1).amax((0, 1)) - torch.cat([x, y], 1).amin((0, 1))).norm().detach()
    iterations = len(Descent.checked(blur, p, 0.5, None, True).schedule(diameter[None])[0])

    def alone(dtype: torch.dtype = torch.float32) -> list[tuple[Tensor, Tensor]]:
        return [(a[m].to(dtype), b[n].to(dtype)) for a, m, b, n in zip(x, x_mask, y, y_mask, strict=True)]

    def pot(a: Tensor, b: Tensor) -> Tensor:
        cost = torch.cdist(a, b) if p == 1 else torch.cdist(a, b).square() / 2
        return ot.solve(cost, reg=blur**p, reg_type="KL", max_iter=iterations, tol=0, grad="envelope").value

    def ours() -> Tensor:
        return sinkhorn_divergence(x, x_mask, y, y_mask, blur, p)

    def geomloss_by_pair() -> Tensor:
        return torch.stack([geomloss(a, b) for a, b in alone()])

    def geomloss_padded() -> Tensor:
        weights = [mask / mask.sum(1, keepdim=True) for mask in (x_mask, y_mask)]
        first = [torch.where(m[..., None], side, side[:, :1].detach()) for side, m in ((x, x_mask), (y, y_mask))]
        return geomloss(weights[0], first[0], weights[1], first[1])

    def pot_by_pair() -> Tensor:
        return torch.stack([pot(a, b) - pot(a, a) / 2 - pot(b, b) / 2 for a, b in alone()])

    def with_gradient(value: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(value().sum(), [x, y])

    warnings.filterwarnings("ignore", message="Sinkhorn did not converge")
    ways = {f.__name__: f for f in (ours, geomloss_by_pair, geomloss_padded, pot_by_pair)}
    taken = milliseconds({name: with_gradient(way) for name, way in ways.items()})
    expected = torch.stack([geomloss(a, b) for a, b in alone(torch.float64)]).detach()
    return {
        "benchmark": "Sinkhorn divergence, forward and backward",
        "pairs": pairs,
        "lengths": [shortest, longest],
        "dimension": dimension,
        "p": p,
        "blur": blur,
        "threads": torch.get_num_threads(),
        **{f"{name}_milliseconds": round(value, 1) for name, value in taken.items()},
        "times_as_fast": {name: round(value / taken["ours"], 1) for name, value in taken.items() if name != "ours"},
        "largest_value": float(expected.max()),
        "largest_difference": float((ours().detach() - expected).abs().max()),
    }


def steps(pairs: int, width: int, layers: int) -> dict[str, object]:
    """A training step of `transport` against one of `word-l2`, on the same encoder and the same sentence pairs."""
    import tempfile

    from babelray.encoder.load import load_masked_lm
    from babelray.objectives.transport import TransportConfig
    from babelray.objectives.word_l2 import WordL2Config
    from support.starter_training_data import StarterTrainingData
    from training import make_encoder

    with tempfile.TemporaryDirectory() as folder:
        make_encoder(folder, 6000, width, layers)
        training_data, model = StarterTrainingData(folder), load_masked_lm(folder).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
        batches = {}
        for config in (TransportConfig(name="same", batch_size=pairs), WordL2Config(name="same", batch_size=pairs)):
            objective = config.build(training_data)
            batches[config.kind] = objective, [objective.batch(number) for number in range(TURNS + 1)]

    def step(kind: str) -> None:
        objective, made = batches[kind]
        made.append(made.pop(0))
        objective.loss_terms(model, made[-1]).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    taken = milliseconds({kind: partial(step, kind) for kind in batches})
    return {
        "benchmark": "a step of transport against one of word-l2",
        "encoder": f"{layers} layers of {width}",
        "pairs": pairs,
        "threads": torch.get_num_threads(),
        **{f"{kind}_milliseconds": round(value, 1) for kind, value in taken.items()},
        "ratio": round(taken["transport"] / taken["word-l2"], 3),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    command = commands.add_parser("sinkhorn")
    command.add_argument("--pairs", type=int, default=64)
    command.add_argument("--dimension", type=int, default=768)
    command.add_argument("--shortest", type=int, default=5)
    command.add_argument("--longest", type=int, default=40)
    command.add_argument("-p", type=int, choices=[1, 2], default=2)
    command.add_argument("--blur", type=float, default=0.05)
    command.add_argument("--threads", type=int, default=torch.get_num_threads())
    command = commands.add_parser("steps")
    command.add_argument("--pairs", type=int, default=24)
    command.add_argument("--width", type=int, default=128)
    command.add_argument("--layers", type=int, default=4)
    command.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = vars(parser.parse_args())
    torch.set_num_threads(arguments.pop("threads"))
    print(json.dumps({"sinkhorn": sinkhorn, "steps": steps}[arguments.pop("what")](**arguments)))

"""Static vectors by prediction, X2Static (Gupta and Jaggi, 2021), as Hämmerl et al. (2022), section 3.1, use it.

A word's vector u learns to tell the contexts it occurs in from those of other words. The context of an occurrence is
the mean of the encoder's vectors over the sentence (or paragraph) without the word itself,

    c = 1/(n - |o|) Σ_{t ∉ o} h_t^(layer)

and the loss of an occurrence of w, with ten words w' drawn by the square root of their frequency, is

    ℓ = log(1 + exp(-s(w))) + Σ_{w' ≠ w} log(1 + exp(s(w'))),    s(w) = clamp(u_w · c, -10, 10)

Frequent words are passed over: an occurrence of w counts with probability √(t/f) + t/f, f its relative frequency.
Which occurrences count is drawn once, by seed, so that contexts can be kept and every epoch sees the same ones.

Shapes: N occurrences, K negatives, V words of the vocabulary, D width, B rows of a batch, W occurrences in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from babelray.errors import DataError, TrainingError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from babelray.extraction.config import X2StaticConfig
    from babelray.extraction.occurrences import Batch

CLAMP = 10.0
LARGEST_HALF = 65504.0


def keep_probability(counts_V: np.ndarray, threshold: float | None) -> np.ndarray:
    """The chance (V) of an occurrence to count.

    >>> import numpy as np
    >>> keep_probability(np.array([900, 100]), 0.01).round(3).tolist()
    [0.117, 0.416]
    """
    import numpy as np

    if threshold is None:
        return np.ones(len(counts_V))
    ratio = threshold * counts_V.sum() / np.maximum(counts_V, 1)
    return np.minimum(1.0, np.sqrt(ratio) + ratio)


class Contexts:
    """Collects the contexts of the occurrences that count in a block of sentences, in half precision."""

    def __init__(self, chance_V: np.ndarray, seed: int, block: int, without_target: bool) -> None:
        import numpy as np

        self._chance_V = torch.from_numpy(chance_V)
        self._drawn = np.random.default_rng([seed, block])
        self._uniform = np.empty(0)
        self._without_target = without_target
        self._words: list[Tensor] = []
        self._contexts: list[Tensor] = []

    def _counting(self, batch: Batch) -> Tensor:
        """Drawn in the order of the text, so that it does not depend on how sentences are batched."""
        import numpy as np

        number_W = batch.number_W.cpu().numpy()
        missing = (number_W.max(initial=-1) + 1) - len(self._uniform)
        if missing > 0:
            self._uniform = np.concatenate([self._uniform, self._drawn.random(max(missing, 4096))])
        return torch.from_numpy(self._uniform[number_W]) < self._chance_V[batch.word_W.cpu()]

    def add(self, batch: Batch, hidden_BTD: Tensor) -> None:
        inner_BT = batch.inner_BT.to(hidden_BTD.dtype)
        sums_BD = torch.einsum("btd,bt->bd", hidden_BTD, inner_BT).float()
        sizes_B = inner_BT.sum(1).float()
        sums_WD, subwords_W = batch.pool(hidden_BTD)
        if self._without_target:
            context_WD = sums_BD[batch.row_W] - sums_WD
            sizes_W = sizes_B[batch.row_W] - subwords_W
        else:
            context_WD, sizes_W = sums_BD[batch.row_W], sizes_B[batch.row_W]
        counting = self._counting(batch).to(sizes_W.device) & (sizes_W > 0)  # a word alone has no context
        contexts = (context_WD[counting] / sizes_W[counting].unsqueeze(1)).cpu()
        if len(contexts) and contexts.abs().max() > LARGEST_HALF:
            raise DataError("the encoder's vectors are too large for half precision", "Choose another extract.layer.")
        self._words.append(batch.word_W.cpu()[counting.cpu()])
        self._contexts.append(contexts.half())

    def tensors(self) -> dict[str, Tensor]:
        """`targets` (N) and `contexts` (N, D)."""
        if not self._words:
            return {"targets": torch.empty(0, dtype=torch.long), "contexts": torch.empty(0, 0).half()}
        return {"targets": torch.cat(self._words), "contexts": torch.cat(self._contexts)}


def loss(vectors_VD: Tensor, context_ND: Tensor, target_N: Tensor, negative_NK: Tensor) -> Tensor:
    """The clamped logistic loss, averaged over occurrences; a negative that is the target itself does not count."""
    positive_ND = functional.embedding(target_N, vectors_VD, sparse=True)
    negative_NKD = functional.embedding(negative_NK, vectors_VD, sparse=True)
    for_N = functional.softplus(-(positive_ND * context_ND).sum(1).clamp(-CLAMP, CLAMP))
    against_NK = functional.softplus((negative_NKD @ context_ND.unsqueeze(2)).squeeze(2).clamp(-CLAMP, CLAMP))
    return (for_N + (against_NK * (negative_NK != target_N.unsqueeze(1))).sum(1)).mean()


def shared_loss(vectors_VD: Tensor, context_ND: Tensor, target_N: Tensor, negative_K: Tensor, negatives: int) -> Tensor:
    """The same with K negatives that all occurrences of a batch share, weighted as `negatives` of them."""
    positive_ND = functional.embedding(target_N, vectors_VD, sparse=True)
    negative_KD = functional.embedding(negative_K, vectors_VD, sparse=True)
    for_N = functional.softplus(-(positive_ND * context_ND).sum(1).clamp(-CLAMP, CLAMP))
    against_NK = functional.softplus((context_ND @ negative_KD.T).clamp(-CLAMP, CLAMP))
    other_NK = negative_K != target_N.unsqueeze(1)
    return (for_N + (against_NK * other_NK).sum(1) * (negatives / len(negative_K))).mean()


def train(
    blocks: Callable[[], Iterable[Mapping[str, Tensor]]],
    start_VD: Tensor,
    counts_V: Tensor,
    config: X2StaticConfig,
    seed: int,
    advance: Callable[[int], None] = lambda occurrences: None,
) -> Tensor:
    """The vectors (V, D) learned from the contexts; `blocks()` gives them all, and is asked once an epoch."""
    vectors_VD = torch.nn.Parameter(start_VD.clone())
    optimizer = torch.optim.SparseAdam([vectors_VD], lr=config.learning_rate)
    cumulative_V = counts_V.double().sqrt().cumsum(0)
    epoch = steps = seen = 0
    while epoch < config.epochs or steps < config.min_steps:
        generator = torch.Generator().manual_seed(seed * 1000 + epoch)
        for target_N, context_ND in _minibatches(blocks(), config.batch_size, generator):
            count = config.shared_negatives or len(target_N) * config.negatives
            uniform = torch.rand(count, dtype=torch.double, generator=generator) * cumulative_V[-1]
            drawn = torch.searchsorted(cumulative_V, uniform, right=True).clamp(max=len(cumulative_V) - 1)
            if config.shared_negatives:
                value = shared_loss(vectors_VD, context_ND, target_N, drawn, config.negatives)
            else:
                value = loss(vectors_VD, context_ND, target_N, drawn.view(len(target_N), -1))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            steps += 1
            seen += len(target_N)
            advance(seen)
        if not seen:
            raise DataError("subsampling passed over every word", "Raise extract.x2static.subsample or set it to null.")
        epoch += 1
    if not torch.isfinite(vectors_VD).all():
        raise TrainingError("the vectors are not finite", "Lower extract.x2static.learning_rate.")
    return vectors_VD.detach()


def _minibatches(
    blocks: Iterable[Mapping[str, Tensor]], size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Occurrences in random order within a block; what is left of a block goes on with the next."""
    targets, contexts = torch.empty(0, dtype=torch.long), None
    for block in blocks:
        if not len(block["targets"]):
            continue
        order = torch.randperm(len(block["targets"]), generator=generator)
        targets = torch.cat([targets, block["targets"][order]])
        found = block["contexts"][order].float()
        contexts = found if contexts is None else torch.cat([contexts, found])
        whole = len(targets) // size * size
        if not whole:
            continue
        yield from zip(targets[:whole].split(size), contexts[:whole].split(size), strict=True)
        targets, contexts = targets[whole:], contexts[whole:]
    if contexts is not None and len(targets):
        yield targets, contexts

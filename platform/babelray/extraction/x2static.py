"""Static vectors by prediction, X2Static (Gupta and Jaggi, 2021), as Hämmerl et al. (2022), section 3.1, use it.

A word's vector u learns to distinguish the contexts in which the word occurs from those of other words. The context of
an occurrence is the mean of the encoder's vectors over the sentence (or paragraph) without the word itself,

    c = 1/(n - |o|) Σ_{t ∉ o} h_t^(layer)

and the loss of an occurrence of w, with ten words w' drawn by the square root of their frequency, is

    ℓ = log(1 + exp(-s(w))) + Σ_{w' ≠ w} log(1 + exp(s(w'))),    s(w) = clamp(u_w · c, -10, 10)

Frequent words are subsampled: an occurrence of w counts with probability √(t/f) + t/f, f its relative frequency.
Which occurrences count is drawn once, by seed, so that contexts can be stored and every epoch sees the same ones.

Shapes: N occurrences, K negatives, V words of the vocabulary, D width, B rows of a batch, W occurrences in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from babelray.errors import DataError, TrainingError
from babelray.extraction.aggregate import OccurrenceSums, mean_vectors
from babelray.extraction.method import EXTRACTION_METHODS, EncoderMethod, OnProgress, PreparedBlock

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from babelray.extraction.language import LanguageExtraction
    from babelray.extraction.method import ReadBlocks
    from babelray.extraction.occurrences import Batch

CLAMP = 10.0
LARGEST_HALF = 65504.0


@EXTRACTION_METHODS.register
class X2StaticMethod(EncoderMethod):
    """Learned from contexts: a word's vector distinguishes the contexts in which the word occurs from those of other
    words (Gupta and Jaggi, 2021; Hämmerl et al., 2022). Defaults as published.
    """

    single_layer: ClassVar[bool] = True

    method: Literal["x2static"] = "x2static"
    context: Literal["sentence", "paragraph"] = "sentence"
    """What the encoder reads at once, and the mean of which is a word's context."""
    without_target: bool = True
    """Whether a word's own subwords are left out of its context."""
    start: Literal["zero", "random", "aggregate"] = "zero"
    """What the vectors are before training; `aggregate`: the mean over a word's occurrences, made small."""
    subsample: float | None = Field(5e-6, gt=0)
    """Words above this relative frequency are subsampled; null for none."""
    negatives: int = Field(10, ge=1)
    """Negative words per occurrence, drawn by the square root of frequency."""
    shared_negatives: int | None = Field(None, ge=1)
    """If set, this number of negatives serves a whole batch, with the weight of `negatives`: cheaper."""
    learning_rate: float = Field(1e-3, gt=0)
    epochs: int = Field(1, ge=1)
    """The encoder runs once for any number of epochs: contexts are stored in half precision until the vectors are
    complete."""
    min_steps: int = Field(2000, ge=1)
    """A language with little text is repeated, epoch by epoch, until this number of steps is reached."""
    batch_size: int = Field(128, ge=1)
    """Occurrences per step."""

    @property
    def reads_paragraphs(self) -> bool:
        return self.context == "paragraph"

    def encode(self, language: LanguageExtraction, block: PreparedBlock, on_progress: OnProgress) -> dict[str, Tensor]:
        chance_V = keep_probability(language.counts, self.subsample)
        contexts = Contexts(chance_V, language.seed, block.number, self.without_target)
        sums = OccurrenceSums(len(language.words)) if self.start == "aggregate" else None
        for batch, hidden in language.read(block.batches, on_progress):
            if sums is not None:
                sums.add(batch, hidden)
            contexts.add(batch, hidden[language.layer])
        return (sums.tensors() if sums is not None else {}) | contexts.tensors()

    def combine(
        self, language: LanguageExtraction, blocks: ReadBlocks, layer: int, on_progress: OnProgress
    ) -> tuple[Tensor, Tensor]:
        """Only words that were learned have a vector, unless all started with one."""
        import torch

        counts_V = torch.from_numpy(language.counts)
        start_VD, occurrences_V = self._start(language, blocks, layer)
        learned_VD = train(blocks, start_VD, counts_V, self, language.seed, on_progress)
        return learned_VD, torch.where(occurrences_V > 0, counts_V, 0)

    def _start(self, language: LanguageExtraction, blocks: ReadBlocks, layer: int) -> tuple[Tensor, Tensor]:
        """The vectors (V, D) before training, and the number (V) of occurrences of each word."""
        import torch

        words, width = len(language.words), language.reader.model.config.hidden_size
        if self.start == "aggregate":
            mean_VD, occurrences_V = mean_vectors(blocks(), words, layer)
            # Scores of about 1: beyond the clamp there is nothing to learn.
            return mean_VD / mean_VD.square().sum(1).mean().clamp(min=1e-12), occurrences_V
        start_VD, occurrences_V = torch.zeros(words, width), torch.zeros(words, dtype=torch.long)
        for block in blocks():
            occurrences_V.index_add_(0, block["targets"], torch.ones_like(block["targets"]))
        if self.start == "random":
            start_VD.uniform_(-0.5 / width, 0.5 / width, generator=torch.Generator().manual_seed(language.seed))
        return start_VD, occurrences_V


def keep_probability(counts_V: np.ndarray, threshold: float | None) -> np.ndarray:
    """The probability (V) that an occurrence counts.

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
        import torch

        self._chance_V = torch.from_numpy(chance_V)
        self._generator = np.random.default_rng([seed, block])
        self._uniform = np.empty(0)
        self._without_target = without_target
        self._words: list[Tensor] = []
        self._contexts: list[Tensor] = []

    def _counting(self, batch: Batch) -> Tensor:
        """Drawn in the order of the text, so that it does not depend on how sentences are batched."""
        import numpy as np
        import torch

        number_W = batch.number_W.cpu().numpy()
        missing = (number_W.max(initial=-1) + 1) - len(self._uniform)
        if missing > 0:
            self._uniform = np.concatenate([self._uniform, self._generator.random(max(missing, 4096))])
        return torch.from_numpy(self._uniform[number_W]) < self._chance_V[batch.word_W.cpu()]

    def add(self, batch: Batch, hidden_BTD: Tensor) -> None:
        """Add the occurrences of a batch."""
        import torch

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
            remedy = "Choose another layer (in a recipe: extract.layer)."
            raise DataError("the encoder's vectors are too large for half precision", remedy)
        self._words.append(batch.word_W.cpu()[counting.cpu()])
        self._contexts.append(contexts.half())

    def tensors(self) -> dict[str, Tensor]:
        """`targets` (N) and `contexts` (N, D)."""
        import torch

        if not self._words:
            return {"targets": torch.empty(0, dtype=torch.long), "contexts": torch.empty(0, 0).half()}
        return {"targets": torch.cat(self._words), "contexts": torch.cat(self._contexts)}


def loss(vectors_VD: Tensor, context_ND: Tensor, target_N: Tensor, negative_NK: Tensor) -> Tensor:
    """The clamped logistic loss, averaged over occurrences; a negative that is the target itself does not count."""
    from torch.nn import functional

    for_N = _positive_loss(vectors_VD, context_ND, target_N)
    negative_NKD = functional.embedding(negative_NK, vectors_VD, sparse=True)
    score_NK = (negative_NKD @ context_ND.unsqueeze(2)).squeeze(2)
    against_NK = functional.softplus(score_NK.clamp(-CLAMP, CLAMP))
    other_NK = negative_NK != target_N.unsqueeze(1)
    return (for_N + (against_NK * other_NK).sum(1)).mean()


def shared_loss(vectors_VD: Tensor, context_ND: Tensor, target_N: Tensor, negative_K: Tensor, negatives: int) -> Tensor:
    """The same with K negatives that all occurrences of a batch share, weighted as `negatives` of them."""
    from torch.nn import functional

    for_N = _positive_loss(vectors_VD, context_ND, target_N)
    negative_KD = functional.embedding(negative_K, vectors_VD, sparse=True)
    against_NK = functional.softplus((context_ND @ negative_KD.T).clamp(-CLAMP, CLAMP))
    other_NK = negative_K != target_N.unsqueeze(1)
    return (for_N + (against_NK * other_NK).sum(1) * (negatives / len(negative_K))).mean()


def _positive_loss(vectors_VD: Tensor, context_ND: Tensor, target_N: Tensor) -> Tensor:
    """log(1 + exp(-s(w))) of every occurrence (N)."""
    from torch.nn import functional

    positive_ND = functional.embedding(target_N, vectors_VD, sparse=True)
    return functional.softplus(-(positive_ND * context_ND).sum(1).clamp(-CLAMP, CLAMP))


def train(
    blocks: ReadBlocks,
    start_VD: Tensor,
    counts_V: Tensor,
    config: X2StaticMethod,
    seed: int,
    on_progress: OnProgress = lambda occurrences: None,
) -> Tensor:
    """The vectors (V, D) learned from the contexts; `blocks()` is called once per epoch and yields all of them."""
    import torch

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
            on_progress(seen)
        if not seen:
            remedy = "In a recipe: raise extract.subsample or set it to null; in Python: subsample=None."
            raise DataError("subsampling left no occurrence of any word", remedy)
        epoch += 1
    if not torch.isfinite(vectors_VD).all():
        raise TrainingError("the vectors are not finite", "Lower learning_rate (in a recipe: extract.learning_rate).")
    return vectors_VD.detach()


def _minibatches(
    blocks: Iterable[Mapping[str, Tensor]], size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Occurrences in random order within a block; the rest of a block joins the next block."""
    import torch

    targets, contexts = torch.empty(0, dtype=torch.long), None
    for block in blocks:
        if not len(block["targets"]):
            continue
        order = torch.randperm(len(block["targets"]), generator=generator)
        targets = torch.cat([targets, block["targets"][order]])
        more = block["contexts"][order].float()
        contexts = more if contexts is None else torch.cat([contexts, more])
        complete = len(targets) // size * size
        if not complete:
            continue
        yield from zip(targets[:complete].split(size), contexts[:complete].split(size), strict=True)
        targets, contexts = targets[complete:], contexts[complete:]
    if contexts is not None and len(targets):
        yield targets, contexts

"""Sentence retrieval: is a sentence's nearest neighbour in the other language its translation?

How near a candidate y is to a sentence x follows from the cosine of their vectors:

    cosine   cos(x, y)
    csls     2 cos(x, y) − r(x) − r(y)              Conneau et al. (2018); k = 10
    margin   cos(x, y) / ((r(x) + r(y)) / 2)        the ratio margin of Artetxe and Schwenk (2019a); k = 4

    r(x) = 1/k Σ cos(x, z) over the k candidates z that are nearest to x; r(y) the same among the sentences of x's side

The last two keep sentences that are near to everything from being the answer to everything. All three are symmetric, so
the same neighbourhoods serve both directions. Unlike Artetxe and Schwenk (2019a), who score the k nearest candidates
only, we score all; and (r(x) + r(y)) / 2 is at least `FLOOR`, since a ratio to a negative number would turn the order
round.

Artetxe and Schwenk (2019a): Margin-based parallel corpus mining with multilingual sentence embeddings. ACL.
Artetxe and Schwenk (2019b): Massively multilingual sentence embeddings for zero-shot cross-lingual transfer and beyond.
TACL. Their Tatoeba test, by cosine, reports errors: 1 − accuracy.

Shapes: N pairs of sentences, D width, B sentences of a tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch.nn import functional

from babelray.errors import DataError
from babelray.vectors.retrieval import mean_nearest, nearest

if TYPE_CHECKING:
    from torch import Tensor

Scoring = Literal["cosine", "csls", "margin"]
Groups = tuple[Sequence[int], Sequence[int]]
"""A number for each source and each target sentence: where it is the same, so is the sentence."""

NEIGHBOURS: dict[Scoring, int] = {"cosine": 0, "csls": 10, "margin": 4}
"""k: the neighbours that say how near a sentence is to everything."""
FLOOR = 0.01
"""The least mean of neighbours' cosines that a cosine is divided by."""
CELLS = 1 << 24
"""Scores of a tile: 64 MB, and about as much again to look for the best of them."""


class Answers(NamedTuple):
    """What one direction finds for every sentence."""

    positions_N: Tensor
    """The candidate with the highest score; of equal ones the first."""
    correct_N: Tensor
    """Whether that is the translation."""
    margins_N: Tensor
    """The score of the translation less that of the best other candidate; infinite where there is no other."""

    @property
    def accuracy(self) -> float:
        return self.correct_N.float().mean().item()

    @property
    def mean_margin(self) -> float:
        """Over the sentences that have another candidate; 0 if none has."""
        there = self.margins_N[~self.margins_N.isinf()]
        return there.mean().item() if len(there) else 0.0


class Retrieval(NamedTuple):
    """Both directions."""

    to_hub: Answers
    from_hub: Answers

    def metrics(self) -> dict[str, float]:
        """Accuracy and error in both directions and their means; how far translations lie above the best other."""
        accuracy = _both(self.to_hub.accuracy, self.from_hub.accuracy)
        return {
            **accuracy,
            "error_to_hub": 1 - accuracy["to_hub"],
            "error_from_hub": 1 - accuracy["from_hub"],
            "error": 1 - accuracy["mean"],
            "mean_margin": (self.to_hub.mean_margin + self.from_hub.mean_margin) / 2,
        }

    def predictions(self) -> dict[str, dict[str, list[int]]]:
        """Positions and scores (0 or 1) of both directions, in the order of the sentences, as JSON can hold them."""
        return {
            name: {"positions": answers.positions_N.tolist(), "example_scores": answers.correct_N.int().tolist()}
            for name, answers in self._asdict().items()
        }


def retrieval_accuracy(
    source_ND: Tensor, target_ND: Tensor, scoring: Scoring = "cosine", groups: Groups | None = None
) -> dict[str, float]:
    """Accuracy in both directions and their mean; row i of one side translates row i of the other.

    `groups`: see `retrieve`, which also gives the errors, the margins and every answer.
    """
    if groups or scoring == "margin":
        answers = retrieve(source_ND, target_ND, scoring, groups)
        return _both(answers.to_hub.accuracy, answers.from_hub.accuracy)
    correct_N, correct_back_N = correct_translations(source_ND, target_ND, scoring)
    return _both(correct_N.float().mean().item(), correct_back_N.float().mean().item())


def correct_translations(source_ND: Tensor, target_ND: Tensor, scoring: Scoring = "cosine") -> tuple[Tensor, Tensor]:
    """Which sentences (N) find their translation, from source to target and back."""
    _check(source_ND, target_ND, None)
    own_N = torch.arange(len(source_ND), device=source_ND.device)
    first_N, back_N = (
        nearest(queries_ND, keys_ND, csls=NEIGHBOURS[scoring])[1][:, 0] == own_N
        for queries_ND, keys_ND in ((source_ND, target_ND), (target_ND, source_ND))
    )
    return first_N, back_N


@torch.no_grad()
def retrieve(
    source_ND: Tensor,
    target_ND: Tensor,
    scoring: Scoring = "cosine",
    groups: Groups | None = None,
    neighbours: int | None = None,
) -> Retrieval:
    """Every sentence's answer in both directions; row i of one side translates row i of the other.

    A sentence that occurs twice among the candidates has the same vector at both places. With `groups` it is right at
    either: candidates with the number of the translation count as the translation (see `groups_of`). `neighbours` is k,
    by default that of the papers.

    >>> found = retrieve(torch.eye(3)[[0, 1, 1]], torch.eye(3), groups=([0, 1, 1], [0, 1, 2]))
    >>> found.to_hub.positions_N.tolist(), found.to_hub.correct_N.tolist()
    ([0, 1, 1], [True, True, False])
    >>> found.from_hub.positions_N.tolist(), found.from_hub.margins_N.tolist()
    ([0, 1, 0], [1.0, 1.0, 0.0])
    """
    _check(source_ND, target_ND, groups)
    for side_ND in (source_ND, target_ND):
        if broken := int((~side_ND.isfinite().all(1)).sum()):
            problem = f"the vectors of {broken} of {len(side_ND)} sentences are not numbers"
            raise DataError(problem, "The training of the encoder has diverged, or its weights are damaged.")
    source_ND, target_ND = functional.normalize(source_ND), functional.normalize(target_ND)
    k = NEIGHBOURS[scoring] if neighbours is None else neighbours
    near_source_N = near_target_N = source_ND.new_zeros(len(source_ND))
    if scoring != "cosine":
        near_source_N, near_target_N = mean_nearest(source_ND, target_ND, k), mean_nearest(target_ND, source_ND, k)
    own = range(len(source_ND))
    source_labels_N, target_labels_N = (
        torch.tensor(labels, device=source_ND.device) for labels in groups or (own, own)
    )
    return Retrieval(
        to_hub=_answers(source_ND, target_ND, near_source_N, near_target_N, target_labels_N, scoring),
        from_hub=_answers(target_ND, source_ND, near_target_N, near_source_N, source_labels_N, scoring),
    )


def groups_of(sentences: Sequence[str]) -> list[int]:
    """For each sentence the place where it occurs first.

    >>> groups_of(["a", "b", "a"])
    [0, 1, 0]
    """
    first: dict[str, int] = {}
    return [first.setdefault(sentence, location) for location, sentence in enumerate(sentences)]


def chance_of_groups(groups: Sequence[int]) -> float:
    """The accuracy of guessing among candidates, of which those with the number of the translation are right.

    >>> chance_of_groups([0, 1, 2, 3]), chance_of_groups([0, 1, 0, 3])
    (0.25, 0.375)
    """
    return sum(count**2 for count in Counter(groups).values()) / max(1, len(groups)) ** 2


def _both(to_hub: float, from_hub: float) -> dict[str, float]:
    return {"to_hub": to_hub, "from_hub": from_hub, "mean": (to_hub + from_hub) / 2}


def _check(source_ND: Tensor, target_ND: Tensor, groups: Groups | None) -> None:
    sizes = [len(side) for side in (source_ND, target_ND, *(groups or ()))]
    if len(set(sizes)) > 1 or not sizes[0]:
        problem = f"retrieval among {sizes[0]} sentences and {sizes[1]} translations"
        problem += f", in groups of {sizes[2]} and {sizes[3]}" if groups else ""
        raise DataError(problem, "Give as many translations (and groups) as sentences, and at least one.")


def _answers(
    queries_ND: Tensor, keys_ND: Tensor, near_query_N: Tensor, near_key_N: Tensor, labels_N: Tensor, scoring: Scoring
) -> Answers:
    """One direction, tile by tile; keys with a query's label are its translation."""
    tiles = []
    for rows_B in torch.arange(len(queries_ND), device=queries_ND.device).split(max(1, CELLS // len(keys_ND))):
        scores_BN = queries_ND[rows_B] @ keys_ND.T
        near_B1 = near_query_N[rows_B].unsqueeze(1)
        if scoring == "csls":
            scores_BN.mul_(2).sub_(near_B1).sub_(near_key_N)
        elif scoring == "margin":
            scores_BN.div_((near_B1 + near_key_N).div_(2).clamp_(min=FLOOR))
        right_BN = labels_N[rows_B].unsqueeze(1) == labels_N
        gold = scores_BN.masked_fill(~right_BN, -torch.inf).max(1)
        other = scores_BN.masked_fill_(right_BN, -torch.inf).max(1)
        correct_B = (gold.values > other.values) | (
            (gold.values == other.values) & (gold.indices < other.indices)  # the first of equal ones
        )
        tiles.append((torch.where(correct_B, gold.indices, other.indices), correct_B, gold.values - other.values))
    return Answers(*(torch.cat(parts) for parts in zip(*tiles, strict=True)))

"""Quality of machine translation without a reference: how far the words of a source are from those of its translation.

XMover (Zhao et al., 2020, "On the Limitations of Cross-lingual Encoders as Exposed by Reference-Free Machine
Translation Evaluation"; a task of Zhao and Eger's "Constrained Density Matching and Modeling", section 4.4) compares
contextual vectors x_i of the n-grams of a source with y_j of the n-grams of its translation by the word mover's
distance:

    WMD(x, y) = min_F Σ_ij F_ij ‖x_i − y_j‖₂      F ≥ 0,  Σ_j F_ij = a_i,  Σ_i F_ij = b_j
    score     = 1 − WMD(x, y)                      x_i and y_j of unit length: 1 is the best, −1 the worst

The vector of an n-gram is the mean of those of its words, its weight the sum of theirs; a and b sum to 1. What
languages differ in besides meaning is taken out first, by a correction that was fitted on vectors of aligned words:
`CrossLingualProjection` (the paper's CLP) or `MismatchRemoval` (its UMD).

Differences from the published script
- It comes in two versions. The first takes squared distances, and leaves out punctuation and all but the first subword
  of a word; the second takes distances of all subwords, but finds an optimal flow and then drops its smallest parts,
  30 % of them, so that it is no transport any more. Here are distances, of all words or all subwords, and all of the
  flow.
- Both keep the special tokens at the ends of a text, which stand for no word; they are left out here.
- Both weigh all words alike. So does the default here; `idf=True` takes the weights of MoverScore (Zhao et al., 2019),
  which XMover comes from.
- The language model that the paper adds to the score is left out, as Zhao and Eger do: it says nothing of alignment.

Shapes: B sentence pairs, W words (or subwords) of a sentence, n words of an n-gram, G n-grams of a sentence, S and T
those of source and translation, D width, P pairs of aligned words, K directions.
"""

from __future__ import annotations

import csv
import html
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from pydantic import Field

from babelray.errors import BabelrayError, DataError
from babelray.evaluation.benchmark import BENCHMARKS, EncoderBenchmark, Result, System
from babelray.evaluation.tables import checked_number
from babelray.metrics.intervals import correlation_interval
from babelray.storage import Location

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from babelray.encoder.text_encoder import TextEncoder

Solver = Literal["exact", "sinkhorn"]
Tokens = Sequence[Sequence[str]]

FARTHEST = 2.0
"""No two vectors of unit length are farther apart."""
PAIRS = 256
"""Pairs that Sinkhorn gets at once: padded, they share memory."""
ITERATIONS = 200
"""Sinkhorn's iterations at the finest scale: with fewer, longer sentences have not converged."""
COLUMNS = ("LP", "source", "translation", "HUMAN_score")
BLEU = "sentBLEU"
DECIMAL = "Write it with a decimal point, such as -0.25, or delete the line."


@BENCHMARKS.register
class MtQuality(EncoderBenchmark):
    """How well the distance between a sentence and its machine translation agrees with people's judgement of the
    translation: Pearson's correlation. The reference-free evaluation (RFEval) of Zhao and Eger (2022), by XMover (Zhao
    et al., 2020).
    """

    title: ClassVar[str] = "Translation quality without references"
    main_metric: ClassVar[str] = "pearson"
    columns: ClassVar[Mapping[str, str]] = {
        "segments": ",.0f",
        "pearson": ".3f",
        "kendall": ".3f",
        "spearman": ".3f",
        "bleu_pearson": ".3f",
    }
    metric_titles: ClassVar[Mapping[str, str]] = {"bleu_pearson": "BLEU's Pearson"}

    examples: ClassVar[Mapping[str, str]] = {
        "data": "wmt17/ (a folder with WMT's `testset_de-en.tsv`)",
    }
    benchmark: Literal["mt-quality"] = "mt-quality"
    data: str
    """WMT's `testset_*.tsv`: a file, a pattern, or their folder."""
    ngram: int = Field(1, ge=1)
    idf: bool = False
    solver: Literal["exact", "sinkhorn"] = "exact"

    def sources(self, languages: Sequence[str] = ()) -> list[Location]:
        location = Location.parse(self.data)
        files = location.glob() if location.is_file() or not location.exists() else (location / "testset_*.tsv").glob()
        if not files:
            raise DataError(f"no segments with human scores at {location}", "Give `testset_de-en.tsv` or its folder.")
        return files

    def run(self, encoder: TextEncoder, system: System) -> Result:
        scores, predictions = {}, {}
        for location in self.sources():
            segments = read_segments(location)
            source, _, target = segments[0].pair.partition("-")
            similarities = mt_scores(
                encoder.for_language(source, target),
                [segment.source for segment in segments],
                [segment.translation for segment in segments],
                ngram=self.ngram,
                idf=self.idf,
                solver=self.solver,
                reader=encoder.for_language(target, source),
            ).tolist()
            human = [segment.human for segment in segments]
            scores[segments[0].pair] = {"segments": len(segments), **correlations(similarities, human)}
            bleu = [segment.bleu for segment in segments if segment.bleu is not None]
            if len(bleu) == len(human):
                scores[segments[0].pair]["bleu_pearson"] = correlations(bleu, human)["pearson"]
            predictions[segments[0].pair] = [round(score, 6) for score in similarities]
        intervals = {pair: correlation_interval(own["pearson"], int(own["segments"])) for pair, own in scores.items()}
        return Result(scores, predictions, chance=dict.fromkeys(scores, 0.0), intervals=intervals)


@dataclass(frozen=True)
class Segment:
    """A sentence, its translation by a system, and the score that people gave the translation."""

    pair: str
    source: str
    translation: str
    human: float
    bleu: float | None = None
    """BLEU against a reference, as a baseline."""


class Correction(Protocol):
    """How the difference between the languages is removed from vectors before they are compared."""

    def source(self, vectors_WD: Tensor) -> Tensor: ...

    def target(self, vectors_WD: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class CrossLingualProjection:
    """CLP: source vectors are mapped to the target space, x ↦ x W; target vectors stay.

        W* = argmin_W ‖X W − Z‖_F = X⁺ Z                    least squares (Mikolov et al., 2013)
        W* = U Vᵀ,  U Σ Vᵀ = svd(Xᵀ Z)                      if WᵀW = I: orthogonal Procrustes (Xing et al., 2015)

    X and Z hold the vectors of aligned words. Unlike `mapping`'s methods it neither centres nor normalises: it is to be
    applied to the vectors as the encoder gives them. With fewer pairs than dimensions the least squares of least norm
    are taken, where the published script inverts a matrix that has no inverse.
    """

    matrix_DD: Tensor

    @classmethod
    def fit(cls, source_PD: Tensor, target_PD: Tensor, orthogonal: bool = True) -> CrossLingualProjection:
        import torch

        from babelray.mapping.procrustes import rotation

        _check_aligned(source_PD, target_PD)
        if orthogonal:
            return cls(rotation(source_PD, target_PD))
        return cls((torch.linalg.pinv(source_PD.double()) @ target_PD.double()).to(source_PD.dtype))

    def source(self, vectors_WD: Tensor) -> Tensor:
        return vectors_WD @ self.matrix_DD

    def target(self, vectors_WD: Tensor) -> Tensor:
        return vectors_WD


@dataclass(frozen=True)
class MismatchRemoval:
    """UMD: the directions in which aligned words differ are projected out, x ↦ x − Σ_k (x · v_k) v_k.

    v_1 … v_K are the first right singular vectors of Q = X − Z (P, D), found as eigenvectors of QᵀQ. Q is not centred:
    what all pairs differ in alike, its mean, is the very bias that is to go.

    The paper has one direction and writes cos(x, v) for x · v, which is the same for vectors of unit length; of others
    only x · v leaves nothing in the direction v. Both languages are changed: the published script changes the source
    alone (`both=False`), which then stays apart from a target whose vectors lean towards v.
    """

    directions_KD: Tensor
    both: bool = True

    @classmethod
    def fit(cls, source_PD: Tensor, target_PD: Tensor, count: int = 1, both: bool = True) -> MismatchRemoval:
        """The first `count` directions."""
        import torch

        _check_aligned(source_PD, target_PD)
        difference_PD = source_PD.double() - target_PD.double()
        if not 1 <= count <= min(difference_PD.shape):
            problem = f"{count} directions cannot be found in differences of the shape {tuple(difference_PD.shape)}"
            raise DataError(problem, "Ask for 1 at least, and for no more than there are pairs or dimensions.")
        if not difference_PD.any():
            raise DataError("aligned words have the same vectors on both sides", "There is no mismatch to remove.")
        _, vectors_DD = torch.linalg.eigh(difference_PD.T @ difference_PD)
        return cls(vectors_DD[:, -count:].T.flip(0).to(source_PD.dtype), both)

    def source(self, vectors_WD: Tensor) -> Tensor:
        return vectors_WD - vectors_WD @ self.directions_KD.T @ self.directions_KD

    def target(self, vectors_WD: Tensor) -> Tensor:
        return self.source(vectors_WD) if self.both else vectors_WD


def mt_scores(
    encoder: TextEncoder,
    sources: Sequence[str],
    translations: Sequence[str],
    source_tokens: Tokens | None = None,
    translation_tokens: Tokens | None = None,
    ngram: int = 1,
    correction: Correction | None = None,
    idf: bool = False,
    solver: Solver = "exact",
    reader: TextEncoder | None = None,
) -> Tensor:
    """The score 1 − WMD of each pair (B,), between −1 and 1; a pair with a side that has no words gets −1.

    `tokens` are what the texts are cut into, in order; where there are none, subwords are compared. The paper reads a
    middle layer of the encoder, and takes n-grams of 1 or 2. idf is counted over the sentences of each side. `reader`
    reads the translations, if it is not the same encoder.
    """
    import torch

    _check_equally_many("sources", sources, "translations", translations)
    if ngram < 1:
        raise BabelrayError(f"there are no n-grams of {ngram} words", "Use 1 for words, 2 for pairs of words.")
    if not sources:
        return torch.zeros(0, dtype=torch.double)
    x, a = _side(encoder, sources, source_tokens, ngram, idf, correction.source if correction else None)
    taken_out = correction.target if correction else None
    y, b = _side(reader or encoder, translations, translation_tokens, ngram, idf, taken_out)
    return 1 - word_mover_distances(x, y, (a, b), solver).clamp(max=FARTHEST)


def word_mover_distances(
    sources: Sequence[Tensor],
    translations: Sequence[Tensor],
    weights: tuple[Sequence[Tensor], Sequence[Tensor]] | None = None,
    solver: Solver = "exact",
    blur: float = 0.01,
) -> Tensor:
    """The word mover's distance of each pair (B,) in float64, from vectors (S, D) to vectors (T, D) as they stand.

    `weights` (S,) and (T,) need not sum to 1; without them, or if they are all 0, words count alike. An empty side has
    no plan, so that the distance is infinite.

    `exact` matches words one to one (Hungarian method) where both sides have as many that weigh the same, since an
    optimal plan is then a permutation, and else solves the linear program by HiGHS' dual simplex, to its tolerance of
    10⁻⁷. `sinkhorn` is Σ_ij π_ij ‖x_i − y_j‖ of the entropic plan π at ε = blur (see `objectives/sinkhorn.py`), which
    for vectors of unit length came within 0.006 of the distance; only for words that weigh the same. A pair of about
    40 words on each side took 9 ms exactly, and 4 ms by Sinkhorn, on one core.

    >>> import torch
    >>> word_mover_distances([torch.tensor([[0.0], [2.0]])], [torch.tensor([[1.0], [2.0], [6.0]])])
    tensor([2.], dtype=torch.float64)
    """
    import torch

    _check_equally_many("sources", sources, "translations", translations)
    _check_vectors([*sources, *translations])
    given: tuple[Sequence[Tensor | None], ...] = weights or ([None] * len(sources), [None] * len(sources))
    a = [_shares(*sentence) for sentence in zip(sources, given[0], strict=True)]
    b = [_shares(*sentence) for sentence in zip(translations, given[1], strict=True)]
    if solver == "sinkhorn":
        return _entropic(sources, translations, a, b, blur)
    distances = [_exact(*pair) for pair in zip(sources, translations, a, b, strict=True)]
    return torch.tensor(distances, dtype=torch.double)


def ngrams(vectors_WD: Tensor, weights_W: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Vectors (G, D) and weights (G,) of all n consecutive words; a sentence of fewer words is one n-gram.

        g_i = Σ_k w_{i+k} x_{i+k} / Σ_k w_{i+k},      weight Σ_k w_{i+k},      k = 0 … n − 1

    If the words of an n-gram all weigh 0, they count alike.

    >>> import torch
    >>> vectors, weights = ngrams(torch.tensor([[0.0], [4.0], [2.0]]), torch.tensor([1.0, 3.0, 1.0]), 2)
    >>> vectors.T, weights
    (tensor([[3.0000, 3.5000]]), tensor([4., 4.]))
    """
    import torch

    if not len(vectors_WD):
        return vectors_WD, weights_W
    n = min(n, len(vectors_WD))
    weights_Gn = weights_W.unfold(0, n, 1)
    total_G1 = weights_Gn.sum(1, keepdim=True)
    shares_Gn = torch.where(total_G1 > 0, weights_Gn / total_G1, 1 / n).to(vectors_WD)
    return torch.einsum("gdn,gn->gd", vectors_WD.unfold(0, n, 1), shares_Gn), total_G1[:, 0]


def idf_weights(tokens: Tokens) -> list[Tensor]:
    """Of each sentence the weights (W,) of its tokens: log (N + 1) / (m + 1) for one that m of the N sentences have.

    >>> idf_weights([["a", "dog"], ["a", "cat"], ["a", "cat"]])
    [tensor([0.0000, 0.6931]), tensor([0.0000, 0.2877]), tensor([0.0000, 0.2877])]
    """
    import torch

    have = Counter(token for sentence in tokens for token in set(sentence))
    return [torch.tensor([math.log((len(tokens) + 1) / (have[token] + 1)) for token in words]) for words in tokens]


def correlations(scores: Sequence[float] | Tensor, human: Sequence[float]) -> dict[str, float]:
    """Pearson's r, by which papers compare, Kendall's τ-b and Spearman's ρ; all 0 if a side does not vary."""
    from scipy.stats import kendalltau, pearsonr, spearmanr

    values = [float(score) for score in scores]
    _check_equally_many("scores", values, "human judgements", human)
    if min(len(set(values)), len(set(human))) < 2:
        return {"pearson": 0.0, "kendall": 0.0, "spearman": 0.0}
    return {
        "pearson": float(pearsonr(values, human).statistic),
        "kendall": float(kendalltau(values, human, variant="b").statistic),
        "spearman": float(spearmanr(values, human).statistic),
    }


def read_segments(location: Location) -> list[Segment]:
    """The segments of a file of WMT17's direct assessments, as published with XMover: `testset_de-en.tsv`.

    Columns are separated by tabs, quoted as in CSV, and identified by the names in the first line, in any order: `LP`,
    `source`, `translation`, `HUMAN_score`, and `sentBLEU` if it is there; others, such as `reference`, are not read.
    Translations have gone through Moses: they are in lower case, with spaces about marks, and `&apos;` for an
    apostrophe. The published script restores capitals and removes spaces, with models of English; here only such
    escapes are undone.
    """
    text = unicodedata.normalize("NFC", location.read_text().removeprefix("\ufeff").rstrip("\r\n"))
    header, *rows = [
        _cells(f"{location}, line {number}", line) for number, line in enumerate(text.split("\n"), start=1)
    ]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        problem = f"{location}, line 1: no column {', '.join(missing)} among {', '.join(header)[:80]!r}"
        raise DataError(problem, f"The first line must name the columns {', '.join(COLUMNS)}, separated by tabs.")
    if not rows:
        raise DataError(f"{location}, line 1: there are no segments below the names", "Get the file again.")
    return [_segment(f"{location}, line {number}", header, row) for number, row in enumerate(rows, start=2)]


def _side(
    encoder: TextEncoder,
    texts: Sequence[str],
    tokens: Tokens | None,
    ngram: int,
    idf: bool,
    corrected: Callable[[Tensor], Tensor] | None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Of each text its n-grams' vectors (G, D), of unit length, and their weights (G,)."""
    import torch
    from torch.nn.functional import normalize

    sentences: list[tuple[list[str], Tensor]]
    if tokens is None:
        subwords = zip(texts, encoder.subwords(texts), strict=True)
        sentences = [([text[a:b] for a, b in spans.tolist()], vectors) for text, (spans, vectors) in subwords]
    else:
        _check_equally_many("texts", texts, "lists of tokens", tokens)
        words = zip(tokens, encoder.words(texts, tokens), strict=True)
        sentences = [([cut[location] for location in locations], vectors) for cut, (locations, vectors) in words]
    weights = (
        idf_weights([names for names, _ in sentences]) if idf else [torch.ones(len(names)) for names, _ in sentences]
    )
    grams = [
        ngrams(corrected(vectors_WD) if corrected else vectors_WD, weights_W, ngram)
        for (_, vectors_WD), weights_W in zip(sentences, weights, strict=True)
    ]
    return [normalize(vectors_GD) for vectors_GD, _ in grams], [weights_G for _, weights_G in grams]


def _shares(vectors_WD: Tensor, weights_W: Tensor | None) -> Tensor:
    """Weights that sum to 1, in float64; alike if there are none, or all are 0."""
    import torch

    ones_W = torch.ones(len(vectors_WD), dtype=torch.double)
    if weights_W is None or not weights_W.any():
        weights_W = ones_W
    if weights_W.shape != ones_W.shape or not torch.isfinite(weights_W).all() or (weights_W < 0).any():
        problem = f"{len(vectors_WD)} words cannot have the weights {weights_W.tolist()[:8]}"
        raise DataError(problem, "Give a number for each word, 0 or more.")
    return weights_W.to("cpu", torch.double) / weights_W.sum(dtype=torch.double).cpu()


def _exact(x_SD: Tensor, y_TD: Tensor, a_S: Tensor, b_T: Tensor) -> float:
    import torch

    if not len(x_SD) or not len(y_TD):
        return math.inf
    # Not by products of all words with all, which would leave words at a distance of 10⁻⁸ from themselves.
    distance_ST = torch.cdist(x_SD.double(), y_TD.double(), compute_mode="donot_use_mm_for_euclid_dist").cpu()
    if len(a_S) == len(b_T) and bool((a_S == a_S[0]).all() and (b_T == b_T[0]).all()):
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(distance_ST.numpy())
        return float(distance_ST[rows, columns].mean())
    return _linear_program(distance_ST.numpy(), a_S.numpy(), b_T.numpy())


def _linear_program(cost_ST: np.ndarray, a_S: np.ndarray, b_T: np.ndarray) -> float:
    """The least Σ F_ij C_ij, with one equation for each row and each column: every F_ij stands in two of them.

    Presolving, which costs more than the simplex itself, finds nothing to simplify here.
    """
    import numpy as np
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    rows, columns = np.divmod(np.arange(cost_ST.size), len(b_T))
    equations = np.stack([rows, len(a_S) + columns], axis=1).ravel()
    matrix = csc_array((np.ones(len(equations)), equations, np.arange(0, len(equations) + 1, 2)))
    totals = np.concatenate([a_S, b_T])
    solution = linprog(cost_ST.ravel(), A_eq=matrix, b_eq=totals, method="highs-ds", options={"presolve": False})
    if not solution.success:
        raise BabelrayError(f"no optimal transport was found: {solution.message}", "Use the solver sinkhorn.")
    return float(solution.fun)


def _entropic(
    sources: Sequence[Tensor], translations: Sequence[Tensor], a: Sequence[Tensor], b: Sequence[Tensor], blur: float
) -> Tensor:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from babelray.objectives.sinkhorn import transport_plan

    if any(len(side_W) and bool((side_W != side_W[0]).any()) for side_W in (*a, *b)):
        raise BabelrayError("the solver sinkhorn weighs all words alike", "Use the solver exact with idf.")
    distances = []
    for start in range(0, len(sources), PAIRS):
        x, y = sources[start : start + PAIRS], translations[start : start + PAIRS]
        x_BSD, y_BTD = pad_sequence(list(x), batch_first=True), pad_sequence(list(y), batch_first=True)
        masks = [pad_sequence([torch.ones(len(words)) for words in side], batch_first=True) for side in (x, y)]
        plan_BST = transport_plan(
            x_BSD, masks[0].to(x_BSD), y_BTD, masks[1].to(y_BTD), blur, p=1, iterations=ITERATIONS
        )
        total_B = (plan_BST * torch.cdist(x_BSD.float(), y_BTD.float())).sum((1, 2))
        empty_B = ~(masks[0].bool().any(1) & masks[1].bool().any(1))
        distances.append(total_B.to("cpu", torch.double).masked_fill(empty_B, math.inf))
    return torch.cat(distances) if distances else torch.zeros(0, dtype=torch.double)


def _check_equally_many(first: str, left: Sequence[object], second: str, right: Sequence[object]) -> None:
    if len(left) != len(right):
        raise DataError(f"{len(left)} {first}, but {len(right)} {second}", "Each must have one that belongs to it.")


def _check_vectors(sentences: Sequence[Tensor]) -> None:
    import torch

    if len({vectors.shape[1] for vectors in sentences}) > 1:
        widths = sorted({vectors.shape[1] for vectors in sentences})
        raise DataError(f"vectors of {widths} dimensions cannot be compared", "Encode both sides by one encoder.")
    if not all(torch.isfinite(vectors).all() for vectors in sentences):
        raise DataError("a vector is not finite", "Check the encoder: its training may have diverged.")


def _check_aligned(source_PD: Tensor, target_PD: Tensor) -> None:
    if source_PD.shape != target_PD.shape or source_PD.ndim != 2 or not len(source_PD):
        problem = f"vectors of aligned words have the shapes {tuple(source_PD.shape)} and {tuple(target_PD.shape)}"
        raise DataError(problem, "Row n of both must hold the vectors of the words of pair n; give one pair at least.")
    _check_vectors([source_PD, target_PD])


def _cells(where: str, line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter="\t", strict=True), [])]
    except csv.Error as error:
        raise DataError(f"{where}: not valid CSV ({error})", "Check its quotes.") from error


def _segment(where: str, header: list[str], row: list[str]) -> Segment:
    if len(row) != len(header):
        problem = f"{where}: {len(row)} columns, but {len(header)} in the first line"
        raise DataError(problem, "Give every line the same columns.")
    cells = dict(zip(header, row, strict=True))
    if not cells["source"]:
        raise DataError(f"{where}: the source is missing", "Fill it in, or delete the line.")
    human = checked_number(where, "HUMAN_score", cells["HUMAN_score"], DECIMAL)
    bleu = checked_number(where, BLEU, cells[BLEU], DECIMAL) if BLEU in cells else None
    return Segment(cells["LP"], cells["source"], _unescaped(cells["translation"]), human, bleu)


def _unescaped(text: str) -> str:
    """Without the escapes of Moses' tokenizer.

    >>> _unescaped("it &apos;s &#91; R&amp;D &#93;")
    "it 's [ R&D ]"
    """
    return re.sub(r"&(?:amp|lt|gt|apos|quot|#\d+);", lambda match: html.unescape(match[0]), text)

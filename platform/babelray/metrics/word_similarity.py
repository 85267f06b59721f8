"""Word similarity: do the vectors find word pairs as similar as people do, in one language or across two?"""

from __future__ import annotations

import csv
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from babelray.config import Config
from babelray.errors import DataError

if TYPE_CHECKING:  # a recipe reads the config, and must not load torch
    from torch import Tensor

    from babelray.storage import Location
    from babelray.vectors.word_vectors import WordVectors

Missing = Literal["midpoint", "skip"]
SCORES = {"score", "average", "averagescore", "mean", "meanscore", "similarity", "rating", "humanmean", "simlex999"}
"""Names of a column of scores, of which only the letters and digits count; the last two: WordSim-353, SimLex-999."""
LAYOUTS = (
    "Give lines of `word<TAB>word<TAB>score`, SemEval-2017's `*.data.txt` with its `*.gold.txt`, or a header with "
    "`Word 1`, `Word 2` and one column of scores or one for each annotator."
)


class WordSimilaritySource(Config):
    """Files of word pairs that people have rated; the path says which languages a file is about.

    `dir/{lang}.csv`               one language a file: similarity within it
    `dir/{first}-{second}.csv`     two languages a file, in the order of its columns: similarity across them
    """

    path: str
    missing: Missing = "midpoint"
    """A pair with a word that has no vector: `midpoint` gives it the middle between the lowest and the highest
    similarity of the other pairs, so that missing words cost; `skip` leaves it out."""

    @model_validator(mode="after")
    def _path_names_one_language_or_two(self) -> WordSimilaritySource:
        if set(re.findall(r"{(.*?)}", self.path)) not in ({"lang"}, {"first", "second"}):
            raise ValueError("a path must have {lang} in it, or both {first} and {second}, and no other name in braces")
        return self

    def files(self, languages: Sequence[str]) -> dict[tuple[str, str], Location]:
        """The files that exist, by the languages of their two columns; an error if there is none at all."""
        from babelray.storage import Location

        pairs = [(a, b) for a in languages for b in languages if (a == b) == ("{lang}" in self.path)]
        locations = {
            (a, b): Location.parse(self.path.replace("{lang}", a).replace("{first}", a).replace("{second}", b))
            for a, b in pairs
        }
        existing = {pair: location for pair, location in locations.items() if location.is_file()}
        if not existing:
            raise DataError(f"no language has a file at {self.path}", "Check the path in the recipe.")
        return existing

    def sources(self, languages: Sequence[str]) -> list[Location]:
        """All files that are read: `files`, and the scores that lie in files of their own."""
        files = self.files(languages).values()
        return [*files, *(_gold_file(location) for location in files if _has_gold_file(location))]


@dataclass(frozen=True)
class Rating:
    """How similar people find two words; the scale is the data set's own."""

    first: str
    second: str
    score: float


def read_ratings(location: Location) -> list[Rating]:
    """The ratings of a file in one of the published layouts, recognised by its first line.

    two columns          SemEval-2017 Task 2 (Camacho-Collados et al. 2017): `data/en.test.data.txt`, with one score a
                         line in `keys/en.test.gold.txt` or in a file of that name beside the data
    word, word, score    the same as MUSE pastes it together; RG-65 and others
    a header             Multi-SimLex (Vulić et al. 2020): `ID,Word 1,Word 2,POS,Annotator 1,…`, averaged over the
                         annotators that voted, and `ID,ENG,FIN,POS,score` across languages; SimLex-999, WordSim-353
    """
    rows, where = _rows(location), str(location)
    words, scores, header = [0, 1], [2], 0
    if len(rows[0]) == 2:
        gold = _gold_file(location)
        column = _lines(gold)
        if len(column) != len(rows):
            problem = (
                f"{gold}, line {len(column)}: the last of {len(column)} scores, but {location} has {len(rows)} pairs"
            )
            raise DataError(problem, "Line n must hold the score of pair n: get both files again.")
        rows, where = [[*row, score] for row, score in zip(rows, column, strict=True)], f"{location} with {gold}"
    elif len(rows[0]) != 3 or math.isnan(parse_number(rows[0][2])):
        (words, scores), header = _columns(location, rows[0]), 1
    return [
        _rating(f"{where}, line {line}", [row[i] for i in words], [row[i] for i in scores])
        for line, row in enumerate(rows[header:], start=1 + header)
    ]


def word_similarity(
    source: WordVectors, target: WordVectors, ratings: Iterable[Rating], missing: Missing = "midpoint"
) -> dict[str, float]:
    """Correlations of the cosines of `first` in the source and `second` in the target with people's scores.

    `harmonic`, by which SemEval-2017 ranks, is 2rρ / (r + ρ) of Pearson's r and Spearman's ρ, or 0 if one is not
    positive. `coverage` is the share of pairs with both vectors, `pairs` the number of pairs that were correlated: all
    with `midpoint`, those with both vectors with `skip`. SemEval's baseline puts a pair that it does not know in the
    middle of the scale; cosines fill only a part of theirs, so here it is the middle between the lowest and the highest
    that were found. Where there is no correlation (fewer than two pairs with both vectors, or all scores or all cosines
    alike) it is 0.

    A phrase has the vector of `a_b`, else that of `a b`, else the mean of its words' vectors if every word has one.
    A form that has none as it is written is tried in lower case.
    """
    if source.dimension != target.dimension:
        problem = f"vectors of {source.dimension} and of {target.dimension} dimensions cannot be compared"
        raise DataError(problem, "Map both languages into one space first.")
    answers = [(rating.score, _cosine(source, target, rating)) for rating in ratings]
    cosines = [cosine for _, cosine in answers if cosine is not None]
    middle = (min(cosines) + max(cosines)) / 2 if cosines else 0.0
    scored = [(s, middle if c is None else c) for s, c in answers if c is not None or missing == "midpoint"]
    spearman, pearson = _correlations([score for score, _ in scored], [cosine for _, cosine in scored])
    return {
        "spearman": spearman,
        "pearson": pearson,
        "harmonic": 2 * pearson * spearman / (pearson + spearman) if min(pearson, spearman) > 0 else 0.0,
        "pairs": len(scored),
        "coverage": len(cosines) / len(answers) if answers else 0.0,
    }


def _correlations(scores: list[float], cosines: list[float]) -> tuple[float, float]:
    """Spearman's and Pearson's, both 0 if a side does not vary."""
    from scipy.stats import pearsonr, spearmanr

    if min(len(set(scores)), len(set(cosines))) < 2:
        return 0.0, 0.0
    return float(spearmanr(scores, cosines).statistic), float(pearsonr(scores, cosines).statistic)


def _cosine(source: WordVectors, target: WordVectors, rating: Rating) -> float | None:
    """The pair's cosine if both have a vector, to the six digits that single precision has: noise must part no ties."""
    from torch.nn.functional import cosine_similarity

    left, right = _vector(source, rating.first), _vector(target, rating.second)
    return None if left is None or right is None else round(float(cosine_similarity(left, right, dim=0)), 6)


def _vector(vectors: WordVectors, text: str) -> Tensor | None:
    words, position = text.replace("_", " ").split(), vectors.position
    for forms in (["_".join(words)], [" ".join(words)], words):
        rows = [position.get(form, position.get(form.lower())) for form in forms]
        if rows and None not in rows:
            return vectors.matrix[rows].double().mean(0)
    return None


def _lines(location: Location) -> list[str]:
    return unicodedata.normalize("NFC", location.read_text().removeprefix("\ufeff").rstrip("\r\n")).split("\n")


def _rows(location: Location) -> list[list[str]]:
    """The cells of each line: parted by tabs if the first line has one, where quotes mean nothing; else as CSV."""
    lines, rows = _lines(location), list[list[str]]()
    for number, line in enumerate(lines, start=1):
        try:
            row = line.split("\t") if "\t" in lines[0] else next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise DataError(f"{location}, line {number}: not valid CSV ({error})", "Check its quotes.") from error
        rows.append([cell.strip() for cell in row])
        if len(row) != len(rows[0]):
            problem = f"{location}, line {number}: {len(row)} columns, but {len(rows[0])} in the first line"
            raise DataError(problem, "Give every line the same columns.")
    return rows


def _has_gold_file(location: Location) -> bool:
    """Whether the scores lie in a file of their own: its lines then hold two words only."""
    return len(_rows(location)[0]) == 2


def _gold_file(location: Location) -> Location:
    name, folders = location.name.replace(".data.", ".gold."), (location.parent.parent / "keys", location.parent)
    for folder in folders:
        if name != location.name and (folder / name).is_file():
            return folder / name
    raise DataError(f"{location}, line 1: two columns, but no `*.gold.txt` in {folders[0]} or beside it", LAYOUTS)


def _columns(location: Location, header: list[str]) -> tuple[list[int], list[int]]:
    """Which columns of a table hold the two words, and which the score or, to be averaged, the annotators' scores."""
    names = [re.sub(r"[\W_]+", "", name.lower()) for name in header]
    words = [names.index(name) for name in ("word1", "word2") if name in names]
    if not words and names[:1] == ["id"]:
        words = [1, 2]  # across languages, Multi-SimLex heads these with the codes of the languages
    rest = [i for i, name in enumerate(names) if i not in words and name != "id" and not name.startswith("pos")]
    annotators = [i for i in rest if names[i].startswith("annotator")]
    scores = [i for i in rest if names[i] in SCORES] or annotators or rest
    if len(words) != 2 or not scores or (len(scores) > 1 and scores != annotators):
        problem = f"{location}, line 1: cannot tell the words and the score from the columns {', '.join(header[:8])}"
        raise DataError(problem, LAYOUTS)
    return words, scores


def _rating(where: str, words: list[str], cells: list[str]) -> Rating:
    """The score is the mean of the cells that are filled: not every annotator has rated every pair."""
    score = fmean(map(parse_number, filter(None, cells))) if any(cells) else math.nan
    if math.isnan(score):
        problem = f"{where}: the score {', '.join(cells)!r} is not a number"
        raise DataError(problem, "Write it with a decimal point, such as 3.5, or delete the line.")
    if not all(words):
        raise DataError(f"{where}: a word is missing", "Fill in both words, or delete the line.")
    return Rating(words[0], words[1], score)


def parse_number(text: str) -> float:
    """The number that is written here; NaN if there is none, or an infinite one."""
    try:
        return float(text) if math.isfinite(float(text)) else math.nan
    except ValueError:
        return math.nan

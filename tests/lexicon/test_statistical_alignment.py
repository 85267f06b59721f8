import math
from collections import defaultdict
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma

from babelray.errors import DataError
from babelray.lexicon import statistical_alignment as word_alignment
from babelray.lexicon.statistical_alignment import Links, Row, align_words, read_links, write_links
from babelray.storage import Location

Sentences = list[list[str]]
Matrix = list[list[float]]
"""[position of the word to explain][position of the word that made it; the last one: none]."""

few_words = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4)
some_words = st.lists(st.sampled_from(["a", "A", "b", "c", "Ç", "d", "字"]), max_size=7)


def posteriors(given: Sentences, generated: Sentences, iterations: int) -> list[Matrix]:
    """The model of the module's docstring, word by word."""
    table: dict[tuple[str | None, str], float] = defaultdict(lambda: 1.0)
    posterior: list[Matrix] = []
    for iteration in range(iterations + 1):
        posterior = []
        counts: dict[tuple[str | None, str], float] = defaultdict(float)
        for givers, words in zip(given, generated, strict=True):
            rows = []
            for j, word in enumerate(words, start=1):
                near = [math.exp(-4 * abs(i / len(givers) - j / len(words))) for i in range(1, len(givers) + 1)]
                joint = [0.92 * near[i] / sum(near) * table[giver, word] for i, giver in enumerate(givers)]
                joint.append(0.08 * table[None, word])
                rows.append([value / sum(joint) for value in joint])
                for giver, value in zip([*givers, None], rows[-1], strict=True):
                    counts[giver, word] += value
            posterior.append(rows)
        if iteration < iterations:
            totals: dict[str | None, float] = defaultdict(float)
            for (giver, _), count in counts.items():
                totals[giver] += count + 0.01
            table = {k: math.exp(digamma(count + 0.01) - digamma(totals[k[0]])) for k, count in counts.items()}
    return posterior


def learned(sources: Sentences, targets: Sentences, iterations: int) -> tuple[list[Matrix], list[Matrix]]:
    """The same of what is tested, in both directions; of sentence pairs that fit into one chunk."""
    text = word_alignment._Text(sources, targets)
    (chunk,) = text.chunks
    columns: list[list[Matrix]] = []
    for direction, view in zip(word_alignment._learn(text, iterations), chunk.views(), strict=True):
        posterior, none = direction.posterior(view)
        rows = [[*posterior[view.generated_C == location].tolist(), none[location]] for location in range(len(none))]
        sentences = targets if not columns else sources
        ends = np.cumsum([len(words) for words in sentences])
        columns.append([rows[end - len(words) : end] for words, end in zip(sentences, ends, strict=True)])
    return columns[0], columns[1]


@settings(max_examples=60)
@given(st.lists(st.tuples(few_words, few_words), min_size=1, max_size=6), st.integers(0, 5))
def test_posteriors_and_links_are_those_of_plain_em(pairs: list[tuple[list[str], list[str]]], iterations: int) -> None:
    sources, targets = [list(a) for a, _ in pairs], [list(b) for _, b in pairs]
    forward, backward = posteriors(sources, targets, iterations), posteriors(targets, sources, iterations)
    for expected, actual in zip((forward, backward), learned(sources, targets, iterations), strict=True):
        for rows, posterior in zip(expected, actual, strict=True):
            np.testing.assert_allclose(posterior, rows, rtol=1e-9, atol=1e-30)
    for p, q, links in zip(forward, backward, align_words(sources, targets, iterations), strict=True):
        assert all(p[j][i] >= max(p[j]) * (1 - 1e-9) and q[i][j] >= max(q[i]) * (1 - 1e-9) for i, j in links)
        assert set(links) >= {(i, j) for i in range(len(q)) for j in range(len(p)) if clear(p[j], i) and clear(q[i], j)}


def clear(row: list[float], best: int) -> bool:
    """Whether one choice is better than all others by more than rounding."""
    return all(row[best] > value * (1 + 1e-9) for other, value in enumerate(row) if other != best)


def world(
    sentences: int, words: int, dropped: float = 0.0, added: float = 0.0, seed: int = 0
) -> tuple[Sentences, Sentences, list[set[tuple[int, int]]]]:
    """Sentences of different words, frequent and rare; each word has one translation, which moves by up to 3 places.

    A share of the words is not translated, and as large a share of words as `added` is put in from nowhere.
    """
    random = np.random.default_rng(seed)
    frequency = 1 / np.arange(5, words + 5)
    frequency /= frequency.sum()
    sources, targets, links = [], [], []
    for _ in range(sentences):
        source = random.choice(words, random.integers(5, 20), replace=False, p=frequency)
        location = np.arange(len(source)) + random.uniform(0, 4, len(source))
        remaining = [(location[i], f"t{word}", i) for i, word in enumerate(source) if random.random() >= dropped]
        new = random.choice(words, random.binomial(len(source), added), p=frequency)
        items = sorted([*remaining, *((random.uniform(0, len(source)), f"t{word}", -1) for word in new)])
        sources.append([f"s{word}" for word in source])
        targets.append([word for _, word, _ in items])
        links.append({(i, j) for j, (_, _, i) in enumerate(items) if i >= 0})
    return sources, targets, links


def precision_and_recall(predicted: list[Links], gold: list[set[tuple[int, int]]]) -> tuple[float, float]:
    both = sum(len(set(links) & expected) for links, expected in zip(predicted, gold, strict=True))
    return both / sum(map(len, predicted)), both / sum(map(len, gold))


def test_a_known_dictionary_is_found_through_moved_words() -> None:
    sources, targets, links = world(1500, 800)
    precision, recall = precision_and_recall(align_words(sources, targets), links)
    assert precision > 0.98 and recall > 0.98


def test_words_without_counterpart_cost_little() -> None:
    sources, targets, links = world(1500, 800, dropped=0.15, added=0.15)
    precision, recall = precision_and_recall(align_words(sources, targets), links)
    assert precision > 0.97 and recall > 0.98


def test_the_order_of_sentences_and_of_sides_does_not_matter() -> None:
    sources, targets, _ = world(400, 60)
    links = align_words(sources, targets)
    order = np.random.default_rng(1).permutation(len(sources))
    shuffled = align_words([sources[s] for s in order], [targets[s] for s in order])
    assert shuffled == [links[s] for s in order]
    assert [sorted((j, i) for i, j in pairs) for pairs in align_words(targets, sources)] == links


def test_every_run_gives_the_same_however_the_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets, _ = world(300, 200, dropped=0.1, added=0.1)
    links = align_words(sources, targets)
    assert align_words(sources, targets) == links
    for cells in (1, 700):
        monkeypatch.setattr(word_alignment, "CELLS", cells)
        assert align_words(sources, targets) == links


@settings(max_examples=100)
@given(st.lists(st.tuples(some_words, some_words), max_size=12))
def test_links_are_one_to_one_and_sorted(pairs: list[tuple[list[str], list[str]]]) -> None:
    predicted = align_words([a for a, _ in pairs], [b for _, b in pairs])
    assert len(predicted) == len(pairs)
    for (source, target), links in zip(pairs, predicted, strict=True):
        assert links == sorted(links)
        assert len({i for i, _ in links}) == len({j for _, j in links}) == len(links)
        assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j in links)


def test_upper_and_lower_case_are_one_word() -> None:
    sources, targets, _ = world(100, 40)
    shouted = [[word.upper() for word in sentence] if s % 2 else sentence for s, sentence in enumerate(sources)]
    assert learned(shouted, targets, 2) == learned(sources, targets, 2)


def test_sentences_that_are_empty_or_too_long_get_no_links_and_teach_nothing() -> None:
    sources, targets, _ = world(100, 40)
    links = align_words(sources, targets)
    too_long_source, too_long_target = (list(chain.from_iterable(side))[:201] for side in (sources, targets))
    predicted = align_words(
        [[], ["s1"], *sources, too_long_source, ["s1"]], [["t1"], [], *targets, ["t1"], too_long_target]
    )
    assert predicted == [[], [], *links, [], []]
    assert align_words([*sources, too_long_source[:200]], [*targets, too_long_target[:200]])[-1]
    assert align_words([], []) == [] and align_words([[]], [[]]) == [[]]


def test_sides_of_unlike_size_are_refused() -> None:
    with pytest.raises(DataError, match=r"2 source sentences .* 1 target"):
        align_words([["a"], ["b"]], [["a"]])


line_text = st.text(st.characters(exclude_characters="\t\r\n", exclude_categories=["Cs"]))
positions = st.integers(0, 10**6)


@given(st.lists(st.tuples(line_text, line_text, st.lists(st.tuples(positions, positions)))))
def test_a_file_of_links_gives_back_its_rows(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    location = Location.parse(tmp_path_factory.getbasetemp() / "links.tsv")
    write_links(location, rows)
    assert read_links(location) == rows


def test_a_file_of_links_is_what_other_aligners_write(tmp_path: Path) -> None:
    location = Location.parse(tmp_path / "links.tsv")
    write_links(location, [("das\tHaus", "the\nhouse", [(0, 0), (1, 1)]), ("ja", "", [])])
    assert location.read_text() == "das Haus\tthe house\t0-0 1-1\nja\t\t\n"
    location.write_text("a b\tA B\t0-1  1-0\r\nc\tC\t")
    assert read_links(location) == [("a b", "A B", [(0, 1), (1, 0)]), ("c", "C", [])]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a\tb", "2 columns instead of 3"),
        ("a\tb\t0-0\t0.9", "4 columns instead of 3"),
        ("", "1 columns instead of 3"),
        ("a\tb\t0-0 1", "'1' is not a link"),
        ("a\tb\t0-x", "'0-x' is not a link"),
        ("a\tb\t0--1", "'0--1' is not a link"),
        ("a\tb\t0-1-2", "'0-1-2' is not a link"),
    ],
)
def test_a_bad_file_of_links_is_refused_by_file_and_line(tmp_path: Path, line: str, problem: str) -> None:
    location = Location.parse(tmp_path / "links.tsv")
    location.write_text(f"a\tb\t0-0\n{line}\nc\td\t\n")
    with pytest.raises(DataError) as caught:
        read_links(location)
    assert caught.value.problem == f"{location}, line 2: {problem}"

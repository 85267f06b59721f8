from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.evaluation import word_alignment as benchmark
from babelray.evaluation.benchmark import System
from babelray.evaluation.word_alignment import (
    GoldPair,
    Subwords,
    WordAlignment,
    align_pairs,
    align_subwords,
    alignment_scores,
    argmax,
    f1_interval,
    itermax,
    match,
    read_naacl,
    read_pharaoh,
    similarities,
    word_alignment,
    write_pharaoh,
)
from babelray.storage import Location

Link = tuple[int, int]
Matrix = list[list[float]]

METHODS = ["argmax", "itermax", "match"]
LEVELS = ["words", "subwords"]
GERMAN = ["Die", "Katze", "schläft", "auf", "dem", "warmen", "Bett", "."]
ENGLISH = ["The", "cat", "sleeps", "on", "the", "warm", "bed", "."]
CHINESE = ["猫", "在", "温暖", "的", "床", "上", "睡觉", "。"]
TOKENISED = [(GERMAN, ENGLISH), (CHINESE, ENGLISH), (ENGLISH[:2], CHINESE), (["Hund"], ["dog", "."]), (GERMAN, GERMAN)]

shapes = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=6)
seeds = st.integers(0, 2**32 - 1)


def loop_argmax(s: Matrix) -> set[Link]:
    """Both choose each other, the first of equals; a row or column of zeros chooses nothing (section 2.2)."""
    columns = list(zip(*s, strict=True))
    return {
        (i, j)
        for i, row in enumerate(s)
        for j, column in enumerate(columns)
        if row[j] > 0 and row.index(max(row)) == j and column.index(max(column)) == i
    }


def loop_itermax(s: Matrix, alpha: float = 0.9, rounds: int = 2, as_package: bool = False) -> set[Link]:
    """Algorithm 1; the package has no second round for short sentences, nor when a side has no free word."""
    rows, columns = range(len(s)), range(len(s[0]))
    links: set[Link] = set()
    for number in range(rounds):
        used_rows, used_columns = {i for i, _ in links}, {j for _, j in links}
        full = len(used_rows) == len(rows) or len(used_columns) == len(columns)
        if as_package and number and (full or min(len(rows), len(columns)) <= 2):
            break
        favour = {0: 1.0, 1: alpha, 2: 0.0}
        links |= loop_argmax(
            [[s[i][j] * favour[(i in used_rows) + (j in used_columns)] for j in columns] for i in rows]
        )
    return links


def loop_match(s: Matrix) -> set[Link]:
    """The best of all ways to give every word of the shorter sentence another one."""
    if len(s) > len(s[0]):
        return {(i, j) for j, i in loop_match([list(column) for column in zip(*s, strict=True)])}
    ways = permutations(range(len(s[0])), len(s))
    return set(enumerate(max(ways, key=lambda way: sum(s[i][j] for i, j in enumerate(way)))))


LOOPS = {"argmax": loop_argmax, "itermax": loop_itermax, "match": loop_match}


def matrices(sizes: list[Link], seed: int, digits: int) -> list[np.ndarray]:
    """Similarities of sentence pairs; with few digits many are equal, and some zero."""
    random = np.random.default_rng(seed)
    return [random.random(size).round(digits) for size in sizes]


def padded(some: list[np.ndarray], more: int) -> torch.Tensor:
    rows, columns = (max(s.shape[side] for s in some) + more for side in (0, 1))
    whole = torch.zeros(len(some), rows, columns, dtype=torch.float64)
    for i, s in enumerate(some):
        whole[i, : s.shape[0], : s.shape[1]] = torch.from_numpy(s)
    return whole


def links_of(matrix: torch.Tensor) -> set[Link]:
    return {(i, j) for i, j in matrix.nonzero().tolist()}


@settings(max_examples=80)
@given(shapes, seeds, st.sampled_from([1, 15]), st.integers(0, 2))
def test_argmax_is_mutual(sizes: list[Link], seed: int, digits: int, more: int) -> None:
    some = matrices(sizes, seed, digits)
    for s, found in zip(some, argmax(padded(some, more)), strict=True):
        assert links_of(found) == loop_argmax(s.tolist())


@settings(max_examples=150)
@given(shapes, seeds, st.sampled_from([1, 15]), st.sampled_from([0.9, 0.5, 0.0, 1.0]), st.integers(1, 4), st.booleans())
def test_itermax_is_algorithm_1(
    sizes: list[Link], seed: int, digits: int, alpha: float, rounds: int, as_package: bool
) -> None:
    if as_package:
        digits = 15  # a word that is like no other is as good as padding, and the package counts it
    some = matrices(sizes, seed, digits)
    found = itermax(padded(some, 1), alpha, rounds, as_package)
    for s, links in zip(some, found, strict=True):
        assert links_of(links) == loop_itermax(s.tolist(), alpha, rounds, as_package)


def test_itermax_by_hand() -> None:
    """In the second round target 1 prefers source 0, which has a link, to source 2 if 0.95 α is more than 0.6."""
    s = torch.tensor([[[0.99, 0.95, 0.10], [0.20, 0.30, 0.40], [0.20, 0.60, 0.50]]], dtype=torch.float64)
    assert links_of(argmax(s)[0]) == {(0, 0)}
    assert links_of(itermax(s)[0]) == {(0, 0), (0, 1)}
    assert links_of(itermax(s, alpha=0.5)[0]) == {(0, 0), (2, 1)}
    assert links_of(itermax(s, rounds=1)[0]) == {(0, 0)}


def test_where_the_package_stops_and_the_paper_does_not() -> None:
    two = torch.tensor([[[0.9, 0.8], [0.7, 0.2]]])
    assert links_of(itermax(two)[0]) == {(0, 0), (0, 1), (1, 0)}
    assert links_of(itermax(two, as_package=True)[0]) == {(0, 0)}
    full = torch.eye(4, 3).unsqueeze(0) * 0.5 + 0.1
    assert links_of(itermax(full)[0]) == {(0, 0), (1, 1), (2, 2), (3, 0)}
    assert links_of(itermax(full, as_package=True)[0]) == {(0, 0), (1, 1), (2, 2)}


@settings(max_examples=60)
@given(shapes, seeds, st.integers(0, 2))
def test_match_is_the_best_matching(sizes: list[Link], seed: int, more: int) -> None:
    some = matrices(sizes, seed, 15)
    for s, found in zip(some, match(padded(some, more)), strict=True):
        links = links_of(found)
        assert links == set(zip(*(side.tolist() for side in linear_sum_assignment(-s)), strict=True))
        if max(s.shape) <= 4:
            assert links == loop_match(s.tolist())


def test_match_links_nothing_that_is_not_alike() -> None:
    s = torch.tensor([[[0.9, 0.3], [0.8, 0.0]], [[0.7, 0.0], [0.6, 0.0]]])
    assert [links_of(found) for found in match(s)] == [{(0, 1), (1, 0)}, {(0, 0)}]


def test_similarities_are_cosines_from_0_to_1() -> None:
    x, y = torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    x_mask, y_mask = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool(), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]).bool()
    found = similarities(x, x_mask, y, y_mask)
    for b, i, j in np.ndindex(2, 3, 4):
        a, c = x[b, i].double(), y[b, j].double()
        expected = (1 + (a @ c / (a.norm() * c.norm())).item()) / 2 if x_mask[b, i] and y_mask[b, j] else 0
        assert found[b, i, j].item() == pytest.approx(expected, abs=1e-12)
    opposite = similarities(x[:, :1], x_mask[:, :1], -x[:, :1], x_mask[:, :1])
    assert opposite.abs().max() < 1e-12 and opposite.min() >= 0


def sentence(random: np.random.Generator, width: int = 4) -> Subwords:
    """Words of up to 3 subwords, at times none, each a character or nothing at all; a space before each word."""
    spans, words, location = [], [], -1
    for _ in range(random.integers(0, 6)):
        start, location = location, location + 1
        for wide in random.choice([0, 1, 1, 1], random.integers(0, 4)):
            spans.append((location, location + wide))
            location += wide
        words.append((start, location))
    vectors = torch.from_numpy(random.normal(size=(len(spans), width))).float()
    return Subwords(
        vectors, torch.tensor(spans).reshape(-1, 2).long(), torch.tensor(words, dtype=torch.long).reshape(-1, 2)
    )


def parts(side: Subwords) -> list[list[int]]:
    """The subwords of each word: those that share a character with it."""
    return [
        [t for t, span in enumerate(side.spans_T2.tolist()) if {*range(*span)} & {*range(*word)}]
        for word in side.words_W2.tolist()
    ]


def loop_links(x: Subwords, y: Subwords, method: str, level: str) -> set[Link]:
    """Pool, compare and align one pair, step by step."""
    units = []
    for side in (x, y):
        vectors, words = side.vectors_TD.double(), list(enumerate(parts(side)))
        pooled = [(w, vectors[some].mean(0)) for w, some in words if some]
        units.append(pooled if level == "words" else [(w, vectors[t]) for w, some in words for t in some])
    if not all(units):
        return set()
    s = [[(1 + torch.cosine_similarity(a, b, dim=0).item()) / 2 for _, b in units[1]] for _, a in units[0]]
    if method == "match":
        links = set(zip(*(side.tolist() for side in linear_sum_assignment(-np.array(s))), strict=True))
    else:
        links = LOOPS[method](s)
    return {(units[0][i][0], units[1][j][0]) for i, j in links}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40)
@given(seed=seeds, count=st.integers(1, 8), budget=st.sampled_from([1, 20, 2048]))
def test_ragged_pairs_are_aligned_as_each_alone(method, level, seed: int, count: int, budget: int) -> None:
    random = np.random.default_rng(seed)
    pairs = [(sentence(random), sentence(random)) for _ in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "BATCH_SUBWORDS", budget)
        together = align_subwords(pairs, method, level)
    alone = [align_subwords([pair], method, level) for pair in pairs]
    assert together.links == [links for found in alone for links in found.links]
    assert [set(links) for links in together.links] == [loop_links(*pair, method, level) for pair in pairs]
    assert all(links == sorted(set(links)) for links in together.links)
    assert together.unread == sum(not some for pair in pairs for side in pair for some in parts(side))


def test_a_subword_of_two_words_links_both() -> None:
    """As of tokenizers whose subwords reach across spaces."""
    both = Subwords(torch.eye(2), torch.tensor([[0, 5], [5, 8]]), torch.tensor([[-1, 2], [2, 5], [5, 8]]))
    plain = Subwords(torch.eye(2), torch.tensor([[0, 1], [1, 3]]), torch.tensor([[-1, 1], [1, 3]]))
    assert align_subwords([(both, plain)], "argmax").links == [[(0, 0), (1, 0), (2, 1)]]


def test_an_encoder_aligns_as_transformers_would_word_by_word(tiny_encoder: str) -> None:
    """Given the words one by one, the tokenizer itself knows the subwords of each."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(tiny_encoder), AutoModel.from_pretrained(tiny_encoder).eval()
    assert "▁" in tokenizer.tokenize(" ".join(CHINESE))  # nothing but a space, which belongs to the next word

    def read(tokens: list[str]) -> Subwords:
        encoded = tokenizer([tokens], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**encoded, output_hidden_states=True).hidden_states[1][0]
        kept = [(t, word) for t, word in enumerate(encoded.word_ids()) if word is not None]
        spans = [(word, word + 1) for _, word in kept]
        words = [(word, word + 1) for word in range(len(tokens))]
        return Subwords(hidden[[t for t, _ in kept]], torch.tensor(spans), torch.tensor(words))

    sides = [(read(source), read(target)) for source, target in TOKENISED]
    encoder = TextEncoder.from_pretrained(tiny_encoder, layer=1, batch_tokens=64)
    for method in METHODS:
        for level in LEVELS:
            found = align_pairs(encoder, TOKENISED, method, level)
            assert [set(links) for links in found.links] == [loop_links(*pair, method, level) for pair in sides]
            assert found.unread == 0
            assert found.links[-1] == [(i, i) for i in range(len(GERMAN))]


def test_many_pairs_are_read_some_at_a_time(tiny_encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    expected = align_pairs(encoder, TOKENISED)
    monkeypatch.setattr(benchmark, "PAIRS", 2)
    assert align_pairs(encoder, TOKENISED) == expected
    assert align_pairs(encoder, []) == ([], 0)


def test_a_method_may_be_a_function(tiny_encoder: str) -> None:
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    one_round = align_pairs(encoder, TOKENISED, partial(itermax, rounds=1))
    assert one_round == align_pairs(encoder, TOKENISED, "argmax") != align_pairs(encoder, TOKENISED, "itermax")


@pytest.mark.parametrize("level", LEVELS)
def test_words_that_are_not_read_are_counted(tiny_encoder: str, level) -> None:
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    cut = encoder.tokenizer([["cat"] * 200], is_split_into_words=True, truncation=True, max_length=encoder.longest)
    read = len({word for word in cut.word_ids() if word is not None})
    japanese_space = ["cat", "\u3000", "bed"]
    pairs = [(["cat"] * 200, ENGLISH), ([], ENGLISH), (GERMAN, []), (japanese_space, ENGLISH)]
    found = align_pairs(encoder, pairs, "match", level)
    assert found.unread == 200 - read + 1 > 100
    assert found.links[0] and max(i for i, _ in found.links[0]) < read
    assert found.links[1:3] == [[], []]
    assert {i for i, _ in found.links[3]} == {0, 2}


def pair_of(sure: set[Link], possible: set[Link]) -> GoldPair:
    return GoldPair(["a"] * 9, ["b"] * 9, frozenset(sure), frozenset(possible))


def test_scores_by_hand() -> None:
    """Over both pairs |A| = 4, |S| = 4, |A ∩ S| = 2, |A ∩ P| = 3."""
    sure = {(0, 0), (1, 1), (2, 3)}
    gold = [pair_of(sure, sure | {(2, 2), (3, 3)}), pair_of({(0, 0)}, set())]
    assert alignment_scores([[(0, 0), (2, 3), (2, 2), (3, 1)], []], gold) == {
        "precision": 3 / 4,
        "recall": 2 / 4,
        "f1": pytest.approx(0.6),
        "aer": 1 - 5 / 8,
        "pairs": 2,
        "links": 4,
        "sure": 4,
        "possible": 6,
        "links_sure": 2,
        "links_possible": 3,
    }


some_links = st.integers(0, 2**9 - 1).map(lambda bits: {(k // 3, k % 3) for k in range(9) if bits >> k & 1})


@given(st.lists(st.tuples(some_links, some_links), min_size=1, max_size=4))
def test_aer_without_possible_links_is_what_f1_lacks(pairs: list[tuple[set[Link], set[Link]]]) -> None:
    scores = alignment_scores([found for found, _ in pairs], [pair_of(sure, sure) for _, sure in pairs])
    assert scores["aer"] == pytest.approx(1 - scores["f1"])


@given(some_links, some_links, some_links)
def test_aer_is_0_between_sure_and_possible(sure: set[Link], some: set[Link], more: set[Link]) -> None:
    """Och and Ney (2003): no error if all sure links, and none but possible ones, are found."""
    found = sure | some
    scores = alignment_scores([[*found, *found]], [pair_of(sure, found | more)])
    assert scores["aer"] == (0 if found else 1)
    assert scores["precision"] == bool(found) and scores["recall"] == bool(sure)


def test_the_interval_of_f1_holds_as_often_as_it_says() -> None:
    generator, held = np.random.default_rng(0), 0
    sure = {(0, 0), (1, 1), (2, 2)}
    for _ in range(100):
        found = [{link for link in sure if generator.random() < 0.6} for _ in range(60)]
        low, high = f1_interval(found, [pair_of(sure, sure)] * 60)
        held += low <= 2 * 0.6 / 1.6 <= high  # precision 1, recall 0.6
    assert 88 <= held <= 99


def test_scores_of_nothing() -> None:
    for found, sure in (([], set()), ([], {(0, 0)}), ([(0, 0)], set())):
        scores = alignment_scores([found], [pair_of(sure, sure)])
        assert (scores["precision"], scores["recall"], scores["f1"], scores["aer"]) == (0, 0, 0, 1)
    assert alignment_scores([], [])["aer"] == 1
    with pytest.raises(DataError, match="1 alignments cannot be scored against 2 gold sentence pairs"):
        alignment_scores([[]], [pair_of(set(), set())] * 2)


def test_the_benchmark(tiny_encoder: str) -> None:
    gold = [GoldPair(a, b, frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)})) for a, b in TOKENISED]
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    found = align_pairs(encoder, TOKENISED, "argmax", "words")
    assert word_alignment(encoder, gold, "argmax", "words") == {**alignment_scores(found.links, gold), "unread": 0}


def files(folder: Path, **contents: str) -> list[Location]:
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return [Location.parse(folder / name) for name in contents]


def test_pharaoh(tmp_path: Path) -> None:
    text = "das  Haus \t||| the house  \r\nja \u3000 ||| yes\u00a0indeed\u2028! sir\n"
    sentences, links = files(tmp_path, text=text, links="0-0 1?1 0p1 1?0 1-0\r\n\n")
    assert read_pharaoh(sentences, links) == [
        GoldPair(
            ["das", "Haus"],
            ["the", "house"],
            frozenset({(0, 0), (1, 0)}),
            frozenset({(0, 0), (1, 1), (0, 1), (1, 0)}),
        ),
        GoldPair(["ja", "\u3000"], ["yes\u00a0indeed\u2028!", "sir"], frozenset(), frozenset()),
    ]


def test_pharaoh_from_1(tmp_path: Path) -> None:
    sentences, links = files(tmp_path, text="\ufeffa b ||| c d\n", links="1-2 2p1")
    (pair,) = read_pharaoh(sentences, links, one_based=True)
    assert pair == (["a", "b"], ["c", "d"], {(0, 1)}, {(0, 1), (1, 0)})


@pytest.mark.parametrize(
    ("text", "links", "one_based", "problem"),
    [
        ("a ||| b\n", "0-0\n0-0\n", False, "text has 1 lines, but .*links 2"),
        ("a ||| b\na b\n", "\n\n", False, "text, line 2: not a sentence and its translation"),
        ("a ||| b ||| c\n", "\n", False, "text, line 1: not a sentence and its translation"),
        ("a |||  \n", "\n", False, "text, line 1: not a sentence and its translation"),
        ("a ||| b\n", "0-0 0_0\n", False, "links, line 1: '0_0' is not a link"),
        ("a ||| b\n", "0-0-0\n", False, "links, line 1: '0-0-0' is not a link"),
        ("a ||| b\n", "-1-0\n", False, "links, line 1: '-1-0' is not a link"),
        ("a ||| b\na ||| b\n", "0-0\n0-1\n", False, r"links, line 2: there is no token 1 in the target(.|\n)*1, set"),
        ("a ||| b c\n", "1p2 2-1\n", True, r"links, line 1: there is no token 2 in the source(.|\n)*0, leave out"),
        ("a ||| b c\n", "0-1\n", True, "links, line 1: there is no token 0 in the source"),
    ],
)
def test_broken_pharaoh(tmp_path: Path, text: str, links: str, one_based: bool, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_pharaoh(*files(tmp_path, text=text, links=links), one_based=one_based)


def test_links_are_written_and_read_again(tmp_path: Path) -> None:
    alignments = [[(0, 0), (1, 2)], [], [(2, 1)]]
    location = Location.parse(tmp_path / "found")
    write_pharaoh(location, alignments)
    assert location.read_text() == "0-0 1-2\n\n2-1\n"
    (sentences,) = files(tmp_path, text="a b c ||| d e f\n" * 3)
    assert [sorted(pair.sure) for pair in read_pharaoh(sentences, location)] == alignments


SOURCE = "<s snum=0002> They had gone . </s>\n\n<s snum=1> hear , hear ! </s>\n"
TARGET = '<s snum="1"> bravo ! </s>\n<s snum=2>Ils étaient allés .</s>\n'


def test_naacl(tmp_path: Path) -> None:
    links = "2 1 1\n0002 2 2 S\n2 3 3 P 0.8\n2 3 2 p\n2 4 4 1\n\n1 4 2 P\n1 4 2 S\n1 0 1 S\n1 2 0 P\n"
    assert read_naacl(*files(tmp_path, e=SOURCE, f=TARGET, wa=links)) == [
        GoldPair(
            ["They", "had", "gone", "."],
            ["Ils", "étaient", "allés", "."],
            frozenset({(0, 0), (1, 1), (3, 3)}),
            frozenset({(0, 0), (1, 1), (3, 3), (2, 2), (2, 1)}),
        ),
        GoldPair(["hear", ",", "hear", "!"], ["bravo", "!"], frozenset({(3, 1)}), frozenset({(3, 1)})),
    ]


@pytest.mark.parametrize(
    ("source", "target", "links", "problem"),
    [
        (SOURCE, TARGET, "2 1 1\n3 1 1\n", "wa, line 2: sentence 3 is not in .*e"),
        (SOURCE, TARGET, "2 1\n", "wa, line 1: '2 1' is not a link"),
        (SOURCE, TARGET, "2 1 x S\n", "wa, line 1: '2 1 x S' is not a link"),
        (SOURCE, TARGET, "2 1 1 X\n", "wa, line 1: '2 1 1 X' is not a link"),
        (SOURCE, TARGET, "2 1 1 S 0.5 1\n", "wa, line 1: '2 1 1 S 0.5 1' is not a link"),
        (SOURCE, TARGET, "2 1 1 S nan\n", "wa, line 1: '2 1 1 S nan' is not a link"),
        (SOURCE, TARGET, "2 1 1\n2 5 1 S\n", "wa, line 2: there is no token 5 in the source"),
        (SOURCE, TARGET, "1 1 3 P\n", "wa, line 1: there is no token 3 in the target"),
        (SOURCE + "<s snum=3> a </s>\n", TARGET, "", "e, line 4: sentence 3 is not in .*f"),
        (SOURCE, TARGET + "<s snum=3> a </s>\n", "", "f, line 3: sentence 3 is not in .*e"),
        (SOURCE + "<s snum=1> a </s>\n", TARGET, "", "e, line 4: sentence 1 is there already(.|\n)*e, line 3"),
        (SOURCE, "<s snum=1> a\n", "", "f, line 1: not a numbered sentence"),
        ("They had gone .\n", TARGET, "", "e, line 1: not a numbered sentence"),
    ],
)
def test_broken_naacl(tmp_path: Path, source: str, target: str, links: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_naacl(*files(tmp_path, e=source, f=target, wa=links))


def test_only_some_of_a_folder(tmp_path: Path, tiny_encoder: str) -> None:
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    for name in ("enfr", "zhen"):
        files(tmp_path, **{f"{name}.src-tgt": "a dog ||| un chien\n", f"{name}.gold": "0-0 1-1\n"})
    assert [*WordAlignment(data=str(tmp_path)).run(encoder, System("")).scores] == ["enfr", "zhen"]
    assert [*WordAlignment(data=str(tmp_path), pairs={"zhen": ("zh", "en")}).run(encoder, System("")).scores] == [
        "zhen"
    ]
    with pytest.raises(DataError, match="no gold alignments jaen in"):
        WordAlignment(data=str(tmp_path), pairs={"jaen": ("ja", "en")}).sources()

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.evaluation import contextual_bli as benchmark
from babelray.evaluation.benchmark import System
from babelray.evaluation.contextual_bli import (
    ContextualBli,
    Induced,
    Tokenised,
    contextual_bli,
    first_ranks,
    linked_occurrences,
    occurrence_vectors,
    one_to_one,
    rank_scores,
    spread,
    tokenised,
)
from babelray.lexicon.statistical_alignment import Links, align_words
from babelray.text.segment import Segmenter
from babelray.vectors.retrieval import nearest

WIDTH = 8
Vector = Callable[[str, int], np.ndarray | None]


class Known:
    """An encoder that gives the words of a text the vectors that it is told; some it cannot read."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector
        self.asked: list[list[str]] = []

    def words(self, texts: Sequence[str], tokens: Sequence[Sequence[str]]) -> list[tuple[list[int], torch.Tensor]]:
        self.asked.append(list(texts))
        found = []
        for text, some in zip(texts, tokens, strict=True):
            vectors = [self.vector(text, position) for position in range(len(some))]
            there = [position for position, vector in enumerate(vectors) if vector is not None]
            stacked = np.stack([vectors[position] for position in there]) if there else np.zeros((0, WIDTH))
            found.append((there, torch.from_numpy(stacked).float()))
        return found


def sentences(*texts: str) -> list[Tokenised]:
    return [Tokenised(text, text.split()) for text in texts]


def loop_scores(x: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """2 cos(x, y) − r(x) − r(y), r the mean of the k highest cosines with the other side; the cosine if k is 0."""
    count = len(x)
    cosine = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in y] for a in x])
    if not k:
        return cosine
    k = min(k, count)
    near_x = [np.mean(sorted(row)[-k:]) for row in cosine]
    near_y = [np.mean(sorted(column)[-k:]) for column in cosine.T]
    return np.array([[2 * cosine[i, j] - near_x[i] - near_y[j] for j in range(count)] for i in range(count)])


def a_text(seed: int) -> tuple[list[Tokenised], list[Tokenised], list[Links]]:
    """Word-by-word translations of random sentences; some target sentences twice, for different sources."""
    random = np.random.default_rng(seed)
    sources, targets, links = [], [], []
    for _ in range(12):
        numbers = random.choice(9, random.integers(2, 6), replace=False)
        order = random.permutation(len(numbers))
        sources.append(" ".join(f"q{'abcdefghi'[n]}" for n in numbers))
        targets.append(" ".join(f"z{'abcdefghi'[numbers[i]]}" for i in order))
        links.append([(int(i), j) for j, i in enumerate(order)])
    return sentences(*sources, sources[0] + " qz"), sentences(*targets, targets[0]), [*links, links[0]]


@pytest.mark.parametrize("csls", [0, 3, 10])
def test_ranks_are_those_of_the_definition(csls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "SENTENCES", 5)
    for seed in range(5):
        sources, targets, links = a_text(seed)
        random = np.random.default_rng(seed)
        texts = {sentence.text for sentence in [*sources, *targets]}
        vectors = {(text, i): random.normal(size=WIDTH) for text in sorted(texts) for i in range(len(text.split()))}
        for location in [key for key in vectors if random.random() < 0.1]:
            del vectors[location]
        encoder = Known(lambda text, i, vectors=vectors: vectors.get((text, i)))
        found = contextual_bli(encoder, sources, targets, links, csls, min_count=1, per_word=4)

        asked = linked_occurrences([s.tokens for s in sources], [t.tokens for t in targets], links, 1, 4)
        left = [(sources[o.pair].text, o.source) for o in asked]
        right = [(targets[o.pair].text, o.target) for o in asked]
        read = [i for i in range(len(asked)) if left[i] in vectors and right[i] in vectors]
        scores = loop_scores(
            np.stack([vectors[left[i]] for i in read]), np.stack([vectors[right[i]] for i in read]), csls
        )
        ranks, word_ranks, answers = [0] * len(asked), [0] * len(asked), [""] * len(asked)
        for row, i in enumerate(read):
            ranked = sorted(range(len(read)), key=lambda j, row=row: -scores[row, j])
            locations = [right[read[j]] for j in ranked][:10]
            words = [text.split()[position] for text, position in locations]
            own = right[i][0].split()[right[i][1]]
            ranks[i] = locations.index(right[i]) + 1 if right[i] in locations else 0
            word_ranks[i] = words.index(own) + 1 if own in words else 0
            answers[i] = words[0]
        chance = sum(right[i] == right[j] for i in read for j in read) / len(read) / len(asked)
        words = [text.split()[i] for text, i in left]
        assert found == Induced(ranks, word_ranks, words, answers, len(asked) - len(read), pytest.approx(chance))
        assert found.unread and 1 in ranks + word_ranks
        asked_texts = [text for texts in encoder.asked for text in texts]
        assert max(map(len, encoder.asked)) <= 5
        assert len(asked_texts) == 2 * len({o.pair for o in asked}), "no sentence is encoded twice"


def turned_world(words: int = 12, times: int = 4) -> tuple[list[Tokenised], list[Tokenised], list[Links]]:
    """Sentences of one word pair each; the number at the end makes every place a different one."""
    names = ["".join(chr(97 + int(digit)) for digit in f"{word:02}") for word in range(words)]
    pairs = [(f"q{name} {n}", f"{n} z{name}") for name in names for n in range(times)]
    return sentences(*(a for a, _ in pairs)), sentences(*(b for _, b in pairs)), [[(0, 1)] for _ in pairs]


def test_a_turned_space_is_at_chance_until_it_is_turned_back() -> None:
    random = np.random.default_rng(1)
    sources, targets, links = turned_world()
    turn, _ = np.linalg.qr(random.normal(size=(40, 40)))
    of_source = {s.text: random.normal(size=40) for s in sources}
    of_target = {t.text: 2 * turn @ of_source[s.text] for s, t in zip(sources, targets, strict=True)}
    both = of_source | of_target
    apart = contextual_bli(Known(lambda text, i: both[text]), sources, targets, links).metrics()
    assert apart["p1"] < 0.15 and apart["p5"] < 0.35
    back = of_source | {text: turn.T @ vector for text, vector in of_target.items()}
    together = contextual_bli(Known(lambda text, i: back[text]), sources, targets, links)
    assert together.metrics() == {
        "occurrences": 48,
        "words": 12,
        **dict.fromkeys(("p1", "p5", "p10", "mrr", "word_p1"), 1.0),
        "unread": 0,
    }
    assert together.answers[:5] == ["zaa"] * 4 + ["zab"]


@pytest.mark.parametrize("csls", [0, 10])
def test_the_right_word_at_another_place_is_wrong(csls: int) -> None:
    """Each occurrence's vector stands at the next occurrence of the same translation."""
    random = np.random.default_rng(2)
    sources, targets, links = turned_world()
    vectors = {s.text: random.normal(size=40) for s in sources}
    for s, t in zip(sources, targets, strict=True):
        word, number = s.text.split()
        vectors[t.text] = vectors[f"{word} {(int(number) + 1) % 4}"]
    found = contextual_bli(Known(lambda text, i: vectors[text]), sources, targets, links, csls)
    assert found.metrics()["p1"] == 0 and found.metrics()["word_p1"] == 1
    assert set(found.predictions()["example_scores"]) == {0} and found.predictions()["answers"][:5] == ["zaa"] * 4 + [
        "zab"
    ]


def test_nothing_is_read() -> None:
    sources, targets, links = turned_world()
    found = contextual_bli(Known(lambda text, i: None), sources, targets, links)
    assert found.metrics()["unread"] == found.metrics()["occurrences"] == 48
    assert found.metrics()["mrr"] == 0 and set(found.answers) == {""}


def test_links_are_learned_if_not_given() -> None:
    sources, targets, links = a_text(0)
    random = np.random.default_rng(0)
    vectors = {(s.text, i): random.normal(size=WIDTH) for s in [*sources, *targets] for i in range(len(s.tokens))}
    encoder = Known(lambda text, i: vectors[text, i])
    learned = align_words([s.tokens for s in sources], [t.tokens for t in targets])
    assert contextual_bli(encoder, sources, targets) == contextual_bli(encoder, sources, targets, learned)
    assert contextual_bli(encoder, sources, targets) != contextual_bli(encoder, sources, targets, links)


def test_ranks_of_a_pure_search() -> None:
    """Row i's own candidate is nearest after a turn that both sides share; labels make others right as well."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, WIDTH, generator=generator)
    positions = nearest(x, x[torch.arange(29, -1, -1)], 10)[1]
    assert first_ranks(29 - positions, torch.arange(30)).tolist() == [1] * 30
    labels = torch.arange(30) // 3
    expected = [
        next((rank for rank, j in enumerate(row, start=1) if labels[j] == labels[i]), 0)
        for i, row in enumerate(positions.tolist())
    ]
    assert first_ranks(positions, labels).tolist() == expected and 0 in expected and max(expected) > 1


def test_scores_of_ranks() -> None:
    scores = rank_scores([1, 1, 0, 5, 6, 10])
    assert scores == {"p1": 2 / 6, "p5": 3 / 6, "p10": 5 / 6, "mrr": pytest.approx((2 + 1 / 5 + 1 / 6 + 1 / 10) / 6)}
    assert rank_scores([]) == dict.fromkeys(("p1", "p5", "p10", "mrr"), 0.0)


# --- which occurrences are asked for


def test_what_is_left_out() -> None:
    source = ["Das", "Haus", ",", "Abraham", "7", "ist", "groß"]
    target = ["the", "house", ",", "ABRAHAM", "seven", "is", "big"]
    everything: Links = [(i, i) for i in range(7)]
    found = linked_occurrences([source], [target], [everything], min_count=1)
    assert [source[o.source] for o in found] == ["Das", "Haus", "ist", "groß"]
    doubled = [*everything, (0, 1), (6, 5)]
    assert linked_occurrences([source], [target], [doubled], min_count=1) == []
    assert linked_occurrences([source], [target], [everything]) == []


def test_rare_pairs_are_left_out_and_repeated_sentences_count_once() -> None:
    sources = [["Hund", "a"], ["HUND", "b"], ["Hund", "c"], ["Hund", "d"], ["Hund", "d"]]
    targets = [["dog", "1"], ["dog", "2"], ["hound", "3"], ["Dog", "4"], ["Dog", "4"]]
    links: list[Links] = [[(0, 0)]] * 5
    assert [o.pair for o in linked_occurrences(sources, targets, links, min_count=1)] == [0, 1, 2, 3]
    for least, kept in ((2, [0, 1, 3]), (3, [0, 1, 3]), (4, [])):
        assert [o.pair for o in linked_occurrences(sources, targets, links, min_count=least)] == kept


seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60)
@given(seeds, st.integers(1, 3), st.integers(1, 5), st.integers(1, 60))
def test_occurrences_keep_to_their_limits(seed: int, least: int, per_word: int, most: int) -> None:
    random = np.random.default_rng(seed)
    sources = [[f"q{'abc'[n]}" for n in random.integers(0, 3, 4)] + [str(i)] for i in range(20)]
    targets = [[f"z{'abc'[n]}" for n in random.integers(0, 3, 4)] + [str(i)] for i in range(20)]
    links: list[Links] = [[(i, int(j)) for i, j in enumerate(random.permutation(5))] for _ in sources]
    found = linked_occurrences(sources, targets, links, least, per_word, most)
    every = linked_occurrences(sources, targets, links, 1, 10**6, 10**6)
    assert found == sorted(set(found)) and set(found) <= set(every)
    assert all((o.source, o.target) in links[o.pair] for o in every)
    pairs = Counter((sources[o.pair][o.source], targets[o.pair][o.target]) for o in every)
    assert sum(pairs.values()) == sum(
        max(i, j) < 4 or (sources[p][i] + targets[p][j]).isalpha() for p, some in enumerate(links) for i, j in some
    )
    words: Counter[str] = Counter()
    for (word, _), count in pairs.items():
        words[word] += count if count >= least else 0
    assert len(found) == min(most, sum(min(per_word, count) for count in words.values()))
    assert all(pairs[sources[o.pair][o.source], targets[o.pair][o.target]] >= least for o in found)
    assert max(Counter(sources[o.pair][o.source] for o in found).values(), default=0) <= per_word


@given(st.integers(0, 50), st.integers(0, 60))
def test_items_are_spread_evenly(count: int, most: int) -> None:
    found = spread(range(count), most)
    assert len(found) == min(count, most)
    gaps = {b - a for a, b in pairwise(found)}
    assert max(gaps, default=0) - min(gaps, default=0) <= 1 and min(gaps, default=1) >= 1
    assert found[:1] == list(range(count))[: min(1, most)]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_links_are_one_to_one(links: Links) -> None:
    distinct = set(links)
    expected = {(i, j) for i, j in distinct if sum(a == i or b == j for a, b in distinct) == 1}
    assert set(one_to_one(links)) == expected and len(one_to_one(links)) == len(expected)


@pytest.mark.parametrize("link", [(2, 0), (0, 1), (-1, 0), (0, -1)])
def test_a_link_to_nowhere(link: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=f"sentence pair 1: a link {link[0]}-{link[1]} between 2 and 1 words"):
        linked_occurrences([["a"], ["a", "b"]], [["c"], ["c"]], [[], [link]])


def test_sides_of_unequal_length() -> None:
    with pytest.raises(DataError, match="1 source sentences, 2 target sentences and 1 rows of links"):
        linked_occurrences([["a"]], [["b"], ["c"]], [[]])


def test_a_text_without_pairs() -> None:
    encoder = Known(lambda text, i: np.zeros(WIDTH))
    with pytest.raises(
        DataError, match=r"among 1 sentence pairs no two different words are linked 2 times(.|\n)*min_cou"
    ):
        contextual_bli(encoder, sentences("ein Hund"), sentences("a dog"), [[(0, 0), (1, 1)]])
    assert not encoder.asked


# --- with an encoder


def test_vectors_of_occurrences_are_those_of_their_sentences(
    tiny_encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "SENTENCES", 2)
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    texts = ["Ein Hund läuft.", "猫在温暖的床上睡觉。", "cat " * 200, "A dog runs."]
    some = [Tokenised(text, Segmenter.for_language("zh").tokens(text)) for text in texts]
    wanted = [(3, 1), (1, 0), (0, 2), (2, 1), (2, 199), (1, 3), (3, 1)]
    vectors, read = occurrence_vectors(encoder, some, wanted)
    assert read.tolist() == [True, True, True, True, False, True, True]
    for row, (sentence, position) in enumerate(wanted):
        if read[row]:
            ((locations, alone),) = encoder.words([some[sentence].text], [some[sentence].tokens])
            assert torch.allclose(vectors[row], alone[locations.index(position)], atol=1e-5)
    assert not vectors[4].any()
    assert occurrence_vectors(encoder, some, [])[0].shape[0] == 0


GERMAN = ["Die Katze schläft auf dem Bett.", "Ein Hund schläft im Garten.", "Die Katze läuft im Garten.", "Ein Hund!"]
ENGLISH = ["The cat sleeps on the bed.", "A dog sleeps in the garden.", "The cat runs in the garden.", "A dog!"]


def test_the_benchmark(tmp_path: Path, tiny_encoder: str) -> None:
    rows = [f"{a}\t{b}" for a, b in zip(GERMAN, ENGLISH, strict=True)]
    (tmp_path / "test.tsv").write_text("\n".join(["de\ten", *rows]), encoding="utf-8")
    config = ContextualBli(data=str(tmp_path / "test.tsv"), csls=3, occurrences_per_word=1, layer=1)
    result = config.score(System(tiny_encoder))
    encoder = TextEncoder.from_pretrained(tiny_encoder, layer=1)
    sides = [tokenised(GERMAN, Segmenter.for_language("de")), tokenised(ENGLISH, Segmenter.for_language("en"))]
    found = contextual_bli(encoder, *sides, csls=3, per_word=1)
    assert result.scores == {"de": found.metrics()} and result.predictions == {"de": found.predictions()}
    answered = result.predictions["de"]
    assert len(answered["example_scores"]) == len(answered["answers"]) == result.scores["de"]["occurrences"] > 3
    assert max(Counter(word.lower() for word in answered["words"]).values()) == 1
    assert np.mean(answered["example_scores"]) == result.scores["de"]["p1"]
    fewer = config.model_copy(update={"max_sentences": 2, "min_count": 1}).score(System(tiny_encoder))
    assert "Hund" not in fewer.predictions["de"]["words"], "sentences 0 and 2 alone are read"
    assert (
        len(
            config.model_copy(update={"max_occurrences": 2})
            .score(System(tiny_encoder))
            .predictions["de"]["example_scores"]
        )
        == 2
    )

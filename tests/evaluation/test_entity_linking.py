from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.evaluation import entity_linking as benchmark
from babelray.evaluation.benchmark import System
from babelray.evaluation.entity_linking import (
    EntityLinking,
    KnowledgeBase,
    Links,
    Mention,
    entity_linking,
    nearest_names,
    read_knowledge_base,
    read_mentions,
)
from babelray.storage import Location

WIDTH = 6


class Known:
    """An encoder that gives every text a vector of its own, and remembers what it was asked for."""

    def __init__(self, vectors: dict[str, np.ndarray]) -> None:
        self.vectors = vectors
        self.asked: list[list[str]] = []

    def for_language(self, language: str, beside: str) -> "Known":
        return self

    def encode(self, texts: Sequence[str], pooling: str = "mean") -> torch.Tensor:
        self.asked.append(list(texts))
        return torch.from_numpy(np.stack([self.vectors[text] for text in texts])).float()


def mention(text: str, *concepts: str) -> Mention:
    return Mention(text, frozenset(concepts))


def loop_ranks(mentions: list[Mention], names: KnowledgeBase, vectors: dict[str, np.ndarray]) -> list[int]:
    """All names sorted by cosine; the first that shares a concept, if it is one of the first ten."""
    ranks = []
    for asked in mentions:
        x = vectors[asked.text]
        cosine = {s: x @ vectors[s] / np.linalg.norm(x) / np.linalg.norm(vectors[s]) for s in names}
        ranked = sorted(names, key=cosine.__getitem__, reverse=True)
        right = [rank for rank, s in enumerate(ranked[:10], start=1) if set(names[s].split("|")) & asked.concepts]
        ranks.append(min(right, default=0))
    return ranks


def world(seed: int, names: int = 60) -> tuple[dict[str, list[Mention]], KnowledgeBase, dict[str, np.ndarray]]:
    """Names of 15 concepts, some of two; mentions of one or two of 20 concepts in two languages."""
    random = np.random.default_rng(seed)
    some = {
        f"name {i}": "|".join(f"C{c}" for c in random.choice(15, 1 + i % 4 // 3, replace=False)) for i in range(names)
    }
    mentions = {
        code: [mention(f"{code} {i}", *(f"C{c}" for c in random.choice(20, 1 + i % 2))) for i in range(count)]
        for code, count in (("de", 30), ("fi", 17))
    }
    texts = [*some, *(asked.text for asked_of in mentions.values() for asked in asked_of)]
    return mentions, some, {text: random.normal(size=WIDTH) * random.uniform(0.1, 9) for text in texts}


@pytest.mark.parametrize("block", [1, 7, 60, 1000])
def test_ranks_are_those_of_the_definition(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "NAMES", block)
    seen: set[int] = set()
    for seed in range(5):
        mentions, names, vectors = world(seed)
        encoder = Known(vectors)
        found = entity_linking(encoder, mentions, names)
        assert list(found) == ["de", "fi"]
        known = {concept for joined in names.values() for concept in joined.split("|")}
        for code, some in mentions.items():
            ranks = loop_ranks(some, names, vectors)
            assert found[code].ranks == ranks
            seen |= {*ranks}
            assert found[code].coverage == np.mean([bool(asked.concepts & known) for asked in some])
            for rank, asked, answer in zip(ranks, some, found[code].answers, strict=True):
                concepts, name = answer.split("||")
                assert names[name] == concepts
                assert (rank == 1) == bool(asked.concepts & set(concepts.split("|")))
        asked_names = encoder.asked[len(mentions) :]
        assert sorted(text for texts in asked_names for text in texts) == sorted(names), "a name is encoded once"
        assert max(map(len, asked_names)) <= block, "and no more at a time than memory is meant for"
    assert seen == {*range(11)}


@settings(max_examples=50)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_names_in_blocks_are_searched_as_if_at_once(sizes: list[int], n: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    mentions = torch.randn(5, WIDTH, generator=generator)
    names = torch.randn(sum(sizes), WIDTH, generator=generator)
    cosine = torch.cosine_similarity(mentions.double()[:, None], names.double()[None], dim=2)
    expected = cosine.topk(min(n, len(names))).indices
    assert nearest_names(mentions, iter(names.split(sizes)), n).tolist() == expected.tolist()


def test_a_space_that_is_the_same_links_all_and_one_that_is_turned_does_not() -> None:
    random = np.random.default_rng(3)
    turn, _ = np.linalg.qr(random.normal(size=(40, 40)))
    names = {f"name {i}": f"C{i}" for i in range(50)}
    mentions = {"de": [mention(f"Name {i}", f"C{i}") for i in range(50)]}
    there = {name: random.normal(size=40) for name in names}
    same = there | {f"Name {i}": 3 * there[f"name {i}"] for i in range(50)}
    turned = there | {f"Name {i}": turn @ there[f"name {i}"] for i in range(50)}
    scores = entity_linking(Known(same), mentions, names)["de"].metrics()
    assert scores == {"p1": 1, "p5": 1, "mrr": 1, "coverage": 1, "mentions": 50}
    chance = entity_linking(Known(turned), mentions, names)["de"].metrics()
    assert chance["p1"] < 0.15 and chance["p5"] < 0.3
    turned_back = turned | {text: turn.T @ turned[text] for text in turned if text.startswith("Name")}
    assert entity_linking(Known(turned_back), mentions, names)["de"].metrics() == scores


def test_names_are_counted_not_concepts() -> None:
    """The right name comes sixth, but its concept second."""
    angles = {"asked": 0.0, **{f"wrong {i}": 0.1 * (i + 1) for i in range(5)}, "right": 0.8}
    vectors = {text: np.array([np.cos(angle), np.sin(angle)]) for text, angle in angles.items()}
    names = {text: "C2" if text == "right" else "C1" for text in angles if text != "asked"}
    found = entity_linking(Known(vectors), {"de": [mention("asked", "C2")]}, names)["de"]
    assert found.metrics() == {"p1": 0, "p5": 0, "mrr": pytest.approx(1 / 6), "coverage": 1, "mentions": 1}
    assert found.predictions() == {"example_scores": [0], "ranks": [6], "answers": ["C1||wrong 0"]}
    assert found.chance == 1 / len(names)


def test_measures_by_hand() -> None:
    found = Links([1, 0, 5, 10], ["C1||a"] * 4, 0.75, 0.1)
    assert found.metrics() == {"p1": 0.25, "p5": 0.5, "mrr": pytest.approx(1.3 / 4), "coverage": 0.75, "mentions": 4}
    assert found.predictions()["example_scores"] == [1, 0, 0, 0]


def test_a_knowledge_base_of_other_concepts() -> None:
    mentions = {"de": [mention("a", "C1")], "fi": [mention("a", "Q1", "Q2"), mention("b", "Q3")]}
    encoder = Known({})
    with pytest.raises(DataError, match=r"no mention in language 'fi' has a concept(.|\n)*such as Q1;.*such as C1\|C2"):
        entity_linking(encoder, mentions, {"x": "C1|C2"})
    assert not encoder.asked


def test_vectors_that_are_not_numbers() -> None:
    with pytest.raises(DataError, match="the vectors of 1 of 2 mentions or names are not numbers"):
        broken = {"a": np.ones(2), "x": np.ones(2), "y": np.array([1, np.nan])}
        entity_linking(Known(broken), {"de": [mention("a", "C1")]}, {"x": "C1", "y": "C2"})


def file(folder: Path, name: str, text: str) -> Location:
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return Location.parse(folder / name)


def test_mentions_are_read(tmp_path: Path) -> None:
    text = "\ufeffC1||Armeria\r\nC2|C3||Trichter- \n\nC4+C5||K+\nC6\tVitamin B\u00a0(a\u0308|o)\u2028!\n"
    assert read_mentions(file(tmp_path, "de", text)) == [
        mention("Armeria", "C1"),
        mention("Trichter-", "C2", "C3"),
        mention("K+", "C4", "C5"),
        mention("Vitamin B\u00a0(ä|o)\u2028!", "C6"),
    ]


def test_names_are_read_and_homonyms_joined(tmp_path: Path) -> None:
    first = file(tmp_path, "1", "C1||cold\nC2||flu\nC3||cold\nC1||cold\n")
    second = file(tmp_path, "2", "C4\tcold\nC5\tCold\n")
    expected = {"cold": "C1|C3|C4", "flu": "C2", "Cold": "C5"}
    assert read_knowledge_base([first, second]) == expected
    assert list(read_knowledge_base([first, second])) == list(expected)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: there are no"),
        ("\n \n", "line 1: there are no"),
        ("C1||a\nC2 b\n", "line 2: not a concept and a text"),
        ("C1|a\n", "line 1: not a concept and a text"),
        ("C1||a||in its <tgt>a</tgt> sentence\n", "line 1: not a concept and a text"),
        ("C1|| \n", "line 1: not a concept and a text"),
        ("C1||a\n\n||b\n", "line 3: not a concept and a text"),
        ("|+||b\n", "line 1: not a concept and a text"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, problem: str) -> None:
    location = file(tmp_path, "file.txt", text)
    with pytest.raises(DataError, match=f"file.txt, {problem}"):
        read_mentions(location)
    with pytest.raises(DataError, match=f"file.txt, {problem}"):
        read_knowledge_base([location])


def test_the_benchmark(tmp_path: Path, tiny_encoder: str) -> None:
    """Mentions that are spelled as a name are as near to it as can be; no file of another language is looked at."""
    file(tmp_path, "de_query.txt", "C1||Katze\nC2|C9||Hund\nC8||Garten\n")
    file(tmp_path, "zh_query.txt", "C3||猫\n")
    file(tmp_path, "names.txt", "C1||Katze\nC2||Hund\nC3||猫\nC4||cat\n")
    settings = {"data": f"{tmp_path}/{{lang}}_query.txt", "knowledge_base": f"{tmp_path}/na*.txt"}
    config = EntityLinking(**settings)
    assert [location.name for location in config.sources()] == ["de_query.txt", "zh_query.txt", "names.txt"]
    result = config.score(System(tiny_encoder))
    encoder = TextEncoder.from_pretrained(tiny_encoder, layer=-1)
    names = read_knowledge_base([Location.parse(tmp_path / "names.txt")])
    mentions = {code: read_mentions(Location.parse(tmp_path / f"{code}_query.txt")) for code in ("de", "zh")}
    found = entity_linking(encoder, mentions, names)
    assert result.scores == {code: found[code].metrics() for code in mentions}
    assert result.scores["de"]["p1"] == result.scores["de"]["coverage"] == pytest.approx(2 / 3)
    assert result.predictions["de"]["example_scores"] == [1, 1, 0]
    assert result.predictions["de"]["answers"][:2] == ["C1||Katze", "C2||Hund"]
    assert result.predictions["zh"] == {"example_scores": [1], "ranks": [1], "answers": ["C3||猫"]}
    assert set(EntityLinking(**settings, languages=["zh"]).score(System(tiny_encoder)).scores) == {"zh"}


def test_a_knowledge_base_for_each_language(tmp_path: Path, tiny_encoder: str) -> None:
    for code, own in (("de", "Hund"), ("en", "dog")):
        file(tmp_path, f"{code}.txt", f"C1||{own}\n")
        file(tmp_path, f"names.{code}.txt", f"C1||{own}\nC2||cat\n")
    config = EntityLinking(data=f"{tmp_path}/{{lang}}.txt", knowledge_base=f"{tmp_path}/names.{{lang}}.txt")
    assert len(config.sources()) == 4
    answers = {code: some["answers"] for code, some in config.score(System(tiny_encoder)).predictions.items()}
    assert answers == {"de": ["C1||Hund"], "en": ["C1||dog"]}


def test_a_task_without_data(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"data must have \{lang\} in it"):
        EntityLinking(data=f"{tmp_path}/de.txt", knowledge_base="x")
    config = EntityLinking(data=f"{tmp_path}/{{lang}}.txt", knowledge_base=f"{tmp_path}/names.txt")
    with pytest.raises(DataError, match=r"there are no mentions at .*\{lang\}.txt"):
        config.sources()
    file(tmp_path, "de.txt", "C1||Hund\n")
    with pytest.raises(DataError, match=r"there is no knowledge base at .*names.txt"):
        config.sources()
    with pytest.raises(DataError, match=r"there are no mentions at .*fi.txt"):
        config.model_copy(update={"languages": ["de", "fi"]}).sources()

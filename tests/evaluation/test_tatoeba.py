"""Sentence retrieval by the vectors of an encoder."""

import json
from pathlib import Path

import pytest
import torch

from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.evaluation.benchmark import Result, System
from babelray.evaluation.parallel import read_parallel
from babelray.evaluation.tatoeba import Tatoeba, sentence_retrieval
from babelray.metrics.example_scores import example_scores_of, p_value
from babelray.metrics.retrieval import retrieve
from babelray.storage import Location
from conftest import SENTENCES

SCORINGS = ["cosine", "csls", "margin"]
ENGLISH = [
    "The cat sleeps on the warm bed.",
    "A dog runs in the big garden.",
    "The dog sleeps.",
    "A big cat runs in the garden.",
    "The bed in the garden is warm.",
    "A dog on the bed.",
    "The warm garden runs.",
]


def write(folder: Path, files: dict[str, list[str]]) -> Location:
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Location.parse(folder)


@pytest.fixture(scope="module")
def encoder(tiny_encoder: str) -> TextEncoder:
    return TextEncoder.from_pretrained(tiny_encoder)


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_a_copy_of_the_hub_is_found(encoder: TextEncoder, pooling) -> None:
    order = [3, 0, 6, 1, 5, 2, 4]
    moved = [ENGLISH[i] for i in order]
    found = sentence_retrieval(encoder, [("de", ENGLISH, ENGLISH), ("fr", moved, ENGLISH)], "cosine", pooling)
    assert list(found) == ["de", "fr"]
    assert found["de"].scores["to_hub"] == found["de"].scores["from_hub"] == 1
    assert found["de"].scores["error"] == 0 and found["de"].scores["mean_margin"] > 0
    assert found["de"].scores["sentences"] == 7
    assert found["fr"].answers.to_hub.positions_N.tolist() == order
    assert found["fr"].answers.from_hub.positions_N.tolist() == [order.index(i) for i in range(7)]
    assert found["fr"].scores["error"] == 1 and found["fr"].scores["mean_margin"] < 0


@pytest.mark.parametrize("scoring", SCORINGS)
def test_the_benchmark_scores_the_vectors_of_the_encoder(encoder: TextEncoder, scoring) -> None:
    german, english = SENTENCES[2:6], ENGLISH[:4]
    ((code, found),) = sentence_retrieval(encoder, [("de", german, english)], scoring, "last").items()
    vectors = encoder.encode(german, "last"), encoder.encode(english, "last")
    expected = retrieve(*vectors, scoring)
    assert code == "de" and found.answers.predictions() == expected.predictions()
    assert found.scores == pytest.approx({**expected.metrics(), "sentences": 4}, abs=1e-5)


def test_the_hub_is_encoded_once(encoder: TextEncoder) -> None:
    asked: list[str] = []

    class Listening(TextEncoder):
        def encode(self, texts, pooling="mean"):
            asked.extend(texts)
            return super().encode(texts, pooling)

    listening = Listening(encoder.read, encoder.device, encoder.tokenizer, encoder.longest)
    german, chinese = ["Eins.", "Zwei.", "Zwei."], ["一", "二", "三"]
    pairs = [("de", german, ENGLISH[:3]), ("zh", chinese, ENGLISH[2:5]), ("fr", ENGLISH[:2], ENGLISH[3:5])]
    found = sentence_retrieval(listening, pairs)
    assert sorted(asked) == sorted({*german, *chinese, *ENGLISH[:5]}) and len(found) == 3
    alone = sentence_retrieval(encoder, pairs[1:2])["zh"]
    assert found["zh"].answers.predictions() == alone.answers.predictions()


def test_the_same_sentence_twice(encoder: TextEncoder) -> None:
    same = [ENGLISH[0], ENGLISH[1], ENGLISH[1]]
    strict, either = (
        sentence_retrieval(encoder, [("de", same, same)], either_place=location)["de"].answers
        for location in (False, True)
    )
    for direction in ("to_hub", "from_hub"):
        assert getattr(strict, direction).correct_N.tolist() == [True, True, False]
        assert getattr(either, direction).correct_N.tolist() == [True, True, True]
        assert getattr(either, direction).positions_N.tolist() == [0, 1, 1]
        assert getattr(strict, direction).margins_N[1] == 0 < getattr(either, direction).margins_N[1]


def test_the_level_of_chance(encoder: TextEncoder) -> None:
    same = [ENGLISH[0], ENGLISH[1], ENGLISH[1]]
    assert sentence_retrieval(encoder, [("de", ENGLISH[:4], ENGLISH[:4])])["de"].chance == 1 / 4
    one, other = sentence_retrieval(encoder, [("de", same, ENGLISH[:3])])["de"].chance, (1 / 3 + 5 / 9) / 2
    assert one == pytest.approx(other), "two of three sentences are right for each of two"


def test_predictions_can_be_saved(encoder: TextEncoder) -> None:
    found = sentence_retrieval(encoder, [("de", ENGLISH[::-1], ENGLISH)])["de"].answers
    assert json.loads(json.dumps(found.predictions())) == {
        "to_hub": {"positions": [6, 5, 4, 3, 2, 1, 0], "example_scores": [0, 0, 0, 1, 0, 0, 0]},
        "from_hub": {"positions": [6, 5, 4, 3, 2, 1, 0], "example_scores": [0, 0, 0, 1, 0, 0, 0]},
    }


def test_what_the_benchmark_cannot_use(encoder: TextEncoder) -> None:
    with pytest.raises(DataError, match="language 'de' has 7 sentences and 6 translations"):
        sentence_retrieval(encoder, [("de", ENGLISH, ENGLISH[1:])])
    with pytest.raises(DataError, match="language 'de' has 0 sentences"):
        sentence_retrieval(encoder, [("de", [], [])])
    with pytest.raises(DataError, match="language 'de' twice"):
        sentence_retrieval(encoder, [("de", ENGLISH, ENGLISH)] * 2)


def test_from_files_to_scores(tmp_path: Path, tiny_encoder: str) -> None:
    english = ["The cat sleeps.", "A dog runs.", "The bed is warm.", "A big garden."]
    location = write(
        tmp_path,
        {
            "tatoeba.afr-eng.afr": english,
            "tatoeba.afr-eng.eng": english,
            "tatoeba.est-eng.est": english[:2] + english[:1:-1],
            "tatoeba.est-eng.eng": english,
        },
    )
    found = sentence_retrieval(TextEncoder.from_pretrained(tiny_encoder), read_parallel(location))
    assert {code: (row.scores["to_hub"], row.scores["from_hub"]) for code, row in found.items()} == {
        "af": (1, 1),
        "et": (0.5, 0.5),
    }
    assert found["et"].answers.to_hub.positions_N.tolist() == [0, 1, 3, 2]


def test_repeated_pairs_are_not_independent(tmp_path: Path, tiny_encoder: str) -> None:
    """Intervals and p-values of pairs that are given four times are those of the pairs given once."""
    results = {}
    for copies in (1, 4):
        sides = {
            "de-en.de": [*ENGLISH[3:], *SENTENCES[2:5]] * copies,
            "de-en.en": [*ENGLISH[3:], *ENGLISH[:3]] * copies,
        }
        (tmp_path / str(copies)).mkdir()
        config = Tatoeba(data=str(write(tmp_path / str(copies), sides)))
        encoders = [TextEncoder.from_pretrained(tiny_encoder, layer) for layer in (0, -1)]
        results[copies] = [config.run(encoder, System("")) for encoder in encoders]
        remark = "de: 28 pairs, 7 distinct 'en' sentences; intervals and p-values count distinct ones"
        assert (remark in config.remarks(results[copies][0])) == (copies == 4)
    for once, often in zip(results[1], results[4], strict=True):
        assert once.mean("mean") == pytest.approx(often.mean("mean")) and once.chance == pytest.approx(often.chance)
        assert often.confidence("mean")["de"] == pytest.approx(once.confidence("mean")["de"])
    ps = [p_value(*(example_scores_of(own.predictions, ["de"]) for own in results[copies]), "de") for copies in (1, 4)]
    assert ps[0] == pytest.approx(ps[1])


def remarks_on(source: torch.Tensor, hub: torch.Tensor, texts: tuple[list[str], list[str]], folder: Path) -> list[str]:
    """The remarks on the retrieval of one language, by the vectors of both sides."""
    folder.mkdir()
    config = Tatoeba(data=str(write(folder, {"de-en.de": texts[0], "de-en.en": texts[1]})))
    answers = retrieve(source, hub)
    scores = {"de": answers.metrics()}
    return config.remarks(Result(scores, {"de": answers.predictions()}, chance={"de": 1 / len(source)}))


def test_sentences_that_are_shifted_by_a_line(tmp_path: Path) -> None:
    vectors_ND, other_ND = torch.randn(2, 60, 32, generator=torch.Generator().manual_seed(1))
    noisy_ND = vectors_ND + 0.8 * other_ND
    texts = [f"Satz {row * 7 % 60}." for row in range(60)], [f"Sentence {row * 7 % 60}." for row in range(60)]
    later = remarks_on(noisy_ND[:-1], vectors_ND[1:], texts, tmp_path / "a")
    earlier = remarks_on(noisy_ND[1:], vectors_ND[:-1], texts, tmp_path / "b")
    assert len(later) == len(earlier) == 1 and "shifted by one line" in later[0] and "shifted by one line" in earlier[0]
    assert "of the previous line" in later[0] and "of the next line" in earlier[0]
    assert remarks_on(noisy_ND, vectors_ND, texts, tmp_path / "c") == []
    guessed = ["not better than guessing: de: are both languages in one space?"]
    assert remarks_on(other_ND, vectors_ND, texts, tmp_path / "d") == guessed


def test_pairs_that_are_the_same_text_twice(tmp_path: Path) -> None:
    vectors_ND, words = torch.eye(20), [f"Satz {row * 7 % 20}." for row in range(20)]
    for same, remarks in ((4, []), (5, ["de: 5 of 20 pairs are identical on both sides"])):
        english = words[:same] + [f"Sentence {row * 7 % 20}." for row in range(same, 20)]
        assert remarks_on(vectors_ND, vectors_ND, (words, english), tmp_path / str(same)) == remarks

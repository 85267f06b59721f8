from pathlib import Path

import pytest

from babelray.lexicon.pairs import Pair
from babelray.storage import Location
from babelray.training.training_data import ArtifactTrainingData, Texts, is_held_out_text


@pytest.fixture
def corpus(tmp_path: Path) -> Location:
    """Sentences of two languages, every other of them parallel."""
    from babelray.lexicon.pairs import write_pairs
    from babelray.storage.tables import write_rows

    location = Location.parse(tmp_path)
    for code in ("en", "de"):
        rows = [
            {"document": 0, "paragraph": 0, "sentence": i, "text": f"{code} {i}", "tokens": [code, str(i)]}
            for i in range(1000)
        ]
        columns = ("document", "paragraph", "sentence", "text", "tokens")
        write_rows(location / "sentences" / code / "0.parquet", rows, columns)
    pairs = [Pair(f"de {i}", f"en {i}", "train") for i in range(0, 1000, 2)]
    write_pairs(location / "parallel" / "de-en", pairs)
    return location


def test_what_is_measured_with_is_never_trained_on(corpus: Location, tiny_encoder: str) -> None:
    training_data = ArtifactTrainingData(tiny_encoder, corpus, None, ["en", "de"], "en", 1, {}, held_out=0.1)
    (sources, targets), (held_sources, held_targets) = (
        training_data.parallel("de"),
        training_data.held_out_parallel("de"),
    )
    assert len(sources) + len(held_sources) == 500 and 20 < len(held_sources) < 80
    assert [s.removeprefix("de") for s in held_sources] == [t.removeprefix("en") for t in held_targets]
    for code, held in (("en", held_targets), ("de", held_sources)):
        train, measured = set(training_data.sentences(code)), set(training_data.held_out_sentences(code))
        assert train.isdisjoint(measured) and len(train) + len(measured) == 1000
        assert train.isdisjoint(held) and set(held) <= measured
        assert 50 < len(measured) < 200
    assert set(sources).isdisjoint(held_sources) and set(targets).isdisjoint(held_targets)


def test_objectives_that_draw_from_the_same_text_share_it(corpus: Location, tiny_encoder: str) -> None:
    training_data = ArtifactTrainingData(tiny_encoder, corpus, None, ["en", "de"], "en", 1, {}, held_out=0.1)
    assert training_data.sentences("de") is training_data.sentences("de")
    assert training_data.parallel("de")[0] is training_data.parallel("de")[0]


def test_nothing_is_held_out_unless_asked(corpus: Location, tiny_encoder: str) -> None:
    training_data = ArtifactTrainingData(tiny_encoder, corpus, None, ["en", "de"], "en", 1, {})
    assert len(training_data.sentences("de")) == 1000 and len(training_data.parallel("de")[0]) == 500
    assert training_data.held_out_parallel("de") == ([], []) and len(training_data.held_out_sentences("de")) == 0


def test_the_share_that_is_kept_back() -> None:
    kept = [is_held_out_text(f"sentence {i}", 0.25) for i in range(4000)]
    assert abs(sum(kept) / 4000 - 0.25) < 0.03
    assert not any(is_held_out_text(f"sentence {i}", 0.0) for i in range(100))


def test_texts_are_a_sequence() -> None:
    import pyarrow as pa

    texts = Texts(pa.array(["a", "猫", "c"]))
    assert len(texts) == 3 and texts[1] == "猫" and list(texts[1:]) == ["猫", "c"] and list(texts) == ["a", "猫", "c"]

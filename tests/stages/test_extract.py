"""The extract stage on one process, without Ray: blocks, resumption, statistics and the summary."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from babelray.extraction.method import EXTRACTION_METHODS
from babelray.stages.extract import ExtractionContext, ExtractStage, Settings, Wave, extract, read_vectors
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.storage.tables import SENTENCES, write_rows
from babelray.text.corpus import Block
from babelray.training import sharded_encoder
from babelray.vectors.formats import write_vectors
from babelray.vectors.word_vectors import WordVectors
from support.extraction import TEXTS, tokenize


@dataclass
class OnlyWorker:
    rank: int = 0
    count: int = 1

    def progress(self, done: float, total: float, unit: str, note: str) -> None:
        assert done <= total and unit in ("sentences", "words")


@pytest.fixture
def corpus(tmp_path: Path) -> Location:
    location = Location.parse(tmp_path / "corpus")
    for code, texts in {"en": TEXTS, "de": TEXTS[::-1]}.items():
        sentences = tokenize(texts)
        rows = [
            {"document": 0, "paragraph": number, "sentence": 0, "text": s.text, "tokens": s.tokens}
            for number, s in enumerate(sentences)
        ]
        write_rows(location / "sentences" / code / "00000.parquet", rows, SENTENCES)
        words = [token.lower() for sentence in sentences for token in sentence.tokens if token.isalpha()]
        counts = [{"word": word, "count": words.count(word)} for word in dict.fromkeys(words)]
        write_rows(location / "vocabulary" / f"{code}.parquet", counts, ["word", "count"])
    return location


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tiny_encoder: str, corpus: Location, tmp_path: Path):
    monkeypatch.setattr(sharded_encoder, "_barrier", lambda: None)

    def run(out: str, **settings: object) -> ExtractionContext:
        method = EXTRACTION_METHODS.parse(settings)
        context = ExtractionContext(
            Settings(languages=["en", "de"], seed=1, extract=method),
            Location.parse(tiny_encoder),
            corpus,
            Location.parse(tmp_path / out),
        )
        extract(context, OnlyWorker())  # type: ignore[arg-type]
        return context

    return run


@pytest.mark.parametrize("method", ["x2static", "aggregate", "isolated"])
def test_vectors_do_not_depend_on_the_blocks(run, method: str) -> None:
    more = {"subsample": None, "min_steps": 1} if method == "x2static" else {}
    contexts = [
        run(f"size{size}", method=method, layer=1, block_sentences=size, min_count=2, **more) for size in (2, 100)
    ]
    for code in ("en", "de"):
        small, large = (WordVectors.load(context.vectors(code)) for context in contexts)
        assert small.words == large.words == list(contexts[0].words(code))
        if method != "x2static":  # whose minibatches depend on the blocks
            assert torch.allclose(small.matrix, large.matrix, atol=1e-5)
        statistics = [context.statistics(code).read_json() for context in contexts]
        assert statistics[0] == statistics[1] and statistics[0]["vectors"] == len(small)
        assert not (contexts[0].out / "work" / "blocks" / code).exists()


def test_further_layers_are_written_beside(run) -> None:
    context = run("layers", method="aggregate", layer=1, also_layers="all")
    layers = [WordVectors.load(context.vectors("en", layer)).matrix for layer in range(3)]
    assert torch.equal(layers[1], WordVectors.load(context.vectors("en")).matrix)
    assert not torch.allclose(layers[0], layers[2], atol=1e-2)


def test_what_is_complete_is_not_computed_again(run) -> None:
    settings = {"method": "aggregate", "layer": 1, "block_sentences": 2}
    context = run("again", **settings)
    expected = WordVectors.load(context.vectors("de")).matrix.clone()
    file = context.vectors("en").path / "vectors.safetensors"
    written = file.stat().st_mtime_ns
    context.statistics("de").delete()
    context.vectors("de").delete()
    run("again", **settings)
    assert file.stat().st_mtime_ns == written
    assert torch.equal(WordVectors.load(context.vectors("de")).matrix, expected)


def test_every_block_is_assigned_to_one_worker() -> None:
    sizes = [("a", 50), ("b", 30)]
    blocks = {code: [Block(Location(code), 0, start, 10) for start in range(0, size, 10)] for code, size in sizes}
    waves = [Wave.assign(["a", "b"], blocks, OnlyWorker(rank, 3)) for rank in range(3)]  # type: ignore[arg-type]
    assert sorted(unit for wave in waves for unit in wave.assigned) == [
        (code, number) for code in blocks for number in range(len(blocks[code]))
    ]
    assert sum(wave.size for wave in waves) == 80
    assert max(len(wave.assigned) for wave in waves) - min(len(wave.assigned) for wave in waves) <= 1


def test_given_vectors_and_the_summary(tmp_path: Path) -> None:
    for code, size in (("en", 3), ("de", 2)):
        words = [f"{code}{i}" for i in range(size)]
        write_vectors(WordVectors(words, torch.eye(size, 4), [1] * size), tmp_path / f"{code}.vec")
    settings = Settings.model_validate(
        {"languages": ["en", "de"], "seed": 1, "extract": {"method": "given", "path": f"{tmp_path}/{{lang}}.vec"}}
    )
    stage, out = ExtractStage(), Location.parse(tmp_path / "out")
    assert [location.name for location in stage.sources(settings)] == ["en.vec", "de.vec"]
    context = ExtractionContext(settings, out, out, out)
    for code in settings.languages:
        read_vectors(context, code)
    statistics = {code: context.statistics(code).read_json() for code in settings.languages}
    statistics["de"]["split sentences"] = 1200
    (out / "statistics.json").write_json(statistics)
    (table,) = stage.summary(Artifact(out, {}), settings).tables
    assert [list(row) for row in table.rows] == [["en", 3, 3], ["de", 2, 2]]
    assert table.notes == ["1,200 sentences were longer than the encoder allows, and split"]

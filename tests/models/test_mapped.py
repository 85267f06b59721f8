"""Mapped encoders: vectors against the definition, and benchmarks against the effect of rotating a language."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from babelray.api.evaluation import model_fingerprint
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS, Benchmark, Result, System
from babelray.mapping.linear import LinearMapping
from babelray.models.mapped import MappedEncoder, Sides, copy_encoder, describe, save_mapped
from babelray.recipe.load import configure
from babelray.storage import Location

WIDTH, LAYER = 32, 1
SYSTEM = System("", hub="en")
TEXTS = ["The cat sleeps on the warm bed.", "A dog runs.", ""]
TOKENS = [["The", "cat", "sleeps", "on", "the", "warm", "bed", "."], ["A", "dog", "runs", "."], []]


def turned(seed: int, unit: bool = False) -> LinearMapping:
    """A rotation, about 0."""
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(seed))).Q
    return LinearMapping(torch.zeros(WIDTH), turn, unit)


IDENTITY = LinearMapping(torch.zeros(WIDTH), torch.eye(WIDTH), unit=False)


@pytest.fixture(scope="module")
def plain(tiny_encoder: str) -> TextEncoder:
    return TextEncoder.from_pretrained(tiny_encoder, LAYER)


def test_words_are_mapped_after_pooling_and_sentences_are_means_of_mapped_subwords(plain: TextEncoder) -> None:
    """With a mapping that is not linear: vectors get length 1 first."""
    mapping = turned(1, unit=True)
    german = MappedEncoder(plain, {"de": Sides(mapping)}, "en").for_language("de", "en")
    for (locations, found), (expected_places, raw) in zip(
        german.words(TEXTS, TOKENS), plain.words(TEXTS, TOKENS), strict=True
    ):
        assert locations == expected_places
        assert torch.allclose(found, functional.normalize(raw) @ mapping.matrix_DE, atol=1e-6)
    subwords = german.subwords(TEXTS)
    for (spans, found), (expected_spans, raw) in zip(subwords, plain.subwords(TEXTS), strict=True):
        assert spans.equal(expected_spans)
        assert torch.allclose(found, functional.normalize(raw) @ mapping.matrix_DE, atol=1e-6)
    means = torch.stack([vectors.mean(0) for _, vectors in subwords[:2]])
    assert torch.allclose(german.encode(TEXTS[:2]), means, atol=1e-6)
    assert not torch.allclose(means, functional.normalize(plain.encode(TEXTS[:2])) @ mapping.matrix_DE, atol=1e-3)
    assert german.words([""], [[]])[0][0] == []


def test_the_hub_is_mapped_differently_for_each_language(plain: TextEncoder) -> None:
    sides = {"de": Sides(IDENTITY, turned(1)), "fr": Sides(IDENTITY, turned(2)), "ja": Sides(turned(3))}
    encoder = MappedEncoder(plain, sides, "en")
    raw = plain.encode(TEXTS[:2])
    for code, seed in (("de", 1), ("fr", 2)):
        found = encoder.for_language("en", code).encode(TEXTS[:2])
        assert torch.allclose(found, raw @ turned(seed).matrix_DE, atol=1e-6)
        assert torch.allclose(encoder.for_language(code, "en").encode(TEXTS[:2]), raw, atol=1e-6)
    assert encoder.for_language("en", "ja").encode(TEXTS[:2]).equal(raw), "the hub stays as it is"
    between = [encoder.for_language(*pair).encode(TEXTS[:2]) for pair in (("ja", "en"), ("ja", "de"))]
    assert between[0].equal(between[1])


def test_a_text_needs_its_language(plain: TextEncoder, tmp_path: Path) -> None:
    encoder = MappedEncoder(plain, {"de": Sides(IDENTITY)}, "en")
    for ask in (lambda: encoder.encode(TEXTS), lambda: encoder.words(TEXTS, TOKENS)):
        with pytest.raises(DataError, match="needs the language of a text"):
            ask()
    for pair in (("fr", "en"), ("en", "fr")):
        with pytest.raises(DataError, match=f"no mapping for '{pair[0]}' paired with '{pair[1]}'"):
            encoder.for_language(*pair)
    with pytest.raises(DataError, match="holds no mapped encoder"):
        MappedEncoder.from_pretrained(str(tmp_path))


def test_saved_and_opened_with_the_encoder_in_it_or_next_to_it(tiny_encoder: str, tmp_path: Path) -> None:
    location, source = Location.parse(tmp_path), Location.parse(tiny_encoder)
    sides = {"de": Sides(turned(1), turned(2, unit=True)), "zh": Sides(turned(3))}
    save_mapped(location / "alone", source, LAYER, "en", sides)
    copy_encoder(source, location / "shared")
    for code, both in sides.items():
        both.save(location / "shared" / "rotation" / "mappings" / code)
    describe(location / "shared" / "rotation", LAYER, "en")
    expected = MappedEncoder(TextEncoder.from_pretrained(tiny_encoder, LAYER), sides, "en")
    for folder in (location / "alone", location / "shared" / "rotation"):
        opened = MappedEncoder.from_pretrained(str(folder))
        assert opened.hub == "en" and list(opened.mappings) == ["de", "zh"]
        for pair in (("de", "en"), ("en", "de"), ("zh", "en"), ("en", "zh")):
            assert opened.for_language(*pair).encode(TEXTS).equal(expected.for_language(*pair).encode(TEXTS))
    files = [Path(name) for name in (location / "shared" / "rotation").files()]
    assert {file.suffix for file in files} == {".json", ".safetensors"}
    before = model_fingerprint(str(location / "shared" / "rotation"))
    (location / "shared" / "encoder" / "config.json").write_text("{}")
    assert model_fingerprint(str(location / "shared" / "rotation")) != before, "the encoder counts, where it lies too"


GERMAN = ["ein hund", "die katze", "das haus", "ein hund schläft", "die katze läuft", "das haus brennt"] * 2
ENGLISH = ["a dog", "the cat", "the house", "a dog sleeps", "the cat runs", "the house burns"] * 2
GERMAN, ENGLISH = ([f"{text} {i // 6}" for i, text in enumerate(side)] for side in (GERMAN, ENGLISH))


def benchmark_of(name: str, folder: Path) -> Benchmark:
    """A benchmark on a few lines of German and English in its published format."""
    lines = list(zip(GERMAN, ENGLISH, strict=True))
    if name in ("tatoeba", "contextual-bli", "geometry"):
        (folder / "data.tsv").write_text("de\ten\n" + "".join(f"{de}\t{en}\n" for de, en in lines))
        more = ["min_count=1"] if name == "contextual-bli" else []
        return configure(BENCHMARKS[name], {"data": str(folder / "data.tsv")}, more)
    if name == "word-alignment":
        (folder / "deen.src-tgt").write_text("".join(f"{de} ||| {en}\n" for de, en in lines))
        (folder / "deen.gold").write_text("0-0 1-1\n" * len(lines))
        return configure(BENCHMARKS[name], {"data": str(folder)}, [])
    if name == "mt-quality":
        rows = [f"de-en\t{de}\t{en}\t{i % 5}" for i, (de, en) in enumerate(lines)]
        (folder / "testset_de-en.tsv").write_text("\n".join(["LP\tsource\ttranslation\tHUMAN_score", *rows]))
        return configure(BENCHMARKS[name], {"data": str(folder)}, [])
    (folder / "de.txt").write_text("".join(f"C{i}||{de}\n" for i, de in enumerate(GERMAN)))
    (folder / "names.txt").write_text("".join(f"C{i}||{en}\n" for i, en in enumerate(ENGLISH)))
    data = {"data": str(folder / "{lang}.txt"), "knowledge_base": str(folder / "names.txt"), "languages": ["de"]}
    return configure(BENCHMARKS[name], data, [])


def same(first: Result, second: Result) -> bool:
    return (
        all(values == pytest.approx(second.scores[code], abs=1e-4) for code, values in first.scores.items())
        and first.scores.keys() == second.scores.keys()
    )


@pytest.mark.parametrize(
    "name", ["tatoeba", "contextual-bli", "geometry", "word-alignment", "mt-quality", "entity-linking"]
)
def test_every_benchmark_reads_each_language_by_its_own_mapping(name: str, plain: TextEncoder, tmp_path: Path) -> None:
    benchmark = benchmark_of(name, tmp_path)
    turn = turned(1)

    def scores(own: LinearMapping, hub: LinearMapping | None) -> Result:
        return benchmark.run(MappedEncoder(plain, {"de": Sides(own, hub)}, "en"), SYSTEM)

    expected = benchmark.run(plain, SYSTEM)
    assert same(scores(IDENTITY, None), expected) and same(scores(IDENTITY, IDENTITY), expected)
    assert not same(scores(turn, None), expected) and not same(scores(IDENTITY, turn), expected)
    assert same(scores(turn.then(turn.matrix_DE.T), None), expected), "turned, and turned back"
    assert same(scores(turn, turn), expected), "both sides turned alike"


def test_a_folder_is_scored_at_its_own_layer(plain: TextEncoder, tiny_encoder: str, tmp_path: Path) -> None:
    benchmark = benchmark_of("mt-quality", tmp_path)
    save_mapped(Location.parse(tmp_path / "mapped"), Location.parse(tiny_encoder), LAYER, "en", {"de": Sides(IDENTITY)})
    found = benchmark.model_copy(update={"layer": 2}).score(System(str(tmp_path / "mapped")))
    assert same(found, benchmark.run(plain, SYSTEM))
    assert not same(found, benchmark.run(TextEncoder.from_pretrained(tiny_encoder, 2), SYSTEM))


def test_benchmarks_that_train_refuse_it(tiny_encoder: str, tmp_path: Path) -> None:
    save_mapped(Location.parse(tmp_path / "mapped"), Location.parse(tiny_encoder), LAYER, "en", {"de": Sides(IDENTITY)})
    data = {"data": str(tmp_path / "{lang}.tsv"), "train": str(tmp_path / "train.tsv"), "name": "topics"}
    benchmark = configure(BENCHMARKS["classification"], data, [])
    with pytest.raises(DataError, match=r"topics: .* is a mapped encoder, which cannot be fine-tuned"):
        benchmark.score(System(str(tmp_path / "mapped")))

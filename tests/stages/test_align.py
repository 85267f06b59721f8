"""The align stage on simulated vectors: languages that are rotations of the hub, with noise, and their dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from babelray.cluster.tasks import Task
from babelray.lexicon.pairs import Pair, read_induced, write_pairs
from babelray.mapping.fitted import load_mapping
from babelray.mapping.linear import LinearMapping
from babelray.pipeline.stage import Job
from babelray.pipeline.summary import Table
from babelray.recipe.align import AlignConfig
from babelray.stages import align
from babelray.stages.align import AlignStage, Settings
from babelray.storage import Location
from babelray.vectors.formats import write_vectors
from babelray.vectors.retrieval import nearest
from babelray.vectors.word_vectors import WordVectors

WORDS = 400
LANGUAGES = {"en": 0.0, "de": 0.3, "nl": 0.3, "af": 0.3}
"""Each language's noise."""


def vectors(code: str, noise: float, seed: int = 0) -> WordVectors:
    """Word number i means concept i in every language; clusters and a skew make the rotation identifiable."""
    concepts = torch.Generator().manual_seed(seed)
    centres = torch.randn(12, 20, generator=concepts) * torch.linspace(2, 0.3, 20)
    space = centres[torch.randint(12, (WORDS,), generator=concepts)]
    space = space + torch.randn(WORDS, 20, generator=concepts) * torch.linspace(1.2, 0.2, 20)
    own = torch.Generator().manual_seed(sum(map(ord, code)) + seed)
    turn = torch.linalg.qr(torch.randn(20, 20, generator=own)).Q if code != "en" else torch.eye(20)
    matrix = (space + noise * torch.randn(WORDS, 20, generator=own)) @ turn
    return WordVectors([f"{code}{i}" for i in range(WORDS)], matrix, list(range(WORDS, 0, -1)))


class Inline:
    """Runs tasks one after the other, without a cluster, and remembers which really ran."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, tasks: Sequence[Task], progress: object, unit: str) -> dict[str, Any]:
        self.names += [task.name for task in tasks]
        return {task.name: task.function(*task.arguments) for task in tasks}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    inline = Inline()
    monkeypatch.setattr(align, "run_tasks", inline)
    extract, corpus = Location.parse(tmp_path / "extract"), Location.parse(tmp_path / "corpus")
    for code, noise in LANGUAGES.items():
        vectors(code, noise).save(extract / "vectors" / code)
        if code != "en":
            pairs = [Pair(f"{code}{i}", f"en{i}", "test" if i % 4 == 0 else "train") for i in range(0, WORDS, 2)]
            write_pairs(corpus / "dictionary" / f"{code}-en", pairs)
    (extract / "statistics.json").write_json({code: {"vectors": WORDS} for code in LANGUAGES})
    files = {f"vectors/{code}/vectors.safetensors": {"bytes": 4 * WORDS * 20} for code in LANGUAGES}
    inputs: Any = {
        "extract": SimpleNamespace(location=extract, manifest={"files": files}),
        "corpus": SimpleNamespace(location=corpus, manifest={}),
    }
    messages: list[str] = []

    def run(out: str = "out", **config: Any) -> tuple[Location, dict[str, Any]]:
        settings = Settings(languages=list(LANGUAGES), hub="en", seed=1, align=AlignConfig(**config))
        location = Location.parse(tmp_path / out)
        job = Job(settings, inputs, location, SimpleNamespace(), lambda values, step: None, messages.append)  # type: ignore[arg-type]
        return location, AlignStage().run(job)["by_language"]

    return SimpleNamespace(run=run, messages=messages, inline=inline, extract=extract, folder=tmp_path)


def precision(out: Location, code: str) -> float:
    """The share of words that come to lie nearest to their own concept in the hub."""
    source, hub = (WordVectors.load(out / "vectors" / language).matrix for language in (code, "en"))
    return (nearest(source, hub, csls=10)[1][:, 0] == torch.arange(WORDS)).float().mean().item()


SMALL = {"method": "vecmap", "patience": 5, "start_words": WORDS}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"mapping": {"method": "vecmap", "self_learning": False}},
        {"mapping": "rcsls"},
        {"mapping": "least-squares"},
        {"mapping": "muse"},
        {"mapping": SMALL, "dictionary": "none"},
        {"dictionary": "induced", "induced_by": SMALL},
        {"joint": 3},
        {"through": {"af": "nl"}},
        {"mapping": {"method": "real-nvp", "start": "rotation", "hidden": 8, "epochs": 2}, "select": False},
    ],
    ids=str,
)
def test_every_language_comes_to_lie_on_the_hub(stage: SimpleNamespace, config: dict[str, Any]) -> None:
    out, outcomes = stage.run(**config)
    for code in ("de", "nl", "af"):
        assert outcomes[code]["mapped"]
        assert precision(out, code) > 0.85
        mapping = load_mapping(out / "mappings" / code)
        own = WordVectors.load(stage.extract / "vectors" / code)
        assert torch.equal(mapping.transform(own.matrix), WordVectors.load(out / "vectors" / code).matrix)


def test_the_induced_dictionary_is_right_and_sorted(stage: SimpleNamespace) -> None:
    out, outcomes = stage.run()
    file = out / "dictionary" / "de-en.tsv"
    pairs = read_induced(file)
    assert len(pairs) == outcomes["de"]["induced"] > 0.8 * WORDS
    assert sum(a[2:] == b[2:] for a, b in pairs) > 0.95 * len(pairs)
    confidence = [float(line.split("\t")[2]) for line in file.read_text().splitlines()]
    assert confidence == sorted(confidence, reverse=True)
    fewer, outcomes = stage.run("fewer", induction={"min_confidence": confidence[99]})
    assert 100 <= outcomes["de"]["induced"] < 110
    assert read_induced(fewer / "dictionary" / "de-en.tsv")[:99] == pairs[:99]


def test_dictionaries_from_other_vectors(stage: SimpleNamespace) -> None:
    """The run's own vectors of German are noise; others, with the same words, still give its dictionary."""
    for code in LANGUAGES:
        write_vectors(vectors(code, 0.1, seed=5), Location.parse(stage.folder / f"{code}.vec"))
    template = str(stage.folder / "{lang}.vec")
    out, outcomes = stage.run(dictionary="induced", induced_from=template, induced_by=SMALL)
    assert outcomes["de"]["pairs"] > 0.9 * WORDS
    assert precision(out, "de") > 0.9
    settings = Settings(
        languages=["en", "de"], hub="en", seed=1, align=AlignConfig(dictionary="induced", induced_from=template)
    )
    assert [location.name for location in AlignStage().sources(settings)] == ["en.vec", "de.vec"]


def test_words_that_are_spelt_alike(stage: SimpleNamespace) -> None:
    for code in ("de", "nl", "af"):
        own = vectors(code, 0.3)
        words = [f"en{i}" if i % 5 == 0 else word for i, word in enumerate(own.words)]
        WordVectors(words, own.matrix, own.counts).save(stage.extract / "vectors" / code)
    out, outcomes = stage.run(dictionary="identical")
    assert outcomes["de"]["pairs"] == WORDS / 5
    assert precision(out, "de") > 0.9


def test_a_mapping_that_collapsed_is_reported(stage: SimpleNamespace) -> None:
    noise = torch.randn(WORDS, 20, generator=torch.Generator().manual_seed(3))
    vectors("de", 0.3).with_matrix(noise).save(stage.extract / "vectors" / "de")
    _, outcomes = stage.run(mapping=SMALL, dictionary="none")
    assert outcomes["de"]["collapsed"] and not outcomes["nl"]["collapsed"]
    assert "from a random start" in outcomes["de"]["health"]
    assert any("collapsed in: de. Give a dictionary" in line for line in stage.messages)


def test_a_language_without_pairs_keeps_its_own_space(stage: SimpleNamespace) -> None:
    write_pairs(Location.parse(stage.folder / "corpus" / "dictionary" / "de-en"), [Pair("de1", "en1", "train")])
    out, outcomes = stage.run()
    assert not outcomes["de"]["mapped"] and outcomes["nl"]["mapped"]
    assert torch.equal(LinearMapping.load(out / "mappings" / "de").matrix_DE, torch.eye(20))
    few = "fewer than 8 entries of the training dictionary have both words in the vectors: de (1)"
    assert stage.messages == [f"warning: left as extracted, since {few}"], "nothing was compared"


def test_a_dictionary_that_teaches_nothing_is_pointed_out(stage: SimpleNamespace) -> None:
    """All words have vectors, but each stands beside the translation of another, and the vectors are noise."""
    pairs = [Pair(f"de{i}", f"en{(i + 2) % WORDS}", "train") for i in range(WORDS)]
    write_pairs(Location.parse(stage.folder / "corpus" / "dictionary" / "de-en"), pairs)
    for number, code in enumerate(("de", "en")):
        noise = torch.randn(WORDS, 20, generator=torch.Generator().manual_seed(number))
        vectors(code, 0.3).with_matrix(noise).save(stage.extract / "vectors" / code)
    stage.run()
    (line,) = [line for line in stage.messages if "hardly any held-out word is translated" in line]
    assert "de" in line.rpartition(":")[2] and "shifted by a line" in line


def test_zero_tested_words_are_no_score(stage: SimpleNamespace) -> None:
    rows = [Pair(f"de{i}", f"en{i}", "train") for i in range(WORDS)] + [Pair("unbekannt", "unknown", "test")]
    write_pairs(Location.parse(stage.folder / "corpus" / "dictionary" / "de-en"), rows)
    _, outcomes = stage.run()
    settings = Settings(languages=list(LANGUAGES), hub="en", seed=1, align=AlignConfig())
    artifact: Any = SimpleNamespace(metrics={"by_language": outcomes})
    (table,) = AlignStage().summary(artifact, settings).tables
    german, dutch, _, mean = table.rows
    assert german[-2:] == [0.0, None] and isinstance(dutch[-1], tuple)
    assert mean[-1][1] == pytest.approx((outcomes["nl"]["bli"]["p1"] + outcomes["af"]["bli"]["p1"]) / 2)
    assert "not tested, since no entry of the test dictionary has both words in the vectors: de" in table.notes
    assert table.notes[0].startswith("95 % interval of a language's P@1: at most ± ") and "chance 0.2" in table.notes[0]


def test_joint_refinement_helps_where_the_hub_is_noisy(stage: SimpleNamespace) -> None:
    vectors("en", 1.0).save(stage.extract / "vectors" / "en")
    pairwise, _ = stage.run(select=False)
    joint, _ = stage.run("joint", joint=10, select=False)

    def between(out: Location) -> float:
        german, dutch = (WordVectors.load(out / "vectors" / code).matrix for code in ("de", "nl"))
        return (german - dutch).square().sum(1).mean().item()

    assert between(joint) < 0.9 * between(pairwise)
    hubs = [WordVectors.load(out / "vectors" / "en").matrix for out in (pairwise, joint)]
    assert torch.equal(*hubs), "the hub stays where it was"


def test_what_is_done_is_not_done_again(stage: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    real, fitted = align._fit, []

    def fit(code: str, *arguments: Any) -> Any:
        fitted.append(code)
        if len(fitted) == 3:
            raise KeyboardInterrupt
        return real(code, *arguments)

    monkeypatch.setattr(align, "_fit", fit)
    with pytest.raises(KeyboardInterrupt):
        stage.run()
    kept = {path: path.stat().st_mtime_ns for path in (stage.folder / "out" / "work").rglob("*") if path.is_file()}
    assert kept
    seen: dict[Path, int] = {}
    monkeypatch.setattr(align, "_fit", real)
    write = align._write

    def note(code: str, *arguments: Any) -> Any:
        seen.update({path: path.stat().st_mtime_ns for path in kept})
        return write(code, *arguments)

    monkeypatch.setattr(align, "_write", note)
    out, _ = stage.run()
    assert seen == kept
    assert precision(out, "af") > 0.9


def test_memory_grows_with_the_words_that_are_looked_at() -> None:
    files = {f"vectors/{code}/vectors.safetensors": {"bytes": 10**8} for code in ("de", "en")}
    many, few = {"de": 50_000, "en": 50_000}, {"de": 500, "en": 50_000}
    small, large = (
        align._memory(AlignConfig(mapping={"method": "vecmap", "cutoff": cutoff}), many, files, "en", "de")
        for cutoff in (20_000, 40_000)
    )
    assert 2 * 10**9 < small < 4 * 10**9 and large > small + 5 * 10**9
    assert align._memory(AlignConfig(), few, files, "en", "de") < 2 * 10**9


def test_held_out_words_say_what_the_mapping_is_worth(stage: SimpleNamespace) -> None:
    _, outcomes = stage.run()
    assert outcomes["de"]["bli"]["words"] == len(range(0, WORDS, 4))
    assert outcomes["de"]["bli"]["p1"] > 0.85 > 0.2 > outcomes["de"]["bli_raw"]["p1"]


def test_only_the_first_entries_are_learned_from(stage: SimpleNamespace) -> None:
    """The mapping is that of a dictionary that has no others; on a way through Dutch the limit holds for both."""
    limited, outcomes = stage.run("limited", limit=40, through={"af": "nl"})
    assert outcomes["de"]["pairs"] == outcomes["af"]["pairs"] == 40
    first = [Pair(f"de{i}", f"en{i}", "train") for i in range(2, WORDS, 4)]
    write_pairs(Location.parse(stage.folder / "corpus" / "dictionary" / "de-en"), first[:40])
    short, _ = stage.run("short")
    mappings = [LinearMapping.load(out / "mappings" / "de").matrix_DE for out in (limited, short)]
    assert torch.equal(*mappings)
    with pytest.raises(ValueError, match="limit is for dictionary: train"):
        AlignConfig(dictionary="identical", limit=40)


def test_the_summary_has_a_row_for_each_language_and_the_mean(stage: SimpleNamespace) -> None:
    _, outcomes = stage.run()
    settings = Settings(languages=list(LANGUAGES), hub="en", seed=1, names={"de": "German"}, align=AlignConfig())
    artifact: Any = SimpleNamespace(metrics={"by_language": outcomes | {"af": outcomes["af"] | {"collapsed": True}}})
    (table,) = AlignStage().summary(artifact, settings).tables
    assert isinstance(table, Table) and table.mean and table.title == "mapped to en"
    german, dutch, afrikaans, mean = table.rows
    assert german[:3] == ["de", "German", "100 pairs"] and german[4:6] == ["yes", 100]
    assert german[-1] == (outcomes["de"]["bli_raw"]["p1"], outcomes["de"]["bli"]["p1"])
    assert dutch[1] == "nl" and afrikaans[4] == "collapsed" and mean[1] == "mean"
    assert all(len(row) == len(table.columns) for row in table.rows)

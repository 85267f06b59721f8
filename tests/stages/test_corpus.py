import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from babelray.errors import DataError
from babelray.lexicon.pairs import read_pairs
from babelray.pipeline.stage import Job
from babelray.recipe.corpus import CorpusConfig
from babelray.stages import corpus
from babelray.stages.corpus import CorpusStage, Settings, write_words
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.storage.tables import write_rows
from babelray.text import build

SETTINGS = Settings.model_validate(
    {
        "languages": ["en", "zh"],
        "hub": "en",
        "seed": 1,
        "segmenters": {"en": "icu", "zh": "jieba"},
        "remarks": [],
        "corpus": {
            "text": "starter:text/{lang}.txt",
            "parallel": "starter:text/{lang}.txt",
            "dictionary": "starter:words/{lang}.txt",
        },
    }
)


def test_the_summary_shows_sentences_by_reason(tmp_path: Path) -> None:
    counts = {
        "en": {"read": 1234, "kept": 1000, "tokens": 9000, "types": 70, "dropped: duplicate": 234},
        "zh": {"read": 5, "kept": 4, "tokens": 9, "types": 7, "dropped: held out": 1},
    }
    location = Location.parse(tmp_path)
    (location / "statistics.json").write_json({"text": counts, "pairs": {}})
    (table,) = CorpusStage().summary(Artifact(location, {}), SETTINGS).tables
    titles = ["language", "segmenter", "read", "kept", "tokens", "types", "duplicate", "held out"]
    assert [column.title for column in table.columns] == titles
    assert [list(row) for row in table.rows] == [
        ["en", "icu", 1234, 1000, 9000, 70, 234, 0],
        ["zh", "jieba", 5, 4, 9, 7, 0, 1],
    ]


def test_sources_are_the_files_of_text_and_translations() -> None:
    sources = [location.uri.rpartition("/starter/")[2] for location in CorpusStage().sources(SETTINGS)]
    assert sources == ["text/en.txt", "text/zh.txt", "words/en.txt", "words/zh.txt"]


def test_the_summary_shows_dictionaries_and_remarks(tmp_path: Path) -> None:
    counts = {"en": {"read": 1, "kept": 1, "tokens": 9, "types": 9}, "zh": {"read": 1, "kept": 1}}
    pairs = {"zh": {"dictionary": {"train": 3, "test": 1, "entries": 4, "usable": 1}}}
    location = Location.parse(tmp_path)
    (location / "statistics.json").write_json({"text": counts, "pairs": pairs, "remarks": ["half is lost"]})
    sentences, words = CorpusStage().summary(Artifact(location, {}), SETTINGS).tables
    assert sentences.notes == ["half is lost"]
    assert [list(row) for row in words.rows] == [["zh", 3, 1, 0.25]]


def vocabulary(out: Location, code: str, words: list[str]) -> None:
    write_rows(out / "vocabulary" / f"{code}.parquet", ({"word": w, "count": 1} for w in words), ["word", "count"])


def test_a_dictionary_is_compared_with_the_vocabulary(tmp_path: Path) -> None:
    out = Location.parse(tmp_path / "out")
    vocabulary(out, "de", [f"wort{i}" for i in range(50)])
    vocabulary(out, "en", [f"word{i}" for i in range(50)])
    (tmp_path / "de-en.txt").write_text("".join(f"Wort{i}\tword{i}\n" for i in range(100)) + "alone\n")
    config = CorpusConfig(text="{lang}", dictionary=str(tmp_path / "{lang}-{hub}.txt"))
    outcome = write_words("de", "en", config, out)
    counts = outcome["counts"]["dictionary"]
    assert (counts["entries"], counts["usable"], counts["train"] + counts["test"]) == (100, 50, 100)
    assert len(outcome["problems"].summaries) == 1 and len(read_pairs(out / "dictionary/de-en", "test")) == 20
    (tmp_path / "en-de.txt").write_text((tmp_path / "de-en.txt").read_text())
    exchanged = CorpusConfig(text="{lang}", dictionary=str(tmp_path / "{hub}-{lang}.txt"))
    with pytest.raises(
        DataError, match=r"en-de\.txt: .* with the columns exchanged: 50\.0% instead of 0\.0%"
    ) as caught:
        write_words("de", "en", exchanged, out)
    assert "{lang}-{hub}" in caught.value.remedy


def test_the_stage_reports_what_it_lost_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty bad lines of a table that two languages share are one warning."""
    for code in ("en", "de", "fr"):
        (tmp_path / f"{code}.txt").write_text(
            "".join(f"This is the sentence {i} of {code}.\n" for i in range(20)) + "No.\n" * 5
        )
    rows = ["en\tde\tfr", *(f"word{i}\twort{i}\tmot{i}" for i in range(20)), *["broken"] * 30]
    (tmp_path / "words.tsv").write_text("\n".join(rows))
    config = CorpusConfig(
        text=[{"path": f"{tmp_path}/{{lang}}.txt", "format": "sentences"}],
        dictionary=str(tmp_path / "words.tsv"),
        parallel=[{"path": f"{tmp_path}/{{hub}}-{{lang}}.tsv", "required": False}],
        cleaning={"min_tokens": 3},
    )
    settings = Settings(
        languages=["en", "de", "fr"],
        hub="en",
        seed=1,
        segmenters=dict.fromkeys(["en", "de", "fr"], "icu"),
        remarks=[],
        corpus=config,
    )
    run_here = lambda tasks, progress, unit: {task.name: task.function(*task.arguments) for task in tasks}  # noqa: E731
    for module in (corpus, build):
        monkeypatch.setattr(module, "run_tasks", run_here)
    monkeypatch.setattr(build, "map_on_cluster", lambda function, items: ((item, function(item)) for item in items))
    messages: list[str] = []
    out = Location.parse(tmp_path / "out")
    job: Any = Job(settings, {}, out, SimpleNamespace(update=lambda *about: None), lambda *about: None, messages.append)
    CorpusStage().run(job)
    assert messages == [
        *(f"warning: {code}: 20% of 25 dropped: 20% too few tokens (such as 'No.')" for code in ("en", "de", "fr")),
        f"warning: {tmp_path}/words.tsv: 30 of 51 lines are unusable (1 columns instead of 3: 30, first in line 22)",
        "warning: no entries under corpus.parallel: de, fr",
    ]
    assert (out / "statistics.json").read_json()["remarks"] == [text.removeprefix("warning: ") for text in messages]


def test_a_corpus_takes_its_text_from_one_that_differs_in_dictionaries_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = tmp_path / "corpus" / ("a" * 16)
    files = {"sentences/en/0.parquet": "text", "vocabulary/en.parquet": "words", "dictionary/zh-en/0.parquet": "no"}
    counts = {"en": {"read": 3, "kept": 2, "tokens": 5, "types": 4}}
    for name, content in (
        files | {"statistics.json": json.dumps({"text": counts, "examples": {}, "pairs": {}})}
    ).items():
        Location.parse(earlier / name).write_text(content)
    sizes = {name: {"bytes": len(content)} for name, content in files.items()}
    manifest = {"stage": "corpus", "fingerprint": "a" * 16, "metrics": {}, "files": sizes, "parts": {"text": "t1"}}
    Location.parse(earlier / "manifest.json").write_json(manifest)
    settings = SETTINGS.model_copy(
        update={"corpus": SETTINGS.corpus.model_copy(update={"parallel": [], "dictionary": []})}
    )
    built = {"en": {"read": 9, "kept": 9, "tokens": 9, "types": 9}}
    monkeypatch.setattr(corpus, "build_corpus", lambda *about: build.CorpusStatistics(built, {}))

    def made(name: str, parts: dict[str, str]) -> tuple[dict[str, Any], Location]:
        out = Location.parse(tmp_path / "corpus" / f"{name}.partial")
        progress: Any = SimpleNamespace(update=lambda *about: None)
        metrics = CorpusStage().run(Job(settings, {}, out, progress, lambda *about: None, lambda text: None, parts))
        return metrics, out

    metrics, out = made("b", {"text": "t1"})
    assert metrics["kept"] == 2 and out.files() == [
        "sentences/en/0.parquet",
        "statistics.json",
        "vocabulary/en.parquet",
    ]
    assert (out / "sentences/en/0.parquet").read_text() == "text"
    assert made("c", {"text": "t2"})[0]["kept"] == 9, "other text is built"
    (earlier / "vocabulary/en.parquet").write_text("damaged")
    assert made("d", {"text": "t1"})[0]["kept"] == 9, "a damaged artifact is not copied"

"""The corpus stage without a cluster: the same functions, run one after the other, in any order."""

import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from babelray.cluster import tasks
from babelray.cluster.progress import Progress
from babelray.cluster.tasks import Task
from babelray.errors import DataError
from babelray.recipe.corpus import CorpusConfig
from babelray.storage import Location
from babelray.storage.tables import count_table
from babelray.text import build
from babelray.text.build import CorpusLayout, build_corpus, select_vocabulary
from babelray.text.corpus import read_sentences, read_vocabulary

ON_CLUSTER = build.map_on_cluster
Execute = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[tuple[Any, Any]]]


def in_order(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for item in items:
        yield item, function(item)


def backwards(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    yield from in_order(function, list(reversed(items)))


def here(tasks: Sequence[Task], progress: Progress, unit: str) -> dict[str, Any]:
    return {task.name: task.function(*task.arguments) for task in tasks}


def config(path: str, **changes: object) -> CorpusConfig:
    settings: dict[str, Any] = {
        "text": path,
        "chunk_bytes": 1000,
        "shard_sentences": 40,
        "cleaning": {"min_tokens": 3, "min_sentences": 1, "max_line_bytes": 1000},
    }
    return CorpusConfig.model_validate(settings | changes)


def run(
    monkeypatch: pytest.MonkeyPatch, settings: CorpusConfig, out: Path, execute: Execute = in_order, seed: int = 1
) -> dict[str, dict[str, int]]:
    monkeypatch.setattr(build, "map_on_cluster", execute)
    monkeypatch.setattr(build, "run_tasks", tasks.run_tasks if execute is ON_CLUSTER else here)
    layout = CorpusLayout(settings, {"en": "icu", "de": "icu"}, seed, Location.parse(out))
    with Progress(Console(file=io.StringIO()), "corpus") as progress:
        return build_corpus(layout, {"en": frozenset(["The held out dog runs."])}, progress).counts


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def text(tmp_path: Path) -> str:
    """Two languages; the English in two files with duplicates across them."""
    for code, count in (("en", 300), ("de", 120)):
        lines = [f"Sentence {i % 200} of {code} is here." for i in range(count)] + ["The held out dog runs.", "No."]
        for part in (0, 1):
            (tmp_path / f"{code}.{part}.txt").write_text("\n\n".join(lines[part::2]))
    return str(tmp_path / "{lang}.*.txt")


def test_statistics_and_output(monkeypatch: pytest.MonkeyPatch, text: str, tmp_path: Path) -> None:
    statistics = run(monkeypatch, config(text), tmp_path / "out")
    assert statistics["en"] == {
        "read": 302,
        "kept": 200,
        "tokens": 1400,
        "types": 205,
        "dropped: duplicate": 100,
        "dropped: held out": 1,
        "dropped: too few tokens": 1,
    }
    out = Location.parse(tmp_path / "out")
    table = read_sentences(out, "en")
    assert len(table) == 200 and len(set(table["text"].to_pylist())) == 200
    assert len(set(zip(*(table[c].to_pylist() for c in ("document", "paragraph", "sentence")), strict=True))) == 200
    words = read_vocabulary(out, "en")
    assert list(words.items())[:5] == [("en", 200), ("here", 200), ("is", 200), ("of", 200), ("sentence", 200)]
    assert len([name for name in files(tmp_path / "out") if name.startswith("sentences/en/")]) > 2


def test_the_same_bytes_whatever_the_order(monkeypatch: pytest.MonkeyPatch, text: str, tmp_path: Path) -> None:
    settings = config(text, cleaning={"min_tokens": 3, "min_sentences": 1, "max_sentences": 90})
    for name, execute in (("one", in_order), ("two", backwards)):
        run(monkeypatch, settings, tmp_path / name, execute)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_the_same_bytes_on_a_cluster(
    monkeypatch: pytest.MonkeyPatch, text: str, tmp_path: Path, local_ray: None
) -> None:
    statistics = [run(monkeypatch, config(text), tmp_path / "one")]
    statistics.append(run(monkeypatch, config(text), tmp_path / "two", ON_CLUSTER))
    assert statistics[0] == statistics[1]
    assert files(tmp_path / "one") == files(tmp_path / "two")
    for code in ("en", "de"):
        (tmp_path / f"broken.{code}.gz").write_bytes(gzip.compress(b"x " * 5000)[:20])
    with pytest.raises(DataError, match="is damaged or cut off"):
        run(monkeypatch, config(str(tmp_path / "broken.{lang}.gz")), tmp_path / "three", ON_CLUSTER)


def test_the_sample_is_decided_by_the_seed(monkeypatch: pytest.MonkeyPatch, text: str, tmp_path: Path) -> None:
    settings = config(text, cleaning={"min_tokens": 3, "min_sentences": 1, "max_sentences": 50})
    samples = []
    for number, seed in enumerate((1, 1, 2)):
        statistics = run(monkeypatch, settings, tmp_path / str(number), seed=seed)
        assert statistics["en"]["kept"] == 50 and statistics["en"]["dropped: over the limit"] == 150
        samples.append(read_sentences(Location.parse(tmp_path / str(number)), "en")["text"].to_pylist())
    assert samples[0] == samples[1] != samples[2]


def test_an_interrupted_run_does_only_what_is_left(monkeypatch: pytest.MonkeyPatch, text: str, tmp_path: Path) -> None:
    run(monkeypatch, config(text), tmp_path / "whole")
    for stop in (1, 7, 14, 16):
        done: list[str] = []

        def interrupted(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
            for item in items:
                if len(done) == stop:  # noqa: B023
                    raise KeyboardInterrupt
                done.append("")  # noqa: B023
                yield item, function(item)

        out = tmp_path / f"cut{stop}"
        with pytest.raises(KeyboardInterrupt):
            run(monkeypatch, config(text), out, interrupted)
        chunks = {p: p.stat().st_mtime_ns for p in (out / "work/chunks").rglob("*.json")}
        seen: list[dict[Path, int]] = []

        def watched(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
            yield from in_order(function, items)
            seen.append({p: p.stat().st_mtime_ns for p in chunks})  # noqa: B023

        statistics = run(monkeypatch, config(text), out, watched)
        assert seen[0] == chunks, "complete chunks were made again"
        assert statistics["en"]["kept"] == 200
        assert files(out) == files(tmp_path / "whole")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.binary(max_size=3000), st.text(max_size=2000).map(lambda text: text.encode("utf-8", "surrogatepass"))),
    st.sampled_from(["paragraphs", "sentences", "jsonl"]),
    st.sampled_from(["", ".gz", ".xz", ".zst"]),
)
def test_arbitrary_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, data: bytes, kind: str, suffix: str
) -> None:
    """Whatever the bytes, the stage ends, and read = kept + dropped by reason; or they are no text in UTF-8."""
    folder = tmp_path_factory.mktemp("bytes")
    for code in ("en", "de"):
        (folder / f"{code}{suffix}").write_bytes(data)
        (folder / f"{code}-good.txt").write_text("This is a good line.\n")
    text = [
        {"path": str(folder / f"{{lang}}{suffix}"), "format": kind},
        {"path": str(folder / "{lang}-good.txt"), "format": "sentences"},
    ]
    try:
        statistics = run(monkeypatch, config("", text=text, bad_files="report"), folder / "out")
    except DataError as error:
        assert "is not UTF-8" in error.problem
        return
    for counts in statistics.values():
        assert counts["read"] == counts["kept"] + sum(n for name, n in counts.items() if name.startswith("dropped"))


def test_nothing_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for code in ("en", "de"):
        (tmp_path / f"{code}.txt").write_text("")
    with pytest.raises(DataError, match=r"nothing is left of the text of 'en' \(read 0"):
        run(monkeypatch, config(str(tmp_path / "{lang}.txt")), tmp_path / "out")
    for code in ("en", "de"):
        (tmp_path / f"{code}.txt").write_text("Short.\n")
    with pytest.raises(DataError, match=r"dropped: too few tokens 1, such as 'Short\.'"):
        run(monkeypatch, config(str(tmp_path / "{lang}.txt")), tmp_path / "short")


def test_vocabulary_rules() -> None:
    settings = CorpusConfig(text="{lang}", min_count=2, max_words=2)
    counts = {"The": 1, "the": 1, "b": 5, "a": 2, "c": 1, "…": 9, "किताब": 1, "3.5": 1, "。": 7}
    table = count_table(pa.array(list(counts)), pa.array(list(counts.values())))
    assert select_vocabulary(table, settings.min_count, settings.max_words) == [("b", 5), ("a", 2)]
    words = [word for word, _ in select_vocabulary(table, 1)]
    assert words == ["b", "a", "the", "3.5", "c", "किताब"]

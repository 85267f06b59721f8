"""The result of one encoder on one benchmark, as a folder; and whether several such results can be compared.

`result.json` holds the scores by language with their confidence intervals and the level of chance, the benchmark's
settings, and the fingerprints of the encoder and the data; `predictions.json` every answer, so that scores can be
computed again and errors examined.

Two results tell encoders apart only if nothing else differs: the settings of the benchmark, the data, the languages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS
from babelray.metrics.example_scores import example_scores_of
from babelray.storage import AnyPath, Location

if TYPE_CHECKING:
    from babelray.evaluation.benchmark import Benchmark
    from babelray.metrics.example_scores import ExampleScores

RESULT, PREDICTIONS = "result.json", "predictions.json"
NEUTRAL = ("benchmark", "name", "required", "batch_tokens", "languages", "extra_languages")
"""Settings that change no score. Paths change none either: the content of the files is compared. So are languages."""


@dataclass(frozen=True)
class StoredResult:
    """The content of a `result.json`, and the name that tables give it."""

    location: Location
    name: str
    content: Mapping[str, Any]
    predictions: Mapping[str, Any] | None = None
    """Every answer, if they are in memory; otherwise they are read when they are needed."""

    @classmethod
    def load(cls, path: AnyPath, name: str = "") -> StoredResult:
        location = Location.parse(path)
        if not (location / RESULT).exists():
            raise DataError(f"{path} is not a result: there is no {RESULT}", "`babelray evaluate --model` writes one.")
        return cls(location, name or str(path), (location / RESULT).read_json())

    @property
    def benchmark(self) -> str:
        return self.content["benchmark"]

    @property
    def kind(self) -> type[Benchmark]:
        return BENCHMARKS.find(self.benchmark)

    @property
    def scores(self) -> Mapping[str, Mapping[str, float]]:
        return self.content["scores"]

    @property
    def data(self) -> Counter[str]:
        """The digests of the files that were read."""
        return Counter(self.content["sources"].values())

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that can change a score."""
        sources = self.content["sources"]
        return {
            name: value
            for name, value in self.content.get("settings", {}).items()
            if name not in NEUTRAL and not _names_files(value, sources)
        }

    def example_scores(self, languages: Sequence[str]) -> ExampleScores:
        predictions = (self.location / PREDICTIONS).read_json() if self.predictions is None else self.predictions
        return example_scores_of(predictions, languages)


def _names_files(value: Any, sources: Mapping[str, str]) -> bool:
    """Whether a setting is the path, folder or pattern of a file that was read.

    >>> files = {"/data/tatoeba/de-en.de": "1", "xnli/de/test.tsv": "2"}
    >>> _names_files("/data/tatoeba", files), _names_files("xnli/{lang}/*.tsv", files), _names_files("cosine", files)
    (True, True, False)
    """
    if not isinstance(value, str) or not value:
        return False
    start = min((value.find(mark) for mark in "{*?[" if mark in value), default=len(value))
    return start > 0 and any(path.startswith((value[:start], Location.parse(value[:start]).uri)) for path in sources)


def load_results(paths: Sequence[str]) -> list[StoredResult]:
    """Results of one benchmark, with the shortest names that tell them apart."""
    if len({Location.parse(path).uri for path in paths}) < len(paths):
        raise DataError("the same result is named twice", "Compare different results.")
    results = [StoredResult.load(path, name) for path, name in zip(paths, shortest_names(paths), strict=True)]
    check_benchmark(results)
    return results


def check_benchmark(results: Sequence[StoredResult]) -> None:
    """Raise an error if results are of several benchmarks."""
    for result in results[1:]:
        if result.benchmark != results[0].benchmark:
            problem = f"{results[0].location} is of {results[0].benchmark}, {result.location} of {result.benchmark}"
            raise DataError(problem, "Compare results of one benchmark.")


def shortest_names(paths: Sequence[str]) -> list[str]:
    """The ends of paths, long enough to tell them apart.

    >>> shortest_names(["runs/before", "runs/after/"]), shortest_names(["a/out", "b/out"])
    (['before', 'after'], ['a/out', 'b/out'])
    """
    parts = [path.rstrip("/").split("/") for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)


def differences(results: Sequence[StoredResult]) -> list[str]:
    """Everything besides the encoder in which results differ and that can change their scores, one line for each."""
    return [*_differing_settings(results), *_differing_data(results), *_differing_languages(results)]


def same_data(results: Sequence[StoredResult]) -> bool:
    """Whether the examples of the languages that all results have are the same: at most, some have files that others
    lack.
    """
    largest = max((result.data for result in results), key=Counter.total)
    return all(result.data <= largest for result in results)


def shared_languages(results: Sequence[StoredResult]) -> list[str]:
    """The languages that all results have; an error if there are none."""
    languages = [code for code in results[0].scores if all(code in result.scores for result in results)]
    if not languages:
        raise DataError("the results have no language in common", "Compare results on the same languages.")
    return languages


def _differing_settings(results: Sequence[StoredResult]) -> list[str]:
    names = dict.fromkeys(name for result in results for name in result.settings)
    lines = []
    for name in names:
        values = [result.settings.get(name) for result in results]
        if any(value != values[0] for value in values):
            shown = ", ".join(f"{_shown(value)} ({r.name})" for value, r in zip(values, results, strict=True))
            lines.append(f"{name}: {shown}")
    return lines


def _shown(value: Any) -> str:
    return "default" if value is None else str(value)


def _differing_data(results: Sequence[StoredResult]) -> list[str]:
    lines = []
    files = [_relative(result.content["sources"]) for result in results]
    for result, own in zip(results[1:], files[1:], strict=True):
        if changed := [name for name in own if name in files[0] and own[name] != files[0][name]]:
            lines.append(f"data: {_some(changed)} not the same in {results[0].name} and {result.name}")
        for one, mine, other in ((results[0], files[0], own), (result, own, files[0])):
            alone = [name for name in mine if name not in other and mine[name] not in other.values()]
            if alone:
                lines.append(f"data: {_some(alone)} only in {one.name}")
    return list(dict.fromkeys(lines))


def _relative(sources: Mapping[str, str]) -> dict[str, str]:
    """The digests of files by their paths below the folder that all of them share.

    >>> _relative({"/d/xnli/de/test.tsv": "1", "/d/xnli/fr/test.tsv": "2"}), _relative({"/d/x.tsv": "1"})
    ({'de/test.tsv': '1', 'fr/test.tsv': '2'}, {'x.tsv': '1'})
    """
    folders = [path.split("/")[:-1] for path in sources]
    levels = zip(*folders, strict=False)  # as many as the shortest has
    shared = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    return {"/".join(path.split("/")[shared:]): digest for path, digest in sorted(sources.items())}


def _differing_languages(results: Sequence[StoredResult]) -> list[str]:
    shared = [code for code in results[0].scores if all(code in result.scores for result in results)]
    more = ((result.name, [code for code in result.scores if code not in shared]) for result in results)
    return [f"languages: {_some(codes)} in {name}, not in all" for name, codes in more if codes]


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

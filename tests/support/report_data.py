"""Invented figures for a report with every section, the same at every call."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from babelray.evaluation.benchmark import BENCHMARKS, Benchmark
from babelray.languages import LANGUAGES
from babelray.report.run import ReportData
from babelray.storage.results import BenchmarkResults

WORDS = {
    "en": ["dog", "water", "house", "tree", "night", "bread", "king", "river", "hand", "winter", "book", "fire"],
    "de": ["Hund", "Wasser", "Haus", "Baum", "Nacht", "Brot", "König", "Fluss", "Hand", "Winter", "Buch", "Feuer"],
    "fr": ["chien", "eau", "maison", "arbre", "nuit", "pain", "roi", "rivière", "main", "hiver", "livre", "feu"],
    "ru": ["собака", "вода", "дом", "дерево", "ночь", "хлеб", "король", "река", "рука", "зима", "книга", "огонь"],
    "ar": ["كلب", "ماء", "بيت", "شجرة", "ليل", "خبز", "ملك", "نهر", "يد", "شتاء", "كتاب", "نار"],
    "zh": ["狗", "水", "房子", "树", "夜", "面包", "国王", "河", "手", "冬天", "书", "火"],
}
"""Translations stand at the same place."""

BENCHMARKS_SHOWN: dict[str, list[str]] = {
    "tatoeba": [code for code in LANGUAGES if code != "en"],
    "classification": ["en", "de", "ar", "sw"],
    "question-answering": ["en", "de", "ru"],
    "word-alignment": ["ende", "enfr", "enru"],
    "mt-quality": ["de-en", "fi-en", "zh-en"],
    "geometry": ["de", "fr", "zh"],
}
"""Of each benchmark with data of its own the languages or pairs."""
REQUIRED = {"data": "{lang}.tsv", "train": "train-{lang}.tsv", "knowledge_base": "names", "path": "{lang}.tsv"}
WHEN = ("before", "after")


def full_data(name: str = "forty languages") -> ReportData:
    """A run in 40 languages with all there is to show."""
    chance = random.Random(1)
    codes = list(LANGUAGES)
    others = [code for code in codes if code != "en"]

    results = {}
    for benchmark in ("retrieval", "words", "bli"):
        results[benchmark] = benchmark_results(benchmark, benchmark, others, chance, p=False)
    for benchmark, own in BENCHMARKS_SHOWN.items():
        results[benchmark] = benchmark_results(benchmark, benchmark, own, chance)
    results["sib200"] = benchmark_results("classification", "sib200", ["en", "yo"], chance)
    layers = {
        when: {c: {str(layer): top * (1 - abs(layer - 7) / 13) for layer in range(13)} for c in others}
        for when, top in (("before", 0.4), ("after", 0.8))
    }
    results["layers"] = benchmark_results("layers", "layers", others, chance, {"layers": layers}, p=False)
    results["perplexity"] = benchmark_results("perplexity", "perplexity", codes[:8], chance, p=False)
    points = {"before": _points(1.2, 0.3, chance), "after": _points(0.1, 1.0, chance)}
    results["word-map"] = benchmark_results("word-map", "word-map", ["de", "fr"], chance, {"points": points}, p=False)
    few = {when: {a: {b: chance.random() for b in codes[:8] if b != a} for a in codes[:8]} for when in WHEN}
    results["bli"] = replace(results["bli"], figures={when: {"matrix": matrix} for when, matrix in few.items()})
    many = {
        when: {a: {b: chance.uniform(0.1, high) for b in codes if b != a} for a in codes}
        for when, high in (("before", 0.5), ("after", 0.9))
    }
    figures = {when: {"matrix": matrix} for when, matrix in many.items()}
    results["retrieval"] = replace(results["retrieval"], figures=figures)
    return ReportData(
        name=name,
        hub="en",
        languages=LANGUAGES,
        results=results,
        statistics={
            code: {
                "read": 1_000_000,
                "kept": 812_345,
                "dropped: duplicate": 187_655,
                "tokens": 9_876_543,
                "types": 54_321,
            }
            for code in codes
        },
        curves={"pretrain": [_row(step) for step in range(50, 1001, 50)]},
        manifests={
            stage: _manifest(stage) for stage in ("corpus", "encoder", "extract", "align", "pretrain", "evaluate")
        },
    )


def every_benchmark() -> list[Benchmark]:
    """One of each kind."""
    return [parse_benchmark(name) for name in BENCHMARKS]


def parse_benchmark(benchmark: str, name: str | None = None) -> Benchmark:
    """A benchmark with data that need not be there."""
    fields = BENCHMARKS[benchmark].model_fields
    settings = {field: value for field, value in REQUIRED.items() if field in fields and fields[field].is_required()}
    return BENCHMARKS.parse({"benchmark": benchmark, "name": name, **settings})


def about(benchmark: str, label: str | None = None, **changes: Any) -> dict[str, Any]:
    """What a result of a benchmark says of it."""
    return parse_benchmark(benchmark, None if label == benchmark else label).about() | changes


def benchmark_results(
    benchmark: str,
    label: str,
    languages: list[str],
    chance: random.Random,
    figures: dict[str, dict[str, Any]] | None = None,
    p: bool = True,
) -> BenchmarkResults:
    """Scores between 0 and 1, higher after."""
    meta = about(benchmark, label)

    def values(low: float, high: float) -> dict[str, float]:
        columns = {m: kind for m, kind in meta["columns"].items() if not m.endswith("_spread")}
        scores = {m: 1000.0 if kind == ",.0f" else chance.uniform(low, high) for m, kind in columns.items()}
        spread = {f"{meta['main_metric']}_spread": 0.013} if BENCHMARKS[benchmark].trains else {}
        return scores | spread

    tested = p and benchmark not in ("mt-quality", "geometry")
    return BenchmarkResults(
        label=label,
        meta=meta,
        scores={
            "before": {code: values(0.1, 0.5) for code in languages},
            "after": {code: values(0.3, 0.9) for code in languages},
        },
        figures={when: {kind: own[when] for kind, own in (figures or {}).items()} for when in WHEN},
        p={code: chance.random() ** 4 for code in ["", *languages]} if tested else {},
    )


def _row(step: int) -> dict[str, Any]:
    values = {"loss/mlm": 5 + 100 / step, "loss/transport": 1 / step, "loss/total": 9.0}
    values |= {"speed/seconds_per_step": 0.5, "speed/tokens_per_second": 4000.0, "speed/waiting_for_data": 0.02}
    return {"step": step, "values": values | ({"validation/mlm": 4 + 90 / step} if step % 200 == 0 else {})}


def _manifest(stage: str) -> dict[str, Any]:
    return {
        "fingerprint": "0123456789abcdef", "code": "0123456789ab", "created": "2026-01-01T00:00:00+00:00",
        "seconds": {"pretrain": 5025.3, "corpus": 75.0}.get(stage, 12.5), "commit": "f" * 40, "babelray": "0.1",
        "python": "3.11.2", "packages": {"torch": "2.8.0", "ray": "2.60.0"}, "settings": {"stage": stage},
        "metrics": {"peak_memory_bytes": 3 * 2**30} if stage == "pretrain" else {},
    }  # fmt: skip


def _points(apart: float, meaning: float, chance: random.Random) -> list[dict[str, Any]]:
    """Words around their language's place and their concept's, in a weight of each."""
    centres = [(chance.gauss(0, 1), chance.gauss(0, 1)) for _ in WORDS["en"]]
    points = []
    for code, words in WORDS.items():
        x0, y0 = chance.gauss(0, apart), chance.gauss(0, apart)
        for concept, (word, (x, y)) in enumerate(zip(words, centres, strict=True)):
            location = {"x": x0 + meaning * x + chance.gauss(0, 0.1), "y": y0 + meaning * y + chance.gauss(0, 0.1)}
            points.append({"language": code, "concept": concept, "word": word} | location)
    return points

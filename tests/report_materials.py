"""Made-up figures for a report with every section, the same at every call."""

from __future__ import annotations

import random
from typing import Any

from babelray.evaluation.report import ReportData
from babelray.languages import LANGUAGES

WORDS = {
    "en": ["dog", "water", "house", "tree", "night", "bread", "king", "river", "hand", "winter", "book", "fire"],
    "de": ["Hund", "Wasser", "Haus", "Baum", "Nacht", "Brot", "König", "Fluss", "Hand", "Winter", "Buch", "Feuer"],
    "fr": ["chien", "eau", "maison", "arbre", "nuit", "pain", "roi", "rivière", "main", "hiver", "livre", "feu"],
    "ru": ["собака", "вода", "дом", "дерево", "ночь", "хлеб", "король", "река", "рука", "зима", "книга", "огонь"],
    "ar": ["كلب", "ماء", "بيت", "شجرة", "ليل", "خبز", "ملك", "نهر", "يد", "شتاء", "كتاب", "نار"],
    "zh": ["狗", "水", "房子", "树", "夜", "面包", "国王", "河", "手", "冬天", "书", "火"],
}
"""Translations stand at the same place."""

KINDS: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "tatoeba": (
        "mean",
        {"sentences": ",.0f", "to_hub": "%", "from_hub": "%", "mean": "%", "mean_margin": ".3f"},
        [code for code in LANGUAGES if code != "en"],
    ),
    "classification": ("accuracy", {"examples": ",.0f", "accuracy": "%", "macro_f1": "%"}, ["en", "de", "ar", "sw"]),
    "question-answering": ("f1", {"examples": ",.0f", "f1": "%", "exact_match": "%"}, ["en", "de", "ru"]),
    "word-alignment": (
        "f1",
        {"pairs": ",.0f", "precision": "%", "recall": "%", "f1": "%", "aer": "%"},
        ["ende", "enfr", "enru"],
    ),
    "mt-quality": ("pearson", {"segments": ",.0f", "pearson": ".3f", "kendall": ".3f"}, ["de-en", "fi-en", "zh-en"]),
    "geometry": ("language_told", {"language_told": "%", "gap": ".1f", "hubness": ".2f"}, ["de", "fr", "zh"]),
}
"""Of each task its main measure, columns, and languages or pairs."""


def full_data(name: str = "forty languages") -> ReportData:
    """A run in 40 languages with all there is to show."""
    chance = random.Random(1)
    codes = list(LANGUAGES)
    others = [code for code in codes if code != "en"]

    def score(low: float, high: float) -> dict[str, float]:
        value = chance.uniform(low, high)
        return {"mean": value, "p1": value, "harmonic": value, "sentences": 500, "words": 1500, "pairs": 300}

    scores: dict[str, Any] = {
        task: {"before": {c: score(0.1, 0.5) for c in others}, "after": {c: score(0.4, 0.9) for c in others}}
        for task in ("retrieval", "words", "bli")
    }
    scores["layers"] = {
        when: {c: {str(layer): top * (1 - abs(layer - 7) / 13) for layer in range(13)} for c in others}
        for when, top in (("before", 0.4), ("after", 0.8))
    }
    scores["perplexity"] = {
        when: {
            c: {"mlm": base, "pseudo_perplexity": base * 40, "bits_per_character": base / 2, "sentences": 20}
            for c in codes[:8]
        }
        for when, base in (("before", 4.5), ("after", 3.75))
    }
    return ReportData(
        name=name,
        hub="en",
        languages=LANGUAGES,
        scores=scores,
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
        matrix={when: {a: {b: chance.random() for b in codes[:8] if b != a} for a in codes[:8]} for when in WHEN},
        tasks={label: _task(label, *about, chance) for label, about in KINDS.items()}
        | {"sib200": _task("classification", "accuracy", {"accuracy": "%"}, ["en", "yo"], chance)},
        retrieval_matrix={
            when: {a: {b: chance.uniform(0.1, high) for b in codes if b != a} for a in codes}
            for when, high in (("before", 0.5), ("after", 0.9))
        },
        picture={"before": _points(1.2, 0.3, chance), "after": _points(0.1, 1.0, chance)},
    )


WHEN = ("before", "after")


def _task(task: str, main: str, columns: dict[str, str], languages: list[str], chance: random.Random) -> dict[str, Any]:
    def values(low: float, high: float) -> dict[str, float]:
        found = {m: 1000.0 if kind == ",.0f" else chance.uniform(low, high) for m, kind in columns.items()}
        return found | ({f"{main}_spread": 0.013} if task in ("classification", "question-answering") else {})

    return {
        "task": task,
        "settings": {"task": task, "data": "somewhere"},
        "main": main,
        "columns": columns,
        "results": {
            "before": {code: values(0.1, 0.5) for code in languages},
            "after": {code: values(0.3, 0.9) for code in languages},
        },
        "p": {} if task in ("mt-quality", "geometry") else {code: chance.random() ** 4 for code in ["", *languages]},
    }


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
            place = {"x": x0 + meaning * x + chance.gauss(0, 0.1), "y": y0 + meaning * y + chance.gauss(0, 0.1)}
            points.append({"language": code, "concept": concept, "word": word} | place)
    return points

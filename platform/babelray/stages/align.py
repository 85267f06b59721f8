"""The align stage: the vectors of all languages in the space of the hub.

Each language is mapped by itself; then, if the recipe says so, all are refined together; then the vectors are
written, with the dictionary that each makes with the hub. Every step is kept: a run that goes on does none again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.errors import DataError
from babelray.mapping.config import AlignConfig
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

if TYPE_CHECKING:
    from babelray.mapping.dictionary import Words
    from babelray.mapping.fitted import Mapping as Fitted
    from babelray.recipe import Recipe
    from babelray.vectors.word_vectors import WordVectors

TURNS = "turns.safetensors"


class Settings(Config):
    languages: list[str]
    hub: str
    seed: int
    align: AlignConfig


class AlignStage(Stage[Settings]):
    """Leaves `vectors/<language>/` in one space, `mappings/<language>/`, which map new words, and
    `dictionary/<language>-<hub>.tsv`, the translations that the vectors make, which a recipe can name as a source.
    """

    name = "align"
    needs = ("corpus", "extract")

    def settings(self, recipe: Recipe) -> Settings:
        for code, other in recipe.align.through.items():
            if not {code, other} <= {*recipe.languages} - {recipe.hub}:
                raise DataError(f"align.through: {code} or {other} is not a language that is mapped to {recipe.hub}")
        return Settings(languages=recipe.languages, hub=recipe.hub, seed=recipe.seed, align=recipe.align)

    def sources(self, settings: Settings) -> list[Place]:
        return [_other_vectors(settings, code) for code in settings.languages if settings.align.induced_from]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings, work = job.settings, job.out / "work"
        places = (job.source("extract"), job.source("corpus"), work)
        statistics = (job.source("extract") / "statistics.json").read_json()
        words = {code: statistics[code]["vectors"] for code in settings.languages}
        needed = partial(_memory, settings.align, words, job.inputs["extract"].manifest["files"], settings.hub)
        others = [code for code in settings.languages if code != settings.hub]
        fits = run_tasks(
            [Task(f"{code}, mapping", _fit, (code, settings, *places), needed(code)) for code in others],
            job.progress,
            "languages",
        )
        outcomes = {name.removesuffix(", mapping"): outcome for name, outcome in fits.items()}
        if settings.align.joint:
            refine = Task("all languages", _refine, (outcomes, settings, job.source("extract"), work))
            run_tasks([refine], job.progress, "joint refinements")
        written = run_tasks(
            [
                Task(code, _write, (code, settings, job.source("extract"), job.source("corpus"), job.out), needed(code))
                for code in settings.languages
            ],
            job.progress,
            "languages",
        )
        outcomes = {code: outcomes.get(code, {}) | found for code, found in written.items()}
        for remark in _remarks(outcomes, settings.hub):
            job.say(remark)
        mapped = sum(outcome["mapped"] for code, outcome in outcomes.items() if code != settings.hub)
        return {"languages": len(outcomes), "mapped": mapped, "by_language": outcomes}


def _memory(config: AlignConfig, words: Mapping[str, int], files: Mapping[str, Any], hub: str, code: str) -> int:
    """Bytes that the mapping of a language takes: vectors, normalised and turned, and a matrix of similarities."""
    sizes = [files[f"vectors/{language}/vectors.safetensors"]["bytes"] for language in (code, hub)]
    limits = [config.induction.words]
    if config.method == "vecmap" or config.dictionary == "induced":
        limits.append(config.vecmap.cutoff)
    if config.method == "muse":
        limits.append(config.muse.refine_words)
    if config.trained is not None:
        limits.append(config.trained.criterion_words)
    if config.bootstrap is not None:
        limits.append(config.bootstrap.words)
    cells = min(max(limits), words[code]) * min(max(limits), words[hub])
    return 4 * sum(sizes) + 5 * cells + (3 << 28)  # Python and torch, and what retrieval keeps


def _remarks(outcomes: Mapping[str, Mapping[str, Any]], hub: str) -> list[str]:
    from babelray.mapping.collapse import ADVICE

    raw = [code for code, outcome in outcomes.items() if not outcome["mapped"] and code != hub]
    collapsed = [code for code, outcome in outcomes.items() if outcome.get("collapsed")]
    remarks = []
    if raw:
        remarks.append(f"left as extracted, since no mapping did better on held-back pairs: {', '.join(raw)}")
    if collapsed:
        remarks.append(
            f"no better than from a random start, so probably collapsed in: {', '.join(collapsed)}. {ADVICE}"
        )
    return remarks


def _fit(code: str, settings: Settings, extracted: Place, corpus: Place, work: Place) -> dict[str, Any]:
    """Map one language to the hub, or to the language that it goes through; say how it went.

    Leaves the mapping, identity where the vectors do better as they are, and the pairs that it was learned from.
    """
    from babelray.mapping.build import map_to_hub
    from babelray.mapping.collapse import examine
    from babelray.mapping.dictionary import positions
    from babelray.mapping.linear import LinearMapping
    from babelray.mapping.selection import compare
    from babelray.vectors.word_vectors import WordVectors

    config, done = settings.align, work / f"{code}.json"
    if done.exists():
        return done.read_json()
    source = WordVectors.load(extracted / "vectors" / code)
    target_code = config.through.get(code, settings.hub)
    target = WordVectors.load(extracted / "vectors" / target_code)
    pairs = _pairs(code, target_code, settings, source, target, corpus)
    fit = partial(map_to_hub, source.matrix, target.matrix, config=config, seed=settings.seed)
    mapping: Fitted = LinearMapping.identity(source.matrix)
    seen = _unmapped(target)
    outcome: dict[str, Any] = {"mapped": pairs is None, "pairs": len(pairs or [])}
    if pairs is not None and len(pairs) >= config.min_pairs:
        outcome |= compare(source, seen, pairs, fit) if config.select else {"mapped": True}
    if outcome["mapped"]:
        mapping = fit(None if pairs is None else positions(source, target, pairs))
        if config.dictionary in ("none", "induced"):
            health = examine(mapping.transform(source.matrix), seen.matrix, seed=settings.seed)
            outcome |= {"collapsed": health.collapsed, "health": str(health)}
    mapping.save(work / "fitted" / code)
    (work / f"{code}.pairs.json").write_json(pairs if target_code == settings.hub else None)
    done.write_json(outcome)
    return outcome


def _refine(outcomes: Mapping[str, Mapping[str, Any]], settings: Settings, extracted: Place, work: Place) -> None:
    """Turn all mapped languages towards their common mean."""
    import torch
    from safetensors.torch import save_file

    from babelray.mapping.dictionary import positions, translations
    from babelray.mapping.joint import generalised_procrustes
    from babelray.vectors.word_vectors import WordVectors

    if (work / TURNS).exists():
        return
    hub = _unmapped(WordVectors.load(extracted / "vectors" / settings.hub))
    codes, vectors, concepts = [settings.hub], [hub.matrix], [torch.arange(len(hub))]
    for code in (code for code, outcome in outcomes.items() if outcome["mapped"]):
        own = WordVectors.load(extracted / "vectors" / code)
        own = own.with_matrix(_to_the_hub(code, settings, work).transform(own.matrix))
        pairs = (work / f"{code}.pairs.json").read_json() or translations(own, hub, settings.align.induction)[0]
        rows_P, columns_P = positions(own, hub, pairs)
        codes.append(code)
        vectors.append(own.matrix[rows_P])
        concepts.append(columns_P)
    turns, _ = generalised_procrustes(vectors, concepts, settings.align.joint)
    with (work / TURNS).writing() as file:
        save_file(dict(zip(codes, turns, strict=True)), file)


def _write(code: str, settings: Settings, extracted: Place, corpus: Place, out: Place) -> dict[str, Any]:
    """Write a language's mapping, its vectors in the hub's space, and the dictionary that they make.

    Says how well held-out words are translated, as extracted and mapped; nothing depends on that.
    """
    from babelray.evaluation.bli import bli
    from babelray.lexicon.pairs import read_pairs, write_induced
    from babelray.mapping.dictionary import translations
    from babelray.mapping.linear import LinearMapping
    from babelray.vectors.word_vectors import WordVectors

    work, hub_code = out / "work", settings.hub
    done = work / f"{code}.written.json"
    if done.exists():
        return done.read_json()
    source = WordVectors.load(extracted / "vectors" / code)
    mapping: Fitted = LinearMapping.identity(source.matrix)
    if code != hub_code:
        mapping = _refined(code, settings, work)
    mapped = source.with_matrix(mapping.transform(source.matrix))
    outcome: dict[str, Any] = {"mapped": False} if code == hub_code else {}
    if code != hub_code:
        hub = _unmapped(WordVectors.load(extracted / "vectors" / hub_code))
        pairs, confidence = translations(mapped, hub, settings.align.induction)
        write_induced(out / "dictionary" / f"{code}-{hub_code}.tsv", pairs, confidence)
        outcome["induced"] = len(pairs)
        tested = [(p.source, p.target) for p in read_pairs(corpus / "dictionary" / f"{code}-{hub_code}", "test")]
        if tested:
            outcome |= {"bli_raw": bli(_unmapped(source), hub, tested), "bli": bli(mapped, hub, tested)}
    mapping.save(out / "mappings" / code)
    mapped.save(out / "vectors" / code)
    done.write_json(outcome)
    return outcome


def _unmapped(vectors: WordVectors) -> WordVectors:
    """Vectors as the identity leaves them, which is the hub's own mapping: normalised and centred."""
    from babelray.mapping.linear import unit_centred

    return vectors.with_matrix(unit_centred(vectors.matrix)[0])


def _to_the_hub(code: str, settings: Settings, work: Place) -> Fitted:
    """The mapping of a language into the hub's space, over the language it goes through if there is one."""
    from babelray.mapping.fitted import load_mapping
    from babelray.mapping.linear import LinearMapping

    mapping = load_mapping(work / "fitted" / code)
    if code in settings.align.through:
        assert isinstance(mapping, LinearMapping)  # the config says so
        mapping = mapping.then(LinearMapping.load(work / "fitted" / settings.align.through[code]).matrix_DE)
    return mapping


def _refined(code: str, settings: Settings, work: Place) -> Fitted:
    """The mapping of a language, after the joint refinement if there was one."""
    from safetensors.torch import load_file

    from babelray.mapping.linear import LinearMapping

    mapping = _to_the_hub(code, settings, work)
    if not settings.align.joint:
        return mapping
    with (work / TURNS).local_input() as file:
        turns = load_file(file)
    assert isinstance(mapping, LinearMapping)  # the config says so
    return mapping.then(turns[code]) if code in turns else mapping


def _pairs(
    code: str, target_code: str, settings: Settings, source: WordVectors, target: WordVectors, corpus: Place
) -> Words | None:
    """What the mapping learns from; None for nothing."""
    from babelray.lexicon.pairs import pivoted

    config = settings.align
    if config.dictionary == "none":
        return None
    if config.dictionary == "identical":
        pairs = [(word, word) for word in source.words]
    elif config.dictionary == "induced":
        pairs = _induced(code, target_code, settings, source, target)
    elif target_code == settings.hub:
        pairs = _training_pairs(code, settings, corpus)
    else:
        pairs = pivoted(*(_training_pairs(language, settings, corpus) for language in (code, target_code)))
    return [(a, b) for a, b in pairs if a in source.position and b in target.position]


def _training_pairs(code: str, settings: Settings, corpus: Place) -> Words:
    """The entries that the limit leaves, the same as those that tuning with that limit sees."""
    from babelray.lexicon.pairs import read_pairs

    place = corpus / "dictionary" / f"{code}-{settings.hub}"
    if not place.exists():
        raise DataError(
            "the align stage needs a dictionary", "Name it under `corpus.dictionary`, or set align.dictionary."
        )
    return [(pair.source, pair.target) for pair in read_pairs(place, "train")[: settings.align.limit]]


def _induced(code: str, target_code: str, settings: Settings, source: WordVectors, target: WordVectors) -> Words:
    """A dictionary without supervision, from these vectors or from others of the same languages."""
    from babelray.mapping.dictionary import without_supervision
    from babelray.vectors.formats import read_vectors

    config = settings.align
    if config.induced_from:
        limit = max(config.vecmap.cutoff, config.induction.words)
        source = read_vectors(_other_vectors(settings, code), limit)
        target = read_vectors(_other_vectors(settings, target_code), limit)
    return without_supervision(source, target, config.vecmap, config.induction, settings.seed)


def _other_vectors(settings: Settings, code: str) -> Place:
    return Place.parse((settings.align.induced_from or "").replace("{lang}", code))

"""The align stage: the vectors of all languages in the space of the hub.

Each language is mapped by itself; then, if the recipe says so, all are refined together; then the vectors are written,
with the dictionary that is induced from each and the hub. Every step is stored: a resumed run repeats none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.cluster.tasks import Task, run_tasks
from babelray.config import operational
from babelray.errors import DataError
from babelray.pipeline.stage import STAGES, Job, LanguageSettings, Stage
from babelray.pipeline.summary import Cell, Column, Summary, Table
from babelray.recipe.align import AlignConfig
from babelray.storage import Location

if TYPE_CHECKING:
    from babelray.errors import CollectedErrors
    from babelray.mapping.dictionary import Words
    from babelray.mapping.fitted import Mapping as FittedMapping
    from babelray.pipeline.prospects import Prospects
    from babelray.recipe.recipe import Recipe
    from babelray.storage.artifact import Artifact
    from babelray.vectors.word_vectors import WordVectors

NOTHING_LEARNED = 0.02
"""A mean reciprocal rank that is no better than this may be chance."""
NO_DICTIONARY = "the align stage needs a dictionary"
DICTIONARY_REMEDY = "Name it under `corpus.dictionary`, or set align.dictionary."
ROTATIONS = "rotations.safetensors"


class Settings(LanguageSettings):
    names: dict[str, str] = operational({})
    """English names of the languages, for the terminal."""
    align: AlignConfig


@STAGES.register
class AlignStage(Stage[Settings]):
    """Map the vectors of all languages into the space of the hub.

    Writes `vectors/<language>/` in one space; `mappings/<language>/`, which map new words; and
    `dictionary/<language>-<hub>.tsv`, the translations induced from the vectors, which a recipe can name as a source.
    """

    name = "align"
    needs = ("corpus", "extract")

    def settings(self, recipe: Recipe) -> Settings:
        for code, other in recipe.align.through.items():
            if not {code, other} <= {*recipe.languages} - {recipe.hub}:
                raise DataError(f"align.through: {code} or {other} is not a language that is mapped to {recipe.hub}")
        if recipe.align.dictionary == "train" and not recipe.corpus.dictionary:
            raise DataError(NO_DICTIONARY, DICTIONARY_REMEDY)
        return Settings(
            names={code: language.name for code, language in recipe.resolved_languages().items()},
            languages=recipe.languages,
            hub=recipe.hub,
            seed=recipe.seed,
            align=recipe.align,
        )

    def sources(self, settings: Settings) -> list[Location]:
        return [_other_vectors(settings, code) for code in settings.languages if settings.align.induced_from]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings, work = job.settings, job.out / "work"
        extracted, corpus = job.source("extract"), job.source("corpus")
        statistics = (extracted / "statistics.json").read_json()
        words = {code: statistics[code]["vectors"] for code in settings.languages}
        memory = partial(_memory, settings.align, words, job.inputs["extract"].manifest["files"], settings.hub)
        fits = run_tasks(
            [
                Task(f"{code}, mapping", _fit, (code, settings, extracted, corpus, work), memory(code))
                for code in settings.others
            ],
            job.progress,
            "languages",
        )
        outcomes = {name.removesuffix(", mapping"): outcome for name, outcome in fits.items()}
        if settings.align.joint:
            refine = Task("all languages", _refine, (outcomes, settings, extracted, work))
            run_tasks([refine], job.progress, "joint refinements")
        results = run_tasks(
            [
                Task(code, _write, (code, settings, extracted, corpus, job.out), memory(code))
                for code in settings.languages
            ],
            job.progress,
            "languages",
        )
        outcomes = {code: outcomes.get(code, {}) | result for code, result in results.items()}
        for remark in _remarks(outcomes, settings):
            job.notify(f"warning: {remark}")
        mapped = sum(outcomes[code]["mapped"] for code in settings.others)
        return {"languages": len(outcomes), "mapped": mapped, "by_language": outcomes}

    def reads(self, settings: Settings) -> Mapping[str, Collection[str]]:
        return {"corpus": ("dictionary",)}

    def check(self, settings: Settings, prospects: Prospects, errors: CollectedErrors) -> None:
        from babelray.pipeline.prospects import check_several

        check_several(settings.languages, "aligned")

    def summary(self, artifact: Artifact, settings: Settings) -> Summary:
        outcomes = artifact.metrics["by_language"]
        columns = [
            *(Column(title) for title in ("", "language", "learned from")),
            Column("translations found", ",.0f"),
            Column("mapped"),
            Column("words tested", ",.0f"),
            Column("P@1 % raw → mapped", "%"),
        ]
        rows = [_summary_row(code, settings.names.get(code, code), outcomes[code]) for code in settings.others]
        tested = [row for row in outcomes.values() if "bli" in row and row["bli"]["words"]]
        notes = [*_untested(outcomes), *_remarks(outcomes, settings)]
        if tested:
            scores = [fmean(row[name]["p1"] for row in tested) for name in ("bli_raw", "bli")]
            rows.append(["", "mean", None, None, None, None, (scores[0], scores[1])])
            notes = [_reliability([row["bli"] for row in tested]), *notes]
        return Summary([Table(f"mapped to {settings.hub}", columns, rows, mean=bool(tested), notes=notes)])


def _summary_row(code: str, language: str, outcome: Mapping[str, Any]) -> list[Cell]:
    learned = f"{outcome['pairs']:,} pairs" if outcome["pairs"] else "nothing"
    state = "collapsed" if outcome.get("collapsed") else "yes" if outcome["mapped"] else "as extracted"
    row: list[Cell] = [code, language, learned, outcome["induced"], state]
    if "bli" not in outcome or not outcome["bli"]["words"]:
        return [*row, 0.0 if "bli" in outcome else None, None]
    return [*row, outcome["bli"]["words"], (outcome["bli_raw"]["p1"], outcome["bli"]["p1"])]


def _memory(config: AlignConfig, words: Mapping[str, int], files: Mapping[str, Any], hub: str, code: str) -> int:
    """Bytes that the mapping of a language takes: vectors, normalised and mapped, and a matrix of similarities."""
    sizes = [files[f"vectors/{language}/vectors.safetensors"]["bytes"] for language in (code, hub)]
    cells = min(config.compared_words, words[code]) * min(config.compared_words, words[hub])
    return 4 * sum(sizes) + 5 * cells + (3 << 28)  # Python and torch, and the buffers of retrieval


def _untested(outcomes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Why some languages have no score."""
    without = [code for code, outcome in outcomes.items() if "bli" in outcome and not outcome["bli"]["words"]]
    why = "not tested, since no entry of the test dictionary has both words in the vectors"
    return [f"{why}: {', '.join(without)}"] if without else []


def _reliability(scores: Sequence[Mapping[str, float]]) -> str:
    """How precise the P@1 of a language is, and what guessing gives."""
    from babelray.metrics.format import format_chance
    from babelray.metrics.intervals import share_interval

    intervals = [share_interval(own["p1"], own["words"]) for own in scores]
    half = max((high - low) / 2 for low, high in intervals)
    chance = format_chance(fmean(own["chance"] for own in scores), "%")
    return f"95 % interval of a language's P@1: at most ± {100 * half:.1f}; chance {chance}"


def _remarks(outcomes: Mapping[str, Mapping[str, Any]], settings: Settings) -> list[str]:
    from babelray.mapping.collapse import ADVICE

    raw = {code: own for code, own in outcomes.items() if not own["mapped"] and code != settings.hub}
    few = [f"{code} ({own['pairs']})" for code, own in raw.items() if "mrr_mapped" not in own]
    worse = [code for code, own in raw.items() if "mrr_mapped" in own]
    compared = {code: max(own["mrr_mapped"], own["mrr_raw"]) for code, own in outcomes.items() if "mrr_mapped" in own}
    unlearned = [code for code, mrr in compared.items() if mrr < NOTHING_LEARNED]
    collapsed = [code for code, outcome in outcomes.items() if outcome.get("collapsed")]
    remarks = []
    if few:
        remarks.append(
            f"left as extracted, since fewer than {settings.align.min_pairs} entries of the training dictionary have "
            f"both words in the vectors: {', '.join(few)}"
        )
    if worse:
        remarks.append(f"left as extracted, since no mapping did better on held-out pairs: {', '.join(worse)}")
    if unlearned:
        remarks.append(
            "hardly any held-out word is translated, mapped or not; the dictionary may be wrong (exchanged, or shifted "
            f"by a line), or the vectors poor: {', '.join(unlearned)}"
        )
    if collapsed:
        remarks.append(
            f"no better than from a random start, so probably collapsed in: {', '.join(collapsed)}. {ADVICE}"
        )
    return remarks


def _fit(code: str, settings: Settings, extracted: Location, corpus: Location, work: Location) -> dict[str, Any]:
    """Map one language to the hub, or to the language that it goes through; returns the outcome.

    Writes the mapping, the identity where the vectors do better as they are, and the pairs that it was fitted on.
    """
    from babelray.mapping.collapse import detect_collapse
    from babelray.mapping.dictionary import positions
    from babelray.mapping.linear import LinearMapping
    from babelray.mapping.selection import mapping_helps
    from babelray.vectors.word_vectors import WordVectors

    config, stored = settings.align, work / f"{code}.json"
    if stored.exists():
        return stored.read_json()
    source = WordVectors.load(extracted / "vectors" / code)
    target_code = config.through.get(code, settings.hub)
    target = WordVectors.load(extracted / "vectors" / target_code)
    pairs = _pairs(code, target_code, settings, source, target, corpus)
    fit = partial(config.mapping.fit_to_hub, source.matrix, target.matrix, seed=settings.seed)
    mapping: FittedMapping = LinearMapping.identity(source.matrix)
    normalised = _unmapped(target)
    outcome: dict[str, Any] = {"mapped": pairs is None, "pairs": len(pairs or [])}
    if pairs is not None and len(pairs) >= config.min_pairs:
        outcome |= mapping_helps(source, normalised, pairs, fit) if config.select else {"mapped": True}
    if outcome["mapped"]:
        mapping = fit(None if pairs is None else positions(source, target, pairs))
        if config.dictionary in ("none", "induced"):
            health = detect_collapse(mapping.transform(source.matrix), normalised.matrix, seed=settings.seed)
            outcome |= {"collapsed": health.collapsed, "health": str(health)}
    mapping.save(work / "fitted" / code)
    (work / f"{code}.pairs.json").write_json(pairs if target_code == settings.hub else None)
    stored.write_json(outcome)
    return outcome


def _refine(outcomes: Mapping[str, Mapping[str, Any]], settings: Settings, extracted: Location, work: Location) -> None:
    """Rotate all mapped languages towards their common mean."""
    import torch
    from safetensors.torch import save_file

    from babelray.mapping.dictionary import induced_dictionary, positions
    from babelray.mapping.joint import generalised_procrustes
    from babelray.vectors.word_vectors import WordVectors

    if (work / ROTATIONS).exists():
        return
    hub = _unmapped(WordVectors.load(extracted / "vectors" / settings.hub))
    codes, vectors, concepts = [settings.hub], [hub.matrix], [torch.arange(len(hub))]
    for code in (code for code, outcome in outcomes.items() if outcome["mapped"]):
        own = WordVectors.load(extracted / "vectors" / code)
        own = own.with_matrix(_mapping_to_hub(code, settings, work).transform(own.matrix))
        pairs = (work / f"{code}.pairs.json").read_json() or induced_dictionary(own, hub, settings.align.induction)[0]
        rows_P, columns_P = positions(own, hub, pairs)
        codes.append(code)
        vectors.append(own.matrix[rows_P])
        concepts.append(columns_P)
    rotations, _ = generalised_procrustes(vectors, concepts, settings.align.joint)
    with (work / ROTATIONS).writing() as file:
        save_file(dict(zip(codes, rotations, strict=True)), file)


def _write(code: str, settings: Settings, extracted: Location, corpus: Location, out: Location) -> dict[str, Any]:
    """Write a language's mapping, its vectors in the hub's space, and the dictionary induced from them.

    Returns how well held-out words are translated, as extracted and mapped; nothing depends on that.
    """
    from babelray.lexicon.pairs import read_pairs, write_induced
    from babelray.mapping.dictionary import induced_dictionary
    from babelray.mapping.linear import LinearMapping
    from babelray.metrics.bli import bli
    from babelray.vectors.word_vectors import WordVectors

    work, hub_code = out / "work", settings.hub
    stored = work / f"{code}.written.json"
    if stored.exists():
        return stored.read_json()
    source = WordVectors.load(extracted / "vectors" / code)
    mapping: FittedMapping = LinearMapping.identity(source.matrix)
    if code != hub_code:
        mapping = _refined_mapping(code, settings, work)
    mapped = source.with_matrix(mapping.transform(source.matrix))
    outcome: dict[str, Any] = {"mapped": False} if code == hub_code else {}
    if code != hub_code:
        hub = _unmapped(WordVectors.load(extracted / "vectors" / hub_code))
        pairs, confidence = induced_dictionary(mapped, hub, settings.align.induction)
        write_induced(out / "dictionary" / f"{code}-{hub_code}.tsv", pairs, confidence)
        outcome["induced"] = len(pairs)
        test = [(p.source, p.target) for p in read_pairs(corpus / "dictionary" / f"{code}-{hub_code}", "test")]
        if test:
            outcome |= {"bli_raw": bli(_unmapped(source), hub, test), "bli": bli(mapped, hub, test)}
    mapping.save(out / "mappings" / code)
    mapped.save(out / "vectors" / code)
    stored.write_json(outcome)
    return outcome


def _unmapped(vectors: WordVectors) -> WordVectors:
    """Vectors under the identity, which is the hub's own mapping: normalised and centred."""
    from babelray.mapping.linear import unit_centred

    return vectors.with_matrix(unit_centred(vectors.matrix)[0])


def _mapping_to_hub(code: str, settings: Settings, work: Location) -> FittedMapping:
    """The mapping of a language into the hub's space, through another language if the recipe says so."""
    from babelray.mapping.fitted import load_mapping
    from babelray.mapping.linear import LinearMapping

    mapping = load_mapping(work / "fitted" / code)
    if code in settings.align.through:
        assert isinstance(mapping, LinearMapping)  # the config says so
        mapping = mapping.then(LinearMapping.load(work / "fitted" / settings.align.through[code]).matrix_DE)
    return mapping


def _refined_mapping(code: str, settings: Settings, work: Location) -> FittedMapping:
    """The mapping of a language, after the joint refinement if there was one."""
    from safetensors.torch import load_file

    from babelray.mapping.linear import LinearMapping

    mapping = _mapping_to_hub(code, settings, work)
    if not settings.align.joint:
        return mapping
    with (work / ROTATIONS).local_input() as file:
        rotations = load_file(file)
    assert isinstance(mapping, LinearMapping)  # the config says so
    return mapping.then(rotations[code]) if code in rotations else mapping


def _pairs(
    code: str, target_code: str, settings: Settings, source: WordVectors, target: WordVectors, corpus: Location
) -> Words | None:
    """The pairs that the mapping is fitted on; None if it is fitted without."""
    from babelray.lexicon.pairs import pivot_pairs

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
        pairs = pivot_pairs(*(_training_pairs(language, settings, corpus) for language in (code, target_code)))
    return [(a, b) for a, b in pairs if a in source.position and b in target.position]


def _training_pairs(code: str, settings: Settings, corpus: Location) -> Words:
    """The first `limit` entries, the same as those that the expose stage takes with that limit."""
    from babelray.lexicon.pairs import read_pairs

    location = corpus / "dictionary" / f"{code}-{settings.hub}"
    if not location.exists():
        raise DataError(NO_DICTIONARY, DICTIONARY_REMEDY)
    return [(pair.source, pair.target) for pair in read_pairs(location, "train")[: settings.align.limit]]


def _induced(code: str, target_code: str, settings: Settings, source: WordVectors, target: WordVectors) -> Words:
    """A dictionary without supervision, from these vectors or from others of the same languages."""
    from babelray.mapping.dictionary import unsupervised_dictionary
    from babelray.vectors.formats import read_vectors

    config = settings.align
    assert config.induced_by is not None  # `dictionary: induced` sets it
    if config.induced_from:
        limit = max(config.induced_by.compared_words, config.induction.words)
        source = read_vectors(_other_vectors(settings, code), limit)
        target = read_vectors(_other_vectors(settings, target_code), limit)
    return unsupervised_dictionary(source, target, config.induced_by, config.induction, settings.seed)


def _other_vectors(settings: Settings, code: str) -> Location:
    return Location.parse((settings.align.induced_from or "").replace("{lang}", code))

"""The expose stage: an encoder is tuned on dictionary entries, and its vectors of words are mixed with static ones.

Every word is encoded alone, by the encoder before tuning (`plain`) and after (`tuned`). Both are mixed with the aligned
static vectors at several λ, and each mixture is scored on the words that the dictionary holds out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray.cluster.devices import assigned_device
from babelray.cluster.tasks import Task, run_tasks
from babelray.config import operational
from babelray.errors import DataError, RecipeError
from babelray.models.exposure import (
    COUNTED,
    PLAIN,
    TUNED,
    Grid,
    MixedVectors,
    RatedPairs,
    best_lambda,
    cells,
    mean_scores,
    score_rows,
    similarity_curves,
    translation_curves,
)
from babelray.objectives.contrastive import pairs_of
from babelray.pipeline.stage import STAGES, Job, LanguageSettings, Stage
from babelray.pipeline.summary import Cell, Column, Summary, Table
from babelray.recipe.expose import ExposeConfig
from babelray.stages.pretrain import Settings as TrainingSettings
from babelray.stages.pretrain import TrainingContext, is_saved, save_trained, segmenters_of, train_encoder
from babelray.storage import Location
from babelray.storage.artifact import WORK

if TYPE_CHECKING:
    from babelray.errors import CollectedErrors
    from babelray.pipeline.prospects import Prospects
    from babelray.storage.artifact import Artifact
    from babelray.training.config import TrainingConfig
    from babelray.vectors.word_vectors import WordVectors

Entries = dict[str, list[tuple[str, str]]]
"""By language, pairs of a word and its translation in the hub."""


class ExposeSettings(LanguageSettings):
    """The languages, and how the encoder is tuned and mixed."""

    name: str = operational("encoder")
    expose: ExposeConfig

    @property
    def groups(self) -> dict[str, list[str]]:
        """The encoders that are tuned, by name, and the languages that each learns with the hub."""
        if self.expose.multilingual:
            return {"all": self.others}
        return {f"{code}-{self.hub}": [code] for code in self.others}


@STAGES.register
class ExposeStage(Stage[ExposeSettings]):
    """Tune the encoder on dictionary entries, and mix its vectors of words with static ones.

    Writes `NAME/` for each encoder that was tuned, `all` or `de-en` and so on: `encoder/`, and the mixed `vectors/` of
    its languages, which `LexicalEncoder` loads together. `grid.json`: {language: {plain | tuned: {λ: scores}}}, and
    `similarity.json` the same for word similarity, by languages such as `de-en`.
    """

    name = "expose"
    needs = ("corpus", "encoder", "align")

    def wanted(self, recipe: Any) -> bool:
        return recipe.expose is not None

    def settings(self, recipe: Any) -> ExposeSettings:
        config: ExposeConfig = recipe.expose
        if config.development not in (None, *recipe.languages):
            raise RecipeError(f"expose.development: {config.development!r} is not among the languages")
        return ExposeSettings(
            name=recipe.name, languages=recipe.languages, hub=recipe.hub, seed=recipe.seed, expose=config
        )

    def sources(self, settings: ExposeSettings) -> list[Location]:
        names = settings.expose.objective().synonym_files(settings.languages).values()
        rated = [file for source in settings.expose.similarity for file in source.sources(settings.languages)]
        return [*names, *rated]

    def run(self, job: Job[ExposeSettings]) -> dict[str, Any]:
        settings, config = job.settings, job.settings.expose
        training = training_context(job)
        entries = read_entries(settings, training)
        counts = {code: len(pairs) for code, pairs in entries.items()}
        tune_encoders(job, training, counts)
        context = ExposureContext(settings, training, job.source("align"), job.source("encoder") / "encoder", job.out)
        encode_vocabularies(job, context)
        grid = _merged(job, context, score_translation)
        (job.out / "grid.json").write_json(grid)
        if config.similarity:
            (job.out / "similarity.json").write_json(_merged(job, context, score_similarity))
        lambda_ = choose_lambda(grid, config, settings.others)
        mixtures = [Task(name, write_mixed, (context, name, lambda_)) for name in settings.groups]
        run_tasks(mixtures, job.progress, "encoders")
        if rated := count_rated_entries(settings, entries):
            job.notify(f"{rated:,} training entries are word pairs of expose.similarity, which the paper removes")
        if dropped := _count_dropped(job):
            job.notify(f"{dropped:,} training entries were dropped because one of their words is tested")
        return {"lambda": lambda_, "entries": counts, "dropped": dropped} | mean_scores(grid, lambda_)

    def check(self, settings: ExposeSettings, prospects: Prospects, errors: CollectedErrors) -> None:
        from babelray.pipeline.prospects import check_several

        check_several(settings.languages, "exposed")
        prospects.check_training(settings.expose, "expose", errors)

    def summary(self, artifact: Artifact, settings: ExposeSettings) -> Summary:
        lambda_ = artifact.metrics["lambda"]
        grid = (artifact.location / "grid.json").read_json()
        tables = _tables("Word translation, P@1 %", grid, lambda_, "p1")
        if settings.expose.similarity:
            similarity = (artifact.location / "similarity.json").read_json()
            tables += _tables("Word similarity, ρ × 100", similarity, lambda_, "spearman")
        return Summary(tables)


def _tables(title: str, grid: Grid, lambda_: float, metric: str) -> list[Table]:
    """The scores of the paper's columns with their means, and the best λ of each language."""
    rows: list[list[Cell]] = [
        [row.code, row.tested, row.coverage, *row.scores] for row in score_rows(grid, lambda_, metric)
    ]
    means = mean_scores(grid, lambda_, metric)
    rows.append(["mean", None, None, *(means.get(name) for name in cells(lambda_))])
    columns = [Column(""), Column(COUNTED[metric], ",.0f"), Column("covered %", "%")]
    columns += [Column(name.replace("/", " "), "%") for name in cells(lambda_)]  # a space lets titles wrap
    note = f"mixed: λ = {lambda_:g}, the weight of the encoder in the mixture with static vectors"
    best: list[list[Cell]] = []
    for code in grid:
        row: list[Cell] = [code]
        for version in (PLAIN, TUNED):
            value = best_lambda(grid, code, version, metric)
            row += [value, grid[code][version][value][metric]]
        best.append(row)
    pairs = [(Column(f"{version}: best λ"), Column("score", "%")) for version in (PLAIN, TUNED)]
    return [
        Table(title, columns, rows, mean=True, notes=[note]),
        Table(
            f"{title}: best λ per language", [Column("language"), *(column for pair in pairs for column in pair)], best
        ),
    ]


def training_context(job: Job[ExposeSettings]) -> TrainingContext:
    settings = job.settings
    training = TrainingSettings(
        name=settings.name,
        languages=settings.languages,
        hub=settings.hub,
        seed=settings.seed,
        training=settings.expose.training(1),
    )
    return TrainingContext(
        training,
        job.source("encoder") / "encoder",
        job.source("corpus"),
        job.source("align"),
        segmenters_of(job),
        job.out / WORK,
        job.out / WORK / "prepared",
    )


def read_entries(settings: ExposeSettings, training: TrainingContext) -> Entries:
    """The entries that are learned, by language; an error if a language has none."""
    entries = {code: language_entries(settings, training, code) for code in settings.others}
    empty = [code for code, pairs in entries.items() if not pairs]
    if empty:
        raise DataError(f"no dictionary entries of {', '.join(empty)} to tune on", "Give some, or drop the language.")
    return entries


def language_entries(settings: ExposeSettings, training: TrainingContext, code: str) -> list[tuple[str, str]]:
    training_data = training.training_data(str(training.encoder))
    pairs = zip(*pairs_of(settings.expose.objective(), training_data, code), strict=True)
    return list(pairs)[: settings.expose.limit]


def count_rated_entries(settings: ExposeSettings, entries: Mapping[str, Sequence[tuple[str, str]]]) -> int:
    """The number of entries that are also word pairs whose similarity is scored."""
    from babelray.metrics.word_similarity import read_ratings

    rated = {
        frozenset([(first, rating.first.lower()), (second, rating.second.lower())])
        for source in settings.expose.similarity
        for (first, second), location in source.files(settings.languages).items()
        for rating in read_ratings(location)
    }
    return sum(
        frozenset([(code, word.lower()), (settings.hub, translation.lower())]) in rated
        for code, pairs in entries.items()
        for word, translation in pairs
    )


def _count_dropped(job: Job[ExposeSettings]) -> int:
    """Training entries that the corpus stage dropped because one of their words is tested."""
    pairs = (job.source("corpus") / "statistics.json").read_json()["pairs"]
    return sum(counts.get("dictionary", {}).get("dropped: shared with test", 0) for counts in pairs.values())


def tune_encoders(job: Job[ExposeSettings], training: TrainingContext, counts: Mapping[str, int]) -> None:
    """One encoder for all languages on workers of Ray Train, or one task per language."""
    settings, config = job.settings, job.settings.expose
    if not config.multilingual:
        tasks = [
            Task(name, tune_encoder, (training, code, config.training(counts[code], 1), job.out / name), encodes=True)
            for name, (code,) in settings.groups.items()
        ]
        run_tasks(tasks, job.progress, "encoders", cpus=1)
        return
    group_job = dataclasses.replace(job, out=job.out / "all")
    if not is_saved(group_job.out / "encoder"):
        changes = {"training": config.training(sum(counts.values()))}
        train_encoder(group_job, training.settings.model_copy(update=changes), training.encoder, training.aligned)


def tune_encoder(training: TrainingContext, code: str, config: TrainingConfig, out: Location) -> None:
    """Tune an encoder on the entries of one language, in this process, and save it."""
    from babelray.encoder.load import load_masked_lm
    from babelray.training.fine_tuning import fine_tune

    if is_saved(out / "encoder"):
        return
    changes = {"languages": [training.settings.hub, code], "training": config}
    context = dataclasses.replace(training, settings=training.settings.model_copy(update=changes))
    with training.encoder.local_input() as folder:
        model = load_masked_lm(str(folder))
        objective = config.objectives[0].build(context.training_data(str(folder)))
        losses = fine_tune(model, objective, config)
    figures = {"step": config.steps, "steps": config.steps, "loss/contrastive": losses[-1]}
    save_trained(context, model, out / "encoder", figures)


@dataclass(frozen=True)
class ExposureContext:
    """The settings of the stage, its inputs and its folder, for every task."""

    settings: ExposeSettings
    training: TrainingContext
    aligned: Location
    encoder: Location
    out: Location

    def encoded(self, name: str | None, code: str) -> Location:
        """The vectors of a language's words by the encoder of a group, or None for the encoder before tuning."""
        return self.out / "work" / (name or PLAIN) / code

    def static(self, code: str) -> WordVectors:
        from babelray.vectors.word_vectors import WordVectors

        vectors, limit = WordVectors.load(self.aligned / "vectors" / code), self.settings.expose.words
        return WordVectors(vectors.words[:limit], vectors.matrix[:limit], vectors.counts[:limit])

    def mixed(self, name: str, version: str) -> MixedVectors:
        """The mixed vectors of a group's languages; the rotation is fitted on all words of its entries."""
        from babelray.vectors.word_vectors import WordVectors

        hub, codes = self.settings.hub, self.settings.groups[name]
        group = None if version == PLAIN else name
        words: dict[str, set[str]] = {code: set() for code in (hub, *codes)}
        for code in codes:
            for source, target in language_entries(self.settings, self.training, code):
                words[code].add(source)
                words[hub].add(target)
        static = {code: self.static(code) for code in words}
        encoded = {code: WordVectors.load(self.encoded(group, code)) for code in words}
        return MixedVectors.fit(static, encoded, words)


def encode_vocabularies(job: Job[ExposeSettings], context: ExposureContext) -> None:
    """The vectors of all words, by the encoder before tuning and by every tuned one."""
    settings = job.settings
    tasks = [Task(f"{code}, {PLAIN}", encode_words, (context, None, code), encodes=True) for code in settings.languages]
    tasks += [
        Task(f"{code}, {name}", encode_words, (context, name, code), encodes=True)
        for name, codes in settings.groups.items()
        for code in (settings.hub, *codes)
    ]
    run_tasks(tasks, job.progress, "vocabularies")


def encode_words(context: ExposureContext, name: str | None, code: str) -> None:
    """The vectors of a language's words, each encoded alone, special tokens included, at the last layer."""
    from babelray.encoder.text_encoder import TextEncoder
    from babelray.vectors.word_vectors import WordVectors

    location = context.encoded(name, code)
    if WordVectors.is_complete(location):
        return
    static = context.static(code)
    source = context.out / name / "encoder" if name else context.encoder
    with source.local_input() as folder:
        encoder = TextEncoder.from_pretrained(str(folder), device=assigned_device())
        vectors = encoder.encode(static.words, "all")
    static.with_matrix(vectors).save(location)


def _merged(job: Job[ExposeSettings], context: ExposureContext, function: Any) -> dict[str, Any]:
    """The grids of all groups, computed by one task per group, as one."""
    tasks = [Task(name, function, (context, name)) for name in job.settings.groups]
    grids = run_tasks(tasks, job.progress, "mixtures").values()
    return {title: curves for grid in grids for title, curves in grid.items()}


def score_translation(context: ExposureContext, name: str) -> Grid:
    """Word translation by every mixture, plain and tuned, on the test words of a group's languages."""
    from babelray.lexicon.pairs import read_pairs

    hub, dictionary = context.settings.hub, context.training.corpus / "dictionary"
    tests = {
        code: [(pair.source, pair.target) for pair in read_pairs(dictionary / f"{code}-{hub}", "test")]
        for code in context.settings.groups[name]
    }
    lambdas = context.settings.expose.lambdas
    plain, tuned = (translation_curves(context.mixed(name, v), lambdas, hub, tests) for v in (PLAIN, TUNED))
    return {code: {PLAIN: plain[code], TUNED: tuned[code]} for code in tests}


def score_similarity(context: ExposureContext, name: str) -> Grid:
    """Word similarity by every mixture, plain and tuned, in a group's languages."""
    rated, lambdas = rated_pairs(context.settings, name), context.settings.expose.lambdas
    plain, tuned = (similarity_curves(context.mixed(name, v), lambdas, rated) for v in (PLAIN, TUNED))
    return {title: {PLAIN: plain[title], TUNED: tuned[title]} for title in plain}


def rated_pairs(settings: ExposeSettings, name: str) -> list[RatedPairs]:
    """The rated word pairs of a group's languages; those within the hub are left out: every group has another encoder
    of it.
    """
    from babelray.metrics.word_similarity import read_ratings

    languages, sources = {settings.hub, *settings.groups[name]}, settings.expose.similarity
    rated = []
    for number, source in enumerate(sources, start=1):
        for (first, second), location in source.files(settings.languages).items():
            if {first, second} <= languages and {first, second} != {settings.hub}:
                title = first if first == second else f"{first}-{second}"
                title = f"{title} ({number})" if len(sources) > 1 else title
                rated.append(RatedPairs(title, first, second, read_ratings(location), source.missing))
    return rated


def choose_lambda(grid: Grid, config: ExposeConfig, others: Sequence[str]) -> float:
    """λ as given, or the one with the best P@1 of the tuned encoder in the development language."""
    return float(best_lambda(grid, config.development or others[0])) if config.lambda_ is None else config.lambda_


def write_mixed(context: ExposureContext, name: str, lambda_: float) -> None:
    """Write the mixed vectors of a group's languages, by the tuned encoder, beside it."""
    from safetensors.torch import save_file

    from babelray.models.lexical import ROTATION
    from babelray.vectors.word_vectors import WordVectors

    mixed, folder = context.mixed(name, TUNED), context.out / name
    for code in mixed.static:
        if not WordVectors.is_complete(folder / "vectors" / code):
            mixed.at(code, lambda_).save(folder / "vectors" / code)
    with (folder / ROTATION).writing() as file:
        save_file({"rotation": mixed.rotation_ED.contiguous()}, file, {"lambda": f"{lambda_:g}"})

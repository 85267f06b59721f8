"""The expose stage: an encoder is tuned on dictionary entries, and its vectors of words are mixed with static ones.

Every word is encoded alone, by the encoder as it was (`plain`) and as it was tuned (`tuned`); both are mixed with the
aligned static vectors in several shares λ, and each mixture is tested on the words that the dictionary holds out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray.config import Config, operational
from babelray.errors import DataError, RecipeError
from babelray.evaluation.exposure import PLAIN, TUNED, exposure_page, exposure_table
from babelray.languages import Language
from babelray.objectives.contrastive import ContrastiveConfig, pairs_of
from babelray.stages.pretrain import Setting, segmenters_of, train_encoder
from babelray.stages.pretrain import Settings as TrainingSettings
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks
from babelray.training.exposure import ExposeConfig

if TYPE_CHECKING:
    from babelray.recipe import Recipe
    from babelray.training.config import TrainingConfig
    from babelray.vectors.word_vectors import WordVectors

Grid = dict[str, dict[str, dict[str, dict[str, Any]]]]
"""{language: {plain | tuned: {λ: scores}}}"""


class Settings(Config):
    name: str = operational("encoder")
    named: dict[str, Language] = operational({})
    """The languages as a page calls them."""
    languages: list[str]
    hub: str
    seed: int
    expose: ExposeConfig

    @property
    def others(self) -> list[str]:
        return [code for code in self.languages if code != self.hub]

    @property
    def groups(self) -> dict[str, list[str]]:
        """The encoders that are tuned, by name, and the languages that each learns with the hub."""
        if self.expose.together:
            return {"all": self.others}
        return {f"{code}-{self.hub}": [code] for code in self.others}


class ExposeStage(Stage[Settings]):
    """Leaves `NAME/` for each encoder that was tuned, `all` or `de-en` and so on: `encoder/`, and the mixed `vectors/`
    of its languages, which `LexicalEncoder` opens together. `grid.json`: {language: {plain | tuned: {λ: scores}}}, and
    `similarity.json` the same of word similarity, by languages such as `de-en`; `exposure.md` and `exposure.html` show
    them.
    """

    name = "expose"
    needs = ("corpus", "encoder", "align")

    def settings(self, recipe: Recipe) -> Settings:
        if recipe.expose is None:
            raise RecipeError(
                "the recipe does not say how to expose", "Give it a key `expose`, empty for the defaults."
            )
        if recipe.expose.development not in (None, *recipe.languages):
            raise RecipeError(f"expose.development: {recipe.expose.development!r} is not among the languages")
        return Settings(
            name=recipe.name,
            named=recipe.resolved_languages(),
            languages=recipe.languages,
            hub=recipe.hub,
            seed=recipe.seed,
            expose=recipe.expose,
        )

    def sources(self, settings: Settings) -> list[Place]:
        names = settings.expose.objective().synonym_files(settings.languages).values()
        rated = (place for source in settings.expose.similarity for place in source.files(settings.languages).values())
        return [*names, *rated]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings, config = job.settings, job.settings.expose
        setting = _setting(job)
        learned = {code: _entries(setting, code)[: config.limit] for code in settings.others}
        entries = {code: len(pairs) for code, pairs in learned.items()}
        empty = [code for code, count in entries.items() if not count]
        if empty:
            raise DataError(
                f"no dictionary entries of {', '.join(empty)} to tune on", "Give some, or drop the language."
            )
        self._tune(job, setting, entries)
        plan = Plan(settings, setting, job.source("align"), job.source("encoder") / "encoder", job.out)
        words = [Task(f"{c}, {PLAIN}", encode_words, (plan, None, c)) for c in settings.languages]
        words += [
            Task(f"{c}, {name}", encode_words, (plan, name, c))
            for name, codes in settings.groups.items()
            for c in (settings.hub, *codes)
        ]
        run_tasks(words, job.progress, "vocabularies")
        tested = run_tasks([Task(name, grid_of, (plan, name)) for name in settings.groups], job.progress, "mixtures")
        grid: Grid = {code: found for group in tested.values() for code, found in group.items()}
        share = chosen_share(grid, config, settings.others)
        similarity: Grid = {}
        if config.similarity:
            judged = [Task(name, similarity_of, (plan, name)) for name in settings.groups]
            for found in run_tasks(judged, job.progress, "mixtures").values():
                similarity |= found
            (job.out / "similarity.json").write_json(similarity)
        (job.out / "grid.json").write_json(grid)
        (job.out / "exposure.md").write_text(exposure_table(grid, share, similarity))
        (job.out / "exposure.html").write_text(exposure_page(settings.name, grid, share, settings.named, similarity))
        run_tasks([Task(name, write_mixed, (plan, name, share)) for name in settings.groups], job.progress, "encoders")
        removed = _left_out(job)
        if rated := rated_entries(settings, learned):
            job.say(f"{rated:,} training entries are word pairs of expose.similarity: the paper takes such out")
        if removed:
            job.say(f"{removed:,} training entries were left out, since one of their words is tested")
        return {"share": share, "entries": entries, "left out": removed} | averages(grid, share)

    def _tune(self, job: Job[Settings], setting: Setting, entries: dict[str, int]) -> None:
        """On workers of Ray Train for all languages together; otherwise a task for each language."""
        settings = job.settings
        if settings.expose.together:
            training = settings.expose.training(sum(entries.values()))
            own = dataclasses.replace(job, out=job.out / "all")
            if not (own.out / "encoder" / "config.json").exists():
                whole = setting.settings.model_copy(update={"training": training})
                train_encoder(own, whole, setting.encoder, setting.aligned)
            return
        tasks = [
            Task(name, tune, (setting, code, settings.expose.training(entries[code], workers=1), job.out / name))
            for name, (code,) in settings.groups.items()
        ]
        run_tasks(tasks, job.progress, "encoders", cpus=1)


def _setting(job: Job[Settings]) -> Setting:
    settings = job.settings
    training = TrainingSettings(
        name=settings.name,
        languages=settings.languages,
        hub=settings.hub,
        seed=settings.seed,
        training=settings.expose.training(1),
    )
    return Setting(
        training,
        job.source("encoder") / "encoder",
        job.source("corpus"),
        job.source("align"),
        segmenters_of(job),
        job.out / "work",
    )


def _entries(setting: Setting, code: str) -> list[tuple[str, str]]:
    """What there is to learn of a language."""
    materials = setting.materials(str(setting.encoder))
    objective = setting.settings.training.objectives[0]
    assert isinstance(objective, ContrastiveConfig)
    return list(zip(*pairs_of(objective, materials, code), strict=True))


def rated_entries(settings: Settings, learned: Mapping[str, list[tuple[str, str]]]) -> int:
    """How many entries that are learned are word pairs whose similarity is tested."""
    from babelray.evaluation.word_similarity import read_ratings

    rated = {
        frozenset([(first, rating.first.lower()), (second, rating.second.lower())])
        for source in settings.expose.similarity
        for (first, second), place in source.files(settings.languages).items()
        for rating in read_ratings(place)
    }
    return sum(
        frozenset([(code, word.lower()), (settings.hub, translation.lower())]) in rated
        for code, pairs in learned.items()
        for word, translation in pairs
    )


def _left_out(job: Job[Settings]) -> int:
    """Training entries that the corpus stage removed because a word of theirs is tested."""
    pairs = (job.source("corpus") / "statistics.json").read_json()["pairs"]
    return sum(counts.get("dictionary", {}).get("dropped: shared with test", 0) for counts in pairs.values())


def tune(setting: Setting, code: str, training: TrainingConfig, out: Place) -> None:
    """Tune an encoder on the entries of one language, in this process, and leave it as others load it."""
    from babelray.encoder.load import load_masked_lm
    from babelray.objectives.build import build_objective
    from babelray.stages.pretrain import save_trained
    from babelray.training.fine_tuning import fine_tune

    if (out / "encoder" / "config.json").exists():
        return
    changes = {"languages": [setting.settings.hub, code], "training": training}
    own = dataclasses.replace(setting, settings=setting.settings.model_copy(update=changes))
    with setting.encoder.local_input() as folder:
        model = load_masked_lm(str(folder))
        losses = fine_tune(model, build_objective(training.objectives[0], own.materials(str(folder))), training)
    figures = {"step": training.steps, "steps": training.steps, "loss/contrastive": losses[-1]}
    save_trained(own, model, out / "encoder", figures)


@dataclass(frozen=True)
class Plan:
    """What every task needs to know."""

    settings: Settings
    setting: Setting
    aligned: Place
    encoder: Place
    out: Place

    def encoded(self, name: str | None, code: str) -> Place:
        """Where the vectors of a language's words lie, by the encoder of a group, or the one that all start from."""
        return self.out / "work" / (name or PLAIN) / code

    def static(self, code: str) -> WordVectors:
        from babelray.vectors.word_vectors import WordVectors

        vectors = WordVectors.load(self.aligned / "vectors" / code)
        most = self.settings.expose.words
        return WordVectors(vectors.words[:most], vectors.matrix[:most], vectors.counts[:most])


def encode_words(plan: Plan, name: str | None, code: str) -> None:
    """The vectors of a language's words, each encoded alone, special tokens included, at the last layer."""
    from babelray.encoder.text_encoder import TextEncoder
    from babelray.vectors.word_vectors import WordVectors

    place = plan.encoded(name, code)
    if WordVectors.is_complete(place):
        return
    static = plan.static(code)
    encoder = plan.out / name / "encoder" if name else plan.encoder
    with encoder.local_input() as folder:
        vectors = TextEncoder.open(str(folder)).sentences(static.words, "all")
    static.with_matrix(vectors).save(place)


def grid_of(plan: Plan, name: str) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """The scores of every mixture, plain and tuned, on the test words of a group's languages."""
    from babelray.evaluation.bli import bli
    from babelray.lexicon.pairs import read_pairs

    settings, codes = plan.settings, plan.settings.groups[name]
    found: Grid = {code: {PLAIN: {}, TUNED: {}} for code in codes}
    tests = {code: [(p.source, p.target) for p in read_pairs(_dictionary(plan, code), "test")] for code in codes}
    for version in (PLAIN, TUNED):
        mixed = mixtures(plan, name, version)
        for share in settings.expose.shares:
            hub = mixed.at(settings.hub, share)
            for code in codes:
                found[code][version][f"{share:g}"] = bli(mixed.at(code, share), hub, tests[code])
    return found


def similarity_of(plan: Plan, name: str) -> Grid:
    """The correlations of every mixture, plain and tuned, with the ratings of word pairs in a group's languages.

    Pairs within the hub are left out: every group has another encoder of it.
    """
    from babelray.evaluation.word_similarity import read_ratings, word_similarity

    settings, languages = plan.settings, [plan.settings.hub, *plan.settings.groups[name]]
    files = {
        (number, *pair): (read_ratings(place), source.missing)
        for number, source in enumerate(settings.expose.similarity, start=1)
        for pair, place in source.files(settings.languages).items()
        if {*pair} <= {*languages} and {*pair} != {settings.hub}
    }
    found: Grid = {}
    for version in (PLAIN, TUNED):
        mixed = mixtures(plan, name, version)
        for share in settings.expose.shares:
            vectors = {code: mixed.at(code, share) for code in languages}
            for (number, first, second), (ratings, missing) in files.items():
                title = first if first == second else f"{first}-{second}"
                title = f"{title} ({number})" if len(settings.expose.similarity) > 1 else title
                scores = word_similarity(vectors[first], vectors[second], ratings, missing)
                found.setdefault(title, {PLAIN: {}, TUNED: {}})[version][f"{share:g}"] = scores
    return found


def _dictionary(plan: Plan, code: str) -> Place:
    return plan.setting.corpus / "dictionary" / f"{code}-{plan.settings.hub}"


@dataclass(frozen=True)
class Mixtures:
    """Static and encoded vectors of some languages, with what turns the former into the latter's space."""

    static: dict[str, WordVectors]
    encoded: dict[str, WordVectors]
    turn_ED: Any

    def at(self, code: str, share: float) -> WordVectors:
        from babelray.mapping.interpolation import interpolate

        static, encoded = self.static[code], self.encoded[code]
        return static.with_matrix(interpolate(static.matrix, self.turn_ED, encoded.matrix, share))


def mixtures(plan: Plan, name: str, version: str) -> Mixtures:
    """What a group's mixtures are made of; the turn is fitted on all words of its entries, in both languages."""
    import torch

    from babelray.mapping.interpolation import generalised_procrustes
    from babelray.vectors.word_vectors import WordVectors

    codes = plan.settings.groups[name]
    languages = [plan.settings.hub, *codes]
    static = {code: plan.static(code) for code in languages}
    encoded = {code: WordVectors.load(plan.encoded(None if version == PLAIN else name, code)) for code in languages}
    learned: dict[str, set[str]] = {code: set() for code in languages}
    for code in codes:
        for source, target in _entries(plan.setting, code)[: plan.settings.expose.limit]:
            learned[code].add(source)
            learned[plan.settings.hub].add(target)
    rows = {
        code: torch.tensor(
            sorted(static[code].position[w] for w in words if w in static[code].position), dtype=torch.long
        )
        for code, words in learned.items()
    }
    pairs = [torch.cat([side[code].matrix[rows[code]] for code in languages]) for side in (static, encoded)]
    return Mixtures(static, encoded, generalised_procrustes(*pairs))


def chosen_share(grid: Grid, config: ExposeConfig, others: list[str]) -> float:
    """λ as it was given, or the one that does best for the development language after tuning."""
    if config.share is not None:
        return config.share
    scores = grid[config.development or others[0]][TUNED]
    return float(max(scores, key=lambda share: scores[share]["p1"]))


def write_mixed(plan: Plan, name: str, share: float) -> None:
    """The mixed vectors of a group's languages, by the tuned encoder, beside it."""
    from safetensors.torch import save_file

    from babelray.encoder.lexical import TURN
    from babelray.vectors.word_vectors import WordVectors

    mixed = mixtures(plan, name, TUNED)
    for code in mixed.static:
        if not WordVectors.is_complete(plan.out / name / "vectors" / code):
            mixed.at(code, share).save(plan.out / name / "vectors" / code)
    with (plan.out / name / TURN).writing() as file:
        save_file({"turn": mixed.turn_ED.contiguous()}, file, {"share": f"{share:g}"})


def averages(grid: Grid, share: float) -> dict[str, float]:
    """P@1, the mean over languages: static vectors alone, the encoder alone and mixed, plain and tuned."""
    from statistics import fmean

    def mean(version: str, at: float) -> float | None:
        scores = [found[version].get(f"{at:g}") for found in grid.values()]
        return fmean(s["p1"] for s in scores if s) if all(scores) else None

    wanted = {
        "static": (PLAIN, 0.0),
        **{f"{v}/{n}": (v, at) for v in (PLAIN, TUNED) for n, at in (("encoder", 1.0), ("mixed", share))},
    }
    return {name: value for name, pair in wanted.items() if (value := mean(*pair)) is not None}

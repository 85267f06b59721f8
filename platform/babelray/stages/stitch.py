"""The stitch stage: an encoder of one language reads others through their static vectors.

Every system learns a task in the hub and is tested on it in all other languages. Systems that replace the source's
embeddings too need a fine-tuning for each language and seed; all others share one for each seed, and only their
target embeddings differ.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray.config import Config, operational
from babelray.encoder.load import located
from babelray.errors import BabelrayError, DataError, RecipeError
from babelray.evaluation.stitching import Scores, stitching_page, stitching_tables
from babelray.evaluation.transfer_tasks import Classification
from babelray.languages import Language
from babelray.stages.stage import Job, Stage
from babelray.stitching.config import StitchConfig, SystemConfig
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.evaluation.classification import LabelledText
    from babelray.recipe import Recipe
    from babelray.stitching.build import Source, Target
    from babelray.vectors.word_vectors import WordVectors


class Settings(Config):
    name: str = operational("stitch")
    named: dict[str, Language] = operational({})
    """The languages as a page calls them."""
    languages: list[str]
    hub: str
    seed: int
    stitch: StitchConfig

    @property
    def others(self) -> list[str]:
        return [code for code in self.languages if code != self.hub]

    @property
    def task(self) -> Classification:
        """The task in the languages of the run, the hub last."""
        changes = {"hub": self.hub, "train_languages": [self.hub], "languages": [*self.others, self.hub]}
        return self.stitch.task.model_copy(update=changes)


class StitchStage(Stage[Settings]):
    """Leaves `scores.json`: {system: {language: {measure: a value for each seed}}}; `stitching.md` and `stitching.html`
    show it. `predictions/SYSTEM/LANGUAGE-SEED.json` has every answer, `anchors/SYSTEM/LANGUAGE.tsv` the anchors, and
    `models/LANGUAGE/` a stitched encoder with its tokenizer.
    """

    name = "stitch"
    needs = ("corpus", "encoder", "extract")

    def settings(self, recipe: Recipe) -> Settings:
        if recipe.stitch is None:
            raise RecipeError("the recipe does not say how to stitch", "Give it a key `stitch` with a `task`.")
        if len(recipe.languages) < 2:
            raise RecipeError("there is only one language: nothing can be stitched", "List at least two languages.")
        return Settings(
            name=recipe.name,
            named=recipe.resolved_languages(),
            languages=recipe.languages,
            hub=recipe.hub,
            seed=recipe.seed,
            stitch=recipe.stitch,
        )

    def sources(self, settings: Settings) -> list[Place]:
        named = [system.encoder for system in settings.stitch.systems.values() if system.encoder]
        places = [Place.parse(located(name)) for name in named if is_folder(name)]
        return settings.task.sources() + [place / name for place in places for name in place.files()]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings, config = job.settings, job.settings.stitch
        plan = Plan(settings, job.source("corpus"), job.source("encoder"), job.source("extract"), job.out)
        found = run_tasks([Task(c, prepare, (plan, c)) for c in settings.others], job.progress, "languages")
        pieces = [
            Task(f"{start.name}, seed {seed}", fine_tuned, (plan, start, seed))
            for seed in settings.task.seeds
            for start in starts(settings)
        ]
        run_tasks(pieces, job.progress, "fine-tunings", cpus=1)
        scores = judged(plan)
        (job.out / "scores.json").write_json({name: scores.by_system[name] for name in config.systems})
        (job.out / "languages.json").write_json(found)
        (job.out / "stitching.md").write_text(stitching_tables(scores, found))
        (job.out / "stitching.html").write_text(stitching_page(settings.name, scores, found, settings.named))
        return scores.means()


@dataclass(frozen=True)
class Plan:
    """What every task needs to know."""

    settings: Settings
    corpus: Place
    encoder: Place
    extract: Place
    out: Place

    def answers(self, system: str, code: str, seed: int) -> Place:
        return self.out / "predictions" / system / f"{code}-{seed}.json"

    def seeds(self, system: str) -> list[int]:
        """Logistic regression has one minimum, whatever the seed."""
        fitted = self.settings.stitch.systems[system].method == "logistic-regression"
        return [0] if fitted else self.settings.task.seeds

    @contextlib.contextmanager
    def folder(self, encoder: str | None = None) -> Iterator[str]:
        """The folder, or the name, of an encoder; the run's own by default."""
        if encoder is not None and not is_folder(encoder):
            yield encoder
            return
        place = self.encoder / "encoder" if encoder is None else Place.parse(located(encoder))
        with place.local_input() as folder:
            yield str(folder)

    def source(self, model: PreTrainedModel, folder: str) -> Source:
        from babelray.encoder.load import load_tokenizer
        from babelray.stitching.build import Source

        embeddings_VD = model.get_input_embeddings().weight.detach().clone()
        return Source(load_tokenizer(folder), embeddings_VD, self.vectors(self.settings.hub))

    def target(self, source: Source, code: str) -> Target:
        from babelray.lexicon.pairs import read_pairs
        from babelray.stitching.build import Target

        pairs = read_pairs(self.corpus / "dictionary" / f"{code}-{self.settings.hub}", "train")
        return Target.of(self.vectors(code), source, [(pair.source, pair.target) for pair in pairs])

    def vectors(self, code: str) -> WordVectors:
        from babelray.vectors.word_vectors import WordVectors

        vectors, most = WordVectors.load(self.extract / "vectors" / code), self.settings.stitch.words
        return WordVectors(vectors.words[:most], vectors.matrix[:most], vectors.counts[:most])


def is_folder(encoder: str) -> bool:
    return encoder.startswith("s3://") or os.path.isdir(located(encoder))


def labels_of(texts: Sequence[LabelledText]) -> list[str]:
    found = sorted({text.label for text in texts})
    if len(found) < 2:
        raise DataError(f"all training examples are {found[0]!r}", "Give other data under stitch.task.train.")
    return found


def prepare(plan: Plan, code: str) -> dict[str, Any]:
    """What can be known of a language before anything is trained: its anchors, and how much of the task it has words
    for. What cannot be stitched is found here, not after hours. Logistic regression, which needs no encoder, is done.
    """
    from babelray.encoder.load import load_encoder

    done = plan.out / "languages" / f"{code}.json"
    if done.exists():
        return done.read_json()
    try:
        with plan.folder() as folder:
            target = plan.target(plan.source(load_encoder(folder), folder), code)
        found: dict[str, Any] = {"words": len(target.words), "covered": coverage(plan, target, code), "anchors": {}}
        for name, system in plan.settings.stitch.systems.items():
            if system.method in ("relative", "least-squares", "wechsel"):
                pairs = target.anchors(system.anchors, plan.settings.seed).pairs
                found["anchors"][name] = len(pairs)
                lines = "".join(f"{word}\t{meaning}\n" for word, meaning in pairs)
                (plan.out / "anchors" / name / f"{code}.tsv").write_text(lines)
            elif system.method == "logistic-regression":
                plan.answers(name, code, 0).write_json({"answers": by_logistic_regression(plan, target, code)})
    except BabelrayError as error:
        raise type(error)(f"{code}: {error.problem}", error.remedy) from error
    done.write_json(found)
    return found


def coverage(plan: Plan, target: Target, code: str) -> float:
    """The share of the test texts' words that have a vector of their own, as far as the tokenizer can tell."""
    texts = [text.text for text in plan.settings.task.test_data()[code]]
    read = target.tokenizer(texts, add_special_tokens=False)["input_ids"]
    pieces = [piece for ids in read for piece in target.tokenizer.convert_ids_to_tokens(ids)]
    whole = sum(piece in target.words.position for piece in pieces)
    if not whole:
        problem = f"none of the {len(texts):,} texts of the task has a word with a static vector"
        raise DataError(problem, "Give vectors of this language, under extract.path.")
    return whole / sum(piece not in target.signs for piece in pieces)


def by_logistic_regression(plan: Plan, target: Target, code: str) -> list[str]:
    """What logistic regression on averaged static vectors answers, trained in the language itself."""
    import torch

    from babelray.stitching.logistic import fit_logistic

    def averages(texts: Sequence[LabelledText]) -> Tensor:
        found = torch.zeros(len(texts), target.known.dimension)
        for row, ids in enumerate(target.tokenizer([text.text for text in texts])["input_ids"]):
            pieces = target.tokenizer.convert_ids_to_tokens(ids)
            rows = [target.known.position[piece] for piece in pieces if piece in target.known.position]
            if rows:
                found[row] = target.known.matrix[rows].mean(0)
        return found

    task = plan.settings.task.model_copy(update={"train_languages": [code]})
    learned, tested = task.training_data()[code], task.test_data()[code]
    labels = labels_of(learned)
    numbers = torch.tensor([labels.index(text.label) for text in learned])
    fitted = fit_logistic(averages(learned), numbers, len(labels), plan.settings.stitch.ridge)
    return [labels[number] for number in fitted.logits(averages(tested)).argmax(1).tolist()]


@dataclass(frozen=True)
class Start:
    """A fine-tuning: the embeddings that it starts from, of one target language or of all, and who makes use of it."""

    system: SystemConfig
    code: str | None
    uses: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"{self.uses[0][0]}, {self.code or 'all languages'}"


def starts(settings: Settings) -> list[Start]:
    """All fine-tunings of a seed; systems whose source embeddings are the same share one."""
    groups: dict[Any, list[tuple[str, str]]] = {}
    for name, system in settings.stitch.systems.items():
        for code in settings.others if system.method != "logistic-regression" else []:
            shared = (system.encoder, system.adapt_steps, system.freeze_embeddings)
            groups.setdefault((system, code) if system.own_source else shared, []).append((name, code))
    systems = settings.stitch.systems
    return [
        Start(systems[uses[0][0]], uses[0][1] if systems[uses[0][0]].own_source else None, tuple(uses))
        for uses in groups.values()
    ]


def fine_tuned(plan: Plan, start: Start, seed: int) -> None:
    """Learn the task in the hub, then answer the tests of every language that this fine-tuning is for."""
    from babelray.encoder.layers import longest_input
    from babelray.encoder.load import load_with_head
    from babelray.evaluation.classification import classify, text_examples
    from babelray.objectives.labelled import LabelledObjective, text_head
    from babelray.stitching.build import target_embeddings
    from babelray.stitching.swap import only_used, swap_embeddings
    from babelray.training.fine_tuning import fine_tune

    uses = [use for use in start.uses if not plan.answers(*use, seed).exists()]
    if not uses:
        return
    settings, task, config = plan.settings, plan.settings.task, plan.settings.stitch
    learned, tests = task.training_data()[settings.hub], task.test_data()
    labels = labels_of(learned)
    with plan.folder(start.system.encoder) as folder:
        model = load_with_head(folder, "classification", labels, seed)
        source = plan.source(model, folder)
        put_source(plan, start, model, source, folder, seed)
    longest = min(task.max_tokens, longest_input(model, source.tokenizer))
    learned_from = text_examples(learned, labels, source.tokenizer, longest)
    with only_used(model, learned_from, source.tokenizer) as examples:
        model.get_input_embeddings().weight.requires_grad_(not start.system.freeze_embeddings)
        batch_size = task.fine_tuning.batch_size
        objective = LabelledObjective({settings.hub: examples}, text_head, source.tokenizer, batch_size, seed)
        fine_tune(model, objective, task.fine_tuning)
    tuned_VD = model.get_input_embeddings().weight.detach().clone()

    def answers(code: str, tokenizer: PreTrainedTokenizerBase) -> list[str]:
        return classify(model, tests[code], labels, tokenizer, longest, task.batch_tokens)

    @functools.lru_cache(maxsize=1)
    def target_of(code: str) -> Target:
        return plan.target(source, code)

    in_hub = answers(settings.hub, source.tokenizer)
    for name, code in sorted(uses, key=lambda use: (config.systems[use[0]].swaps, use[1])):  # the unchanged one first
        system, tokenizer = config.systems[name], source.tokenizer
        if system.swaps:
            target = target_of(code)
            tokenizer = target.tokenizer
            matrix_TD = target.matrix(target_embeddings(system, target, settings.seed), tuned_VD)
            swap_embeddings(model, matrix_TD, tokenizer)
        found = answers(code, tokenizer)
        if name == config.kept and seed == task.seeds[0]:
            with (plan.out / "models" / code).local_output() as place:
                model.save_pretrained(place)
                tokenizer.save_pretrained(place)
        plan.answers(name, code, seed).write_json({"answers": found, settings.hub: in_hub})


def put_source(plan: Plan, start: Start, model: PreTrainedModel, source: Source, folder: str, seed: int) -> None:
    """Give the model the source embeddings that it starts from, and time to get used to them."""
    import torch

    from babelray.encoder.load import load_masked_lm
    from babelray.objectives.mlm import Mlm, MlmConfig
    from babelray.stitching.build import source_embeddings
    from babelray.training.fine_tuning import fine_tune
    from babelray.training.materials import ArtifactMaterials

    embeddings = model.get_input_embeddings().weight
    if start.code is not None:
        target = plan.target(source, start.code)
        anchors = target.anchors(start.system.anchors, plan.settings.seed)
        with torch.no_grad():
            embeddings.copy_(source_embeddings(start.system, target, anchors))
    if not start.system.adapt_steps:
        return
    reader = load_masked_lm(folder)
    with torch.no_grad():
        reader.get_input_embeddings().weight.copy_(embeddings)
    reader.get_input_embeddings().weight.requires_grad_(False)
    hub, task = plan.settings.hub, plan.settings.task
    materials = ArtifactMaterials(folder, plan.corpus, None, [hub], hub, seed, {}, 0.0, plan.out / "work")
    steps = task.fine_tuning.model_copy(update={"steps": start.system.adapt_steps})
    fine_tune(reader, Mlm(MlmConfig(batch_size=steps.batch_size), materials), steps)
    body = reader.base_model.state_dict()
    model.base_model.load_state_dict(body, strict=False)  # a pooler is not in it


def judged(plan: Plan) -> Scores:
    """The scores of every system, language and seed."""
    from babelray.evaluation.classification import accuracy, macro_f1

    settings = plan.settings
    gold = {code: [text.label for text in texts] for code, texts in settings.task.test_data().items()}
    scores, hits = {}, {}
    for name in settings.stitch.systems:
        found = {c: [plan.answers(name, c, seed).read_json() for seed in plan.seeds(name)] for c in settings.others}
        scores[name] = {
            code: {
                "macro_f1": [macro_f1(gold[code], seed["answers"]) for seed in seeds],
                "accuracy": [accuracy(gold[code], seed["answers"]) for seed in seeds],
                "in_hub": [macro_f1(gold[settings.hub], seed[settings.hub]) for seed in seeds if settings.hub in seed],
            }
            for code, seeds in found.items()
        }
        hits[name] = [
            {c: [float(a == b) for a, b in zip(gold[c], found[c][n]["answers"], strict=True)] for c in settings.others}
            for n in range(len(plan.seeds(name)))
        ]
    fitted = [name for name, system in settings.stitch.systems.items() if system.method == "least-squares"]
    return Scores(settings.hub, scores, hits, fitted[0] if fitted and len(scores) > 1 else None)

"""The stitch stage: an encoder of one language reads others through their static vectors.

Every system learns a benchmark in the hub and is tested on it in all other languages. Systems that replace the source
embeddings need a fine-tuning for each language and seed; all others share one for each seed, and only their target
embeddings differ.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray.cluster.tasks import Task, run_tasks
from babelray.encoder.load import encoder_files, locate_encoder
from babelray.errors import BabelrayError, DataError, RecipeError
from babelray.metrics.format import P_VALUE
from babelray.pipeline.stage import STAGES, Job, LanguageSettings, Stage
from babelray.pipeline.summary import Column, Summary, Table
from babelray.recipe.stitch import StitchConfig
from babelray.stitching.fine_tunings import FineTuning, Use, plan_fine_tunings
from babelray.stitching.scores import StitchingScores, distinct_anchor_counts
from babelray.storage import Location

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.evaluation.classification import Classification, LabelledText
    from babelray.stitching.method import StitchingMethod
    from babelray.stitching.target import Source, Target
    from babelray.storage.artifact import Artifact
    from babelray.vectors.word_vectors import WordVectors


class StitchSettings(LanguageSettings):
    """The languages, and what is compared on which benchmark."""

    stitch: StitchConfig

    @property
    def benchmark(self) -> Classification:
        """The benchmark in the languages of the run, the hub last."""
        changes = {"hub": self.hub, "train_languages": [self.hub], "languages": [*self.others, self.hub]}
        return self.stitch.benchmark.model_copy(update=changes)

    def trained_in(self, code: str) -> Classification:
        """The benchmark for systems that read static vectors alone: they learn it in the language itself."""
        return self.benchmark.model_copy(update={"train_languages": [code]})


@STAGES.register
class StitchStage(Stage[StitchSettings]):
    """Stitch an encoder of one language to the static vectors of others, and score it on a benchmark.

    Writes `scores.json`: {system: {language: {metric: a value for each seed}}}, `comparison.json` with the significance
    of differences, `languages.json` with coverage and numbers of anchors, `predictions/SYSTEM/LANGUAGE-SEED.json` with
    every answer, `anchors/SYSTEM/LANGUAGE.tsv`, and `models/LANGUAGE/`, a stitched encoder with its tokenizer.
    """

    name = "stitch"
    needs = ("corpus", "encoder", "extract")

    def wanted(self, recipe: Any) -> bool:
        return recipe.stitch is not None

    def settings(self, recipe: Any) -> StitchSettings:
        if len(recipe.languages) < 2:
            raise RecipeError("there is only one language: nothing can be stitched", "List at least two languages.")
        return StitchSettings(languages=recipe.languages, hub=recipe.hub, seed=recipe.seed, stitch=recipe.stitch)

    def sources(self, settings: StitchSettings) -> list[Location]:
        starts = [system.start() for system in settings.stitch.systems.values()]
        encoders = [start.encoder for start in starts if start and start.encoder]
        files = [*settings.benchmark.sources(), *(file for encoder in encoders for file in encoder_files(encoder))]
        if None in starts:
            files += [file for code in settings.others for file in settings.trained_in(code).sources()]
        return list(dict.fromkeys(files))

    def run(self, job: Job[StitchSettings]) -> dict[str, Any]:
        settings = job.settings
        context = StitchingContext(
            settings, job.source("corpus"), job.source("encoder"), job.source("extract"), job.out
        )
        preparations = [Task(code, prepare_language, (context, code)) for code in settings.others]
        languages = run_tasks(preparations, job.progress, "languages")
        runs = [
            Task(f"{run.name}, seed {seed}", fine_tune_and_test, (context, run, seed), encodes=True)
            for seed in settings.benchmark.seeds
            for run in plan_fine_tunings(settings.stitch.systems, settings.others)
        ]
        run_tasks(runs, job.progress, "fine-tunings", cpus=1)
        scores = score_systems(context)
        scores.save(job.out)
        (job.out / "languages.json").write_json(languages)
        return scores.means()

    def summary(self, artifact: Artifact, settings: StitchSettings) -> Summary:
        scores = StitchingScores.load(artifact.location)
        tables = [_score_table(scores), _leaderboard_table(scores)]
        if scores.baseline is not None:
            tables.append(_difference_table(scores))
        tables.append(_language_table((artifact.location / "languages.json").read_json()))
        return Summary(tables)


def _score_table(scores: StitchingScores) -> Table:
    by_language = [scores.by_language(code) for code in scores.languages]
    means = scores.means()
    rows = [
        [system, means[system], *(column[system] for column in by_language), scores.in_hub(system)]
        for system in scores.metrics
    ]
    titles = ["mean", *scores.languages, scores.hub]
    return Table("macro F1 %", [Column("system"), *(Column(title, "%") for title in titles)], rows)


def _leaderboard_table(scores: StitchingScores) -> Table:
    means = scores.means()
    rows = [
        [f"{rank.system} ●" if rank.tied else rank.system, means[rank.system], rank.correct, rank.p]
        for rank in scores.leaderboard
    ]
    columns = [Column("system"), Column("macro F1 %", "%"), Column("correct %", "%"), Column("p", P_VALUE)]
    note = "● not significantly worse than the best (paired permutation test over examples, Holm's correction)"
    return Table("Best systems", columns, rows, notes=[note])


def _difference_table(scores: StitchingScores) -> Table:
    columns = [Column("system"), Column("macro F1 %", "%"), Column("correct %", "%"), Column("p", P_VALUE)]
    return Table(f"Difference to {scores.baseline}", columns, [list(row) for row in scores.differences])


def _language_table(languages: dict[str, Any]) -> Table:
    systems = distinct_anchor_counts(languages)
    anchors = [Column(f"anchors: {name}", ",.0f") for name in systems]
    rows = [
        [code, language["words"], language["covered"], *(language["anchors"][name] for name in systems)]
        for code, language in languages.items()
    ]
    return Table("Languages", [Column("language"), Column("words", ",.0f"), Column("covered %", "%"), *anchors], rows)


@dataclass(frozen=True)
class StitchingContext:
    """The settings of the stage, its inputs and its folder, for every task."""

    settings: StitchSettings
    corpus: Location
    encoder: Location
    extract: Location
    out: Location

    def answers(self, system: str, code: str, seed: int) -> Location:
        return self.out / "predictions" / system / f"{code}-{seed}.json"

    def seeds(self, system: str) -> list[int]:
        """The seeds of the benchmark; a system without a fine-tuning does not depend on them."""
        fine_tuned = self.settings.stitch.systems[system].start() is not None
        return self.settings.benchmark.seeds if fine_tuned else [0]

    @contextlib.contextmanager
    def local_encoder(self, encoder: str | None = None) -> Iterator[str]:
        """The local folder, or the name, of an encoder; the run's own by default."""
        if encoder is not None and not is_folder(encoder):
            yield encoder
            return
        location = self.encoder / "encoder" if encoder is None else Location.parse(locate_encoder(encoder))
        with location.local_input() as folder:
            yield str(folder)

    def source(self, model: PreTrainedModel, folder: str) -> Source:
        from babelray.encoder.load import load_tokenizer
        from babelray.stitching.target import Source

        embeddings_VD = model.get_input_embeddings().weight.detach().clone()
        return Source(load_tokenizer(folder), embeddings_VD, self.vectors(self.settings.hub))

    def target(self, source: Source, code: str) -> Target:
        from babelray.lexicon.pairs import read_pairs
        from babelray.stitching.target import Target

        pairs = read_pairs(self.corpus / "dictionary" / f"{code}-{self.settings.hub}", "train")
        return Target.from_vectors(self.vectors(code), source, [(pair.source, pair.target) for pair in pairs])

    def vectors(self, code: str) -> WordVectors:
        from babelray.vectors.word_vectors import WordVectors

        vectors, limit = WordVectors.load(self.extract / "vectors" / code), self.settings.stitch.words
        return WordVectors(vectors.words[:limit], vectors.matrix[:limit], vectors.counts[:limit])


def is_folder(encoder: str) -> bool:
    return encoder.startswith("s3://") or os.path.isdir(locate_encoder(encoder))


def labels_of(texts: Sequence[LabelledText]) -> list[str]:
    labels = sorted({text.label for text in texts})
    if len(labels) < 2:
        raise DataError(f"all training examples are {labels[0]!r}", "Give other data under stitch.benchmark.train.")
    return labels


def prepare_language(context: StitchingContext, code: str) -> dict[str, Any]:
    """Measure coverage, find anchors, and answer the tests by the systems that need no encoder.

    A language that cannot be stitched is an error here, before the long fine-tunings.
    """
    from babelray.encoder.load import load_encoder

    location = context.out / "languages" / f"{code}.json"
    if location.exists():
        return location.read_json()
    try:
        with context.local_encoder() as folder:
            target = context.target(context.source(load_encoder(folder), folder), code)
        tests = context.settings.benchmark.test_data()[code]
        covered, anchors = target.coverage([text.text for text in tests]), {}
        for name, system in context.settings.stitch.systems.items():
            if (own := system.find_anchors(target, context.settings.seed)) is not None:
                anchors[name] = len(own.pairs)
                lines = "".join(f"{word}\t{translation}\n" for word, translation in own.pairs)
                (context.out / "anchors" / name / f"{code}.tsv").write_text(lines)
            if system.start() is None:
                answers = classify_by_vectors(context, system, target, code)
                context.answers(name, code, 0).write_json({"answers": answers})
    except BabelrayError as error:
        raise type(error)(f"{code}: {error.problem}", error.remedy) from error
    language = {"words": len(target.words), "covered": covered, "anchors": anchors}
    location.write_json(language)
    return language


def classify_by_vectors(context: StitchingContext, system: StitchingMethod, target: Target, code: str) -> list[str]:
    """The answers of a system that reads averaged static vectors and is trained in the language itself."""
    import torch

    benchmark = context.settings.trained_in(code)
    training, tests = benchmark.training_data()[code], benchmark.test_data()[code]
    labels = labels_of(training)
    labels_N = torch.tensor([labels.index(text.label) for text in training])
    vectors_NE, tests_ME = (target.average([text.text for text in texts]) for texts in (training, tests))
    classes_M = system.classify(vectors_NE, labels_N, tests_ME)
    return [labels[number] for number in classes_M.tolist()]


@dataclass(frozen=True)
class Classifier:
    """An encoder with a head for the benchmark's labels."""

    model: PreTrainedModel
    labels: list[str]
    benchmark: Classification
    longest: int

    def train(
        self, texts: Sequence[LabelledText], hub: str, tokenizer: Any, freeze_embeddings: bool, seed: int
    ) -> None:
        from babelray.evaluation.classification import text_examples
        from babelray.objectives.labelled import LabelledObjective, text_head
        from babelray.stitching.swap import only_used
        from babelray.training.fine_tuning import fine_tune

        config = self.benchmark.fine_tuning
        all_examples = text_examples(texts, self.labels, tokenizer, self.longest)
        with only_used(self.model, all_examples, tokenizer) as examples:
            self.model.get_input_embeddings().weight.requires_grad_(not freeze_embeddings)
            objective = LabelledObjective({hub: examples}, text_head, tokenizer, config.batch_size, seed)
            fine_tune(self.model, objective, config)

    def answer(self, texts: Sequence[LabelledText], tokenizer: PreTrainedTokenizerBase) -> list[str]:
        from babelray.evaluation.classification import classify

        return classify(self.model, texts, self.labels, tokenizer, self.longest, self.benchmark.batch_tokens)


def fine_tune_and_test(context: StitchingContext, run: FineTuning, seed: int) -> None:
    """Learn the benchmark in the hub, then answer the tests of every language that this fine-tuning is for."""
    from babelray.encoder.layers import longest_input
    from babelray.encoder.load import load_with_head

    uses = [use for use in run.uses if not context.answers(*use, seed).exists()]
    if not uses:
        return
    hub, benchmark = context.settings.hub, context.settings.benchmark
    texts = benchmark.training_data()[hub]
    labels = labels_of(texts)
    with context.local_encoder(run.start.encoder) as folder:
        model = load_with_head(folder, "classification", labels, seed)
        source = context.source(model, folder)
        prepare_model(context, run, model, source, folder, seed)
    longest = min(benchmark.max_tokens, longest_input(model, source.tokenizer))
    classifier = Classifier(model, labels, benchmark, longest)
    classifier.train(texts, hub, source.tokenizer, run.start.freeze_embeddings, seed)
    answer_tests(context, classifier, source, uses, seed)


def answer_tests(
    context: StitchingContext, classifier: Classifier, source: Source, uses: Sequence[Use], seed: int
) -> None:
    """Swap the embeddings for each system and language, and write the answers; save the encoders that are asked for."""
    from babelray.stitching.swap import swap_embeddings

    settings, config, model = context.settings, context.settings.stitch, classifier.model
    tests = classifier.benchmark.test_data()
    in_hub = classifier.answer(tests[settings.hub], source.tokenizer)
    tuned_VD = model.get_input_embeddings().weight.detach().clone()

    @functools.lru_cache(maxsize=1)
    def target_of(code: str) -> Target:
        return context.target(source, code)

    for name, code in sorted(uses, key=lambda use: (config.systems[use[0]].swaps, use[1])):  # the unchanged one first
        system, tokenizer = config.systems[name], source.tokenizer
        if system.swaps:
            target = target_of(code)
            tokenizer = target.tokenizer
            matrix_TD = target.matrix(system.target_embeddings(target, settings.seed), tuned_VD)
            swap_embeddings(model, matrix_TD, tokenizer)
        answers = classifier.answer(tests[code], tokenizer)
        if name == config.saved and seed == classifier.benchmark.seeds[0]:
            with (context.out / "models" / code).local_output() as folder:
                model.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
        context.answers(name, code, seed).write_json({"answers": answers, settings.hub: in_hub})


def prepare_model(
    context: StitchingContext, run: FineTuning, model: PreTrainedModel, source: Source, folder: str, seed: int
) -> None:
    """Give the model the source embeddings that the fine-tuning starts from, and adapt its body to them."""
    import torch

    if run.start.source is not None and run.code is not None:
        target = context.target(source, run.code)
        embeddings_VD = run.start.source.source_embeddings(target, context.settings.seed)
        with torch.no_grad():
            model.get_input_embeddings().weight.copy_(embeddings_VD)
    if run.start.adapt_steps:
        adapt_body(context, run.start.adapt_steps, model, folder, seed)


def adapt_body(context: StitchingContext, steps: int, model: PreTrainedModel, folder: str, seed: int) -> None:
    """Masked language modelling on the hub's text, with the model's input embeddings, which stay as they are."""
    import torch

    from babelray.encoder.load import load_masked_lm
    from babelray.objectives.mlm import MlmConfig
    from babelray.training.fine_tuning import fine_tune
    from babelray.training.training_data import ArtifactTrainingData

    masked_lm = load_masked_lm(folder)
    with torch.no_grad():
        masked_lm.get_input_embeddings().weight.copy_(model.get_input_embeddings().weight)
    masked_lm.get_input_embeddings().weight.requires_grad_(False)
    hub, work = context.settings.hub, context.out / "work"
    training_data = ArtifactTrainingData(folder, context.corpus, None, [hub], hub, seed, {}, 0.0, work)
    config = context.settings.benchmark.fine_tuning.model_copy(update={"steps": steps})
    fine_tune(masked_lm, MlmConfig(batch_size=config.batch_size).build(training_data), config)
    model.base_model.load_state_dict(masked_lm.base_model.state_dict(), strict=False)  # it has no pooler


def score_systems(context: StitchingContext) -> StitchingScores:
    """The scores of every system, language and seed."""
    from babelray.evaluation.classification import accuracy, macro_f1

    settings, hub = context.settings, context.settings.hub
    gold = {code: [text.label for text in texts] for code, texts in settings.benchmark.test_data().items()}
    metrics, correct = {}, {}
    for name in settings.stitch.systems:
        answers = {
            code: [context.answers(name, code, seed).read_json() for seed in context.seeds(name)]
            for code in settings.others
        }
        metrics[name] = {
            code: {
                "macro_f1": [macro_f1(gold[code], seed["answers"]) for seed in seeds],
                "accuracy": [accuracy(gold[code], seed["answers"]) for seed in seeds],
                "in_hub": [macro_f1(gold[hub], seed[hub]) for seed in seeds if hub in seed],
            }
            for code, seeds in answers.items()
        }
        correct[name] = [
            {c: [float(a == b) for a, b in zip(gold[c], answers[c][n]["answers"], strict=True)] for c in answers}
            for n in range(len(context.seeds(name)))
        ]
    return StitchingScores.compare(hub, metrics, correct, settings.stitch.baseline)

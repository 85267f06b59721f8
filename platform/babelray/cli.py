"""The `babelray` command: one verb a stage."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from babelray import __version__
from babelray.errors import INTERRUPTED, BabelrayError
from babelray.evaluation.task import TaskName
from babelray.mapping.methods import Method

if TYPE_CHECKING:
    from babelray.recipe import Recipe
    from babelray.run import Run
    from babelray.stages.artifact import Artifact
    from babelray.stages.pipeline import Step

app = typer.Typer(
    name="babelray",
    help="Align the languages inside a multilingual encoder, and prove that it was done.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
vectors = typer.Typer(help="Look at static vectors, and write them for other programs.", no_args_is_help=True)
app.add_typer(vectors, name="vectors")
transport = typer.Typer(help="Look at the transport from a sentence to its translation.", no_args_is_help=True)
app.add_typer(transport, name="transport")
console = Console()
errors = Console(stderr=True)

RecipePath = Annotated[str, typer.Argument(metavar="RECIPE", help="A YAML file, such as jobs/recipes/quickstart.yaml.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Values to change, by their dotted path: pretrain.steps=200"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the resolved recipe and what would be done; do nothing.")]
ArtifactPath = Annotated[
    str, typer.Argument(metavar="ARTIFACT", help="A folder that extract or align left, such as runs/align/FINGERPRINT.")
]
Force = Annotated[
    str | None,
    typer.Option(
        "--force",
        metavar="STAGE",
        help="Do this stage and all that follow from it again. Interrupted, the same command goes on.",
    ),
]


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and the workers' own output.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        console.print(f"babelray {__version__}", highlight=False)
        raise typer.Exit
    if debug:
        os.environ["BABELRAY_DEBUG"] = "1"


@app.command()
def run(recipe: RecipePath, overrides: Overrides = None, dry_run: DryRun = False, force: Force = None) -> None:
    """Run a whole recipe: corpus, encoder, extract, align, expose, stitch, map, pretrain, evaluate, report.

    Only stages that the recipe has.

    Stages that are complete are kept; an interrupted one goes on from its last checkpoint. A recipe with `variants`
    trains and compares one encoder for each of them and each seed.
    """
    _run(recipe, overrides, None, dry_run, force)


def _stage_command(name: str, text: str) -> None:
    def command(recipe: RecipePath, overrides: Overrides = None, dry_run: DryRun = False, force: Force = None) -> None:
        _run(recipe, overrides, name, dry_run, force)

    command.__doc__ = f"{text}\n\nStages that it needs are run first unless they are complete."
    app.command(name)(command)


@app.command()
def corpus(recipe: RecipePath, overrides: Overrides = None, dry_run: DryRun = False, force: Force = None) -> None:
    """Cut text into clean sentences and words, count vocabularies, pair translations.

    `babelray corpus inspect ARTIFACT` shows the statistics of a corpus and a few random sentences of each language.
    """
    if recipe != "inspect":
        _run(recipe, overrides, "corpus", dry_run, force)
        return
    from babelray.text.inspect import show

    if not overrides or len(overrides) > 1:
        raise BabelrayError("inspect needs one place", "babelray corpus inspect runs/corpus/FINGERPRINT")
    show(overrides[0], console)


_stage_command("encoder", "Fetch the encoder that the run starts from, or train a small one from scratch.")
_stage_command("extract", "Take static word vectors of every language from the encoder.")


@app.command()
def align(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE]", help="A YAML file; none if --source and --target are given.")
    ] = None,
    overrides: Overrides = None,
    dry_run: DryRun = False,
    force: Force = None,
    source: Annotated[str | None, typer.Option(metavar="FILE", help="Vectors to map: .vec, .txt, .bin, .gz.")] = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help="Vectors that they are mapped to.")] = None,
    method: Annotated[Method, typer.Option(help="How they are mapped.")] = "vecmap",
    dictionary: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Two words a line, or `identical` for words spelt alike; none: unsupervised."
        ),
    ] = None,
    self_learning: Annotated[
        bool | None,
        typer.Option(help="vecmap: whether the dictionary is only where to start. [default: unless it is a file]"),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for both mapped files and the mapping.")
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="A dictionary to measure the result with.")] = None,
    limit: Annotated[int, typer.Option(min=2, help="Most frequent words to read of each file.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Same seed, same result.")] = 1,
) -> None:
    """Map the vectors of all languages into the space of the hub; or, without a recipe, two files of vectors.

    `babelray align --source de.vec --target en.vec --dictionary de-en.txt --out mapped`

    Options of the methods can be set as in a recipe: `vecmap.cutoff=10000`.
    """
    if source is None and target is None:
        if recipe is None:
            raise BabelrayError("align needs a recipe, or --source and --target", "See babelray align --help.")
        _run(recipe, overrides, "align", dry_run, force)
        return
    from babelray.mapping.config import MappingConfig
    from babelray.mapping.files import IDENTICAL, align_files
    from babelray.recipe import configure

    if source is None or target is None or out is None:
        raise BabelrayError("two files need --source, --target and --out", "See babelray align --help.")
    if self_learning is None:
        self_learning = dictionary in (None, IDENTICAL)
    start = {"method": method, "vecmap": {"reweight": "symmetric", "self_learning": self_learning}}
    config = configure(MappingConfig, start, [text for text in (recipe, *(overrides or [])) if text is not None])
    align_files(source, target, out, config, console, dictionary, test, limit, seed)


@app.command()
def bli(
    source: Annotated[str, typer.Option(metavar="FILE", help="Vectors of the words that are asked.")],
    target: Annotated[str, typer.Option(metavar="FILE", help="Vectors among which translations are looked for.")],
    test: Annotated[str, typer.Option(metavar="FILE", help="The dictionary: two words a line.")],
    limit: Annotated[int, typer.Option(min=2, help="Most frequent words to read of each file.")] = 200_000,
    inverted_softmax: Annotated[
        float, typer.Option(metavar="BETA", min=0.0, help="Also by the inverted softmax of this sharpness, such as 30.")
    ] = 0.0,
) -> None:
    """Measure how well two files of vectors in one space translate words: P@1, P@5, P@10, MRR, by NN and CSLS."""
    from babelray.mapping.files import bli_of_files

    bli_of_files(source, target, test, console, limit, inverted_softmax)


_stage_command("expose", "Tune the encoder on dictionary entries, and mix its vectors of words with static ones.")
_stage_command("stitch", "Stitch an encoder of one language to the static vectors of others, and test it on a task.")
_stage_command("map", "Map the languages of the encoder by their words in context, and judge every method.")
_stage_command("pretrain", "Train the encoder further, with objectives that bring its languages together.")


@app.command()
def evaluate(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE]", help="A YAML file; none if --model and --task are given.")
    ] = None,
    overrides: Overrides = None,
    dry_run: DryRun = False,
    force: Force = None,
    model: Annotated[
        str | None, typer.Option(metavar="DIR", help="An encoder: a folder, a name, or babelray-mini.")
    ] = None,
    task: Annotated[TaskName | None, typer.Option(help="What it is judged by.")] = None,
    data: Annotated[str | None, typer.Option(metavar="PATH", help="The task's data, in their own format.")] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Folder for scores and predictions.")] = None,
) -> None:
    """Measure the encoders and vectors of a run, before and after; or, without a recipe, one encoder on one task.

    `babelray evaluate --model babelray-mini --task tatoeba --data DIR`

    Settings of a task are given as in a recipe: `layer=7 scoring=csls`. `babelray compare` shows two results side by
    side.
    """
    if model is None and task is None:
        if recipe is None:
            raise BabelrayError(
                "evaluate needs a recipe, or --model, --task and --data", "See babelray evaluate --help."
            )
        _run(recipe, overrides, "evaluate", dry_run, force)
        return
    from babelray.evaluation.catalogue import TASKS
    from babelray.recipe import configure
    from babelray.stages.one_task import evaluate_model

    if model is None or task is None or data is None:
        raise BabelrayError("one task needs --model, --task and --data", "See babelray evaluate --help.")
    settings = [text for text in (recipe, *(overrides or [])) if text is not None]
    evaluate_model(model, configure(TASKS[task], {"data": data}, settings), out, console)


@app.command()
def compare(
    results: Annotated[
        list[str], typer.Argument(metavar="RESULT RESULT...", help="Folders that evaluate --model left, of one task.")
    ],
) -> None:
    """Show how two results of a task differ, language by language, and whether that may be chance.

    More than two are ranked, with a mark on those that are not significantly worse than the best.
    """
    from babelray.stages.one_task import compare_results, rank_results

    if len(results) < 2:
        raise BabelrayError("compare needs at least two results", "babelray compare BEFORE AFTER")
    if len(results) == 2:
        compare_results(results[0], results[1], console)
    else:
        rank_results(results, console)


_stage_command("report", "Write the HTML report of a run.")


@app.command()
def simulate(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A YAML file of its own kind: jobs/recipes/simulation.yaml.")
    ],
    overrides: Overrides = None,
    dry_run: DryRun = False,
    force: Force = None,
) -> None:
    """Try mappings in simulated worlds, where the answer is known: like and unlike languages, near and far domains.

    It needs no data. `babelray simulate jobs/recipes/simulation.yaml 'simulate.t=[3]'` changes a value.
    """
    from rich.markdown import Markdown

    from babelray.recipe import load_run
    from babelray.simulation.config import Simulation
    from babelray.stages import pipeline

    simulation = load_run(Simulation, recipe, overrides or [])
    if dry_run:
        _show_steps(simulation, [pipeline.plan_simulation(simulation)])
        return
    done = pipeline.simulate(simulation, console, force)
    console.print(Markdown((done.place / "simulation.md").read_text()))
    console.print(f"\nSimulation: {done.place / 'simulation.html'}", soft_wrap=True, highlight=False)
    console.print(f"Dashboard: {_dashboard_command(simulation)}", soft_wrap=True, highlight=False)


@app.command()
def sweep(
    space: Annotated[
        str, typer.Argument(metavar="SPACE", help="A YAML file, such as tune/spaces/transport.yaml; or `status SPACE`.")
    ],
    overrides: Overrides = None,
    dry_run: DryRun = False,
) -> None:
    """Try a recipe with many values of its parameters, and find the best: grid, random or Optuna, on Ray Tune.

    The same command goes on after an interruption. `babelray sweep status SPACE` shows the trials, also while they run.
    Values of the space itself are changed with `sweep.` before them: `sweep.trials=20`.
    """
    from babelray.sweeping.run import run_sweep, show_plan, show_results, show_status
    from babelray.sweeping.space import load_sweep

    if space == "status":
        if not overrides:
            raise BabelrayError("status needs a space", "babelray sweep status tune/spaces/transport.yaml")
        show_status(load_sweep(overrides[0], overrides[1:]), console)
        return
    loaded = load_sweep(space, overrides or [])
    if dry_run:
        show_plan(loaded, console)
        return
    show_results(loaded, run_sweep(loaded, console), console)
    console.print(f"Dashboard: {_dashboard_command(loaded.recipe)}", soft_wrap=True, highlight=False)


@app.command()
def submit(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A YAML file, such as jobs/recipes/quickstart.yaml.")
    ] = None,
    overrides: Overrides = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ray's dashboard. [default: RAY_ADDRESS, else http://127.0.0.1:8265]"),
    ] = None,
    stage: Annotated[str, typer.Option(help="Only up to this stage, such as extract; or simulate.")] = "run",
    sweep: Annotated[bool, typer.Option("--sweep", help="RECIPE is a sweep's space, such as tune/spaces/….")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for the job.")] = False,
    follow: Annotated[
        str | None, typer.Option(metavar="JOB", help="Follow a job that was submitted before; no RECIPE.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Give the job this variable of yours; whoever has the token can read it."),
    ] = None,
    max_upload: Annotated[float, typer.Option(metavar="MB", min=0, help="Refuse to upload more than this.")] = 100,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and where; do nothing.")] = False,
) -> None:
    """Run a recipe on a Ray cluster, and follow it.

    The folder goes up without what `.rayignore` and `.gitignore` name. A recipe that is running already is followed,
    not started twice; one that was interrupted goes on. Ctrl-C stops the job, twice leaves it running. The exit code is
    the job's.

    No variable of yours travels with it unless `--env` names it: credentials (AWS_…, MLFLOW_…) belong into the
    environment of the cluster's nodes.

    `babelray submit jobs/recipes/quickstart.yaml storage=s3://bucket/runs --address http://HEAD:8265`
    """
    from babelray import submit as jobs

    where = jobs.address_of(address)
    if (recipe is None) == (follow is None):
        raise BabelrayError("submit needs a recipe, or --follow and a job", "See babelray submit --help.")
    if recipe is not None:
        submission = jobs.prepare(recipe, overrides or [], stage, sweep, env or [], max_upload)
        if dry_run:
            submission.show(where, console)
            return
        client = jobs.connect(where)
        follow = jobs.submit(client, submission, where, console)
    else:
        client = jobs.connect(where)
    command = f"{_program()} submit" + (f" --address {address}" if address else "")
    if detach:
        console.print(f"Follow it: {command} --follow {follow}", soft_wrap=True, highlight=False)
        return
    sys.exit(jobs.attend(client, str(follow), where, console, command))


def _run(path: str, overrides: list[str] | None, until: str | None, dry_run: bool, force: str | None) -> None:
    from babelray.recipe import load_recipe
    from babelray.stages import pipeline

    recipe = load_recipe(path, overrides or [])
    if dry_run:
        _show_steps(recipe, pipeline.plan(recipe, until))
        return
    if recipe.variants and until is None:
        _show_comparison(pipeline.compare(recipe, console, force))
        console.print(f"Dashboard: {_dashboard_command(recipe)}", soft_wrap=True, highlight=False)
        return
    done = pipeline.run(recipe, console, until, force)
    if until == "align":
        _show_alignment(recipe, done["align"])
    if "expose" in done:
        _show_exposure(recipe, done["expose"])
    if "stitch" in done:
        _show_stitching(recipe, done["stitch"])
    if "map" in done:
        _show_mapping(recipe, done["map"])
    if "evaluate" in done:
        _show_scores(recipe, done)
    if "report" in done:
        console.print(f"\nReport:    {done['report'].place / 'report.html'}", soft_wrap=True, highlight=False)
    console.print(f"Dashboard: {_dashboard_command(recipe)}", soft_wrap=True, highlight=False)


def _dashboard_command(recipe: Run) -> str:
    from babelray.tracking.tracker import tracking_uri

    if uri := os.environ.get("MLFLOW_TRACKING_URI", ""):
        return "MLflow at MLFLOW_TRACKING_URI" if "@" in uri else uri
    if not tracking_uri(recipe.storage):
        return f"none; the figures wait in {recipe.storage}/unsent for a run with MLFLOW_TRACKING_URI"
    storage = "" if recipe.storage == "runs" else f" --storage {recipe.storage}"
    return f"{_program()} dashboard{storage}   (then open http://127.0.0.1:5000)"


def _program() -> str:
    """How this command was called, so that a line can be copied and run."""
    return sys.argv[0] if sys.argv[0].startswith((".", "/")) and len(sys.argv[0]) < 60 else "babelray"


def _show_steps(recipe: Run, steps: list[Step]) -> None:
    from rich.table import Table

    from babelray.stages import pipeline

    console.print(recipe.to_yaml(), highlight=False, markup=False, soft_wrap=True)
    table = Table("stage", "fingerprint", "state", "place", box=None, pad_edge=False)
    for step in steps:
        table.add_row(step.stage.name, step.fingerprint, pipeline.status(step), str(step.place))
    console.print(table)


def _show_alignment(recipe: Recipe, artifact: Artifact) -> None:
    from statistics import fmean

    from rich.table import Table

    outcomes = {code: row for code, row in artifact.metrics["by_language"].items() if code != recipe.hub}
    languages = recipe.resolved_languages()
    table = Table(
        "", "language", title=f"{recipe.name}: mapped to {recipe.hub}", title_justify="left", title_style="bold"
    )
    for name in ("learned from", "translations found", "mapped", "words tested", "P@1 % raw → mapped"):
        table.add_column(name, justify="right")
    scores = []
    for code, row in outcomes.items():
        cells = ["–", "–"]
        if "bli" in row:
            scores.append((row["bli_raw"]["p1"], row["bli"]["p1"]))
            cells = [f"{row['bli']['words']:,}", _change(*scores[-1])]
        learned = f"{row['pairs']:,} pairs" if row["pairs"] else "nothing"
        state = "[red]collapsed[/]" if row.get("collapsed") else "yes" if row["mapped"] else "as extracted"
        table.add_row(code, languages[code].name, learned, f"{row['induced']:,}", state, *cells)
    if scores:
        table.add_section()
        table.add_row("", "mean", "", "", "", "", _change(*map(fmean, zip(*scores, strict=True))), style="bold")
    console.print()
    console.print(table)


def _show_exposure(recipe: Recipe, artifact: Artifact) -> None:
    from rich.markdown import Markdown

    console.print(f"\n[bold]{recipe.name}: word translation, P@1 %[/]")
    console.print(Markdown((artifact.place / "exposure.md").read_text()))
    console.print(f"\nExposure:  {artifact.place / 'exposure.html'}", soft_wrap=True, highlight=False)


def _show_mapping(recipe: Recipe, artifact: Artifact) -> None:
    from rich.markdown import Markdown

    table = (artifact.place / "mapping.md").read_text().split("\n\n## ")[0]
    console.print(f"\n[bold]{recipe.name}: words in context, mapped; all figures × 100[/]")
    console.print(Markdown(table))
    console.print(f"\nMapping:   {artifact.place / 'mapping.html'}", soft_wrap=True, highlight=False)


def _show_stitching(recipe: Recipe, artifact: Artifact) -> None:
    from rich.markdown import Markdown

    console.print(f"\n[bold]{recipe.name}: macro F1 %[/]")
    console.print(Markdown((artifact.place / "stitching.md").read_text()))
    console.print(f"\nStitching: {artifact.place / 'stitching.html'}", soft_wrap=True, highlight=False)


def _show_comparison(artifact: Artifact) -> None:
    from rich.markdown import Markdown

    console.print(Markdown((artifact.place / "comparison.md").read_text()))
    console.print(f"\nComparison: {artifact.place / 'comparison.html'}", soft_wrap=True, highlight=False)


def _show_scores(recipe: Recipe, done: dict[str, Artifact]) -> None:
    from statistics import fmean

    from rich.table import Table

    from babelray.evaluation.report import TASKS

    scores: dict[str, Any] = (done["evaluate"].place / "scores.json").read_json()
    languages = recipe.resolved_languages()
    shown = {task: measure for task, (_, measure, _) in TASKS.items() if scores.get(task, {}).get("after")}
    table = Table(title=f"{recipe.name}: % before → after", title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column("language")
    for task in shown:
        table.add_column(task, justify="right")
    columns: dict[str, list[tuple[float, float]]] = {task: [] for task in shown}
    for code in (code for code in languages if code != recipe.hub):
        cells = []
        for task, measure in shown.items():
            before, after = (scores[task].get(when, {}).get(code, {}).get(measure) for when in ("before", "after"))
            if before is not None and after is not None:
                columns[task].append((before, after))
            cells.append(_change(before, after))
        table.add_row(code, languages[code].name, *cells)
    table.add_section()
    means = [_change(*map(fmean, zip(*pairs, strict=True))) if pairs else "–" for pairs in columns.values()]
    table.add_row("", "mean", *means, style="bold")
    console.print()
    console.print(table)
    console.print(
        "retrieval  held-out sentences whose nearest neighbour is their translation, by the encoder\n"
        "words      held-out dictionary words likewise, each encoded alone\n"
        "bli        held-out dictionary words likewise, by static vectors, as extracted and after mapping",
        style="dim",
        highlight=False,
    )
    if (judged := done["evaluate"].place / "tasks.json").exists():
        _show_tasks(judged.read_json())


def _show_tasks(judged: dict[str, Any]) -> None:
    """The tasks that the recipe lists: the main measure of each, the mean over languages."""
    from statistics import fmean

    from rich.table import Table

    from babelray.evaluation.report_page import shown

    table = Table("task", "measure", title="Tasks, mean over languages", title_justify="left", title_style="bold")
    for name in ("languages", "before", "after", "p"):
        table.add_column(name, justify="right")
    for label, about in judged.items():
        main, kind = about["main"], about["columns"][about["main"]]
        results = about["results"]
        cells = [shown(fmean(values[main] for values in results[when].values()), kind) for when in ("before", "after")]
        p = about["p"].get("")
        sure = "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
        measure = main.replace("_", " ") + (" %" if kind == "%" else "")
        table.add_row(label, measure, str(len(results["after"])), *cells, sure)
    console.print()
    console.print(table)


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return "–"
    colour = "green" if after > before else "red" if after < before else "default"
    return f"{100 * before:4.1f} → [{colour}]{100 * after:4.1f}[/]"


@app.command()
def languages(as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False) -> None:
    """List the languages that Babelray knows."""
    from babelray.languages import LANGUAGES

    if as_json:
        typer.echo(json.dumps([language.model_dump() for language in LANGUAGES.values()], ensure_ascii=False, indent=2))
        return
    from rich.table import Table

    fields = ("code", "name", "native", "family", "script", "iso639_3", "segmenter")
    table = Table(*fields, box=None, pad_edge=False)
    for language in LANGUAGES.values():
        table.add_row(*(getattr(language, field) for field in fields))
    console.print(table)


@vectors.command()
def neighbours(
    artifact: ArtifactPath,
    language: Annotated[str, typer.Argument(metavar="LANG", help="A language code, such as de.")],
    word: Annotated[str, typer.Argument(metavar="WORD", help="A word of that language.")],
    count: Annotated[int, typer.Option(min=1, help="How many to show.")] = 10,
) -> None:
    """Show the words whose vectors are nearest to that of a word."""
    from babelray.vectors.inspect import show_neighbours

    show_neighbours(artifact, language, word, count, console)


@vectors.command()
def export(
    artifact: ArtifactPath,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder to write to; a local path or an s3:// URI.")],
    languages: Annotated[str, typer.Option(metavar="CODES", help="Only these, such as en,de.")] = "",
    ending: Annotated[
        Literal["vec", "vec.gz", "bin"], typer.Option("--format", help="The format of word2vec.")
    ] = "vec",
) -> None:
    """Write vectors as fastText, gensim and others read them: a file for each language."""
    from babelray.vectors.inspect import export

    export(artifact, out, [code.strip() for code in languages.split(",") if code.strip()], ending, console)


@transport.command("show")
def show_transport(
    encoder: Annotated[
        str, typer.Argument(metavar="ENCODER", help="A Hugging Face name, or a folder that save_pretrained made.")
    ],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="A sentence.")],
    translation: Annotated[str, typer.Argument(metavar="TRANSLATION", help="The same in another language.")],
    source: Annotated[str, typer.Option("--from", metavar="LANG", help="The language of the sentence, such as de.")],
    target: Annotated[str, typer.Option("--to", metavar="LANG", help="The language of the translation.")] = "en",
    level: Annotated[Literal["words", "subwords"], typer.Option(help="What is aligned.")] = "words",
    pooling: Annotated[
        Literal["last", "mean"], typer.Option(help="What stands for a word: its last subword, or the mean of all.")
    ] = "last",
    layer: Annotated[int, typer.Option(help="0 is the embedding layer; negative numbers count from the last.")] = -1,
    blur: Annotated[float, typer.Option(help="Finest scale of the transport, in the units of the vectors.")] = 0.05,
    p: Annotated[int, typer.Option("-p", min=1, max=2, help="Ground cost: 1 the distance, 2 half its square.")] = 2,
) -> None:
    """Show which words of a translation an encoder aligns with those of a sentence: shares in percent.

    `babelray transport show xlm-roberta-base "Die Katze schläft." "The cat sleeps." --from de`
    """
    from babelray.evaluation.soft_alignment import show, soft_alignment

    show(soft_alignment(encoder, sentence, translation, level, (source, target), layer, blur, p, pooling), console)


@app.command()
def doctor(
    storage: Annotated[str, typer.Option(help="The place whose disk or bucket is checked.")] = "runs",
) -> None:
    """Check Python, devices, Ray, DeepSpeed, disk, tracking and storage, and say what to do about what is wrong."""
    from babelray.doctor import examine

    failed = False
    for check in examine(storage):
        mark = {"ok": "[green]✓[/]", "warning": "[yellow]![/]", "error": "[red]✗[/]"}[check.state]
        console.print(f"{mark} [bold]{check.name:<10}[/] {check.found}", highlight=False, soft_wrap=True)
        if check.remedy:
            console.print(f"             {check.remedy}", highlight=False, soft_wrap=True)
        failed |= check.state == "error"
    if failed:
        raise typer.Exit(2)


@app.command()
def dashboard(
    storage: Annotated[str, typer.Option(help="The folder of the runs.")] = "runs",
    port: Annotated[int, typer.Option(help="Port on this machine.")] = 5000,
) -> None:
    """Serve the MLflow dashboard of the runs, on this machine only."""
    from babelray.tracking.tracker import serve

    serve(storage, port)


def main() -> None:
    """Run the command; errors meant for the user are shown without a traceback."""
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            errors.print("stopped; the same command goes on from here")
        sys.exit(code)
    except BabelrayError as error:
        if os.environ.get("BABELRAY_DEBUG"):
            raise
        errors.print(f"[red]error:[/] {_escape(error.problem)}", highlight=False, soft_wrap=True)
        if error.remedy:
            errors.print(f"       {_escape(error.remedy)}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except Exception as error:
        # What the command-line parser has to say; anything else is a defect and stays loud.
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()
        sys.exit(error.exit_code)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


if __name__ == "__main__":
    main()

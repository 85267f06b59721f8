"""Recipes with the mistakes of a first day: all are listed in seconds, with what to do, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from support.own_data import word_pairs, write_dictionary
from support.starter import starter_lines

QUICKSTART = Path(__file__).resolve().parents[2] / "jobs/recipes/quickstart.yaml"
Plan = Callable[..., CompletedProcess[str]]
STEP = re.compile(r"^(\w+) +([0-9a-f]{16}) +(.+?) *$", re.MULTILINE)


@pytest.fixture
def plan(cli, tmp_path: Path) -> Plan:
    """The quickstart with changes, as `--dry-run` shows it."""

    def run(*changes: str, recipe: Path = QUICKSTART) -> CompletedProcess[str]:
        process = cli("run", str(recipe), "--dry-run", f"storage={tmp_path}/runs", *changes)
        assert not (tmp_path / "runs").exists()
        return process

    return run


def refused(process: CompletedProcess[str], *texts: str) -> None:
    assert process.returncode == 2 and not process.stdout
    for text in texts:
        assert text in process.stderr, process.stderr


def steps(process: CompletedProcess[str]) -> dict[str, str]:
    """The fingerprint of each stage."""
    assert process.returncode == 0, process.stderr
    return {name: fingerprint for name, fingerprint, _ in STEP.findall(process.stdout)}


def test_the_version(cli) -> None:
    assert re.fullmatch(r"babelray \d+\.\d+\.\d+\n", cli("--version").stdout)


def test_the_quickstart_has_no_problem(plan: Plan) -> None:
    process = plan()
    assert list(steps(process)) == ["corpus", "encoder", "extract", "align", "pretrain", "evaluate", "report"]
    assert "no problem found; needs at least" in process.stdout and "of memory and" in process.stdout


def test_all_problems_are_in_one_list(plan: Plan) -> None:
    refused(
        plan("evaluate.layer=7", "languages=[en]", "pretrain.objectives.0.batch_size=100000000", "--force", "foo"),
        "problems",
        "there is no stage 'foo'",
        "the layer of benchmark retrieval: the encoder has 3 layers, there is no layer 7",
        "there is only one language",
        "pretrain needs at least",
        "Use a smaller batch_size, or `accumulate`",
    )
    refused(plan("encoder.path=/nowhere", "storage=/proc/runs"), "2 problems", "/nowhere", "cannot write /proc/runs")


MISTAKES = {
    "languages=[en, deu]": ("unknown language 'deu'", "Did you mean 'de'?"),
    "languages=[en, German]": ("unknown language 'German'", "Did you mean 'de'?"),
    "languages=[en, no]": ("languages.1", "without quotes as False: write 'no'"),
    "languages=[en, en]": ("'en' is listed twice", "once"),
    "hub=it": ("the hub 'it' is not among the languages", ""),
    "encoder.path=babelray-mni": ("there is no encoder 'babelray-mni'", "Did you mean 'babelray-mini'?"),
    "encoder.path=/etc": ("the folder /etc holds no encoder", "save_pretrained"),
    "pretrain.objectives.0.kind=mml": ("there is no objective 'mml'", "did you mean 'mlm'?"),
    "pretrain.stepz=3": ("pretrain.stepz: unknown key", "did you mean 'steps'?"),
    "pretrain.objectives.7.weight=1": ("'7' is not a position in a list of 3", "from 0 to 2"),
    "align.mapping=procrustean": ("there is no mapping method 'procrustean'", "did you mean 'procrustes'?"),
    "corpus.text=starter:text/de.txt": ("every language would be read from the same files", "{lang}"),
    "corpus.dictionary.lowercase=false": ("has no keys below it", "{path: starter:words/{lang}.txt, lowercase: …}"),
    "pretrain.steps.more=1": ("pretrain.steps is 100, which has no keys below it", "--dry-run"),
    "evaluate.benchmarks=[{benchmark: tatoeba, data: /nowhere}]": ("nothing at /nowhere", "Check the path"),
    "pretrain.precision=fp16": ("fp16 needs GPUs", ""),
}


@pytest.mark.parametrize("change", MISTAKES)
def test_a_mistake_is_named_with_its_remedy(plan: Plan, change: str) -> None:
    refused(plan(change), *MISTAKES[change])


def test_norwegian_in_a_recipe(plan: Plan, tmp_path: Path) -> None:
    text = re.sub(r"^languages: .*$", "languages: [en, no]", QUICKSTART.read_text(), flags=re.MULTILINE)
    (tmp_path / "recipe.yaml").write_text(text)
    refused(plan(recipe=tmp_path / "recipe.yaml"), "recipe.yaml: languages.1", "write 'no'")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_text_in_another_encoding(plan: Plan, tmp_path: Path, encoding: str) -> None:
    for code in ("en", "de"):
        umlauts = [line for line in starter_lines(code) if code == "en" or not line.isascii()]
        (tmp_path / f"{code}.txt").write_bytes("\n".join(umlauts).encode(encoding if code == "de" else "utf-8"))
    process = plan("languages=[en, de]", f"corpus.text={tmp_path}/{{lang}}.txt")
    refused(process, f"{tmp_path}/de.txt cannot be used: not UTF-8", "Check its encoding (UTF-8)")
    assert "en.txt" not in process.stderr


def test_dictionaries_that_cannot_be_read(plan: Plan, tmp_path: Path) -> None:
    own = ["languages=[en, de]", f"corpus.dictionary={tmp_path}/{{hub}}-{{lang}}.txt"]
    refused(plan(*own), f"no translations of language 'de' at {tmp_path}/en-de.txt")
    write_dictionary(tmp_path / "en-de.txt", word_pairs("en", "de"), separator=";")
    refused(
        plan(*own),
        "de: no pairs in",
        "separated by a comma or semicolon",
        "A line holds a word, a tab and its translation",
    )
    write_dictionary(tmp_path / "en-de.txt", word_pairs("en", "de"))
    assert plan(*own).returncode == 0


def test_keyed_files_are_not_read_by_line(plan: Plan, tmp_path: Path) -> None:
    for code in ("en", "de"):
        lines = [line for line in starter_lines(code) if line][:50]
        (tmp_path / f"{code}.tsv").write_text("".join(f"MRK:1:{i}\t{line}\n" for i, line in enumerate(lines)))
    path = f"{tmp_path}/{{lang}}.tsv"
    refused(plan("languages=[en, de]", f"corpus.parallel={path}"), "Set `layout: keyed`")
    assert plan("languages=[en, de]", f"corpus.parallel={{path: '{path}', layout: keyed}}").returncode == 0


def test_a_list_of_one_is_changed_like_a_mapping(plan: Plan) -> None:
    text = plan("corpus.text.format=paragraphs", "corpus.text.0.required=false").stdout
    assert "    format: paragraphs\n" in text and "    required: false\n" in text
    refused(plan("pretrain.objectives={kind: mlm}"), "pretrain.objectives: this is a list: write [{…}]")


def test_another_dictionary_keeps_the_encoder_and_its_vectors(plan: Plan, tmp_path: Path) -> None:
    before = steps(plan("languages=[en, de]"))
    write_dictionary(tmp_path / "en-de.txt", word_pairs("en", "de")[:100])
    after = steps(plan("languages=[en, de]", f"corpus.dictionary={tmp_path}/{{hub}}-{{lang}}.txt"))
    changed = [name for name in before if before[name] != after[name]]
    assert changed == ["corpus", "align", "pretrain", "evaluate", "report"]


def test_evaluation_reads_the_last_layer_by_default(plan: Plan, tmp_path: Path) -> None:
    text = QUICKSTART.read_text()
    (tmp_path / "recipe.yaml").write_text(text[: text.index("evaluate:")])
    default = plan("encoder.path=babelray-mini", recipe=tmp_path / "recipe.yaml")
    assert default.returncode == 0 and "\nevaluate:\n  layer: null\n" in default.stdout
    from babelray.evaluation.benchmark import open_encoder

    texts = ["Ein Hund bellt."]
    vectors = [open_encoder("babelray-mini", layer, None).encode(texts) for layer in (None, 3, 2)]
    assert vectors[0].equal(vectors[1]) and not vectors[0].equal(vectors[2])


@pytest.mark.parametrize("space", ["quickstart", "alignment"])
def test_a_first_sweep_needs_no_data(cli, tmp_path: Path, space: str) -> None:
    process = cli("sweep", f"tune/spaces/{space}.yaml", "--dry-run", f"storage={tmp_path}/runs")
    assert process.returncode == 0 and "trials to do" in process.stdout and not (tmp_path / "runs").exists()


def test_a_storage_is_named_before_or_after_no_command(cli, tmp_path: Path) -> None:
    unfinished = tmp_path / "align/0123456789abcdef.partial"
    unfinished.mkdir(parents=True)
    for arguments in (["runs", "--storage", str(tmp_path)], ["runs", "list", "--storage", str(tmp_path)]):
        assert "unfinished" in cli(*arguments).stdout
    refused(cli("runs", "--storage", str(tmp_path), "clean", "--yes"), f"babelray runs clean --storage {tmp_path}")
    refused(cli("runs", "list", "algin", "--storage", str(tmp_path)), "there is no stage 'algin'")
    assert unfinished.exists()

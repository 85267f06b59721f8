"""The README is true: its links lead somewhere, and its commands run."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from babelray.recipe.recipe import Recipe
from babelray.storage import Location
from babelray.sweeping.space import Space
from babelray.vectors.formats import write_vectors
from babelray.vectors.word_vectors import WordVectors
from conftest import ROOT

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "platform").rglob("*.md"), *(ROOT / "k8s").rglob("*.md")]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = [
    line.split("#")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", README.replace("\\\n", " "), re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


RUNNABLE = [line for line in LINES if re.match(r"babelray (?!dashboard|doctor|compare|.*--source|.*--model)", line)]
OF_FILES = [line for line in LINES if re.match("babelray .*--source", line)]
OF_ENCODERS = [line for line in LINES if re.match("babelray (compare|.*--model)", line)]


@pytest.mark.parametrize("line", RUNNABLE)
def test_babelray_commands_run(cli, line: str) -> None:
    arguments = shlex.split(line)[1:]
    if arguments[0] in ("run", "submit") and "--dry-run" not in arguments:
        arguments.append("--dry-run")  # accepted and planned; running it takes minutes
    process = cli(*arguments)
    if "FINGERPRINT" in line:
        assert "FINGERPRINT" in process.stderr, "accepted, but for the place that stands for yours"
    else:
        assert process.returncode == 0, process.stderr


def test_commands_on_two_files_run_one_after_the_other(babelray, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    space = torch.randn(100, 8, generator=generator)
    for code in ("de", "en"):
        turn = torch.linalg.qr(torch.randn(8, 8, generator=generator)).Q
        vectors = WordVectors([f"{code}{i}" for i in range(100)], space @ turn, [1] * 100)
        write_vectors(vectors, Location.parse(tmp_path / f"{code}.vec"))
    (tmp_path / "de-en.txt").write_text("".join(f"de{i} en{i}\n" for i in range(50)))
    (tmp_path / "de-en.test.txt").write_text("".join(f"de{i} en{i}\n" for i in range(50, 100)))
    assert len(OF_FILES) == 3
    for line in OF_FILES:
        process = babelray(*shlex.split(line)[1:], cwd=tmp_path)
        assert process.returncode == 0, process.stderr
        assert "100.0" in process.stdout or "--test" not in line


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", README, re.DOTALL))
def test_parts_of_recipes_are_valid(block: str) -> None:
    part = yaml.safe_load(block)
    if "parameters" in part:
        Space.model_validate(part)
        return
    quickstart = yaml.safe_load((ROOT / "jobs/recipes/quickstart.yaml").read_text(encoding="utf-8"))
    Recipe.model_validate(quickstart | part)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("make")])
def test_make_targets_exist(line: str) -> None:
    assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("ray job submit")])
def test_job_scripts_and_recipes_exist(line: str) -> None:
    named = re.findall(r"jobs/\S+", line)
    assert named and all((ROOT / name).exists() for name in named)


def test_every_verb_is_in_the_readme_and_has_a_job_script(babelray) -> None:
    for stage in ("corpus", "encoder", "extract", "align", "expose", "stitch", "map", "pretrain", "evaluate", "report"):
        assert f"`babelray {stage} RECIPE`" in README
        assert (ROOT / "jobs" / f"{stage}.py").exists()


def test_commands_that_judge_encoders_run_one_after_the_other(babelray, tiny_encoder: str, tmp_path: Path) -> None:
    for code in ("de", "en"):
        (tmp_path / f"de-en.{code}").write_text("the cat\na dog\nmy garden\n")
    assert len(OF_ENCODERS) == 4
    said = []
    for line in OF_ENCODERS:
        if "a-third" in line:
            shutil.copytree(tmp_path / "after", tmp_path / "a-third")
        known = line.replace("--model DIR", f"--model {tiny_encoder}").replace("--data DIR", f"--data {tmp_path}")
        process = babelray(*shlex.split(known)[1:], cwd=tmp_path)
        assert process.returncode == 0, process.stderr
        said.append(process.stdout)
    assert "difference" in said[2] and "●" in said[3]

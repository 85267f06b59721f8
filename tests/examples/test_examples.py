"""The examples run, in an empty folder, with what is shipped and without network. Gains are not asserted: the data are
small, and the encoder that is shipped may change."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from support.notebook import code_cells

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
EXPECTED = {
    "align_encoder": (r"retrieval", r"The encoder is in .*/runs/pretrain/\w+/encoder"),
    "align_words": (r"as they are +P@1 +\d", r"vecmap +P@1 +\d.*words tested", r"\[\('\w+', 0\.\d+\)"),
    "evaluate": (r"tatoeba: babelray-mini", r"mean +\d+\.\d +\d+\.\d +-?\d+\.\d +(< )?\d\.\d{3}"),
    "recipes": (r"retrieval", r"\[True, True, True\]", r"'report': '.*\.html'|\.html"),
    "sentences": (r"'(right|wrong)'\)\]", r"<td>Kinder</td>", r"0-0", r"<td>de</td>"),
    "train_encoder": (r"step 30  loss \d", r"de +\d+\.\d% +\d+\.\d%", r"The encoder is in trained-encoder"),
    "word_alignment": (r"argmax\n +\d-\d.* \w+=\w+", r"itermax", r"divergence \d"),
    "word_vectors": (r"Encoder\('babelray-mini'", r"\(320, 80\)", r"P@1 %", r"True"),
}
"""What each prints, whatever the encoder."""


def run(path: Path, folder: Path) -> str:
    """Run an example in a folder as a user would, without network."""
    program = [str(path)] if path.suffix == ".py" else [str(ROOT / "tests/support/notebook.py"), str(path)]
    process = subprocess.run(
        [sys.executable, "-W", "ignore", *program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "platform"), "COLUMNS": "140"},
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", [*SCRIPTS, *NOTEBOOKS], ids=lambda path: path.stem)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    output = run(path, tmp_path)
    for pattern in EXPECTED[path.stem]:
        assert re.search(pattern, output), f"{pattern}:\n{output}"


@pytest.mark.slow
def test_what_examples_write_can_be_loaded(tmp_path: Path) -> None:
    import babelray as br

    run(EXAMPLES / "align_words.py", tmp_path)
    run(EXAMPLES / "train_encoder.py", tmp_path)
    (aligned,) = tmp_path.glob("aligned-*")
    mapping = br.load_mapping(aligned / "mapping/source")
    encoder = br.load_encoder(tmp_path / "trained-encoder")
    assert mapping(encoder.encode_words(["hund"])).shape == (1, 256)
    vectors = [str(aligned / "source.vec"), str(aligned / "target.vec")]
    (tmp_path / "pairs.txt").write_text("familie family\nmutter mother\nvater father\nbruder brother\nhund dog\n")
    own = [*vectors, "pairs.txt", "pairs.txt"]
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / "align_words.py"), *own]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform")}
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
    assert process.returncode == 0 and "5 words tested" in process.stdout, process.stderr


def test_all_examples_are_tested() -> None:
    assert EXPECTED.keys() == {path.stem for path in (*SCRIPTS, *NOTEBOOKS)}
    assert len(SCRIPTS) == 5 and len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_says_what_it_does_and_how_long_it_takes(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    docstring = ast.get_docstring(module) or ""
    assert f"python examples/{path.name}" in docstring and re.search(r"\d+ s\b|minutes", docstring)
    assert only_public(module), "an example uses what `import babelray` offers"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_has_no_stored_figures(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    identities = [cell["id"] for cell in content["cells"]]
    assert len({*identities}) == len(identities) and all(re.fullmatch(r"[\w-]{1,64}", name) for name in identities)
    assert content["cells"][0]["cell_type"] == "markdown", "the title"
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
    assert all(only_public(ast.parse(source)) for source in code_cells(path))


def only_public(module: ast.Module) -> bool:
    """Whether nothing of the package is imported but its public names."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("babelray"):
            return False
        if isinstance(node, ast.Import) and any(alias.name.startswith("babelray.") for alias in node.names):
            return False
    return True

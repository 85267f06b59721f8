"""A component is one file: put into the package, it is in the help, in the list of components and in recipes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.layers import PACKAGE
from support.small_recipe import small_recipe, write_recipe

OBJECTIVE = '''
from typing import ClassVar, Literal

from babelray.objectives.objective import OBJECTIVES, ObjectiveConfig


@OBJECTIVES.register
class ToyConfig(ObjectiveConfig):
    """Toys are predicted."""

    title: ClassVar[str] = "Toys"
    needs: ClassVar[tuple[str, ...]] = ("text",)
    kind: Literal["toy-objective"] = "toy-objective"
    batch_size: int = 4

    def build(self, training_data): ...
'''
MAPPING = '''
from typing import Literal

from babelray.mapping.method import MAPPING_METHODS, MappingMethod


@MAPPING_METHODS.register
class ToyConfig(MappingMethod):
    """Toys are mapped."""

    method: Literal["toy-mapping"] = "toy-mapping"
    strength: float = 1.0

    def fit(self, source_ND, target_MD, dictionary, seed, notify): ...
'''
BENCHMARK = '''
from typing import ClassVar, Literal

from babelray.evaluation.benchmark import BENCHMARKS, Benchmark


@BENCHMARKS.register
class Toy(Benchmark):
    """Share of toys that are found."""

    title: ClassVar[str] = "Toys"
    main_metric: ClassVar[str] = "share"
    columns: ClassVar[dict[str, str]] = {"share": "%"}
    benchmark: Literal["toy-benchmark"] = "toy-benchmark"

    def score(self, system): ...
'''
FILES = {"objectives": OBJECTIVE, "mapping": MAPPING, "evaluation": BENCHMARK}


@pytest.mark.integration
def test_one_file_adds_a_component_everywhere(tmp_path: Path) -> None:
    package = tmp_path / "platform" / "babelray"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("mini", "__pycache__"))
    for folder, text in FILES.items():
        (package / folder / "toy.py").write_text(text)

    def command(*arguments: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(package.parent), "COLUMNS": "200"}
        process = subprocess.run(
            [sys.executable, "-m", "babelray.commands.app", *arguments], env=environment, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    components = command("components")
    assert all(text in components for text in ("Toys are predicted", "Toys are mapped", "Share of toys that are found"))
    assert "toy-mapping" in command("align", "--help") and "toy-benchmark" in command("evaluate", "--help")
    recipe = small_recipe(tmp_path, align={"mapping": "toy-mapping"}, evaluate={"benchmarks": ["toy-benchmark"]})
    path = write_recipe(tmp_path / "recipe.yaml", recipe)
    plan = command("run", str(path), "--dry-run", "pretrain.objectives=[toy-objective]", "align.mapping.strength=3")
    assert all(text in plan for text in ("kind: toy-objective", "strength: 3.0", "benchmark: toy-benchmark"))

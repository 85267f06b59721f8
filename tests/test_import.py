import subprocess
import sys

from conftest import ROOT


def loaded_by(code: str, limit: float = 1.0) -> set[str]:
    """The modules that it loads, in a second at the most; the best of three, since the first may find cold caches."""
    script = f"import sys, time; start = time.process_time(); {code}; print(time.process_time() - start, *sys.modules)"
    command, environment = [sys.executable, "-c", script], {"PYTHONPATH": f"{ROOT}/platform"}
    runs = [subprocess.check_output(command, text=True, env=environment).split() for _ in range(3)]
    assert min(float(seconds) for seconds, *_ in runs) < limit, "the target is 0.5 s; a slow machine gets some room"
    return set(runs[0][1:])


def test_import_is_light() -> None:
    heavy = {"torch", "ray", "mlflow", "transformers", "numpy", "pydantic", "pandas"}
    assert not heavy & loaded_by("import babelray", limit=0.5)


def test_names_are_loaded_when_they_are_used() -> None:
    loaded = loaded_by("import babelray; dir(babelray); babelray.__all__; babelray.BabelrayError")
    assert not {name for name in loaded if name.startswith("babelray.api")}
    loaded = loaded_by("import babelray; babelray.load_vectors; babelray.align", limit=60)
    assert "babelray.api.alignment" in loaded and not {"ray", "mlflow", "deepspeed", "boto3", "matplotlib"} & loaded


def test_the_command_and_the_recipe_are_light() -> None:
    heavy = {"torch", "ray", "mlflow", "transformers", "deepspeed", "boto3", "matplotlib"}
    assert not heavy & loaded_by("import babelray.commands.app, babelray.recipe.recipe, babelray.pipeline.execution")


def test_platform_is_no_package() -> None:
    """A package called `platform` would shadow Python's own module and break torch."""
    assert not (ROOT / "platform" / "__init__.py").exists()

"""Copies the shipped recipes and sweep spaces into the wheel; everything else is in pyproject.toml.

They are edited in `jobs/recipes` and `tune/spaces`, where an editable installation reads them: see
`babelray.recipe.shipped`.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = {"jobs/recipes": "babelray/shipped/recipes", "tune/spaces": "babelray/shipped/spaces"}


class BuildWithShippedFiles(build_py):
    """Builds the package with copies of the YAML files."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for source, copy in self._copies().items():
                self.mkpath(str(Path(copy).parent))
                self.copy_file(source, copy)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *self._copies().values()]

    def _copies(self) -> dict[str, str]:
        return {
            str(file): str(Path(self.build_lib, folder, file.name))
            for source, folder in SHIPPED.items()
            for file in sorted(Path(source).glob("*.yaml"))
        }


setup(cmdclass={"build_py": BuildWithShippedFiles})

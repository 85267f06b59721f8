"""The layers of the package, what violates them, and a picture of the imports between packages.

`python tests/support/layers.py` prints the violations and writes the picture into CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "platform/babelray"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"

FOUNDATION = ("version", "errors", "packages", "config", "languages", "registry")
"""Modules of the lowest layer that every other may import; of these, each only those before it."""
LAYERS: tuple[tuple[str, ...], ...] = (
    (*FOUNDATION, "storage", "cluster"),
    ("text", "lexicon", "vectors", "tracking"),
    ("encoder", "metrics"),
    ("mapping", "objectives", "extraction", "simulation"),
    ("training", "models", "stitching"),
    ("evaluation", "report"),
    ("recipe",),
    ("pipeline", "stages"),
    ("sweeping",),
    ("losses", "api", "commands", "__init__", "__main__"),
)
"""From the lowest to the highest. A package imports packages of lower layers only."""
INSIDE_A_LAYER = (
    ("pipeline", "stages"),
    ("losses", "api", "__init__"),
    ("api", "commands", "__main__"),
)
"""Packages of one layer of which each may import those before it."""
ALGORITHMS = ("vectors", "mapping", "objectives", "stitching", "simulation", "metrics")
"""Packages that work in a notebook, without a cluster, a tracking server or a bucket."""
INFRASTRUCTURE = ("ray", "mlflow", "boto3")
BEGIN, END = "<!-- import graph: python tests/support/layers.py -->", "<!-- end of the import graph -->"


class Import(NamedTuple):
    """One import statement: a module that a file imports, at a line."""

    file: Path
    line: int
    module: str

    @property
    def importer(self) -> str:
        """The package, or the module beside the packages, that the file is in."""
        return self.file.relative_to(PACKAGE).parts[0].removesuffix(".py")

    @property
    def imported(self) -> str:
        """The same of the imported module; empty for one from elsewhere."""
        name, _, below = self.module.partition(".")
        return "" if name != PACKAGE.name else below.split(".")[0] or "__init__"

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.importer} imports {self.module}"


def imports(package: Path = PACKAGE) -> Iterator[Import]:
    """Every import: at module level, inside functions, and under TYPE_CHECKING."""
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (Import(file, node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE.name:
                yield from (Import(file, node.lineno, _of_the_package(alias.name)) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield Import(file, node.lineno, node.module or "." * node.level)


def _of_the_package(name: str) -> str:
    is_module = (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()
    return f"{PACKAGE.name}.{name}" if is_module else PACKAGE.name


def violations(statements: Sequence[Import]) -> list[str]:
    """Every import that does not lead to a lower layer."""
    return [f"{one} ({reason})" for one in statements if (reason := _reason(one))]


def _reason(one: Import) -> str:
    """Why an import is not allowed; empty if it is."""
    importer, imported = one.importer, one.imported
    if one.module.startswith("."):
        return "imports are absolute"
    if importer in ALGORITHMS and one.module.split(".")[0] in INFRASTRUCTURE:
        return "algorithms work without it"
    if not imported or importer == imported:
        return ""
    for name in (importer, imported):
        if not any(name in layer for layer in LAYERS):
            return f"{name} is in no layer"
    upper, lower = _layer(importer), _layer(imported)
    if upper > lower or _comes_before(imported, importer):
        return ""
    return f"layer {upper} imports layer {lower}"


def _layer(name: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if name in layer)


def _comes_before(imported: str, importer: str) -> bool:
    """Whether an import inside a layer is allowed by an explicit order."""
    if imported in FOUNDATION:
        return importer not in FOUNDATION or FOUNDATION.index(imported) < FOUNDATION.index(importer)
    orders = [order for order in INSIDE_A_LAYER if imported in order and importer in order]
    return any(order.index(imported) < order.index(importer) for order in orders)


def figure(statements: Sequence[Import]) -> str:
    """The packages in their layers as a Mermaid graph; imports that follow from others are left out."""
    packages = [name for layer in LAYERS for name in layer if name not in (*FOUNDATION, "__init__", "__main__")]
    edges = {(one.importer, one.imported) for one in statements if one.importer != one.imported}
    edges = {edge for edge in edges if {*edge} <= {*packages}}
    lines = ["```mermaid", "graph TD"]
    for number, layer in reversed([*enumerate(LAYERS)]):
        names = [name for name in layer if name in packages]
        lines += [f'  subgraph layer{number}["layer {number}"]', *(f"    {name}" for name in names), "  end"]
    lines += [f"  {importer} --> {imported}" for importer, imported in sorted(_reduced(edges))]
    return "\n".join([*lines, "```"])


def _reduced(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges without those that a longer path makes redundant."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [b for a, b in edges if a == start]
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                waiting += [b for a, b in edges if a == name]
        return seen

    below = {name: reachable(name) for edge in edges for name in edge}
    return {(a, b) for a, b in edges if not any(b in below[c] for x, c in edges if x == a and c != b)}


def documented_figure() -> str:
    """The picture that CONTRIBUTING.md holds."""
    match = re.search(f"{re.escape(BEGIN)}\n(.*?)\n{re.escape(END)}", CONTRIBUTING.read_text(), re.DOTALL)
    return match[1] if match else ""


def main() -> None:
    statements = [*imports()]
    print("\n".join(violations(statements)) or "no violations")
    before, _, rest = CONTRIBUTING.read_text().partition(BEGIN)
    CONTRIBUTING.write_text(f"{before}{BEGIN}\n{figure(statements)}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()

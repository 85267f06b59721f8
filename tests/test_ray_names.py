"""What Babelray uses of Ray that is not public is listed in CONTRIBUTING.md, and Ray's version is pinned tightly."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

from conftest import ROOT
from support.layers import PACKAGE

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def names(tree: ast.AST) -> Iterator[str]:
    """The names of Ray that a module imports or reads, with their modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+", node.value):
            yield node.value


def is_private(name: str) -> bool:
    first, *below = name.split(".")
    return first == "ray" and any(part.startswith("_") or re.fullmatch(r"v\d", part) for part in below)


def test_private_names_are_listed() -> None:
    used = {
        (file.relative_to(PACKAGE).as_posix(), name)
        for file in PACKAGE.rglob("*.py")
        for name in names(ast.parse(file.read_text(encoding="utf-8")))
        if is_private(name)
    }
    rows = re.findall(r"^\| (`\w+/\w+\.py`.*?) \| (.*?) \|", TEXT, re.MULTILINE)
    listed = {
        (file, name)
        for files, text in rows
        for file in re.findall(r"`([^`]+)`", files)
        for name in re.findall(r"`([^`]+)`", text)
        if is_private(name)
    }
    assert used == listed and used


def test_listed_files_and_variables_are_used() -> None:
    for files, text in re.findall(r"^\| (`\w+/\w+\.py`.*?) \| (.*?) \|", TEXT, re.MULTILINE):
        for file in re.findall(r"`([^`]+)`", files):
            code = (PACKAGE / file).read_text(encoding="utf-8")
            assert all(name.rpartition(".")[2] in code for name in re.findall(r"`([\w.]+)`", text)), file


def test_private_names_are_recognised() -> None:
    code = "from ray._private import a\nimport ray.train.v2.api\nray.util._b()\nimport ray.data\nx = 'ray._c.d e'"
    found = {name for name in names(ast.parse(code)) if is_private(name)}
    assert found == {"ray._private.a", "ray.train.v2.api", "ray.util._b"}


def test_ray_is_pinned_to_a_minor_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (ray,) = (line for line in project["dependencies"] if line.startswith("ray"))
    pinned = re.search(r"^ray==(\d+\.\d+)\.\d+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned and ray.endswith(f"~={pinned[1]}.0") and f"(`~={pinned[1]}.0`)" in TEXT

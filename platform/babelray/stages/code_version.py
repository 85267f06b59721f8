"""Which code makes an artifact: a digest of the modules that a stage can reach through its imports.

Comments, docstrings and type-only imports do not count, and neither do modules that the stage cannot
reach: a change of the report does not throw away a trained encoder.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def code_version(module: str) -> str:
    """Twelve hexadecimal digits for `module` and every module of Babelray that it imports, directly or not."""
    digest = hashlib.sha256()
    for name in sorted(reachable(module)):
        digest.update(name.encode())
        digest.update(_content(_file(name)).encode())
    return digest.hexdigest()[:12]


def reachable(module: str) -> set[str]:
    """The modules of Babelray that importing and running `module` can load."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _imports(name)
    return seen


@functools.cache
def _file(module: str) -> Path | None:
    base = ROOT.parent.joinpath(*module.split("."))
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


@functools.cache
def _imports(module: str) -> tuple[str, ...]:
    found: list[str] = []
    for node in _running_code(_tree(_file(module))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
            found.append(node.module)
    parents = [name.rpartition(".")[0] for name in (module, *found)]
    inside = (name for name in (*found, *parents) if name.split(".")[0] == ROOT.name)
    return tuple(sorted({name for name in inside if _file(name)}))


def _running_code(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from _running_code(child)


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _content(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [
                statement
                for statement in node.body
                if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
            ]
    return ast.dump(tree)

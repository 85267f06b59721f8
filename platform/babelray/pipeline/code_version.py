"""Which code makes an artifact: a digest of the modules that a stage can reach through its imports.

Components that a recipe chooses from a registry (objectives, mapping methods, benchmarks) count if the stage's settings
hold them. Comments, docstrings and type-only imports do not count, nor does what only prints (a stage's `summary`, and
functions that return its tables or cells) or checks (`ADVISORY`), nor modules that the
stage cannot reach: a change of a page, of a table in the terminal or of another mapping method invalidates no trained
encoder.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from babelray.config import Config

ADVISORY = ("summary", "check", "demand", "encoder_shape", "parts", "reads")
"""Methods of a stage that print, check or say what it depends on."""
ROOT = Path(__file__).resolve().parents[1]


def code_version(module: str, settings: Config | None = None) -> str:
    """Twelve hexadecimal digits for a stage's module, its components, and every module that these import."""
    digest = hashlib.sha256()
    for name in sorted(reachable(module, *_component_modules(settings))):
        digest.update(name.encode())
        digest.update(_content(_file(name)).encode())
    return digest.hexdigest()[:12]


def _component_modules(value: Any) -> set[str]:
    """The modules of all configs in a value, at any depth."""
    from babelray.config import Config

    if isinstance(value, Config):
        below = [getattr(value, name) for name in type(value).model_fields]
        own = {type(value).__module__} if _file(type(value).__module__) else set()
        return own.union(*map(_component_modules, below))
    if isinstance(value, dict):
        return set().union(*map(_component_modules, value.values()))
    return set().union(*map(_component_modules, value)) if isinstance(value, list | tuple) else set()


def reachable(*modules: str) -> set[str]:
    """The modules of Babelray that importing and running some modules can load."""
    seen: set[str] = set()
    waiting = [*modules]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _imports(name)
    return seen


@functools.cache
def _file(module: str) -> Path | None:
    """The source of a module of Babelray, or of one that extends it and is loaded."""
    if module.split(".")[0] != ROOT.name:
        source = getattr(sys.modules.get(module), "__file__", None)
        return Path(source) if source else None
    base = ROOT.parent.joinpath(*module.split("."))
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


@functools.cache
def _imports(module: str) -> tuple[str, ...]:
    names: list[str] = []
    for node in ast.walk(_code(_file(module))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
            names.append(node.module)
    parents = [name.rpartition(".")[0] for name in (module, *names)]
    inside = (name for name in (*names, *parents) if name.split(".")[0] == ROOT.name)  # no other package is followed
    return tuple(sorted({name for name in inside if _file(name)}))


@functools.cache
def _content(path: Path) -> str:
    return ast.dump(_code(path))


@functools.cache
def _code(path: Path) -> ast.Module:
    """The statements that can change a result: without docstrings, type-only imports and summaries of stages."""
    tree: ast.Module = _ComputingCode().visit(ast.parse(path.read_text(encoding="utf-8")))
    return tree


class _ComputingCode(ast.NodeTransformer):
    """Drops what does not compute."""

    def __init__(self) -> None:
        self.summary_types: set[str] = set()
        self.summaries: list[ast.AST] = []

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.summary_types = _summary_types(node)
        self.generic_visit(node)
        if self.summaries:
            only_summarised = set.union(*map(_names, self.summaries)) - _names(node)
            node.body = [used for statement in node.body if (used := _without(statement, only_summarised))]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        summary = _summary_of(node)
        self.summaries += summary
        node.body = [statement for statement in node.body if statement not in summary]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        if node.returns is not None and self.summary_types & _names(node.returns):
            self.summaries.append(node)
            return None
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test).endswith("TYPE_CHECKING") else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def _summary_types(module: ast.Module) -> set[str]:
    """The parts of a summary, such as tables, that a module imports: functions that return them only print."""
    return {
        alias.asname or alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module == f"{ROOT.name}.pipeline.summary"
        for alias in node.names
    }


def _summary_of(node: ast.ClassDef) -> list[ast.stmt]:
    """The methods of a stage that compute nothing of its artifact."""
    bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
    if "Stage" not in {node.name, *bases}:
        return []
    return [method for method in node.body if isinstance(method, ast.FunctionDef) and method.name in ADVISORY]


def _names(tree: ast.AST) -> set[str]:
    """The names that some code reads."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _without(statement: ast.stmt, names: set[str]) -> ast.stmt | None:
    """A statement, without the imports of some names; None if nothing is left."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return statement
    statement.names = [alias for alias in statement.names if (alias.asname or alias.name) not in names]
    return statement if statement.names else None

"""The public names of `babelray`: one list, lazy, documented, and changed only with an entry in CHANGELOG.md."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import types

import pytest

import babelray
from conftest import ROOT
from support.layers import PACKAGE

FUNCTIONS = [name for name in babelray.__all__ if inspect.isfunction(getattr(babelray, name))]
CLASSES = [name for name in babelray.__all__ if inspect.isclass(getattr(babelray, name))]


def test_a_change_of_the_names_is_in_the_changelog() -> None:
    """The entries "Python API: added …: …" and "Python API: removed …: …", from the oldest on, give the list."""
    text = re.sub(r"\n  +", " ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    names = {"__version__"}
    for action, listed in reversed(re.findall(r"^- Python API: (added|removed) (.*)$", text, re.MULTILINE)):
        entry = set(re.findall(r"`([\w.]+)`", listed.partition(":")[0]))
        names = names | entry if action == "added" else names - entry
    public = {*babelray.__all__} | {f"losses.{name}" for name in babelray.losses.__all__}
    assert names == public, "add a line to CHANGELOG.md: `- Python API: added `name`: what it does`"


def test_every_name_is_there_and_listed() -> None:
    assert babelray.__all__ == sorted(babelray.__all__) and len({*babelray.__all__}) == len(babelray.__all__)
    assert {*babelray.__all__} <= {*dir(babelray)}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = babelray.nothing


def test_types_are_known_where_names_are_lazy() -> None:
    """What type checkers and editors see is what is loaded."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: f"{node.module}.{alias.name}" if node.module == "babelray" else node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: f"babelray.{module}" for name, module in babelray._MODULES.items()}
    assert {*seen, "BabelrayError", "__version__"} == {*babelray.__all__}
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_documented_with_an_example(name: str) -> None:
    function = getattr(babelray, name)
    docstring = inspect.getdoc(function) or ""
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"^    \*{{0,2}}{parameter}: ", docstring, re.MULTILINE), f"{name}: {parameter}"
    assert "Returns:" in docstring
    examples = doctest.DocTestParser().get_examples(docstring)
    assert any(f"{name}(" in example.source for example in examples)
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_and_its_public_methods_say_what_they_are(name: str) -> None:
    kind = getattr(babelray, name)
    assert inspect.getdoc(kind)
    own = {
        attribute: value
        for base in kind.__mro__
        if base.__module__.startswith("babelray")
        for attribute, value in vars(base).items()
    }
    for attribute, value in own.items():
        if isinstance(value, types.FunctionType) and not attribute.startswith("_") and attribute != "table":
            assert inspect.getdoc(value), f"{name}.{attribute}"

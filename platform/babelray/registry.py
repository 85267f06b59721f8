"""Registries: the points at which Babelray is extended.

A component is a class that registers itself. The recipe, the command, its help, pages and documentation read the
registry, so that a new component is one file and nothing else changes:

    @OBJECTIVES.register
    class MyObjectiveConfig(ObjectiveConfig):
        kind: Literal["mine"] = "mine"
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

T = TypeVar("T")
REGISTRIES: list[Registry[Any]] = []
"""The registries of components that recipes choose."""


class Registry(Mapping[str, type[T]], Generic[T]):
    """The classes of one kind of component, by name.

    `tag` is the field or class attribute that holds a component's name, and the recipe key that chooses one. Modules of
    `package` that register a component are imported when the registry is first read, and no others.
    `in_recipes`: whether recipes choose components by the tag.

    >>> class Shape(BaseModel):
    ...     kind: str
    >>> shapes = Registry[Shape]("SHAPES", "shape", "kind")
    >>> @shapes.register
    ... class Circle(Shape):
    ...     kind: str = "circle"
    ...     radius: float = 1.0
    >>> shapes.parse({"kind": "circle", "radius": 2})
    Circle(kind='circle', radius=2.0)
    >>> shapes.parse({"kind": "circel"})
    Traceback (most recent call last):
    ...
    ValueError: kind: there is no shape 'circel'; did you mean 'circle'?
    """

    def __init__(
        self, variable: str, noun: str, tag: str, package: str = "", default: str = "", in_recipes: bool = True
    ) -> None:
        self.noun, self.tag, self.default = noun, tag, default
        self._mark = f"@{variable}.register"
        self._package = package
        self._classes: dict[str, type[T]] = {}
        self._discovered = not package
        if package and in_recipes:
            REGISTRIES.append(self)

    def register(self, component: type[T]) -> type[T]:
        """Add a class; a decorator."""
        name = self.name_of(component)
        taken = self._classes.get(name)
        if taken is not None and taken.__qualname__ != component.__qualname__:
            raise ValueError(f"there are two of the {self.noun} {name!r}: {taken.__module__}, {component.__module__}")
        self._classes[name] = component
        return component

    def remove(self, name: str) -> None:
        """Unregister a class; for tests."""
        del self._classes[name]

    def name_of(self, component: type[T]) -> str:
        if issubclass(component, BaseModel):
            return component.model_fields[self.tag].default
        return getattr(component, self.tag)

    def parse(self, value: Any) -> Any:
        """The component that a recipe describes by a mapping, or by its name alone; a component stays as it is."""
        if isinstance(value, str):
            value = {self.tag: value}
        if not isinstance(value, Mapping):
            if isinstance(value, tuple(self.values())):
                return value
            raise ValueError(f"write the {self.noun} as a mapping of keys to values, with `{self.tag}`")
        name = value.get(self.tag, self.default)
        if not name:
            raise ValueError(f"{self.tag}: this key is required; known: {', '.join(self)}")
        component: Any = self.find(str(name))
        return component.model_validate(value)

    def find(self, name: str) -> type[T]:
        """The class of a name; for an unknown one an error that suggests the nearest."""
        if name in self:
            return self[name]
        near = difflib.get_close_matches(name, self, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(self)}"
        raise ValueError(f"{self.tag}: there is no {self.noun} {name!r}; {hint}")

    def __getitem__(self, name: str) -> type[T]:
        self._discover()
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(self._classes))

    def __len__(self) -> int:
        self._discover()
        return len(self._classes)

    def _discover(self) -> None:
        """Import the modules of the package that register something."""
        if self._discovered:
            return
        self._discovered = True
        for folder in getattr(importlib.import_module(self._package), "__path__", []):
            for file in sorted(Path(folder).glob("*.py")):
                if self._mark in file.read_text(encoding="utf-8"):
                    importlib.import_module(f"{self._package}.{file.stem}")

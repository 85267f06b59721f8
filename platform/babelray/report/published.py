"""Figures that papers published, to show beside ours: read from `published.yaml`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FIGURES = Path(__file__).with_name("published.yaml")


@dataclass(frozen=True)
class Paper:
    """Who measured, and with what."""

    authors: str
    year: int
    title: str
    trained: str
    """What the systems were trained on."""

    @property
    def short(self) -> str:
        return f"{self.authors} ({self.year})"


@dataclass(frozen=True)
class Published:
    """One figure of one table."""

    benchmark: str
    """The benchmark that measures the same."""
    paper: Paper
    table: str
    data: str
    languages: str
    encoder: str
    metric: str
    """Per cent, unless it says otherwise."""
    system: str
    printed: str
    """The figure as it is printed there."""

    @property
    def value(self) -> float:
        return float(self.printed)


@functools.cache
def read_papers() -> dict[str, Paper]:
    """The papers by name of their first author."""
    return {name: Paper(**about) for name, about in _content()["papers"].items()}


@functools.cache
def read_published() -> tuple[Published, ...]:
    """All figures."""
    papers = read_papers()
    figures = []
    for entry in _content()["tables"]:
        about = {**entry, "paper": papers[entry["paper"]]}
        scores = about.pop("scores")
        figures += [Published(**about, system=system, printed=printed) for printed, system in scores]
    return tuple(figures)


def published(benchmark: str) -> list[Published]:
    """The figures of a benchmark."""
    return [figure for figure in read_published() if figure.benchmark == benchmark]


@functools.cache
def _content() -> dict[str, Any]:
    return yaml.safe_load(FIGURES.read_text(encoding="utf-8"))

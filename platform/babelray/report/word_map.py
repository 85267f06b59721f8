"""A map of words: points of several languages in two dimensions, translations joined by lines. SVG, with tooltips."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from babelray.metrics.closeness import Point, closeness

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
"""Okabe and Ito: colour-blind readers can distinguish them; each language has its own marker too."""
MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M0-4.8l4.6 8h-9.2z",
    "M0-5.2l4.4 5.2l-4.4 5.2l-4.4-5.2z",
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "M0 4.8l4.6-8h-9.2z",
    "M0-5l1.4 3.1 3.4.4-2.5 2.3.7 3.4-3-1.7-3 1.7.7-3.4-2.5-2.3 3.4-.4z",
)
WIDTH, HEIGHT, ROW, EDGE, LETTER = 480, 400, 20, 34, 6.2
"""The map's size, a row of the legend, what stays empty around the points, and the width of a letter, in pixels."""


@dataclass(frozen=True)
class Box:
    """Where a label stands."""

    left: float
    top: float
    width: float
    height: float = 12.0

    def meets(self, other: Box) -> bool:
        across = self.left < other.left + other.width and other.left < self.left + self.width
        return across and self.top < other.top + other.height and other.top < self.top + self.height

    def inside(self) -> bool:
        return self.left >= 0 and self.left + self.width <= WIDTH and self.top >= 0 and self.top + self.height <= HEIGHT


def word_map(points: Sequence[Point], names: Mapping[str, str], labelled: Sequence[int], title: str) -> str:
    """The map of `{language, concept, word, x, y}`; those of `labelled` concepts are written out if there is room.

    Both directions have one scale. `names`: of the languages, in the order of the legend.
    """
    styles = {code: (COLOURS[i % 7], MARKERS[(i + i // 7) % 7]) for i, code in enumerate(names)}
    placed = [(point, *place) for point, place in zip(points, _fitted(points), strict=True)]
    marks = [
        f"{_mark(*styles[point['language']], x, y)}"
        f"<title>{html.escape(point['word'])} ({html.escape(names[point['language']])})</title></path>"
        for point, x, y in placed
    ]
    rows = -(-len(names) // 4)
    legend = [
        f"{_mark(*style, 12 + 118 * (i % 4), HEIGHT + 14 + ROW * (i // 4))}</path>"
        f'<text x="{22 + 118 * (i % 4)}" y="{HEIGHT + 18 + ROW * (i // 4)}">{html.escape(names[code])}</text>'
        for i, (code, style) in enumerate(styles.items())
    ]
    description = f"{title}: {len(points)} words of {len(names)} languages. {describe_closeness(closeness(points))}"
    return (
        f'<svg role="img" aria-label="{html.escape(description)}" viewBox="0 0 {WIDTH} {HEIGHT + 8 + ROW * rows}" '
        'font-family="DejaVu Sans, Noto Sans, sans-serif" font-size="11.5" fill="#1b1f24">'
        f'<g stroke="#1b1f24">{"".join(_lines(placed, labelled))}</g>'
        f'<g stroke="#ffffff" stroke-width=".6">{"".join(marks)}</g>'
        f'<g stroke="#ffffff" stroke-width="3" stroke-linejoin="round" paint-order="stroke">'
        f"{''.join(_labels(placed, labelled))}</g>{''.join(legend)}</svg>"
    )


def _mark(colour: str, shape: str, x: float, y: float) -> str:
    return f'<path d="{shape}" transform="translate({x:.1f} {y:.1f})" fill="{colour}">'


def describe_closeness(share: float) -> str:
    if math.isnan(share):
        return ""
    return f"Translations lie {share:.2f} times as far apart as any two words of different languages."


def spread_out(points: Sequence[Point], count: int) -> list[int]:
    """Concepts that lie far from each other: each next one is the farthest from those chosen, by their means."""
    means = {}
    for concept in dict.fromkeys(point["concept"] for point in points):
        own = [point for point in points if point["concept"] == concept]
        means[concept] = fmean(p["x"] for p in own), fmean(p["y"] for p in own)
    chosen: list[int] = []
    while len(chosen) < min(count, len(means)):
        middle = [means[concept] for concept in chosen] or [(0.0, 0.0)]
        left = [concept for concept in means if concept not in chosen]
        chosen.append(max(left, key=lambda concept: min(math.dist(means[concept], other) for other in middle)))
    return chosen


def _fitted(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Places in pixels: y upwards, one scale, in the middle."""
    left, right = min(p["x"] for p in points), max(p["x"] for p in points)
    low, high = min(p["y"] for p in points), max(p["y"] for p in points)
    scale = min((WIDTH - 2 * EDGE) / max(right - left, 1e-9), (HEIGHT - 2 * EDGE) / max(high - low, 1e-9))
    return [
        (WIDTH / 2 + scale * (p["x"] - (left + right) / 2), HEIGHT / 2 - scale * (p["y"] - (low + high) / 2))
        for p in points
    ]


def _lines(placed: Sequence[tuple[Point, float, float]], labelled: Sequence[int]) -> Iterator[str]:
    """From the first language's word to its translations."""
    first: dict[int, tuple[float, float]] = {}
    for point, x, y in placed:
        if point["concept"] not in first:
            first[point["concept"]] = x, y
            continue
        x0, y0 = first[point["concept"]]
        opacity = 0.5 if point["concept"] in labelled else 0.14
        yield f'<path d="M{x0:.1f} {y0:.1f}L{x:.1f} {y:.1f}" stroke-width=".8" opacity="{opacity}"/>'


def _labels(placed: Sequence[tuple[Point, float, float]], labelled: Sequence[int]) -> Iterator[str]:
    taken: list[Box] = []
    for point, x, y in placed:
        width = LETTER * len(point["word"])
        sides = [(x + 7, y - 6), (x - 7 - width, y - 6), (x - width / 2, y - 18), (x - width / 2, y + 6)]
        boxes = (Box(left, top, width) for left, top in sides)
        free = (box for box in boxes if box.inside() and not any(box.meets(other) for other in taken))
        if point["concept"] in labelled and (box := next(free, None)) is not None:
            taken.append(box)
            yield f'<text x="{box.left:.1f}" y="{box.top + 10:.1f}">{html.escape(point["word"])}</text>'

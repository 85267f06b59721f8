import io

import pytest
from rich.console import Console

from babelray.cluster import progress as module
from babelray.cluster.progress import Progress


def test_without_a_terminal_a_line_now_and_then_with_rate_and_eta(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    output = io.StringIO()
    with Progress(Console(file=output, width=100), "train") as progress:
        for done in range(5):
            progress.update(60 * done, 600, "steps", "de")
    assert output.getvalue().splitlines() == [
        "train: 60/600 steps, 10 steps/s, ETA 54 s, de",
        "train: 180/600 steps, 10 steps/s, ETA 42 s, de",
    ]


@pytest.mark.parametrize("width", [80, 140])
def test_the_bar_leaves_room_for_the_note(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    note = "loss 7.134 (−0.021), 3,500 tokens/s"
    with Progress(console, "pretrain") as progress:
        progress.update(120, 7500, "steps", note)
    assert note in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_new_unit_starts_a_new_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10000, 100))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    output = io.StringIO()
    with Progress(Console(file=output, width=100), "train") as progress:
        progress.update(1, 1, "tokenizer")
        progress.update(10, 100, "steps")
        progress.update(20, 100, "steps")
    assert output.getvalue().splitlines()[-1].startswith("train: 20/100 steps, 0.1 steps/s, ETA 800 s")

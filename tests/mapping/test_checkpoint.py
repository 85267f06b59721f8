from __future__ import annotations

from pathlib import Path

import pytest
import torch

from babelray.mapping import checkpoint as module
from babelray.mapping.checkpoint import Checkpoint, Remaining, epoch_progress, key_of
from babelray.storage import Location


def test_a_state_is_stored_every_so_often(tmp_path: Path) -> None:
    file = Location.parse(tmp_path / "state.safetensors")
    seldom, often = Checkpoint(file, "key", every=1000), Checkpoint(file, "key", every=0)
    seldom.offer({"x": torch.ones(2)})
    assert seldom.load() is None
    often.offer({"x": torch.ones(2)})
    state = often.load()
    assert state is not None and state["x"].tolist() == [1, 1]
    assert Checkpoint(file, "another key").load() is None


def test_the_key_covers_settings_seed_and_data() -> None:
    x = torch.ones(2)
    keys = {key_of({"a": 1}, 1, x), key_of({"a": 2}, 1, x), key_of({"a": 1}, 2, x), key_of({"a": 1}, 1, x + 1)}
    assert len(keys) == 4 and key_of({"a": 1}, 1, x.clone()) in keys


def test_the_time_that_is_left_follows_from_that_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 4.0, 10.0, 100.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    remaining = Remaining()
    assert remaining.text(1, 9) == "2.0 s each, ETA 18 s"
    assert remaining.text(2, 8, at_least=True) == "2.0 s each, ETA at least 16 s"
    assert remaining.text(1, 30) == "6.0 s each, ETA 3 min", "a second training begins"
    assert remaining.text(2, 1) == "48.0 s each, ETA 48 s"


def test_epochs_are_reported_with_their_number() -> None:
    texts: list[str] = []
    epoch_progress(5, texts.append)(2, 0.5)
    assert texts[0].startswith("epoch 2 of 5, ") and texts[0].endswith("criterion 0.5000")

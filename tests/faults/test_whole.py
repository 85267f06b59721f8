"""Every fault that a cluster can meet, one after the other, in runs that must end with the same bytes."""

import random
from pathlib import Path

import pytest

from faults import soak, whole

pytestmark = [pytest.mark.fault, pytest.mark.timeout(3600)]


@pytest.mark.skipif(bool(whole.available()), reason=whole.available())
def test_every_fault_once(tmp_path: Path) -> None:
    chance, tally = random.Random(1), soak.Tally()
    left = list(whole.FAULTS)
    with whole.Whole(tmp_path) as cluster:
        expected = soak.calm_run(cluster)
        for number in range(8):
            if not left:
                break
            before = tally.finished
            once = ((chance.uniform(5, 30), left.pop(0)) for _ in range(len(left)))
            soak.hurt_run(cluster, f"run-{number}", once, chance, tally)
            if tally.finished > before:
                soak.compare(cluster.digests(f"run-{number}"), expected, tally)
    tally.show()
    assert tally.good() and not left

"""Every fault of a cluster, one after the other, in runs that must end with the same bytes."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import soak, whole

pytestmark = [pytest.mark.fault, pytest.mark.timeout(3600)]


@pytest.mark.skipif(bool(whole.available()), reason=whole.available())
def test_every_fault_once(tmp_path: Path) -> None:
    chance, tally = random.Random(1), soak.Tally()
    left = list(whole.FAULTS)

    def until_it_strikes(fault: whole.Fault) -> whole.Fault:
        def strike(cluster: whole.Whole, chance: random.Random) -> str:
            if what := fault(cluster, chance):
                left.remove(fault)
            return what

        return strike

    def faults() -> Iterator[tuple[soak.Moment, whole.Fault]]:
        while left:
            yield soak.soon(chance, tally), until_it_strikes(chance.choice(left))

    with whole.Whole(tmp_path) as cluster:
        expected = soak.calm_run(cluster)
        for number in range(8):
            if not left:
                break
            before = tally.finished
            soak.hurt_run(cluster, f"run-{number}", faults(), chance, tally)
            if tally.finished > before:
                soak.compare(cluster.digests(f"run-{number}"), expected, tally)
        leaks = cluster.leaks()
    tally.show()
    assert tally.good() and not left and not leaks

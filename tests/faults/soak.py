"""Random faults, one after the other, during small runs: each run must end with the same bytes.

    python tests/faults/soak.py --minutes 30 --seed 1

The first run is undisturbed; all other runs must produce the same artifacts. Until the time is over, run after run is
submitted to the cluster and struck by faults at random moments. Stages and faults that were tested least so far are
preferred, so that short stages and rare faults are covered too. A run that ends with an error is submitted again by
the same command. Prints each event and a tally: the times from the end of each fault to the next progress of the run,
and the faults per stage. Exit code 1 if a run did not end, ended with other bytes, or repeated completed work, or if a
node wrote a password into a file.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.whole import FAULTS, STAGES, Fault, Submitted, Whole, available

MOST_TIMES = 12
"""The maximum number of submissions of one run."""
SILENCE = 600.0
"""Seconds without output after which a run counts as dead."""
ENDED = re.compile(r"✓ (\w+) +\d+ s$")
LOOKED = 1.0
"""Seconds between two checks of a run's checkpoints."""
LONG = 100.0
"""Seconds without progress after a fault that are reported."""
Moment = Callable[[Submitted], bool]
"""Whether the moment of the fault has come."""


@dataclass
class Tally:
    finished: int = 0
    otherwise: int = 0
    dead: int = 0
    twice: list[str] = field(default_factory=list)
    """Completed work that was repeated."""
    given_again: int = 0
    recovered: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """For each fault, the seconds from its end until the run made progress."""
    overtaken: int = 0
    """Faults that were followed by another before the run made progress."""
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of times that each fault struck in each stage."""
    drawn: Counter[Fault] = field(default_factory=Counter)

    def hurt(self, stage: str) -> int:
        """The number of faults that struck in a stage."""
        return sum(count for (where, _), count in self.struck.items() if where == stage)

    def good(self) -> bool:
        return self.finished > 0 and not self.otherwise and not self.dead and not self.twice

    def show(self) -> None:
        for what, seconds in sorted(self.recovered.items()):
            typical, most = statistics.median(seconds), max(seconds)
            notify(f"{len(seconds):3} × {what}; went on after {typical:.0f} s, at most {most:.0f}")
        notify(f"{self.overtaken:3} × another fault came before the run went on")
        notify(f"{self.struck.total()} faults in all:")
        for stage in STAGES:
            here = [f"{count} × {what}" for (where, what), count in sorted(self.struck.items()) if where == stage]
            notify(f"  {stage:<9} {self.hurt(stage):3}: {', '.join(here) or 'none'}")
        notify(f"runs ended: {self.finished}; commands given again: {self.given_again}")
        notify(f"runs that left other bytes: {self.otherwise}; runs that did not end: {self.dead}")
        notify(f"done twice though it was complete or saved: {'; '.join(self.twice) or 'nothing'}")


def notify(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def calm_run(whole: Whole, storage: str = "calm") -> dict[str, str]:
    """The digests of an undisturbed run."""
    began = time.monotonic()
    run = Submitted(whole, storage)
    while run.code is None:
        time.sleep(0.5)
    if run.code:
        sys.exit("\n".join(["the run failed though nothing was hurt:", *run.lines[-30:]]))
    notify(f"a run that was left alone took {time.monotonic() - began:.0f} s")
    return whole.digests(storage)


def hurt_run(
    whole: Whole, storage: str, faults: Iterator[tuple[Moment, Fault]], chance: random.Random, tally: Tally
) -> None:
    """One run until its end, struck by each of `faults` at its moment."""
    run, times, next_fault = Submitted(whole, storage), 1, next(faults, None)
    attempts = [run]
    steps = Steps(whole, storage)
    waiting: tuple[str, float] | None = None
    told = False
    while True:
        time.sleep(0.2)
        whole.replace_nodes()
        steps.look()
        if waiting and run.progressed > waiting[1]:
            tally.recovered[waiting[0]].append(run.progressed - waiting[1])
            waiting = None
        elif waiting and not told and time.monotonic() > waiting[1] + LONG:
            told = True
            notify(f"  nothing for {LONG:.0f} s; the last that was said, {time.monotonic() - run.heard:.0f} s ago:")
            print("\n".join(f"    {line}" for line in run.lines[-4:]), flush=True)
        if run.code == 0:
            tally.finished += 1
            tally.twice += [*done_twice(attempt.lines for attempt in attempts), *steps.twice]
            return
        if run.code is not None or time.monotonic() - run.heard > SILENCE:
            run.end()
            notify(f"  it ended: {run.lines[-1] if run.lines else ''}")
            if times == MOST_TIMES:
                tally.dead += 1
                print("\n".join(run.lines[-40:]), flush=True)
                return
            run, times = Submitted(whole, storage), times + 1
            attempts.append(run)
            tally.given_again += 1
        elif next_fault and next_fault[0](run):
            stage = run.stage
            if what := next_fault[1](whole, chance):
                notify(f"{stage}: {what}")
                tally.struck[stage, what] += 1
                tally.overtaken += waiting is not None
                waiting, told = (what, time.monotonic()), False
            next_fault = next(faults, None)


class Steps:
    """Follows the step of a training's newest checkpoint: a training that resumes from an earlier one, or restarts,
    saves steps that were saved before."""

    def __init__(self, whole: Whole, storage: str) -> None:
        self._whole, self._storage = whole, storage
        self._saved, self._looked = 0, 0.0
        self.twice: list[str] = []

    def look(self) -> None:
        if time.monotonic() < self._looked + LOOKED:
            return
        self._looked = time.monotonic()
        with contextlib.suppress(BotoCoreError, ClientError):  # the server is down, or the record has just been deleted
            saved = self._whole.saved_step(self._storage)
            if 0 < saved < self._saved:
                self.twice.append(f"steps before {self._saved}: {saved} was saved after it")
            self._saved = saved or self._saved


def done_twice(attempts: Iterable[list[str]]) -> list[str]:
    """The stages that completed more than once, according to the logs of one run.

    >>> done_twice([["✓ corpus    9 s"], ["✓ corpus    complete, kept", "✓ encoder   3 s"]])
    []
    >>> done_twice([["✓ corpus    9 s"], ["✓ corpus    8 s", "✓ encoder   3 s"]])
    ['corpus']
    """
    ended: list[str] = []
    for lines in attempts:
        if any("running already: following" in line for line in lines):  # a log that was already read
            continue
        ended += [match[1] for line in lines if (match := ENDED.match(line))]
    return [stage for stage, times in Counter(ended).items() if times > 1]


def soon(chance: random.Random, tally: Tally) -> Moment:
    """A moment within forty seconds, or within one second of the start of the stage with the fewest faults. Half of the
    moments wait for progress of the run, for at most 120 s, so that the time of its recovery is measured."""
    asked, delay, patience = time.monotonic(), chance.uniform(0, 1), chance.choice([0, 120])
    due = asked + chance.uniform(2, 40)
    stage, began = "", asked

    def come(run: Submitted) -> bool:
        nonlocal stage, began
        now = time.monotonic()
        if stage != run.stage:
            stage, began = run.stage, now
        rare = run.progressed > 0 and tally.hurt(stage) == min(map(tally.hurt, STAGES))
        gone_on = run.progressed > asked or now > asked + patience
        return gone_on and (now > due or (rare and now > began + delay))

    return come


def rarest(tally: Tally) -> Fault:
    """Strike with the least frequent fault that is possible at the moment."""

    def strike(whole: Whole, chance: random.Random) -> str:
        for fault in sorted(FAULTS, key=lambda fault: (tally.drawn[fault], chance.random())):
            if what := fault(whole, chance):
                tally.drawn[fault] += 1
                return what
        return ""

    return strike


def at_random(chance: random.Random, end: float, tally: Tally) -> Iterator[tuple[Moment, Fault]]:
    while time.monotonic() < end:
        yield soon(chance, tally), rarest(tally)


def compare(found: dict[str, str], expected: dict[str, str], tally: Tally) -> None:
    differ = sorted(n for n in found.keys() | expected.keys() if found.get(n) != expected.get(n))
    tally.otherwise += bool(differ)
    how = "with the same bytes" if not differ else f"but these files differ: {', '.join(differ[:5])}"
    notify(f"  the run ended, {how}")


def soak(whole: Whole, minutes: float, seed: int) -> Tally:
    chance, tally = random.Random(seed), Tally()
    expected = calm_run(whole)
    notify(f"it left {len(expected)} files that must be the same")
    end = time.monotonic() + 60 * minutes
    number = 0
    while time.monotonic() < end:
        number += 1
        ended = tally.finished
        hurt_run(whole, f"run-{number}", at_random(chance, end, tally), chance, tally)
        if tally.finished > ended:
            compare(whole.digests(f"run-{number}"), expected, tally)
    return tally


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if why := available():
        sys.exit(why)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # stops what was started
    temporary = tempfile.TemporaryDirectory(prefix="babelray-soak-", ignore_cleanup_errors=True)
    with temporary as folder, Whole(Path(folder)) as cluster:
        result = soak(cluster, arguments.minutes, arguments.seed)
        leaks = cluster.leaks()
    result.show()
    notify(f"files on the nodes with a password in them: {', '.join(leaks) or 'none'}")
    sys.exit(0 if result.good() and not leaks else 1)

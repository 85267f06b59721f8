"""Faults at random, one after the other, while small runs go on: each must end with the same bytes.

    python tests/faults/soak.py --minutes 30 --seed 1

The first run is left alone; what it leaves is what all others must leave. Then, until the time is over, run after run
is submitted to the cluster and hurt at random moments, sooner in the stages that were hurt least, and by the faults
that struck least: short stages and rare faults have their turn too. A run that ends with an error is given again, by
the same command. Prints what it did, and a tally: the times from the end of each fault to the next progress of the
run, and what struck in which stage. Exit code 1 if a run did not end, ended otherwise, or did again what was done, or
if a node wrote a password into a file.
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
"""So often the same command is given for one run."""
SILENCE = 600.0
"""Seconds without a word after which a run is called dead."""
ENDED = re.compile(r"✓ (\w+) +\d+ s$")
LOOKED = 1.0
"""Seconds between two looks at the checkpoints of a run."""
LONG = 100.0
"""Seconds without progress after a fault of which is told."""
Moment = Callable[[Submitted], bool]
"""Whether it has come."""


@dataclass
class Tally:
    finished: int = 0
    otherwise: int = 0
    dead: int = 0
    twice: list[str] = field(default_factory=list)
    """What was done again though it was done."""
    given_again: int = 0
    recovered: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """For each fault, the seconds from its end until the run went on."""
    overtaken: int = 0
    """Faults that were followed by another before the run went on."""
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each fault struck in each stage."""
    drawn: Counter[Fault] = field(default_factory=Counter)

    def hurt(self, stage: str) -> int:
        """How often a stage was."""
        return sum(count for (where, _), count in self.struck.items() if where == stage)

    def good(self) -> bool:
        return self.finished > 0 and not self.otherwise and not self.dead and not self.twice

    def show(self) -> None:
        for what, seconds in sorted(self.recovered.items()):
            typical, most = statistics.median(seconds), max(seconds)
            say(f"{len(seconds):3} × {what}; went on after {typical:.0f} s, at most {most:.0f}")
        say(f"{self.overtaken:3} × another fault came before the run went on")
        say(f"{self.struck.total()} faults in all:")
        for stage in STAGES:
            here = [f"{count} × {what}" for (where, what), count in sorted(self.struck.items()) if where == stage]
            say(f"  {stage:<9} {self.hurt(stage):3}: {', '.join(here) or 'none'}")
        say(f"runs ended: {self.finished}; commands given again: {self.given_again}")
        say(f"runs that left other bytes: {self.otherwise}; runs that did not end: {self.dead}")
        say(f"done twice though it was complete or saved: {'; '.join(self.twice) or 'nothing'}")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def calm_run(whole: Whole, storage: str = "calm") -> dict[str, str]:
    """A run that nothing happens to: what it leaves."""
    began = time.monotonic()
    run = Submitted(whole, storage)
    while run.code is None:
        time.sleep(0.5)
    if run.code:
        sys.exit("\n".join(["the run failed though nothing was hurt:", *run.lines[-30:]]))
    say(f"a run that was left alone took {time.monotonic() - began:.0f} s")
    return whole.digests(storage)


def hurt_run(
    whole: Whole, storage: str, faults: Iterator[tuple[Moment, Fault]], chance: random.Random, tally: Tally
) -> None:
    """One run, hurt by each of `faults` when its moment has come, until it ends."""
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
            say(f"  nothing for {LONG:.0f} s; the last that was said, {time.monotonic() - run.heard:.0f} s ago:")
            print("\n".join(f"    {line}" for line in run.lines[-4:]), flush=True)
        if run.code == 0:
            tally.finished += 1
            tally.twice += [*done_twice(attempt.lines for attempt in attempts), *steps.twice]
            return
        if run.code is not None or time.monotonic() - run.heard > SILENCE:
            run.end()
            say(f"  it ended: {run.lines[-1] if run.lines else ''}")
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
                say(f"{stage}: {what}")
                tally.struck[stage, what] += 1
                tally.overtaken += waiting is not None
                waiting, told = (what, time.monotonic()), False
            next_fault = next(faults, None)


class Steps:
    """The step of a training's newest checkpoint, as time goes by: a training that goes on from an earlier one, or
    begins anew, saves steps that were saved before."""

    def __init__(self, whole: Whole, storage: str) -> None:
        self._whole, self._storage = whole, storage
        self._saved, self._looked = 0, 0.0
        self.twice: list[str] = []

    def look(self) -> None:
        if time.monotonic() < self._looked + LOOKED:
            return
        self._looked = time.monotonic()
        with contextlib.suppress(BotoCoreError, ClientError):  # the server is away, or the record has just been deleted
            saved = self._whole.saved_step(self._storage)
            if 0 < saved < self._saved:
                self.twice.append(f"steps before {self._saved}: {saved} was saved after it")
            self._saved = saved or self._saved


def done_twice(attempts: Iterable[list[str]]) -> list[str]:
    """The stages that ended a second time, by the logs of one run.

    >>> done_twice([["✓ corpus    9 s"], ["✓ corpus    complete, kept", "✓ encoder   3 s"]])
    []
    >>> done_twice([["✓ corpus    9 s"], ["✓ corpus    8 s", "✓ encoder   3 s"]])
    ['corpus']
    """
    ended: list[str] = []
    for lines in attempts:
        if any("running already: following" in line for line in lines):  # a log that was seen before
            continue
        ended += [match[1] for line in lines if (match := ENDED.match(line))]
    return [stage for stage, times in Counter(ended).items() if times > 1]


def soon(chance: random.Random, tally: Tally) -> Moment:
    """Within forty seconds, and within one of the beginning of a stage that was hurt least; every other one only when
    the run has gone on meanwhile, so that the time until it does is seen."""
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
    """Of the faults that can strike at the moment, one of those that have struck least."""

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
    say(f"  the run ended, {how}")


def soak(whole: Whole, minutes: float, seed: int) -> Tally:
    chance, tally = random.Random(seed), Tally()
    expected = calm_run(whole)
    say(f"it left {len(expected)} files that must be the same")
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
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what was started is ended
    temporary = tempfile.TemporaryDirectory(prefix="babelray-soak-", ignore_cleanup_errors=True)
    with temporary as folder, Whole(Path(folder)) as cluster:
        result = soak(cluster, arguments.minutes, arguments.seed)
        leaks = cluster.leaks()
    result.show()
    say(f"files on the nodes with a password in them: {', '.join(leaks) or 'none'}")
    sys.exit(0 if result.good() and not leaks else 1)

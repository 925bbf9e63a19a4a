"""Timing on a machine that does other things too."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

Run = Callable[[int], object]  # does n units of work

STAT = Path("/proc/stat")
QUIET = 0.1  # of a core, used by other processes


@dataclass
class Times:
    """What one unit of work took, in seconds, in each round; and how many cores others used meanwhile."""

    rounds: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def quiet(self) -> int:
        """How many rounds others left alone."""
        return sum(x <= QUIET for x in self.others)

    def ratio(self, yardstick: Times) -> float:
        return yardstick.median / self.median

    def best_ratio(self, yardstick: Times) -> float:
        """Of the round that went best for it."""
        return max(y / t for y, t in zip(yardstick.rounds, self.rounds, strict=True))

    def add(self, work: Run, n: int, patience: int) -> None:
        """Time `n` units of work. Disturbed by others it is done again, up to `patience` times.

        What counts is how busy the others were, never how long it took: the least disturbed try is kept.
        """
        tries = []
        for k in range(1 + patience):
            if k:
                time.sleep(0.5)
            start, before = time.perf_counter(), others_seconds()
            work(n)
            wall = time.perf_counter() - start
            tries.append((max(0.0, others_seconds() - before) / wall, wall / n))
            if tries[-1][0] <= QUIET:
                break
        disturbance, seconds = min(tries)
        self.rounds.append(seconds)
        self.others.append(disturbance)


def race(run: dict[str, Run], sizes: dict[str, int], rounds: int, patience: int) -> dict[str, Times]:
    """Seconds for a unit of work of each contender; they take turns, so that whatever else runs meets them all."""
    times = {name: Times() for name in run}
    for _ in range(rounds):
        for name, work in run.items():
            times[name].add(work, sizes[name], patience)
    return times


def turn_size(work: Run, unit: int, seconds: float) -> int:
    """How many units make a turn of about `seconds`, a multiple of `unit`; measured on a warm contender."""
    start = time.perf_counter()
    work(unit)
    return unit * max(1, ceil(seconds / (time.perf_counter() - start)))


def disturbance(times: Iterable[Times]) -> str:
    """How often other processes were busy, as half a sentence."""
    others = [busy for t in times for busy in t.others]
    part = sum(busy > QUIET for busy in others) / len(others)
    return f"other processes took over {QUIET:.0%} of a core in {part:.0%} of the turns"


def others_seconds() -> float:
    """CPU time that other processes have used until now; 0 where /proc does not tell."""
    if not STAT.exists():
        return 0.0
    user, nice, system, _, _, irq, soft_irq, steal = map(int, STAT.read_text().split()[1:9])
    busy = (user + nice + system + irq + soft_irq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()

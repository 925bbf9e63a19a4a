"""Timing on a machine that does other things too."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

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

    def add(self, work: Callable[[int], object], n: int, patience: int) -> None:
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


def others_seconds() -> float:
    """CPU time that other processes have used until now; 0 where /proc does not tell."""
    if not STAT.exists():
        return 0.0
    user, nice, system, _, _, irq, soft_irq, steal = map(int, STAT.read_text().split()[1:9])
    busy = (user + nice + system + irq + soft_irq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()

"""What only a fresh process can tell: how long handful takes to start, and how much memory it needs."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from _problem import EOL

TASKS = f"""
import numpy as np, time

EOL = {EOL!r}

def tasks(batch, dimension):
    rng = np.random.default_rng(0)
    support = rng.standard_normal((batch, 25, dimension), dtype=np.float32)  # no larger array on the way
    query = rng.standard_normal((batch, 150, dimension), dtype=np.float32)
    return support, np.tile(np.arange(25) % 5, (batch, 1)), query
"""
IMPORT_NUMPY = "import numpy"
IMPORT_HANDFUL = """
import numpy, time
start = time.perf_counter()
import handful
imported = time.perf_counter()
handful.solve
print(imported - start, time.perf_counter() - imported)
"""
SOLVE_ONE = TASKS + "import handful; handful.solve(*(x[0] for x in tasks(1, 640)), method='eol', **EOL)"
# Not getrusage: its ru_maxrss starts at the peak of the process that started this one, kept across exec.
PEAK_MEMORY = f"""{TASKS}
import sys
import handful

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

backend, batch = sys.argv[1], int(sys.argv[2])
handful.solve(*tasks(8, 640), method="eol", backend=backend, **EOL)  # libraries are loaded
batch = tasks(batch, 640)
before = peak()
handful.solve(*batch, method="eol", backend=backend, **EOL)
print(peak() - before)
"""


def run(code: str, *arguments: str, **environment: str) -> tuple[float, str]:
    """Wall time of a fresh process in seconds, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the fresh process failed:\n{done.stderr}")
    return time.perf_counter() - start, done.stdout


def cold_start(repeats: int, warm: bool = True) -> dict[str, float]:
    """Seconds until things are there, medians over fresh processes; all files are in the page cache.

    warm: whether a first round, which does not count, warms the page cache.
    """
    bare, imports, solved = [], [], []
    for _ in range(repeats + warm):  # interleaved
        bare.append(run(IMPORT_NUMPY)[0])
        imports.append([float(seconds) for seconds in run(IMPORT_HANDFUL)[1].split()])
        solved.append(run(SOLVE_ONE)[0])
    of_handful, of_solve = (statistics.median(times) for times in zip(*imports[warm:], strict=True))
    return {
        "a fresh process that imports NumPy": statistics.median(bare[warm:]),
        "`import handful` beyond that": of_handful,
        "what `handful.solve` then imports": of_solve,
        "a fresh process that solves one task": statistics.median(solved[warm:]),
    }


def peak_memory(tasks: int) -> dict[str, float]:
    """MiB at the peak of solving so many tasks (D = 640), beyond libraries and the features; where /proc tells."""
    if not Path("/proc/self/status").exists():
        return {}
    return {backend: float(run(PEAK_MEMORY, backend, str(tasks))[1]) for backend in ("array", "auto")}


LARGE_PILE = """
import sys, time
import numpy as np
import handful

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

def pile(items, dimension):
    rng = np.random.default_rng(0)
    means = 2 * rng.standard_normal((10, dimension), dtype=np.float32)
    of = np.r_[np.repeat(np.arange(5), 5), np.arange(items) % 10]
    features = means[of] + rng.standard_normal((len(of), dimension), dtype=np.float32)
    return features[:25], of[:25], features[25:]

method, share, items, dimension = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
options = {} if share == "auto" else {"outlier_share": float(share)}
handful.solve(*pile(150, dimension), method=method, **options)  # libraries are loaded
task = pile(items, dimension)
before, start = peak(), time.perf_counter()
handful.solve(*task, method=method, **options)
print(time.perf_counter() - start, peak() - before)
"""


def large_pile(method: str, share: str, items: int, dimension: int) -> tuple[float, float]:
    """Seconds and MiB at the peak of one pile in a fresh process, beyond libraries and the features."""
    seconds, memory = run(LARGE_PILE, method, share, str(items), str(dimension))[1].split()
    return float(seconds), float(memory)

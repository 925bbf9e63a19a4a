"""What only a fresh process can tell: how long handful takes to start, and how much memory it needs."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

TASKS = """
import numpy as np, time

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
SOLVE_ONE = TASKS + "import handful; handful.solve('eol', *(x[0] for x in tasks(1, 640)))"
FIRST_FAST_CALL = f"""{TASKS}
import handful
batch = tasks(8, 640)
handful.solve("eol", *batch, backend="array", threads=1)  # everything but the kernel is loaded
start = time.perf_counter()
handful.solve("eol", *batch, backend="fast", threads=1)
first, start = time.perf_counter() - start, time.perf_counter()
handful.solve("eol", *batch, backend="fast", threads=1)
print(first - (time.perf_counter() - start))
"""
# Not getrusage: its ru_maxrss starts at the peak of the process that started this one, kept across exec.
PEAK_MEMORY = (
    TASKS
    + """
import handful

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

handful.solve("eol", *tasks(8, 640), backend="{backend}")  # libraries and the kernel are loaded
batch = tasks(500, 640)
before = peak()
handful.solve("eol", *batch, backend="{backend}")
print(peak() - before)
"""
)


def run(code: str, **environment: str) -> tuple[float, str]:
    """Wall time of a fresh process in seconds, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the fresh process failed:\n{done.stderr}")
    return time.perf_counter() - start, done.stdout


def cold_start(repeats: int) -> dict[str, float]:
    """Seconds until things are there, medians over fresh processes; all files are in the page cache."""
    bare, imports, solved = [], [], []
    for _ in range(repeats + 1):  # interleaved; the first round warms the page cache
        bare.append(run(IMPORT_NUMPY)[0])
        imports.append([float(seconds) for seconds in run(IMPORT_HANDFUL)[1].split()])
        solved.append(run(SOLVE_ONE)[0])
    with tempfile.TemporaryDirectory() as empty:
        compiling = float(run(FIRST_FAST_CALL, NUMBA_CACHE_DIR=empty)[1])
        loading = [float(run(FIRST_FAST_CALL, NUMBA_CACHE_DIR=empty)[1]) for _ in range(repeats)]
    of_handful, of_solve = (statistics.median(times) for times in zip(*imports[1:], strict=True))
    return {
        "a fresh process that imports NumPy": statistics.median(bare[1:]),
        "`import handful` beyond that": of_handful,
        "what `handful.solve` then imports": of_solve,
        "a fresh process that solves one task": statistics.median(solved[1:]),
        "first fast call, kernel in numba's cache": statistics.median(loading),
        "first fast call, kernel to be compiled": compiling,
    }


def peak_memory() -> dict[str, float]:
    """MB at the peak of solving 500 tasks (D = 640), beyond libraries and the features themselves."""
    return {backend: float(run(PEAK_MEMORY.format(backend=backend))[1]) for backend in ("array", "fast")}

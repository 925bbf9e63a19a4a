"""EOL on one pile of 100,000 and of 1,000,000 queries: seconds a step and memory, by three engines. ::

    python benchmarks/scale.py                   # a quarter of an hour; writes benchmarks/results/scale.md
    python benchmarks/scale.py --quick           # some seconds; writes into a temporary folder
    python benchmarks/scale.py --rows 100000     # a few minutes; writes into a temporary folder

640 features, 5 and 100 classes of 5 examples. In memory and memory-mapped by the threads of this machine; by Ray over
two nodes of one CPU each (`ray.cluster_utils.Cluster`), whose actors hold the pile. Each in a process of its own, for
its peak of memory: that of the actors is summed. A step is all passes over the pile that it takes, the median of
several, by the fused kernel (`backend="fast"`). Beside them what the same step costs in plain NumPy, one thread, chunk
by chunk, on features that are prepared already: the pile is read twice, for the mean prediction and for the slopes. The
costs of docs/how-to/larger-than-memory.md are fitted to these figures at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import _report
import numpy as np
from _cluster import NODE
from _script import Parser
from rich.console import Console
from threadpoolctl import threadpool_limits

import handful
from handful.streaming.descent import PAIRED

DIMENSION, SHOTS = 640, 5
ENGINES = ("NumPy, one thread", "in memory", "memory-mapped", "Ray, two nodes")
STEPS = {5: 6, 100: 3}
QUICK = (ENGINES[:3], ENGINES[3:])  # with --quick those without Ray share a process
CHUNK = 8192

Found = dict[tuple[str, int, int], dict[str, float]]  # by engine, rows and classes: seconds, peak, actors


def examples(classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((classes * SHOTS, DIMENSION), np.float32), np.repeat(np.arange(classes), SHOTS)


def write_pile(path: Path, rows: int) -> None:
    pile = np.lib.format.open_memmap(path, "w+", np.float32, (rows, DIMENSION))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 50_000):
        stop = min(start + 50_000, rows)
        pile[start:stop] = rng.standard_normal((stop - start, DIMENSION), np.float32)


def measure(engine: str, path: Path, classes: int) -> dict[str, float]:
    """In this process: seconds of a step, and the peak of memory in bytes."""
    if engine == ENGINES[0]:
        return {"seconds": plain_step(np.load(path), classes), "peak": _peak()}
    if engine.startswith("Ray"):
        return by_ray(path, classes)
    pile = np.load(path, mmap_mode="r" if engine == "memory-mapped" else None)
    return {"seconds": solve(pile, classes, path.parent / "out"), "peak": _peak()}


def solve(pile: np.ndarray | Path, classes: int, out: Path, engine=None, look=lambda: None) -> float:
    """The median of the steps; `look` is called after the last pass."""
    ticks, steps = [time.perf_counter()], STEPS[classes]

    def progress(done: int, total: int) -> None:
        ticks.append(time.perf_counter())
        if done == total:
            look()

    handful.solve(
        *examples(classes),
        pile,
        method="eol",
        outlier_share=0.5,
        steps=steps,
        backend="fast",
        streaming=handful.streaming.Streaming(out=out, engine=engine, progress=progress),
    )
    took = np.diff(ticks)[1:-1]  # the first pass takes the mean, the last refines
    return float(statistics.median(took.reshape(steps, -1).sum(axis=1)))


def by_ray(path: Path, classes: int) -> dict[str, float]:
    import ray
    from ray.cluster_utils import Cluster

    from handful.cluster import Actors

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        cluster.add_node(**NODE)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        held: dict[int, int] = {}
        seconds = solve(path, classes, path.parent / "out", Actors(), lambda: held.update(_actors()))
        return {"seconds": seconds, "peak": _peak(), "actors": sum(held.values())}
    finally:
        ray.shutdown()
        cluster.shutdown()


def plain_step(pile: np.ndarray, classes: int) -> float:
    """The gradient of one step, as one would write it."""
    support, labels = examples(classes)
    c = np.stack([support[labels == j].mean(axis=0) for j in range(classes)])
    for start in range(0, len(pile), CHUNK):
        block = pile[start : start + CHUNK]
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    took = []
    with threadpool_limits(1):
        for _ in range(2):
            start = time.perf_counter()
            _gradient(pile, c / np.linalg.norm(c, axis=1, keepdims=True), np.log(classes / 0.5))
            took.append(time.perf_counter() - start)
    return min(took)


def _gradient(pile: np.ndarray, direction: np.ndarray, outlier: float) -> np.ndarray:
    ways = len(direction)
    chunks = range(0, len(pile), CHUNK)
    kept, mean = [], np.zeros(ways + 1)
    for i in chunks:
        logits = np.full((len(pile[i : i + CHUNK]), ways + 1), outlier, np.float32)
        logits[:, :ways] = 10 * pile[i : i + CHUNK] @ direction.T
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        kept.append(p)
        mean += p.sum(axis=0)
    g = (np.log(mean / len(pile)) + 1).astype(np.float32)
    total = np.zeros(direction.shape)
    for i, p in zip(chunks, kept, strict=True):
        a = g - (np.log(p + 1e-12) + 1) / ways
        slope = p * (a - (p * a).sum(axis=1, keepdims=True))
        total += slope[:, :ways].T @ pile[i : i + CHUNK]
    return total


def _peak(process: str = "self") -> int:
    """Bytes; not `getrusage`, which counts what the parent held when it forked."""
    return int(Path("/proc", process, "status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def _actors() -> dict[int, int]:
    """The peaks of the processes that hold the pile."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if b"Holder" in (folder / "cmdline").read_bytes():
                    found[int(folder.name)] = _peak(folder.name)
            except (OSError, IndexError):  # it has ended
                continue
    return found


def flops(rows: int, classes: int) -> float:
    """Of a step: products with the prototypes, and sums by weights. One pass while pairs are few, else two."""
    outputs = classes + 1
    columns = classes + outputs + outputs * (outputs - 1) // 2 if outputs <= PAIRED else 3 * classes
    return 2.0 * rows * DIMENSION * columns


def passes(classes: int) -> int:
    return 1 if classes + 1 <= PAIRED else 2


def fitted(found: Found, sizes: list[int], ways: list[int]) -> list[str]:
    """Where the seconds of the largest pile go: arithmetic, reading, messages."""
    rows = max(sizes)
    gigabytes = rows * DIMENSION * 4 / 1e9
    lines = []
    for classes in ways:
        here = found["in memory", rows, classes]["seconds"]
        rate = flops(rows, classes) / here / 1e9
        read = (found["memory-mapped", rows, classes]["seconds"] - here) / (passes(classes) * gigabytes)
        lines.append(
            f"{classes} classes: {flops(rows, classes) / rows / 1e3:.0f} kFLOP a query and step, {rate:.0f} GFLOP/s on "
            f"{os.cpu_count()} cores in memory; reading adds {read * 1e3:.0f} ms a GB and pass "
            f"({passes(classes)} a step)."
        )
    return lines


def measure_all(sizes: list[int], ways: list[int], together: Sequence[Sequence[str]], console: Console) -> Found:
    """The engines of each group in a process of their own."""
    found: Found = {}
    with tempfile.TemporaryDirectory() as folder:
        for rows in sizes:
            path = Path(folder) / f"{rows}.npy"
            write_pile(path, rows)
            for classes in ways:
                for engines in together:
                    command = [sys.executable, __file__, "--these", str(path), str(classes), *engines]
                    run = subprocess.run([*command, "--output", folder], capture_output=True, text=True, check=False)
                    if run.returncode:
                        named = " and ".join(engines)
                        raise SystemExit(f"{named}, {rows:,} queries, {classes} classes failed:\n{run.stderr}")
                    for engine, took in json.loads(run.stdout.splitlines()[-1]).items():
                        found[engine, rows, classes] = took
                        console.print(f"{rows:,} queries, {classes} classes, {engine}: {took['seconds']:.3f} s a step")
            path.unlink()
    return found


def table_row(found: Found, engine: str, rows: int, classes: int) -> tuple[str, ...]:
    took, plain = found[engine, rows, classes], found[ENGINES[0], rows, classes]["seconds"]
    memory = f"{took['peak'] / 1e9:.2f} GB"
    if "actors" in took:
        memory += f" + actors {took['actors'] / 1e9:.2f} GB"
    return (
        f"{classes} classes, {rows:,} queries, {engine}", f"{took['seconds']:.3f}",
        f"{took['seconds'] / rows * 1e6:.3f}", f"{plain / took['seconds']:.2f}x", memory,
        f"{took['peak'] / (rows * DIMENSION * 4):.2f}x",
    )  # fmt: skip


def growth(found: Found, sizes: list[int], ways: list[int]) -> list[str]:
    """How the cost of a query changes from the smallest pile to the largest."""
    small, large = min(sizes), max(sizes)
    if small == large:
        return []
    sentences = []
    for classes in ways:
        ratios = []
        for engine in ENGINES[1:]:
            cost = {rows: found[engine, rows, classes]["seconds"] / rows for rows in (small, large)}
            ratios.append(f"{engine} {cost[large] / cost[small]:.2f}x")
        sentences.append(f"{classes} classes: cost of a query at {large:,} against {small:,}: {', '.join(ratios)}.")
    return sentences


def main() -> None:
    parser = Parser(__doc__, "a quarter of an hour")
    parser.add_size("--rows", [100_000, 1_000_000], [500], "queries of each pile")
    parser.add_size("--classes", list(STEPS), [5], "classes, 5 or 100 or both")
    parser.add_argument("--these", nargs="+", help=argparse.SUPPRESS)  # path, classes, engines: in this process
    given = parser.parse()
    if given.these:
        path, classes, *engines = given.these
        print(json.dumps({engine: measure(engine, Path(path), int(classes)) for engine in engines}))
        return
    if strange := set(given.classes) - set(STEPS):
        parser.error(f"--classes {strange.pop()}: choose from {', '.join(map(str, STEPS))}")
    console = Console()
    together = QUICK if given.quick else tuple((engine,) for engine in ENGINES)
    found = measure_all(given.rows, given.classes, together, console)
    keys = [(engine, rows, classes) for classes in given.classes for rows in given.rows for engine in ENGINES]
    header = ("", "seconds a step", "microseconds a query", "against plain NumPy", "peak memory", "of the pile's bytes")
    section = _report.Section("EOL, one pile", header, [table_row(found, *key) for key in keys])
    sentences = fitted(found, given.rows, given.classes) + growth(found, given.rows, given.classes)
    _report.show(console, section)
    for sentence in sentences:
        console.print(sentence)
    notes = [
        "`python benchmarks/scale.py`: what is measured is said at its top.",
        _report.machine(("handful", "numpy", "ray")),
    ]
    _report.write(console, given.output / "scale.md", "One pile, larger and larger", [section], sentences, notes)


if __name__ == "__main__":
    main()

"""How fast handful is, beside the loop a researcher would write. ::

    python benchmarks/speed.py             # some minutes; writes benchmarks/results/speed.md and speed.png
    python benchmarks/speed.py --quick     # under a minute; writes nothing unless --out says where

Everyone solves the same tasks, end to end from raw features to scores: 5-way 5-shot, 75 known and 75 unknown
queries, Gaussian clusters from a fixed seed. 1x is `_yardstick.py`, a loop over tasks in plain torch on one
thread. Contenders take turns, round after round, so that whatever else the machine is doing meets them all;
a ratio is that of the medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from math import ceil, log
from pathlib import Path

import _fresh
import _peak
import _report
import _yardstick
import numpy as np
import torch
from _report import Section, Times
from rich.console import Console
from sklearn import metrics as sklearn_metrics
from threadpoolctl import ThreadpoolController

import handful
from handful import kernels
from handful.descent import PARAMETERS, InfoMax
from handful.methods.solving import available_threads
from handful.metrics import figures
from handful.prepare import prepare

WAYS, SHOTS, QUERIES, STEPS = 5, 5, 150, 50
DIMENSIONS = (640, 1280, 2048)
CORES = available_threads()
YARDSTICK, TORCH_ALL = "plain torch loop, 1 thread", "plain torch loop, all cores"
ARRAY, ARRAY_ONE = "array (NumPy), all cores", "array (NumPy), 1 thread"
ARRAY_TORCH = "array (torch tensors), all cores"
FAST, FAST_ONE, KERNEL = "fast, all cores", "fast, 1 thread", "its kernel alone, 1 thread"
ROWS = (YARDSTICK, TORCH_ALL, ARRAY_TORCH, ARRAY_ONE, ARRAY, FAST_ONE, FAST)
SECONDS = 0.3  # what a contender's turn should last
LEAST = 8  # tasks in a turn

Run = Callable[[int], object]  # solves the first n tasks
Results = dict[int, dict[str, Times]]  # by dimension and contender: seconds a task


def gaussian_tasks(batch: int, dimension: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Support [B, 25, D], labels [B, 25], query [B, 150, D], half of it from 5 unknown classes."""
    rng = np.random.default_rng(dimension)
    centres = rng.standard_normal((batch, 2 * WAYS, dimension), dtype=np.float32)

    def draw(classes: np.ndarray) -> np.ndarray:
        noise = rng.standard_normal((batch, len(classes), dimension), dtype=np.float32)
        return centres[:, classes] + 2 * noise

    labels = np.arange(WAYS * SHOTS) % WAYS
    return draw(labels), np.tile(labels, (batch, 1)), draw(np.arange(QUERIES) % (2 * WAYS))


def contenders(tasks: tuple[np.ndarray, ...]) -> dict[str, Run]:
    tensors = [torch.from_numpy(x) for x in tasks]
    blas = ThreadpoolController()

    def own(n: int, **options: object) -> handful.Result:
        return handful.solve("eol", *(x[:n] for x in tasks), **options)

    def one_thread(n: int, **options: object) -> handful.Result:
        with blas.limit(limits=1, user_api="blas"):  # threads=1 leaves NumPy's BLAS its own threads
            return own(n, threads=1, **options)

    def in_torch(n: int, solve: Callable, threads: int) -> object:
        torch.set_num_threads(threads)
        return solve(*(x[:n] for x in tensors))

    return {
        YARDSTICK: partial(in_torch, solve=_yardstick.solve, threads=1),
        TORCH_ALL: partial(in_torch, solve=_yardstick.solve, threads=CORES),
        ARRAY_TORCH: partial(in_torch, solve=partial(handful.solve, "eol", backend="array"), threads=CORES),
        ARRAY_ONE: partial(one_thread, backend="array"),
        ARRAY: partial(own, backend="array"),
        FAST_ONE: partial(one_thread, backend="fast"),
        FAST: partial(own, backend="fast"),
        KERNEL: kernel_alone(tasks),
    }


def kernel_alone(tasks: tuple[np.ndarray, ...]) -> Run:
    """The compiled loop on prepared features, with EOL's head at b = 1/2."""
    support, labels, query = tasks
    ready = prepare(support, query, "task, l2")
    per_class, w = np.full(WAYS, 1 / WAYS), np.full(WAYS, 2.0 * WAYS)
    head = InfoMax(np.r_[per_class, 0.0], np.r_[per_class, 1.0], np.r_[w, 2.0], outlier=log(2 * WAYS))
    options = {"temperature": 10.0, "steps": STEPS, "learning_rate": 0.01, "learn": PARAMETERS}
    return lambda n: kernels.descend(ready.support[:n], labels[:n], ready.query[:n], head, **options)


def agree(run: dict[str, Run], n: int = 4) -> None:
    """Stop unless handful computes what the plain loop computes."""
    probabilities, scores = (x.numpy() for x in run[YARDSTICK](n))
    for name in (ARRAY, ARRAY_TORCH, FAST):
        result = run[name](n)
        for what, a, b in (
            ("probabilities", probabilities, result.probabilities),
            ("scores", scores, result.outlier_scores),
        ):
            difference = float(np.median(np.abs(a - np.asarray(b))))
            if not difference <= 2e-6:
                raise SystemExit(f"{name} disagrees with the plain loop: {what} by {difference:.1e} (median)")


def race(run: dict[str, Run], pool: int, rounds: int) -> dict[str, Times]:
    """Seconds a task of everyone in each round. A turn is long enough to be timed; warm-up comes first."""
    sizes, times = {}, {name: Times([]) for name in run}
    for name, solve in run.items():
        solve(LEAST)
        sizes[name] = min(max(LEAST, ceil(SECONDS / clock(solve, LEAST))), pool)
    for _ in range(rounds):
        for name, solve in run.items():
            times[name].rounds.append(clock(solve, sizes[name]))
    return times


def clock(solve: Run, n: int) -> float:
    start = time.perf_counter()
    solve(n)
    return (time.perf_counter() - start) / n


def race_figures(rounds: int, looped: int, batch: int = 1000) -> tuple[Times, Times]:
    """Seconds a task of scikit-learn's functions, looped over tasks, and of `handful.metrics.figures`."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(WAYS), (batch, QUERIES))
    truth = np.tile(np.arange(QUERIES) % (2 * WAYS), (batch, 1))
    truth[truth >= WAYS] = -1
    scores = rng.normal(size=truth.shape) + (truth == -1)

    def loop(n: int) -> list[tuple[float, ...]]:
        return [sklearn_figures(*task) for task in zip(probabilities[:n], scores[:n], truth[:n], strict=True)]

    def ours(n: int) -> dict[str, np.ndarray]:
        return figures(probabilities[:n], scores[:n], truth[:n])

    np.testing.assert_allclose(np.stack(list(ours(20).values()), axis=1), loop(20), rtol=1e-9)
    plain, batched = Times([]), Times([])
    for _ in range(rounds):
        plain.rounds.append(clock(loop, looped))
        batched.rounds.append(clock(ours, batch))
    return plain, batched


def sklearn_figures(probabilities: np.ndarray, scores: np.ndarray, truth: np.ndarray) -> tuple[float, ...]:
    known, outlier = truth >= 0, truth == -1
    precision, recall, _ = sklearn_metrics.precision_recall_curve(outlier, scores)
    return (
        sklearn_metrics.accuracy_score(truth[known], probabilities[known].argmax(axis=1)),
        sklearn_metrics.roc_auc_score(outlier, scores),
        sklearn_metrics.auc(recall, precision),
        precision[recall >= 0.9][-1],
    )


def speed_section(dimension: int, times: dict[str, Times]) -> Section:
    yardstick, rows = times[YARDSTICK], []
    for name in ROWS:
        t = times[name]
        spread = f"{1e3 * min(t.rounds):.3g} to {1e3 * max(t.rounds):.3g}"
        ratios = f"{t.ratio(yardstick):.1f}x", f"{t.best_ratio(yardstick):.1f}x"
        rows.append((name, f"{1e3 * t.median:.3g}", spread, *ratios))
    return Section(f"D = {dimension}", ("", "ms a task", "rounds, ms", "ratio", "best round"), rows)


def peak_section(results: Results, peak: dict[int, float]) -> Section:
    rows = []
    for dimension, times in results.items():
        work = 2 * (WAYS * SHOTS + QUERIES) * dimension * WAYS * STEPS
        for name, threads in ((KERNEL, 1), (FAST_ONE, 1), (FAST, CORES)):
            speed = work / times[name].median
            rows.append((f"D = {dimension}: {name}", f"{speed / 1e9:.1f}", f"{speed / peak[threads]:.0%}"))
    peaks = ", ".join(f"{p / 1e9:.0f}e9/s on {t} thread{'s' * (t > 1)}" for t, p in peak.items())
    return Section(
        f"Of the machine's FMA peak ({peaks}, 1e9 a second)", ("", "1e9 multiply-adds/s", "of peak"), rows
    )


def verdicts(results: Results, of_figures: float) -> list[str]:
    """A sentence for each target."""

    def ratio(dimension: int, name: str) -> float:
        return results[dimension][name].ratio(results[dimension][YARDSTICK])

    targets = (
        ("NumPy alone at D = 640", ratio(640, ARRAY), 5, 8),
        ("The fused kernel on all cores at D = 640", ratio(640, FAST), 60, 100),
        ("The fused kernel on all cores at D = 1280", ratio(1280, FAST), 25, 50),
        ("The figures of 1000 tasks", of_figures, 50, 50),
    )
    sentences = []
    for what, got, least, aim in targets:
        word = "met" if got >= least else "MISSED"
        aimed = "" if aim == least else f", its aim of {aim}x {'reached' if got >= aim else 'not reached'}"
        sentences.append(f"{what}: {got:.1f}x, target of at least {least}x {word}{aimed}.")
    return sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, under a minute")
    parser.add_argument("--tasks", type=int, default=400, help="tasks at D = 640, fewer of larger ones")
    parser.add_argument("--out", type=Path, help="folder of speed.md and speed.png (benchmarks/results)")
    arguments = parser.parse_args()
    rounds = 3 if arguments.quick else 7
    out = arguments.out or (None if arguments.quick else Path(__file__).parent / "results")
    console, load = Console(), os.getloadavg()[0]

    results: Results = {}
    peak = dict.fromkeys((1, CORES), 0.0)
    for dimension in DIMENSIONS:
        pool = max(LEAST, arguments.tasks * DIMENSIONS[0] // dimension)
        run = contenders(gaussian_tasks(pool, dimension))
        agree(run)
        results[dimension] = race(run, pool, rounds)
        for threads in peak:  # a peak is the best of many tries
            tries = (_peak.multiply_adds_per_second(threads) for _ in range(rounds))
            peak[threads] = max(peak[threads], *tries)
        _report.show(console, speed_section(dimension, results[dimension]))
    plain, batched = race_figures(rounds, looped=100 if arguments.quick else 1000)
    start, memory = _fresh.cold_start(1 if arguments.quick else 5), _fresh.peak_memory()

    sections = [
        peak_section(results, peak),
        Section("Figures of 1000 tasks of 150 queries", ("", "ms a task", "ratio"), [
            ("scikit-learn in a loop", f"{1e3 * plain.median:.3g}", "1x"),
            ("handful.metrics.figures", f"{1e3 * batched.median:.3g}", f"{batched.ratio(plain):.0f}x"),
        ]),
        Section("Cold start", ("", "seconds"), [(what, f"{seconds:.3f}") for what, seconds in start.items()]),
        Section(
            "Memory to solve 500 tasks, D = 640, beyond the 214 MiB of features", ("", "MiB at the peak"),
            [(backend, f"{mib:.0f}") for backend, mib in memory.items()],
        ),
    ]  # fmt: skip
    for section in sections:
        _report.show(console, section)
    sentences = verdicts(results, batched.ratio(plain))
    console.print(*sentences, sep="\n")
    if out:
        notes = f"{_report.machine()}; load {load:.1f} before the run; {rounds} rounds."
        write(out, results, sections, sentences, notes)
        console.print(f"Written: {out / 'speed.md'}, {out / 'speed.png'}")


def write(out: Path, results: Results, sections: list[Section], sentences: list[str], notes: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    every = [speed_section(dimension, times) for dimension, times in results.items()] + sections
    about = __doc__.split("\n\n")[-1].strip()
    (out / "speed.md").write_text(_report.markdown(every, sentences, [about, notes]), "utf-8")
    ratios = {
        f"D = {dimension}": {name: times[name].ratio(times[YARDSTICK]) for name in ROWS}
        for dimension, times in results.items()
    }
    title = f"EOL, 5-way 5-shot, {QUERIES} queries, end to end, {CORES} cores"
    _report.chart(ratios, title, "times as fast as the plain torch loop", out / "speed.png")


if __name__ == "__main__":
    main()

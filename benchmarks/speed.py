"""How fast handful is, beside the loop a researcher would write. ::

    python benchmarks/speed.py             # some minutes; writes benchmarks/results/speed.md and speed.png
    python benchmarks/speed.py --quick     # under a minute; writes nothing unless --out says where

Everyone solves the same tasks, end to end from raw features to scores: 5-way 5-shot, 75 known and 75 unknown
queries, Gaussian clusters from a fixed seed. 1x is `_yardstick.py`, a loop over tasks in plain torch on one
thread. Contenders take turns, round after round, so that whatever else the machine is doing meets them all; a
turn during which other processes were busy is taken again. A ratio is that of the medians over the rounds; "best"
is that of the contender's best round, "quiet" how many rounds other processes left undisturbed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from math import ceil, log
from pathlib import Path
from typing import NamedTuple

import _fresh
import _peak
import _report
import _yardstick
import numpy as np
import torch
from _clock import QUIET, Times
from _report import Section
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
YARDSTICK = "plain torch loop, 1 thread"
ARRAY, ARRAY_ONE = "array (NumPy), all cores", "array (NumPy), 1 thread"
ARRAY_TORCH = "array (torch), 1 thread"
FAST, FAST_ONE, KERNEL = "fast, all cores", "fast, 1 thread", "its kernel alone, 1 thread"
ROWS = (YARDSTICK, ARRAY_TORCH, ARRAY_ONE, ARRAY, FAST_ONE, FAST)
LEAST = 8  # tasks in a turn

Run = Callable[[int], object]  # solves the first n tasks
Results = dict[int, dict[str, Times]]  # by dimension and contender: seconds a task


class Effort(NamedTuple):
    tasks: int  # at D = 640, fewer of larger ones
    rounds: int
    seconds: float  # that a contender's turn should last
    patience: int  # how often a disturbed turn is taken again
    looped: int  # tasks whose figures scikit-learn computes
    starts: int  # of fresh processes


FULL, QUICK = Effort(400, 7, 0.3, 6, 1000, 5), Effort(200, 2, 0.2, 1, 50, 1)


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

    def in_torch(n: int, solve: Callable) -> object:
        return solve(*(x[:n] for x in tensors))

    return {
        YARDSTICK: partial(in_torch, solve=_yardstick.solve),
        ARRAY_TORCH: partial(in_torch, solve=partial(handful.solve, "eol", backend="array", threads=1)),
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
    options = {"temperature": 10.0, "steps": STEPS, "learning_rate": 0.01, "learn": PARAMETERS, "refine": False}
    return lambda n: kernels.descend(ready.support[:n], labels[:n], ready.query[:n], head, **options)


def agree(run: dict[str, Run], n: int = 10) -> None:
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


def race(run: dict[str, Run], pool: int, effort: Effort) -> dict[str, Times]:
    """Seconds a task of everyone in each round. A turn is long enough to be timed; warm-up comes first."""
    sizes, times = {}, {name: Times() for name in run}
    for name, solve in run.items():
        solve(LEAST)
        start = time.perf_counter()
        solve(LEAST)
        sizes[name] = min(pool, max(LEAST, ceil(LEAST * effort.seconds / (time.perf_counter() - start))))
        if sizes[name] > LEAST:
            solve(sizes[name])  # the last chunk of tasks is of another shape
    for _ in range(effort.rounds):
        for name, solve in run.items():
            times[name].add(solve, sizes[name], effort.patience)
    return times


def race_figures(effort: Effort, batch: int = 1000) -> tuple[Times, Times]:
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
    plain, batched = Times(), Times()
    for _ in range(effort.rounds):
        plain.add(loop, effort.looped, effort.patience)
        batched.add(ours, batch, effort.patience)
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
    """Median, span over the rounds, ratio of medians, ratio in its best round, rounds undisturbed by others."""
    yardstick, rows = times[YARDSTICK], []
    for name in ROWS:
        t = times[name]
        spread = f"{1e3 * min(t.rounds):.3g}-{1e3 * max(t.rounds):.3g}"
        ratios = f"{t.ratio(yardstick):.1f}x", f"{t.best_ratio(yardstick):.1f}x"
        rows.append((name, f"{1e3 * t.median:.3g}", spread, *ratios, f"{t.quiet}/{len(t.rounds)}"))
    header = ("", "ms a task", "rounds, ms", "ratio", "best", "quiet")
    return Section(f"D = {dimension}", header, rows)


def peak_section(results: Results, peak: dict[int, float]) -> Section:
    rows = []
    for dimension, times in results.items():
        work = 2 * (WAYS * SHOTS + QUERIES) * dimension * WAYS * STEPS
        for name, threads in ((KERNEL, 1), (FAST_ONE, 1), (FAST, CORES)):
            speed = work / times[name].median
            rows.append((f"D = {dimension}: {name}", f"{speed / 1e9:.1f}", f"{speed / peak[threads]:.0%}"))
    peaks = ", ".join(f"{p / 1e9:.0f}e9/s on {t} thread{'s' * (t > 1)}" for t, p in peak.items())
    return Section(f"Of the machine's FMA peak ({peaks})", ("", "1e9 multiply-adds/s", "of peak"), rows)


def disturbance(results: Results) -> str:
    others = np.array([t.others for times in results.values() for t in times.values()])
    return f"other processes took over {QUIET:.0%} of a core in {np.mean(others > QUIET):.0%} of the turns"


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
    parser.add_argument("--tasks", type=int, help=f"tasks at D = 640, fewer of larger ones ({FULL.tasks})")
    parser.add_argument("--out", type=Path, help="folder of speed.md and speed.png (benchmarks/results)")
    arguments = parser.parse_args()
    effort = QUICK if arguments.quick else FULL
    torch.set_num_threads(1)
    out = arguments.out or (None if arguments.quick else Path(__file__).parent / "results")
    console = Console()

    results: Results = {}
    peak = dict.fromkeys((1, CORES), 0.0)
    for dimension in DIMENSIONS:
        pool = max(LEAST, (arguments.tasks or effort.tasks) * DIMENSIONS[0] // dimension)
        run = contenders(gaussian_tasks(pool, dimension))
        agree(run)
        results[dimension] = race(run, pool, effort)
        for threads in peak:  # a peak is the best of many tries
            tries = (_peak.multiply_adds_per_second(threads) for _ in range(effort.rounds))
            peak[threads] = max(peak[threads], *tries)
        _report.show(console, speed_section(dimension, results[dimension]))
    plain, batched = race_figures(effort)
    start, memory = _fresh.cold_start(effort.starts), _fresh.peak_memory()

    sections = [
        peak_section(results, peak),
        Section("Figures of 1000 tasks of 150 queries", ("", "ms a task", "ratio"), [
            ("scikit-learn in a loop", f"{1e3 * plain.median:.3g}", "1x"),
            ("handful.metrics.figures", f"{1e3 * batched.median:.3g}", f"{batched.ratio(plain):.0f}x"),
        ]),
        Section("Cold start", ("", "seconds"), [(what, f"{seconds:.3f}") for what, seconds in start.items()]),
        Section("Memory to solve 500 tasks, D = 640", ("", "MiB at the peak"), [
            ("the features themselves", f"{500 * (WAYS * SHOTS + QUERIES) * 640 * 4 / 2**20:.0f}"),
            *((f"{backend}, beyond them", f"{mib:.0f}") for backend, mib in memory.items()),
        ]),
    ]  # fmt: skip
    for section in sections:
        _report.show(console, section)
    sentences = verdicts(results, batched.ratio(plain))
    notes = f"{_report.machine()}; {effort.rounds} rounds, {disturbance(results)}."
    console.print(*sentences, notes, sep="\n")
    if out:
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

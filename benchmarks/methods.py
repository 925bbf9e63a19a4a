"""How much faster tasks are solved together than one by one, for every method. ::

    python benchmarks/methods.py             # some minutes; writes benchmarks/results/methods.md and methods.png
    python benchmarks/methods.py --quick     # about a minute; writes nothing unless --out says where

5-way 5-shot, 150 queries, 64 and 640 features, the Gaussian clusters of `speed.py` without preparation: each method
does its own, and is told a share of outliers. "One by one" is a Python loop of `handful.solve(method, task)`, the BLAS
keeping its threads; "batched" is one call for a batch of the same tasks, with backend="array" where there is a choice;
"fast" is that with backend="fast". Tasks are made, and their features checked, beforehand. Contenders take turns as in
`speed.py`, and answer alike before they are timed. A ratio is that of the medians over the rounds, against one by one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import _report
import numpy as np
from _clock import Times
from _report import Section
from rich.console import Console
from speed import CORES, QUERIES, Run, disturbance, gaussian_tasks

import handful
from handful.methods.registry import get

DIMENSIONS = (64, 640)  # where calls cost most, and where memory does
LOOP, BATCHED, FAST = "one by one", "batched", "fast"
LEAST = {BATCHED: 5, FAST: 20}  # times as fast as one by one
LOOPS_ANYWAY = ("copod", "iforest", "ocsvm", "pca")  # PyOD knows one data set at a time: no target

Results = dict[str, dict[str, Times]]  # by method and contender: seconds a task


class Effort(NamedTuple):
    tasks: int  # in a turn, the same ones for all
    rounds: int
    patience: int  # how often a disturbed turn is taken again

    def of(self, method: str) -> int:
        return self.tasks // 8 if method in LOOPS_ANYWAY else self.tasks


FULL, QUICK = Effort(160, 7, 6), Effort(80, 2, 1)


def contenders(method: str, tasks: handful.Task) -> dict[str, Run]:
    alone = [tasks[i] for i in range(tasks.batch)]

    def batched(**options: str) -> Run:
        return lambda n: handful.solve(method, tasks[:n], outlier_share=0.5, **options)

    run: dict[str, Run] = {LOOP: lambda n: [handful.solve(method, task, outlier_share=0.5) for task in alone[:n]]}
    if "backend" not in get(method).defaults:
        return run | {BATCHED: batched()}
    return run | {BATCHED: batched(backend="array"), FAST: batched(backend="fast")}


def agree(method: str, run: dict[str, Run], n: int = 10) -> None:
    """Stop unless a task is answered alike in company."""
    alone = run[LOOP](n)
    for name in run.keys() - {LOOP}:
        together = run[name](n)
        for what in ("probabilities", "outlier_scores"):
            a, b = np.stack([getattr(result, what) for result in alone]), getattr(together, what)
            difference = float(np.median(np.abs(a - b)) / np.abs(a).max())
            if not difference <= 2e-6:
                raise SystemExit(f"{method}, {name}: {what} differ from those one by one by {difference:.1e} (median)")


def race(run: dict[str, Run], n: int, effort: Effort) -> dict[str, Times]:
    """Seconds a task of everyone in each round; warm-up comes first."""
    times = {name: Times() for name in run}
    for solve in run.values():
        solve(n)
    for _ in range(effort.rounds):
        for name, solve in run.items():
            times[name].add(solve, n, effort.patience)
    return times


def ratios(results: Results, contender: str) -> dict[str, float]:
    return {m: t[contender].ratio(t[LOOP]) for m, t in results.items() if contender in t}


def section(results: Results, dimension: int) -> Section:
    def cells(times: dict[str, Times], name: str) -> tuple[str, str]:
        if name not in times:
            return "", ""
        return f"{1 / times[name].median:.0f}", f"{times[name].ratio(times[LOOP]):.1f}x"

    rows = [(m, f"{1 / t[LOOP].median:.0f}", *cells(t, BATCHED), *cells(t, FAST)) for m, t in results.items()]
    header = ("", f"{LOOP}, tasks/s", f"{BATCHED}, tasks/s", "ratio", f"{FAST}, tasks/s", "ratio")
    return Section(f"Tasks a second, {dimension} features", header, rows)


def verdicts(results: Results, dimension: int) -> list[str]:
    """A sentence for each target."""
    sentences = []
    for name, least in LEAST.items():
        counted = {m: r for m, r in ratios(results, name).items() if m not in LOOPS_ANYWAY}
        if not counted:
            continue
        missed = [f"{m} ({r:.1f}x)" for m, r in counted.items() if r < least]
        met = [m for m, r in counted.items() if r >= least]
        sentences.append(
            f"{dimension} features, {name}, target of at least {least}x: met by {len(met)} of {len(counted)} "
            f"({', '.join(met) or 'none'})" + (f"; MISSED by {', '.join(missed)}." if missed else ".")
        )
    return sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("methods", nargs="*", help="only these (every method)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, about a minute")
    parser.add_argument("--out", type=Path, help="folder of methods.md and methods.png (benchmarks/results)")
    arguments = parser.parse_args()
    effort = QUICK if arguments.quick else FULL
    partial = arguments.quick or arguments.methods
    out = arguments.out or (None if partial else Path(__file__).parent / "results")
    console = Console()

    tables, sentences, bars, every = [], [], {}, {}
    for dimension in DIMENSIONS:
        tasks = handful.Task(*gaussian_tasks(effort.tasks, dimension))
        results: Results = {}
        for method in arguments.methods or [info.name for info in handful.list_methods() if not info.needs]:
            with console.status(f"{method}, {dimension} features"):
                run = contenders(method, tasks)
                agree(method, run)
                results[method] = race(run, effort.of(method), effort)
        every |= {(method, dimension): times for method, times in results.items()}
        tables.append(section(results, dimension))
        sentences += verdicts(results, dimension)
        bars |= {f"{name}, {dimension}": of for name in (BATCHED, FAST) if (of := ratios(results, name))}
        _report.show(console, tables[-1])
    sentences.append(f"No target for {', '.join(LOOPS_ANYWAY)}: PyOD knows one data set at a time.")
    sentences.append("Methods that learn from base classes are left out: there are none here.")
    notes = f"{_report.machine()}; {effort.rounds} rounds, {disturbance(every)}."
    console.print(*sentences, notes, sep="\n")
    if out:
        out.mkdir(parents=True, exist_ok=True)
        about = __doc__.split("\n\n")[-1].strip()
        text = _report.markdown(tables, sentences, [about, notes], title="Methods, batched and one by one")
        (out / "methods.md").write_text(text, "utf-8")
        title = f"5-way 5-shot, {QUERIES} queries, {CORES} cores"
        _report.chart(bars, title, "times as fast as one by one", out / "methods.png")
        console.print(f"Written: {out / 'methods.md'}, {out / 'methods.png'}")


if __name__ == "__main__":
    main()

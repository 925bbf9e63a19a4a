"""How much faster tasks are solved together than one by one, for every method. ::

    python benchmarks/methods.py             # some minutes; writes benchmarks/results/methods.md and methods.png
    python benchmarks/methods.py --quick     # some seconds; writes into a temporary folder
    python benchmarks/methods.py eol kdo     # these two only; writes into a temporary folder

5-way 5-shot, 150 queries, 64 and 640 features, the Gaussian clusters of `speed.py` without preparation: each method
does its own, and is told the share of outliers, one half. "One by one" is a Python loop of `handful.solve(task,
task)`, the BLAS keeping its threads; "batched" is one call for a batch of the same tasks, with backend="array" where
there is a choice; "in C" is that by the kernels in C. Tasks are made, and their features checked, beforehand.
Contenders take turns as in `speed.py`, and answer alike before they are timed. A ratio is that of the medians over the
rounds, against one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import _report
import numpy as np
from _clock import Run, Times, disturbance, race
from _problem import QUERIES, gaussian_tasks
from _report import Section
from _script import Parser
from rich.console import Console

import handful
from handful.solving import get_solver
from handful.utils.threads import available_threads

DIMENSIONS = (64, 640)  # where calls cost most, and where memory does
LOOP, BATCHED, IN_C = "one by one", "batched", "in C"
LEAST = {BATCHED: 5, IN_C: 20}  # times as fast as one by one
LOOPS_ANYWAY = ("copod", "iforest", "ocsvm", "pca")  # PyOD knows one data set at a time: no target

Results = dict[str, dict[str, Times]]  # by method and contender: seconds a task


class Effort(NamedTuple):
    rounds: int
    patience: int  # how often a disturbed turn is taken again
    compared: int  # tasks that are compared with those one by one


FULL, QUICK = Effort(7, 6, 10), Effort(1, 0, 2)


def contenders(method: str, tasks: handful.Task) -> dict[str, Run]:
    alone = [tasks[i] for i in range(tasks.batch)]

    def batched(**options: str) -> Run:
        return lambda n: handful.solve(tasks[:n], method=method, outlier_share=0.5, **options)

    run: dict[str, Run] = {
        LOOP: lambda n: [handful.solve(task, method=method, outlier_share=0.5) for task in alone[:n]]
    }
    if "backend" not in get_solver(method).defaults:
        return run | {BATCHED: batched()}
    return run | {BATCHED: batched(backend="array"), IN_C: batched()}


def agree(method: str, run: dict[str, Run], n: int) -> None:
    """Stop unless a task is answered alike in company."""
    alone = run[LOOP](n)
    for name in run.keys() - {LOOP}:
        together = run[name](n)
        for what in ("probabilities", "outlier_scores"):
            a, b = np.stack([getattr(result, what) for result in alone]), getattr(together, what)
            difference = float(np.median(np.abs(a - b)) / np.abs(a).max())
            if not difference <= 2e-6:
                raise SystemExit(f"{method}, {name}: {what} differ from those one by one by {difference:.1e} (median)")


def ratios(results: Results, contender: str) -> dict[str, float]:
    return {m: t[contender].ratio(t[LOOP]) for m, t in results.items() if contender in t}


def section(results: Results, dimension: int) -> Section:
    def cells(times: dict[str, Times], name: str) -> tuple[str, str]:
        if name not in times:
            return "", ""
        return f"{1 / times[name].median:.0f}", f"{times[name].ratio(times[LOOP]):.1f}x"

    rows = [(m, f"{1 / t[LOOP].median:.0f}", *cells(t, BATCHED), *cells(t, IN_C)) for m, t in results.items()]
    header = ("", f"{LOOP}, tasks/s", f"{BATCHED}, tasks/s", "ratio", f"{IN_C}, tasks/s", "ratio")
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
    parser = Parser(__doc__, "some minutes")
    parser.add_part("methods", nargs="*", help="only these (every method)")
    parser.add_size("--tasks", 160, 2, "tasks in a turn, the same ones for all")
    given = parser.parse()
    effort = QUICK if given.quick else FULL
    console = Console()

    tables, sentences, bars, every = [], [], {}, []
    for dimension in DIMENSIONS:
        tasks = handful.Task(*gaussian_tasks(given.tasks, dimension))
        results: Results = {}
        for method in given.methods or [
            info.name for info in map(handful.describe, handful.list_methods()) if not info.needs
        ]:
            with console.status(f"{method}, {dimension} features"):
                run = contenders(method, tasks)
                agree(method, run, min(effort.compared, given.tasks))
                n = max(1, given.tasks // 8) if method in LOOPS_ANYWAY else given.tasks
                for solve in run.values():
                    solve(n)  # warm
                results[method] = race(run, dict.fromkeys(run, n), effort.rounds, effort.patience)
        every += [t for times in results.values() for t in times.values()]
        tables.append(section(results, dimension))
        sentences += verdicts(results, dimension)
        bars |= {f"{name}, {dimension}": of for name in (BATCHED, IN_C) if (of := ratios(results, name))}
        _report.show(console, tables[-1])
    sentences.append(f"No target for {', '.join(LOOPS_ANYWAY)}: PyOD knows one data set at a time.")
    sentences.append("Methods that learn from base classes are left out: there are none here.")
    notes = f"{_report.machine()}; {effort.rounds} rounds, {disturbance(every)}."
    console.print(*sentences, notes, sep="\n")
    title = "Methods, batched and one by one"
    _report.write(console, given.output / "methods.md", title, tables, sentences, [_report.about(__doc__), notes])
    title = f"5-way 5-shot, {QUERIES} queries, {available_threads()} cores"
    _report.chart(bars, title, "times as fast as one by one", given.output / "methods.png")


if __name__ == "__main__":
    main()

"""How fast handful is, beside the loop a researcher would write. ::

    python benchmarks/speed.py             # some minutes; writes benchmarks/results/speed.md and speed.png
    python benchmarks/speed.py --quick     # some seconds; writes into a temporary folder

Everyone solves the same tasks, end to end from raw features to scores: 5-way 5-shot, 75 known and 75 unknown queries,
Gaussian clusters from a fixed seed. Everyone is told the same b = 1/2, which suits these tasks: the share of unknowns
is not estimated. Before the race, everyone must give the answers of the plain loop. 1x is `_yardstick.py`, a loop over
tasks in plain torch on one thread. Contenders take turns, round after round, so that whatever else the machine is
doing meets them all; a turn during which other processes were busy is taken again. A ratio is that of the medians over
the rounds; "best" is that of the contender's best round, "quiet" how many rounds other processes left undisturbed.

The default method (EOL + KDO) runs on the same tasks at D = 640, told the share of unknowns and not told, beside EOL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import _fresh
import _problem
import _report
import _yardstick
import numpy as np
import torch
from _clock import Run, Times, disturbance, race, turn_size
from _problem import (
    EOL,
    PREPARATION,
    QUERIES,
    SHOTS,
    WAYS,
    figures_by_scikit_learn,
    gaussian_tasks,
)
from _report import Section
from _script import Parser
from rich.console import Console
from threadpoolctl import ThreadpoolController

import handful
from handful.core.metrics import figures
from handful.engines.kernels import levels
from handful.utils.threads import available_threads

DIMENSIONS = (64, 640, 1280, 2048)
MOST_TASKS_AT = 640  # features
CORES = available_threads()
YARDSTICK = "plain torch loop, 1 thread"
ARRAY, ARRAY_ONE = "array (NumPy), all cores", "array (NumPy), 1 thread"
ARRAY_TORCH = "array (torch), 1 thread"
IN_C, IN_C_ONE = "kernels in C, all cores", "kernels in C, 1 thread"
ROWS = (YARDSTICK, ARRAY_TORCH, ARRAY_ONE, ARRAY, IN_C_ONE, IN_C)

MEMORY_OF = {"array": "array (NumPy)", "auto": "kernels in C"}
EOL_TOLD = "EOL, told the share, in C"
DEFAULT = {  # name: how the default method runs
    f"the default, {word}, {how}": {"backend": backend} | share
    for word, share in (("told the share", {"outlier_share": 0.5}), ("not told", {}))
    for how, backend in (("array", "array"), ("in C", "auto"))
}

Results = dict[int, dict[str, Times]]  # by dimension and contender: seconds a task


class Effort(NamedTuple):
    rounds: int
    seconds: float  # that a contender's turn should last
    least: int  # tasks in a turn
    compared: int  # tasks that are compared with the plain loop
    patience: int  # how often a disturbed turn is taken again
    looped: int  # tasks whose figures scikit-learn computes
    starts: int  # of fresh processes
    warms: bool  # whether a round of starts that do not count comes first
    held: int  # tasks whose memory is measured


FULL = Effort(7, 0.3, 8, 10, 6, 1000, 5, True, 500)
QUICK = Effort(1, 0.01, 2, 2, 0, 20, 1, False, 8)


def contenders(tasks: tuple[np.ndarray, ...]) -> dict[str, Run]:
    tensors = [torch.from_numpy(x) for x in tasks]
    blas = ThreadpoolController()

    def own(arrays: Sequence, n: int, **options: object) -> handful.Result:
        return handful.solve(*(x[:n] for x in arrays), method="eol", preparation=PREPARATION, **EOL, **options)

    def one_thread(n: int, **options: object) -> handful.Result:
        with blas.limit(limits=1, user_api="blas"):  # threads=1 leaves NumPy's BLAS its own threads
            return own(tasks, n, threads=1, **options)

    def plain_loop(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return _yardstick.solve(*(x[:n] for x in tensors), **_problem.YARDSTICK)

    return {
        YARDSTICK: plain_loop,
        ARRAY_TORCH: partial(own, tensors, backend="array", threads=1),
        ARRAY_ONE: partial(one_thread, backend="array"),
        ARRAY: partial(own, tasks, backend="array"),
        IN_C_ONE: partial(one_thread),
        IN_C: partial(own, tasks),
    }


def race_default(effort: Effort, pool: int) -> dict[str, Times]:
    """Seconds a task of the default method and of EOL, all cores, D = 640."""
    tasks = gaussian_tasks(pool, 640)

    def own(n: int, **options: object) -> handful.Result:
        return handful.solve(*(x[:n] for x in tasks), **options)

    run: dict[str, Run] = {EOL_TOLD: partial(own, method="eol", outlier_share=0.5)}
    run |= {name: partial(own, method="eol_kdo", **options) for name, options in DEFAULT.items()}
    return race(run, turn_sizes(run, pool, effort), effort.rounds, effort.patience)


def default_section(times: dict[str, Times]) -> Section:
    rows = [(name, f"{1e3 * t.median:.3g}", f"{t.median / times[EOL_TOLD].median:.1f}x") for name, t in times.items()]
    return Section("The default method, D = 640, all cores", ("", "ms a task", "time of EOL"), rows)


def agree(run: dict[str, Run], n: int) -> None:
    """Stop unless handful computes what the plain loop computes."""
    probabilities, scores = (x.numpy() for x in run[YARDSTICK](n))
    for name in ROWS[1:]:
        result = run[name](n)
        for what, a, b in (
            ("probabilities", probabilities, result.probabilities),
            ("scores", scores, result.outlier_scores),
        ):
            difference = float(np.median(np.abs(a - np.asarray(b))))
            if not difference <= 2e-6:
                raise SystemExit(f"{name} disagrees with the plain loop: {what} by {difference:.1e} (median)")


def turn_sizes(run: dict[str, Run], pool: int, effort: Effort) -> dict[str, int]:
    """Tasks in a turn of each, long enough to be timed; all are warm afterwards."""
    sizes = {}
    for name, solve in run.items():
        solve(effort.least)
        sizes[name] = min(pool, turn_size(solve, effort.least, effort.seconds))
        if sizes[name] > effort.least:
            solve(sizes[name])  # the last chunk of tasks is of another shape
    return sizes


def race_figures(effort: Effort, batch: int = 1000) -> tuple[Times, Times]:
    """Seconds a task of scikit-learn's functions, looped over tasks, and of `handful.core.metrics.figures`."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(WAYS), (batch, QUERIES))
    truth = np.tile(np.arange(QUERIES) % (2 * WAYS), (batch, 1))
    truth[truth >= WAYS] = -1
    scores = rng.normal(size=truth.shape) + (truth == -1)

    def loop(n: int) -> list[tuple[float, ...]]:
        return [figures_by_scikit_learn(*task) for task in zip(probabilities[:n], scores[:n], truth[:n], strict=True)]

    def ours(n: int) -> dict[str, np.ndarray]:
        return figures(probabilities[:n], scores[:n], truth[:n])

    np.testing.assert_allclose(np.stack(list(ours(20).values()), axis=1), loop(20), rtol=1e-9)
    run: dict[str, Run] = {"loop": loop, "ours": ours}
    times = race(run, {"loop": effort.looped, "ours": batch}, effort.rounds, effort.patience)
    return times["loop"], times["ours"]


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


def verdicts(results: Results, of_figures: float, of_default: dict[str, Times]) -> list[str]:
    """A sentence for each target."""

    def ratio(dimension: int, name: str) -> float:
        return results[dimension][name].ratio(results[dimension][YARDSTICK])

    targets = (
        ("NumPy alone at D = 640", ratio(640, ARRAY), 5, 8),
        ("The kernels on all cores at D = 640", ratio(640, IN_C), 60, 100),
        ("The kernels on one thread at D = 640", ratio(640, IN_C_ONE), 50, 80),
        ("The kernels on all cores at D = 1280", ratio(1280, IN_C), 25, 60),
        ("The figures of 1000 tasks", of_figures, 50, 50),
    )
    sentences = []
    for what, got, least, aim in targets:
        word = "met" if got >= least else "MISSED"
        aimed = "" if aim == least else f", its aim of {aim}x {'reached' if got >= aim else 'not reached'}"
        sentences.append(f"{what}: {got:.1f}x, target of at least {least}x {word}{aimed}.")
    small = results[64][IN_C].median / results[640][IN_C].median
    word = "reached" if small <= 1 / 6 else "not reached"
    sentences.append(f"A task at D = 64 takes 1/{1 / small:.1f} of the time at D = 640, aim of at most 1/6 {word}.")
    for name, aim in zip(list(DEFAULT)[1::2], (1.7, 2.5), strict=True):
        times = of_default[name].median / of_default[EOL_TOLD].median
        word = "reached" if times <= aim else "not reached"
        sentences.append(f"{name[0].upper()}{name[1:]}: {times:.1f}x the time of EOL, aim of at most {aim}x {word}.")
    return sentences


def main() -> None:
    parser = Parser(__doc__, "some minutes")
    parser.add_size("--tasks", 400, 8, "tasks at D = 640, fewer of larger ones")
    given = parser.parse()
    effort = QUICK if given.quick else FULL
    torch.set_num_threads(1)
    console = Console()

    if not levels():
        raise SystemExit("there are no kernels to measure: python hatch_build.py")
    results: Results = {}
    for dimension in DIMENSIONS:
        pool = max(effort.least, effort.compared, given.tasks * MOST_TASKS_AT // max(dimension, MOST_TASKS_AT))
        run = contenders(gaussian_tasks(pool, dimension))
        agree(run, effort.compared)
        results[dimension] = race(run, turn_sizes(run, pool, effort), effort.rounds, effort.patience)
        _report.show(console, speed_section(dimension, results[dimension]))
    of_default = race_default(effort, max(effort.least, given.tasks // 2))
    plain, batched = race_figures(effort)
    start = _fresh.cold_start(effort.starts, effort.warms)
    memory = _fresh.peak_memory(effort.held)

    sections = [
        default_section(of_default),
        Section("Figures of 1000 tasks of 150 queries", ("", "ms a task", "ratio"), [
            ("scikit-learn in a loop", f"{1e3 * plain.median:.3g}", "1x"),
            ("handful.core.metrics.figures", f"{1e3 * batched.median:.3g}", f"{batched.ratio(plain):.0f}x"),
        ]),
        Section("Cold start", ("", "seconds"), [(what, f"{seconds:.3f}") for what, seconds in start.items()]),
        Section(f"Memory to solve {effort.held} tasks, D = 640", ("", "MiB at the peak"), [
            ("the features themselves", f"{effort.held * (WAYS * SHOTS + QUERIES) * 640 * 4 / 2**20:.0f}"),
            *((f"{MEMORY_OF[backend]}, beyond them", f"{mib:.0f}") for backend, mib in memory.items()),
        ]),
    ]  # fmt: skip
    for section in sections:
        _report.show(console, section)
    sentences = verdicts(results, batched.ratio(plain), of_default)
    noise = disturbance(t for times in results.values() for t in times.values())
    notes = f"{_report.machine()}; {effort.rounds} rounds, {noise}."
    console.print(*sentences, notes, sep="\n")
    sections = [*(speed_section(dimension, times) for dimension, times in results.items()), *sections]
    _report.write(console, given.output / "speed.md", "Speed", sections, sentences, [_report.about(__doc__), notes])
    draw(results, given.output / "speed.png")


def draw(results: Results, path: Path) -> None:
    ratios = {
        f"D = {dimension}": {name: times[name].ratio(times[YARDSTICK]) for name in ROWS}
        for dimension, times in results.items()
    }
    title = f"EOL, 5-way 5-shot, {QUERIES} queries, end to end, {CORES} cores"
    _report.chart(ratios, title, "times as fast as the plain torch loop", path)


if __name__ == "__main__":
    main()

"""EOL from a feature set to figures on disk, beside the loop a researcher would write. ::

    python benchmarks/end_to_end.py                      # some minutes; writes benchmarks/results/end_to_end.md
    python benchmarks/end_to_end.py --quick              # some seconds; writes into a temporary folder
    python benchmarks/end_to_end.py --features F.npz     # on features of your own; into a temporary folder

Both draw the same tasks (5-way 5-shot, 15 + 15 queries a class), solve them by EOL with b = 1/2, compute accuracy,
AUROC, AUPR and Prec@0.9 of each, and write them to disk. The loop takes a task at a time: `_yardstick.py` in torch
(autograd, Adam, torch keeping its threads), figures by scikit-learn, one Parquet file at the end. handful's is
`handful.bench.run` with a job a core. Turns alternate; a ratio is that of the medians over the rounds. Without
--features: 20 Gaussian classes of 250 items, 1280 features.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import _report
import _yardstick
import numpy as np
import pyarrow as pa
import torch
from _clock import Times, disturbance
from _problem import EOL, YARDSTICK, figures_by_scikit_learn, gaussian_classes
from _script import Parser
from pyarrow import parquet
from rich.console import Console

from handful.bench import run
from handful.bench.settings import Contender, balanced
from handful.features import FeatureTable, Protocol, draw
from handful.utils.threads import available_threads

CORES = available_threads()
LOOP, OWN = "loop in torch and scikit-learn", f"handful, {CORES} jobs"
LEAST = 30
FIGURES = ("accuracy", "auroc", "aupr", "prec@0.9")


def loop(features: FeatureTable, n: int, folder: Path) -> np.ndarray:
    rows = []
    for i in range(n):
        one = draw(features.features, features.labels, Protocol(), seed=0, tasks=[i])
        task = [torch.from_numpy(np.asarray(x)[0]) for x in (one.task.support, one.task.labels, one.task.query)]
        p, scores = _yardstick.eol(*task, **YARDSTICK)
        rows.append(figures_by_scikit_learn(p.numpy(), scores.numpy(), one.truth[0]))
    values = np.array(rows)
    parquet.write_table(pa.table(dict(zip(FIGURES, values.T, strict=True))), folder / "loop.parquet")
    return values


def own(features: FeatureTable, n: int, folder: Path) -> np.ndarray:
    benchmark = balanced(Protocol(), [Contender("EOL", "eol", EOL)])
    found = run(benchmark, features, None, folder, seeds=1, tasks=n, jobs=CORES)
    (cell,) = found.figures.values()
    return np.stack([cell[name] for name in FIGURES], axis=1) / 100


def main() -> None:
    parser = Parser(__doc__, "some minutes")
    parser.add_part("--features", type=Path, help="a feature set (Gaussian classes)")
    parser.add_size("--tasks", 1000, 40, "tasks of handful in a turn")
    parser.add_size("--looped", 100, 4, "tasks of the loop in a turn")
    parser.add_size("--compared", 50, 4, "tasks that are compared before the race")
    parser.add_size("--rounds", 5, 1, "turns of each")
    given = parser.parse()
    console = Console()
    features = parser.feature_set(given.features, gaussian_classes)

    def fresh(work, n: int) -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder:
            return work(features, n, Path(folder))

    apart = np.abs(fresh(loop, given.compared) - fresh(own, given.compared)).max()
    if not apart <= 0.02:  # a query or two of 75 may change sides by rounding
        raise SystemExit(f"the figures of the two differ by {apart:.3f}")
    times = {LOOP: Times(), OWN: Times()}
    for _ in range(given.rounds):
        times[LOOP].add(lambda n: fresh(loop, n), given.looped, patience=0 if given.quick else 2)
        times[OWN].add(lambda n: fresh(own, n), given.tasks, patience=0)  # its own processes would count as others
    ratio = times[OWN].ratio(times[LOOP])
    rows = [(name, f"{1e3 * t.median:.2f}", f"{t.ratio(times[LOOP]):.1f}x") for name, t in times.items()]
    section = _report.Section("Milliseconds a task", ("", "ms", "ratio"), rows)
    verdict = f"Target of at least {LEAST}x: {'met' if ratio >= LEAST else 'MISSED'} ({ratio:.1f}x)."
    notes = f"{features!r}; {_report.machine()}; {given.rounds} rounds, {disturbance([times[LOOP]])}."
    _report.show(console, section)
    console.print(verdict, notes, sep="\n")
    path, title = given.output / "end_to_end.md", "From features to figures on disk"
    _report.write(console, path, title, [section], [verdict], [_report.about(__doc__), notes])


if __name__ == "__main__":
    main()

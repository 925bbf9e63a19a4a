"""EOL from a feature set to figures on disk, beside the loop a researcher would write. ::

    python benchmarks/end_to_end.py                      # some minutes; writes benchmarks/results/end_to_end.md
    python benchmarks/end_to_end.py --features F.npz     # on features of your own

Both draw the same tasks (5-way 5-shot, 15 + 15 queries a class), solve them by EOL, compute accuracy, AUROC, AUPR and
Prec@0.9 of each, and write them to disk. The loop takes a task at a time: `_yardstick.py` in torch (autograd, Adam,
torch keeping its threads), figures by scikit-learn, one Parquet file at the end. handful's is `handful.bench.run` with
a job a core. Turns alternate; a ratio is that of the medians over the rounds. Without
--features: 20 Gaussian classes of 250 items, 1280 features.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import _report
import _yardstick
import numpy as np
import pyarrow as pa
import torch
from _clock import Times
from pyarrow import parquet
from rich.console import Console
from sklearn import metrics as sklearn_metrics
from speed import CORES, disturbance

from handful.bench import Store, parse_methods, run
from handful.bench.settings import balanced
from handful.features import FeatureSet, Protocol, draw, read

LOOP, OWN = "loop in torch and scikit-learn", f"handful, {CORES} jobs"
LEAST = 30
FIGURES = ("accuracy", "auroc", "aupr", "prec@0.9")


def gaussian_classes(classes: int = 20, items: int = 250, dimension: int = 1280) -> FeatureSet:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((classes, 1, dimension), dtype=np.float32)
    features = centres + 3 * rng.standard_normal((classes, items, dimension), dtype=np.float32)
    return FeatureSet(features.reshape(-1, dimension), np.repeat(np.arange(classes), items), name="Gaussian classes")


def figures_by_scikit_learn(probabilities: np.ndarray, scores: np.ndarray, truth: np.ndarray) -> tuple[float, ...]:
    known = truth >= 0
    precision, recall, _ = sklearn_metrics.precision_recall_curve(~known, scores)
    return (
        sklearn_metrics.accuracy_score(truth[known], probabilities[known].argmax(axis=1)),
        sklearn_metrics.roc_auc_score(~known, scores),
        sklearn_metrics.auc(recall, precision),
        precision[recall >= 0.9][-1],
    )


def loop(features: FeatureSet, n: int, folder: Path) -> np.ndarray:
    rows = []
    for i in range(n):
        one = draw(features.features, features.labels, Protocol(), seed=0, tasks=[i])
        task = [torch.from_numpy(np.asarray(x)[0]) for x in (one.task.support, one.task.labels, one.task.query)]
        p, scores = _yardstick.eol(*task)
        rows.append(figures_by_scikit_learn(p.numpy(), scores.numpy(), one.truth[0]))
    values = np.array(rows)
    parquet.write_table(pa.table(dict(zip(FIGURES, values.T, strict=True))), folder / "loop.parquet")
    return values


def own(features: FeatureSet, n: int, folder: Path) -> np.ndarray:
    benchmark = balanced(Protocol(), parse_methods("eol"))
    found = run(benchmark, features, None, Store(folder), seeds=1, tasks=n, jobs=CORES)
    (cell,) = found.figures.values()
    return np.stack([cell[name] for name in FIGURES], axis=1) / 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--features", type=Path, help="a feature set (Gaussian classes)")
    parser.add_argument("--tasks", type=int, default=1000, help="of handful in a turn (1000)")
    parser.add_argument("--looped", type=int, default=100, help="of the loop in a turn (100)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    console = Console()
    features = read(arguments.features) if arguments.features else gaussian_classes()

    def fresh(work, n: int) -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder:
            return work(features, n, Path(folder))

    apart = np.abs(fresh(loop, 50) - fresh(own, 50)).max()
    if not apart <= 0.02:  # a query or two of 75 may change sides by rounding
        raise SystemExit(f"the figures of the two differ by {apart:.3f}")
    times = {LOOP: Times(), OWN: Times()}
    for _ in range(arguments.rounds):
        times[LOOP].add(lambda n: fresh(loop, n), arguments.looped, patience=2)
        times[OWN].add(lambda n: fresh(own, n), arguments.tasks, patience=0)  # its own processes would count as others
    ratio = times[OWN].ratio(times[LOOP])
    rows = [(name, f"{1e3 * t.median:.2f}", f"{t.ratio(times[LOOP]):.1f}x") for name, t in times.items()]
    section = _report.Section("Milliseconds a task", ("", "ms", "ratio"), rows)
    verdict = f"Target of at least {LEAST}x: {'met' if ratio >= LEAST else 'MISSED'} ({ratio:.1f}x)."
    quiet = disturbance({0: {LOOP: times[LOOP]}})
    notes = f"{features!r}; {_report.machine()}; {arguments.rounds} rounds, {quiet}."
    _report.show(console, section)
    console.print(verdict, notes, sep="\n")
    about = __doc__.split("\n\n")[-1].strip()
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = _report.markdown([section], [verdict], [about, notes], title="From features to figures on disk")
    (arguments.out / "end_to_end.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()

"""Does P(unknown) mean what it says? Reliability before and after `handful.core.decide.calibrate`. ::

    python benchmarks/calibration.py FEATURES     # minutes; writes calibration.md and .png in benchmarks/results
    python benchmarks/calibration.py --quick      # some seconds, generated features; writes into a temporary folder

5-way tasks of seed 7 (no number was chosen on it) with none to five sixths unknowns, not told how many, all thrown
together. "Before" is the method's own outlier probability. The expected calibration error is the mean over items of
|mean P - part truly unknown| in 15 equal bins of P.
"""

from __future__ import annotations

from pathlib import Path

import _report
import numpy as np
from _problem import small_classes
from _report import Section
from _script import Parser
from rich.console import Console

import handful
from handful.features import FeatureTable, Protocol, draw

BINS = 15
SHARES = ((30, 0), (25, 5), (20, 10), (15, 15), (10, 20), (5, 25))
METHODS = {"auto": "EOL + KDO (default)", "kdo": "KDO", "eol": "EOL"}
SHOTS = (1, 5, 10)

Reliability = tuple[np.ndarray, np.ndarray, np.ndarray]  # of each bin: mean P, part unknown, items


def reliability(p: np.ndarray, unknown: np.ndarray) -> Reliability:
    of_bin = np.minimum((p * BINS).astype(int), BINS - 1)
    count = np.bincount(of_bin, minlength=BINS)
    some = np.maximum(count, 1)
    return np.bincount(of_bin, p, BINS) / some, np.bincount(of_bin, unknown, BINS) / some, count


def error(found: Reliability) -> float:
    mean, part, count = found
    return 100 * float((np.abs(mean - part) * count).sum() / count.sum())


def measure(features: FeatureTable, method: str, shots: int, tasks: int) -> tuple[Reliability, Reliability]:
    before, after, truth = [], [], []
    for known, outlier in SHARES:
        protocol = Protocol(shots=shots, queries=known, outlier_queries=outlier)
        episodes = draw(features.features, features.labels, protocol, seed=7, tasks=tasks)
        result = handful.solve(episodes.task, method=method)
        before.append(result.outlier_scores.ravel())
        after.append(result.p_unknown.ravel())
        truth.append(episodes.outlier.ravel())
    unknown = np.concatenate(truth)
    return reliability(np.concatenate(before), unknown), reliability(np.concatenate(after), unknown)


def draw_diagram(found: dict[tuple[str, int], tuple[Reliability, Reliability]], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(SHOTS), figsize=(11, 4), sharey=True, layout="constrained")
    for ax, shots in zip(axes, SHOTS, strict=True):
        ax.plot([0, 1], [0, 1], color="0.7", lw=1)
        for name, of, style in zip(("before", "after"), found["auto", shots], ("o:", "o-"), strict=True):
            mean, part, count = of
            some = count > 20
            ax.plot(mean[some], part[some], style, ms=4, label=f"{name}: error {error(of):.1f} %")
        ax.set(title=f"{shots}-shot", xlabel="P(unknown)", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.legend(loc="upper left", frameon=False)
    axes[0].set_ylabel("part that is unknown")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = Parser(__doc__, "some minutes")
    parser.add_data("features", "a feature set of ten classes or more, as tiny_imagenet_test.npz")
    parser.add_size("--tasks", 100, 2, "tasks of each share and number of shots")
    given = parser.parse()
    console = Console()
    features = parser.feature_set(given.features, small_classes)
    found = {}
    with console.status("Solving …"):
        for method in METHODS:
            for shots in SHOTS:
                found[method, shots] = measure(features, method, shots, given.tasks)
    rows = [
        (f"{METHODS[method]}, {shots}-shot", f"{error(before):.1f}", f"{error(after):.1f}")
        for (method, shots), (before, after) in found.items()
    ]
    section = Section("Expected calibration error, percent", ("", "before", "after"), rows)
    _report.show(console, section)
    note = (
        f"{features.name}: {given.tasks} tasks of each of six shares of unknowns, 0 to 5/6, and of 1, 5 and 10 "
        "shots; the share is not told. `python benchmarks/calibration.py FEATURES`."
    )
    notes = [note, "![Reliability](calibration.png)"]
    _report.write(console, given.output / "calibration.md", "Calibration of P(unknown)", [section], [], notes)
    draw_diagram(found, given.output / "calibration.png")


if __name__ == "__main__":
    main()

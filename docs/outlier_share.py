"""Draw the pictures of outlier-share.md from the embedded digits. ::

    python docs/outlier_share.py            # under a minute; writes docs/pictures/outlier-share.png
    python docs/outlier_share.py --quick    # some seconds; writes into a temporary folder

Left: the mean share that EOL predicts, against the share that is asked for. Middle: the pressure that holds a share,
less the law. Right: the estimated share, against the true one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

import handful
from handful.core.prepare import prepare
from handful.engines import density, neighbours, share
from handful.features import Protocol, digits, draw

matplotlib.use("agg")
from matplotlib import pyplot as plt

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from _script import Parser

DOCS = Path(__file__).resolve().parent
SIXTHS = (1, 2, 3, 4, 5)


def tasks(n: int, known: int, outlier: int, shots: int = 5):
    return draw(*digits(), Protocol(shots=shots, queries=known, outlier_queries=outlier), seed=11, tasks=n)


def requested_and_predicted(axes: plt.Axes, n: int) -> None:
    """EOL's mean predicted share on piles that hold half unknowns, and on piles that hold the share asked for."""
    shares = np.linspace(0.05, 0.95, 19)
    half = tasks(n, 15, 15)
    predicted = [handful.solve(half.task, method="eol", outlier_share=g).outlier_scores.mean() for g in shares]
    axes.plot([0, 1], [0, 1], color="0.7", lw=1)
    axes.plot(shares, predicted, "o-", ms=3, label="the pile holds one half")
    right = [5 * k / 30 for k in SIXTHS]
    own = [
        handful.solve(tasks(n, 30 - 5 * k, 5 * k).task, method="eol", outlier_share=g).outlier_scores.mean()
        for k, g in zip(SIXTHS, right, strict=True)
    ]
    axes.plot(right, own, "s", ms=6, label="the pile holds what is asked")
    axes.set(title="EOL: asked and predicted", xlabel="share asked for", ylabel="mean predicted share", aspect="equal")
    axes.legend(frameon=False, fontsize=8)


def pressures(axes: plt.Axes, n: int) -> None:
    """What it takes to hold the unknowns at g, less the law; for piles of three true shares."""
    tried = np.array([share.TRIED_SHARES], np.float32)
    axes.axhline(0, color="0.7", lw=1)
    for k, colour in zip((1, 3, 5), ("C0", "C1", "C2"), strict=True):
        task = tasks(n, 30 - 5 * k, 5 * k).task
        prepared = prepare(task.support, task.query, share.PREPARATION)
        of = density.kernels(neighbours.smooth(prepared.support, prepared.query), task.labels, 5)
        excess = density.densities(of, tried, share.PASSES, min_queries=share.MIN_ITEMS).pressure - of.law(tried)
        axes.plot(tried[0], excess.mean(axis=0), "o-", ms=3, color=colour, label=f"{k}/6 are unknown")
        axes.axvline(k / 6, color=colour, ls=":", lw=1)
    axes.set(title="Pressure less the law", xlabel="share held, g", ylabel="r(g)", ylim=(-2.5, 2.5))
    axes.legend(frameon=False, fontsize=8)


def estimates(axes: plt.Axes, n: int) -> None:
    axes.plot([0, 1], [0, 1], color="0.7", lw=1)
    for shots, shift in ((1, -0.012), (5, 0), (10, 0.012)):
        mean, spread = [], []
        for k in (0, *SIXTHS):
            task = tasks(n, 30 - 5 * k, 5 * k, shots).task
            estimate = share.of_task(task.support, task.labels, task.query).estimate
            mean.append(estimate.mean())
            spread.append(estimate.std())
        truth = np.arange(6) / 6 + shift
        axes.errorbar(truth, mean, spread, fmt="o", ms=4, capsize=2, label=f"{shots}-shot")
    axes.set(title=f"Estimated ({n} piles each)", xlabel="true share", ylabel="estimate, ± 1 s.d.", aspect="equal")
    axes.legend(frameon=False, fontsize=8)


def main() -> None:
    parser = Parser(__doc__, "under a minute", DOCS / "pictures")
    parser.add_size("--piles", 20, 2, "piles of each kind")
    options = parser.parse()
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for ax, panel in zip(axes, (requested_and_predicted, pressures, estimates), strict=True):
        panel(ax, options.piles)
    figure.savefig(options.output / "outlier-share.png", dpi=110, metadata={"Software": None})
    print(f"Written: {options.output / 'outlier-share.png'}")


if __name__ == "__main__":
    main()

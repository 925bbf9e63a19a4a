"""The embedded example: five digits are known by five drawings each, the pile holds those and five others.

The default method is told nothing of how many are of other digits; beside it stand EOL, which is told, and two
yardsticks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful import report
from handful.core import metrics
from handful.core.parameters import AUTO
from handful.features import Episodes, Protocol, digits, draw
from handful.features.digits import SHAPE
from handful.solving import Result, get_solver, solve_task
from handful.utils import csv_file as csvfile
from handful.utils.shares_in_words import about, percent, span

NAMES = {
    AUTO: f"{get_solver(AUTO).info.estimator}, not told the share",
    "eol": "EOL, told the share",
    "knn": "kNN distance",
    "simpleshot": "nearest mean",
}
FIGURES = {"accuracy": "accuracy", "auroc": "AUROC", "aupr": "AUPR", "prec@0.9": "Prec@0.9"}


@dataclass
class Demo:
    """What the demo found: the one pile that is shown, and figures over many."""

    episodes: Episodes
    result: Result
    figures: dict[str, dict[str, Any]]  # method -> figure -> mean and half-width, in percent
    shares: np.ndarray  # [tasks], what was estimated of those many
    share: float  # the truth, of all of them

    @property
    def sentences(self) -> list[str]:
        """What happened, in words."""
        unknown, truth = self.result.unknown, self.episodes.truth[0]
        outlier = truth < 0
        guess = np.searchsorted(self.result.classes, self.result.closest)
        right = ~outlier & ~unknown & (guess == truth)
        names = ", ".join(map(str, self.result.classes))
        estimate, interval = float(self.result.outlier_share), self.result.outlier_share_interval
        guess_of_share = about(estimate) + ("" if interval is None else span(estimate, interval.tolist()))
        return [
            f"handful was shown {self.episodes.support_items.shape[1]} labelled drawings of the digits {names}, "
            f"and a pile of {len(truth)} drawings without labels.",
            f"Nobody told it how many of them are of no known kind. Its estimate: {guess_of_share}; "
            f"in truth {percent(outlier.mean())}.",
            f"It called {unknown.sum()} unknown: {(unknown & outlier).sum()} of the {outlier.sum()} that really are, "
            f"and {(unknown & ~outlier).sum()} known ones by mistake.",
            f"Of the {(~outlier).sum()} drawings of known digits, {right.sum()} got their right label "
            f"({percent(right.sum() / (~outlier).sum())}).",
        ]

    @property
    def table(self) -> report.Figures:
        rows = [
            [NAMES[method], *(f"{mean:.1f} ± {half:.1f}" for mean, half in of.values())]
            for method, of in self.figures.items()
        ]
        off = 100 * np.abs(self.shares - self.share).mean()
        note = (
            f"Mean over {len(self.shares)} random draws of such piles, in percent, ± the half-width of the 95 % "
            f"interval. {percent(self.share)} of each are of no known kind; the estimate was off by {off:.0f} points "
            "on average."
        )
        return report.Figures("Against EOL and two yardsticks", ["", *FIGURES.values()], rows, note)


def run(seed: int = 0, tasks: int = 200, done: Callable[[str], None] = lambda step: None) -> Demo:
    """Solve one pile to look at, and `tasks` others for figures that can be trusted."""
    protocol = Protocol(queries=30, outlier_queries=30)
    features, labels = digits()
    episodes = draw(features, labels, protocol, seed=seed, tasks=[0])
    result = solve_task(episodes.task)[0]
    done("the pile is labelled")
    many = draw(features, labels, Protocol(), seed=seed, tasks=range(1, tasks + 1))
    figures, shares = {}, np.empty(0)
    for name in NAMES:
        share = AUTO if name == AUTO else Protocol().outlier_share
        answer = solve_task(many.task, method=name, outlier_share=share)
        shares = answer.outlier_share if name == AUTO else shares
        per_task = metrics.figures(answer.probabilities, answer.outlier_scores, many.truth)
        figures[name] = {key: metrics.mean_and_half_width(100 * per_task[key]) for key in FIGURES}
        done(f"{get_solver(name).info.title} on {tasks} other piles")
    return Demo(episodes, result, figures, shares, Protocol().outlier_share)


def write(demo: Demo, folder: Path) -> dict[str, Path]:
    """labels.csv, labels.parquet and report.html into `folder`."""
    import pyarrow as pa
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    items = demo.episodes.query_items[0]
    table = demo.result.to_arrow().add_column(0, "item", pa.array(items.tolist()))
    paths = {name: folder / name for name in ("labels.csv", "labels.parquet", "report.html")}
    csvfile.write_table(table, paths["labels.csv"])
    pa.parquet.write_table(table, paths["labels.parquet"])
    report.write(
        paths["report.html"], "A pile of digits, labelled", demo.sentences, _groups(demo), [demo.table],
        demo.result.made_by,
    )  # fmt: skip
    return paths


def _groups(demo: Demo) -> list[report.Group]:
    features, _ = digits()
    result, task, confidence = demo.result, demo.episodes.task, demo.result.confidence

    def picture(item: int) -> bytes:
        return report.png(16 - features[item].reshape(SHAPE))  # dark ink on a light ground

    def card(i: int) -> report.Item:
        item = demo.episodes.query_items[0, i]
        return report.Item(
            picture(item), f"drawing {item}", "unknown" if result.unknown[i] else str(result.labels[i]),
            float(result.outlier_scores[i]), float(confidence[i]),
            f"closest: {result.closest[i]}" if result.unknown[i] else "",
        )  # fmt: skip

    examples = [
        report.Item(picture(item), f"drawing {item}", str(task.classes[0][code]), 0.0, 1.0)
        for item, code in zip(demo.episodes.support_items[0], task.labels[0], strict=True)
    ]
    groups = [report.Group("Unknown", [card(i) for i in np.flatnonzero(result.unknown).tolist()], "unknown")]
    for name in result.classes:
        members = np.flatnonzero(~result.unknown & (result.closest == name)).tolist()
        groups.append(report.Group(f"Digit {name}", [card(i) for i in members], "known"))
    return [*groups, report.Group("The examples given", examples, "example")]

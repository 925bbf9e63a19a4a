"""The built-in example: five digits have five labelled drawings each; the pile shows these and five others.

The default method does not know how much of the pile shows other digits. It is compared with EOL, which gets the true
share, and with two simple methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful.core import metrics
from handful.core.parameters import AUTO
from handful.features import Episodes, FeatureTable, Protocol, digits, draw
from handful.project.outputs import table_files, write_rows
from handful.report.contents import Figures, make_report
from handful.report.html_page import write as write_page
from handful.report.thumbnails import png
from handful.solving import Result, get_solver, solve
from handful.utils.columns import ColumnTable
from handful.utils.shares_in_words import about, percent, span

NAMES = {
    AUTO: f"{get_solver(AUTO).info.title}, not told",
    "eol": "EOL, told the share",
    "knn": "kNN distance",
    "simpleshot": "nearest mean",
}
FIGURES = {"accuracy": "accuracy", "auroc": "AUROC", "aupr": "AUPR", "prec@0.9": "Prec@0.9"}


@dataclass
class Demo:
    """The outcome of the demo: one pile to look at, and figures over many piles."""

    episodes: Episodes
    result: Result
    figures: dict[str, dict[str, Any]]  # method -> figure -> mean and half-width, in percent
    shares: np.ndarray[Any, Any]  # [tasks], the estimated share of unknowns in each of the many piles
    share: float  # the true share in all of them

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
            f"It did not know how many of them show other digits. Its estimate: {guess_of_share}; "
            f"in truth {percent(outlier.mean())}.",
            f"It called {unknown.sum()} unknown: {(unknown & outlier).sum()} of the {outlier.sum()} that really are, "
            f"and {(unknown & ~outlier).sum()} drawings of known digits by mistake.",
            f"Of the {(~outlier).sum()} drawings of known digits, {right.sum()} got their right label "
            f"({percent(right.sum() / (~outlier).sum())}).",
        ]

    @property
    def table(self) -> Figures:
        """The figures over many piles."""
        rows = [
            [NAMES[method], *(f"{mean:.1f} ± {half:.1f}" for mean, half in of.values())]
            for method, of in self.figures.items()
        ]
        off = 100 * np.abs(self.shares - self.share).mean()
        note = (
            f"Mean over {len(self.shares)} random draws of such piles, in percent, ± the half-width of the 95 % "
            f"interval. {percent(self.share)} of each pile is unknown; the estimate was off by {off:.0f} points "
            "on average."
        )
        return Figures("Compared with EOL and two simple methods", ["", *FIGURES.values()], rows, note)


def run(seed: int = 0, tasks: int = 200, done: Callable[[str], None] = lambda step: None) -> Demo:
    """Solve one pile to look at, and `tasks` others for figures. done: called with a few words after each step."""
    protocol = Protocol(queries=30, outlier_queries=30)
    features, labels = digits()
    episodes = draw(features, labels, protocol, seed=seed, tasks=[0])
    result = solve(episodes.task)[0]
    done("the pile is labelled")
    many = draw(features, labels, Protocol(), seed=seed, tasks=range(1, tasks + 1))
    figures, shares = {}, np.empty(0)
    for name in NAMES:
        share = AUTO if name == AUTO else Protocol().outlier_share
        answer = solve(many.task, method=name, outlier_share=share)
        shares = answer.outlier_share if name == AUTO else shares
        per_task = metrics.figures(answer.probabilities, answer.outlier_scores, many.truth)
        figures[name] = {key: metrics.mean_and_half_width(100 * per_task[key]) for key in FIGURES}
        done(f"{get_solver(name).info.title} on {tasks} other piles")
    return Demo(episodes, result, figures, shares, Protocol().outlier_share)


def write(demo: Demo, folder: Path) -> dict[str, Path]:
    """Write labels.csv, labels.parquet (if PyArrow is installed) and report.html; gives the files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    episodes, result = demo.episodes, demo.result
    table = ColumnTable({"item": episodes.query_items[0], **result.columns()})
    paths = {name: folder / name for name in (*table_files(), "report.html")}
    for name in table_files():
        write_rows(table, paths[name])
    digit_names = episodes.task.classes[0].astype(str)
    pile = _drawings(episodes.query_items[0])
    examples = _drawings(episodes.support_items[0]).replace(labels=digit_names[episodes.task.labels[0]])
    contents = make_report(
        result,
        pile,
        title="A pile of digits, labelled",
        sentences=demo.sentences,
        examples=examples,
        picture=lambda items, row: png(16 - items.features[row].reshape(8, 8)),  # dark ink on light ground
        groups=result.groups,
        made_by=result.made_by,
        tables=[demo.table],
        can_promote=False,
    )
    write_page(paths["report.html"], contents)
    return paths


def _drawings(rows: np.ndarray[Any, Any]) -> FeatureTable:
    """Some of the digits as items."""
    return FeatureTable(digits()[0][rows], paths=[f"drawing {row}" for row in rows.tolist()])

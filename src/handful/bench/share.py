"""The benchmark of methods that estimate the share of unknowns, at shares from 0 to five sixths.

The number of queries of a task is fixed while more and more of them are unknown. With 15 queries of each class they are
30 + 0, 25 + 5, 20 + 10, 15 + 15, 10 + 20 and 5 + 25 for each of 5 known and 5 outlier classes. The method that
estimates the share is compared with EOL that knows the true share, with EOL that always assumes one half, and with
methods that need no share. Task i has the same known classes at every share and for every method, so differences are
paired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from handful.bench.runner import Results
from handful.bench.settings import FIGURES, NOT_TOLD, Benchmark, Cell, Contender, parse_methods, with_engine
from handful.bench.tables import TITLES, Row, Table, plain, words
from handful.core.metrics import mean_and_half_width
from handful.features import Protocol
from handful.features.episodes import check
from handful.solving import get_solver

AUTO, TOLD, HALF = "Auto (not told)", "EOL (told)", "EOL (0.5)"
OTHER_METHODS = ("oslo", "ostim", "knn", "simpleshot")
SHOTS = (1, 5, 10)
SHARES = tuple(Fraction(i, 6) for i in range(6))  # exact fractions, so that rounding is exact
EOL_SHARE_LIMITS = (0.01, 0.99)  # EOL needs a share between 0 and 1
DECISIONS = {
    "unknown_f1": "F1 of unknown",
    "balanced_accuracy": "Balanced accuracy",
    "false_unknown": "Knowns called unknown",
}
FIGURE_TITLES = TITLES | DECISIONS
MEASURED = (*FIGURES, *DECISIONS, "share_error", "covered")
ESTIMATED = {
    "share": "Mean estimate",
    "share_error": "Bias",
    "absolute_error": "Mean absolute error",
    "covered": "Interval holds the truth",
}


# The methods and tasks


def contenders(methods: str | Iterable[str] | None = None) -> list[Contender]:
    """Return Auto, the two versions of EOL, and `methods` without the true share."""
    auto = Contender(AUTO, NOT_TOLD, {})
    others = [_half(c) for c in parse_methods(OTHER_METHODS if methods is None else methods)]
    others = [c for c in others if (c.method, c.parameters) != (auto.method, auto.parameters)]
    return [auto, Contender(TOLD, "eol", {}), Contender(HALF, "eol", {"outlier_share": 0.5}), *others]


def benchmark(base: Protocol, contenders: Sequence[Contender]) -> Benchmark:
    """Return the benchmark of all shares at the shots of `base`. Its `queries` is the mean number for a class."""
    protocols = {f"{p.outlier_share:.0%}": p for p in (_at(base, share) for share in SHARES)}
    if len(protocols) < len(SHARES) or not all(p.inliers for p in protocols.values()):
        raise ValueError(
            f"{base.queries} queries a class are too few for {base.ways} known and {base.outlier_ways} outlier classes "
            "at shares of unknowns from 0 to 5/6: give more --queries (3 or more with as many outlier as known classes)"
        )
    cells = tuple(
        Cell(name, p, with_engine(_with_true_share(c, p))) for name, p in protocols.items() for c in contenders
    )
    return Benchmark(f"share, {base.shots}-shot", "The share of unknowns, not told", cells, MEASURED)


def check_drawable(benchmark: Benchmark, counts: dict[Any, int]) -> None:
    """Raise ValueError, with the share, unless all tasks can be drawn from classes with these numbers of items."""
    for column, protocol in {cell.column: cell.protocol for cell in benchmark.cells}.items():
        try:
            check(protocol, counts)
        except ValueError as error:
            raise ValueError(
                f"{protocol.shots}-shot tasks with {column} unknowns ({queries_of(protocol)} queries a class, known + "
                f"unknown) cannot be drawn: {error}: give fewer --queries, --shots, --ways or --outlier-ways"
            ) from None


def queries_of(protocol: Protocol) -> str:
    """Return the numbers of known and unknown queries a class, as text."""
    return f"{protocol.queries} + {protocol.outlier_queries}"


def estimates(contender: Contender) -> bool:
    """Return whether the method estimates the share of unknowns itself."""
    default = get_solver(contender.method).defaults.get("outlier_share")
    share = contender.parameters.get("outlier_share", default)
    finds = contender.method.split("+")[-1] == NOT_TOLD or (isinstance(share, str) and "b" not in contender.parameters)
    return finds or contender.row == AUTO


def _at(base: Protocol, share: Fraction) -> Protocol:
    """Return `base` with this share of unknown queries, to the nearest whole number for each class."""
    total = base.queries * (base.ways + base.outlier_ways)
    known_queries = round(total * (1 - share) / base.ways)
    if share == 0 or not base.outlier_ways:
        return replace(base, queries=known_queries, outlier_queries=0, outlier_ways=0)
    return replace(base, queries=known_queries, outlier_queries=round(total * share / base.outlier_ways))


def _half(contender: Contender) -> Contender:
    """Return the contender; one that only ranks gets the share 0.5: half of the pile is called unknown."""
    if "outlier_share" in get_solver(contender.method).defaults:
        return contender
    return replace(contender, parameters={**contender.parameters, "outlier_share": 0.5})


def _with_true_share(contender: Contender, protocol: Protocol) -> Contender:
    if contender.row != TOLD:
        return contender
    return replace(contender, parameters={"outlier_share": float(np.clip(protocol.outlier_share, *EOL_SHARE_LIMITS))})


# The tables


@dataclass(frozen=True)
class ShareTable(Table):
    """One figure at one number of shots, a column for each share; or Auto's lead over each row, `against` it."""

    shots: int = 0
    figure: str = ""
    protocols: Mapping[str, Protocol] = field(default_factory=dict)  # by column

    @property
    def best(self) -> dict[str, float]:
        """The best mean of each column; the lowest one where fewer is better."""
        if self.figure != "false_unknown" or self.against:
            return super().best
        lowest = {name: [row.means[name] for row in self.rows] for name in self.titles}
        return {name: min(means) for name, means in lowest.items()}

    def text(self, row: Row, name: str, plus_minus: str) -> str:
        """Return the text of a cell, with a star where a difference is not zero."""
        cell_text = super().text(row, name, plus_minus)
        return cell_text + (" *" if self.against and excludes_zero(row.means[name], row.half_widths[name]) else "")

    def records(self) -> list[dict[str, Any]]:
        """Return a dict for each cell."""
        return [
            _record(
                self, name, self.figure, row.means[name], row.half_widths[name], row.kind,
                method=self.against or row.name, against=row.name if self.against else None,
            )
            for row in self.rows
            for name in self.titles
        ]  # fmt: skip


@dataclass(frozen=True)
class EstimateTable(Table):
    """The share that one method estimated, a row for each true share."""

    shots: int = 0
    method: str = ""
    kind: str = ""
    protocols: Mapping[str, Protocol] = field(default_factory=dict)  # by column, in the order of the rows
    sections: ClassVar[bool] = False

    @property
    def best(self) -> dict[str, float]:
        """NaN for each figure: no estimate is best, so none is printed bold."""
        return dict.fromkeys(self.titles, np.nan)

    def text(self, row: Row, name: str, plus_minus: str) -> str:
        """Return the text of a cell; errors carry their sign."""
        cell_text = super().text(row, name, plus_minus)
        return f"+{cell_text}" if name == "share_error" and row.means[name] >= 0 else cell_text

    def records(self) -> list[dict[str, Any]]:
        """Return a dict for each cell."""
        return [
            _record(self, column, name, row.means[name], row.half_widths[name], self.kind, method=self.method)
            for column, row in zip(self.protocols, self.rows, strict=True)
            for name in self.titles
        ]


def excludes_zero(mean: float, half_width: float) -> bool:
    """Return whether 0 is outside the interval; False without an interval."""
    return bool(abs(mean) > half_width)


def share_tables(results: Sequence[Results]) -> list[Table]:
    """Return, for each number of shots, the estimates, each figure of all methods, and Auto's lead in each figure."""
    tables: list[Table] = []
    for result in results:
        rows = result.benchmark.contenders
        tables += [estimate_table(result, row) for row, contender in rows.items() if estimates(contender)]
        tables += [figure_table(result, figure) for figure in FIGURE_TITLES]
        tables += [lead_table(result, figure) for figure in FIGURE_TITLES]
    return tables


def estimate_table(results: Results, row: str) -> EstimateTable:
    """Return how well a row's method estimates the share of unknowns, a line for each true share."""
    protocols, contender = protocols_of(results), results.benchmark.contenders[row]
    rows = []
    for column, protocol in protocols.items():
        error, covered = results[column, row]["share_error"], results[column, row]["covered"]
        truth = 100 * protocol.outlier_share
        figures = {"share": truth + error, "share_error": error, "absolute_error": np.abs(error), "covered": covered}
        rows.append(Row(f"{truth:.1f}", queries_of(protocol), *_means(figures)))
    has_interval = not all(np.isnan(row.means["covered"]) for row in rows)
    titles = {name: title for name, title in ESTIMATED.items() if name != "covered" or has_interval}
    return EstimateTable(
        f"Share of unknowns, estimated by {row}, {_size(results)}", "", rows, _note(results),
        heads=("True share", "Queries a class"), titles=titles, shots=_shots(results), method=row,
        kind=contender.kind, protocols=protocols,
    )  # fmt: skip


def figure_table(results: Results, figure: str) -> ShareTable:
    """Return one figure of all methods at each share of unknowns."""
    benchmark = results.benchmark
    rows = [
        Row(row, contender.kind, *_means({column: results[column, row][figure] for column in benchmark.columns}))
        for row, contender in benchmark.contenders.items()
    ]
    title = f"{FIGURE_TITLES[figure]} at each share of unknowns, {_size(results)}"
    return _share_table(results, figure, title, rows, _note(results, figure))


def lead_table(results: Results, figure: str) -> ShareTable:
    """Return by how much the default method is ahead of each other one at each share of unknowns."""
    benchmark = results.benchmark
    rows = [
        Row(row, contender.kind, *_means({column: lead(results, column, row, figure) for column in benchmark.columns}))
        for row, contender in benchmark.contenders.items()
        if row != AUTO
    ]
    note = _note(results, figure).replace("mean", f"mean of {AUTO} minus the row, task by task,", 1)
    title = f"{FIGURE_TITLES[figure]} at each share of unknowns, {_size(results)}, {AUTO} minus each"
    return _share_table(results, figure, title, rows, note + " *: the interval excludes 0.", AUTO)


def lead(results: Results, column: str, row: str, figure: str) -> np.ndarray:
    """Return how far Auto is above the row in each task, [seeds * tasks]."""
    return results[column, AUTO][figure] - results[column, row][figure]


def protocols_of(results: Results) -> dict[str, Protocol]:
    """Return the protocol of each column."""
    return {cell.column: cell.protocol for cell in results.benchmark.cells}


def _share_table(
    results: Results, figure: str, title: str, rows: list[Row], note: str, against: str | None = None
) -> ShareTable:
    titles = {column: column for column in results.benchmark.columns}
    return ShareTable(
        title, "", rows, note, against, titles=titles, shots=_shots(results), figure=figure,
        protocols=protocols_of(results),
    )  # fmt: skip


def _record(
    table: ShareTable | EstimateTable, column: str, figure: str, mean: float, half_width: float, kind: str,
    method: str, against: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    protocol = table.protocols[column]
    return {
        "table": table.title, "shots": table.shots, "share": protocol.outlier_share, "queries": queries_of(protocol),
        "method": method, "paradigm": kind, "against": against, "figure": figure, "mean": plain(mean),
        "half_width_95": plain(half_width), "excludes_0": excludes_zero(mean, half_width) if against else None,
    }  # fmt: skip


def _means(values: Mapping[str, np.ndarray]) -> tuple[dict[str, float], dict[str, float]]:
    summaries = {name: mean_and_half_width(array) for name, array in values.items()}
    return {n: float(m.mean) for n, m in summaries.items()}, {n: float(m.half_width_95) for n, m in summaries.items()}


def _note(results: Results, figure: str | None = None) -> str:
    note = words(results, results.benchmark.columns[0])[1].replace(" tasks", " tasks of each share", 1)
    ranking = {row: c for row, c in results.benchmark.contenders.items() if get_solver(c.method).info.score == "rank"}
    rows = [row for row, c in ranking.items() if c.parameters.get("outlier_share") == 0.5]
    if figure in DECISIONS and rows:
        note += f" {', '.join(rows)}: the half of the pile with the highest scores is called unknown."
    if figure == "unknown_f1":
        note += " Where nothing is unknown, F1 is 100 in a task in which nothing was called so, and 0 in any other."
    if figure in ("auroc", "aupr", "prec@0.9"):
        note += " Not defined where nothing is unknown."
    return note


def _shots(results: Results) -> int:
    return results.benchmark.cells[0].protocol.shots


def _size(results: Results) -> str:
    protocol = results.benchmark.cells[0].protocol
    return f"{protocol.ways}-way {protocol.shots}-shot"

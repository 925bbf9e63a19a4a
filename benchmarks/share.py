"""Methods that are not told the share of unknowns, at shares from none to five sixths. ::

    python benchmarks/share.py FEATURES     # minutes; writes benchmarks/results/share.md
    python benchmarks/share.py --quick      # some seconds, generated features; writes into a temporary folder

A task has the same number of queries at every share: with 15 queries a class they are 30 + 0, 25 + 5, 20 + 10, 15 + 15,
10 + 20 and 5 + 25 of each known and each unknown class. Task i has the same known classes at every share and for every
method. The default estimates the share; EOL is told it, or always told one half. Methods that only rank call half of
the pile unknown. Where nothing is unknown, AUROC is not defined, and F1 of unknown is 100 in a task in which nothing
was called so, and 0 in any other. Figures are means over tasks in percent with the half-width of the 95 % interval.
`--work FOLDER` keeps the figures of every task: a run that was killed continues.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import _report
import numpy as np
from _problem import small_classes
from _report import Section
from _script import Parser
from rich.console import Console

from handful.bench import Benchmark, Cell, Results, parse_methods, run
from handful.bench.settings import Contender
from handful.core.metrics import mean_and_half_width
from handful.features import Protocol
from handful.solving import get_solver
from handful.utils.threads import available_threads

AUTO, TOLD, HALF = "Auto (not told)", "EOL (told)", "EOL (0.5)"
OTHERS = "oslo, ostim, knn, simpleshot"
SHARES = tuple(Fraction(i, 6) for i in range(6))
EOL_SHARE_LIMITS = (0.01, 0.99)  # EOL needs a share between 0 and 1
TITLES = {
    "accuracy": "Accuracy of knowns",
    "auroc": "AUROC",
    "unknown_f1": "F1 of unknown",
    "balanced_accuracy": "Balanced accuracy over classes and unknown",
    "false_unknown": "Knowns called unknown",
}
NONE = "\N{EN DASH}"


def contenders(methods: str) -> list[Contender]:
    """The default, EOL twice, and the others; those that only rank call half of the pile unknown."""
    others = [
        c if "outlier_share" in get_solver(c.method).defaults
        else replace(c, parameters={**c.parameters, "outlier_share": 0.5})
        for c in parse_methods(methods)
    ]  # fmt: skip
    half = Contender(HALF, "eol", {"outlier_share": 0.5})
    return [Contender(AUTO, "auto", {}), Contender(TOLD, "eol", {}), half, *others]


def at_share(base: Protocol, share: Fraction) -> Protocol:
    """The protocol with this share of unknown queries, to the nearest whole number for each class."""
    total = base.queries * (base.ways + base.outlier_ways)
    known_queries = round(total * (1 - share) / base.ways)
    if share == 0:
        return replace(base, queries=known_queries, outlier_queries=0, outlier_ways=0)
    return replace(base, queries=known_queries, outlier_queries=round(total * share / base.outlier_ways))


def benchmark(base: Protocol, rows: list[Contender]) -> Benchmark:
    """All methods at all shares."""
    cells = []
    for protocol in (at_share(base, share) for share in SHARES):
        told = {"outlier_share": float(np.clip(protocol.outlier_share, *EOL_SHARE_LIMITS))}
        for row in rows:
            own = replace(row, parameters=told) if row.row == TOLD else row
            cells.append(Cell(f"{protocol.outlier_share:.0%}", protocol, own))
    measured = (*TITLES, "share_error", "covered")
    return Benchmark(f"share, {base.shots}-shot", "The share of unknowns, not told", tuple(cells), measured)


def text(values: np.ndarray, sign: str = "") -> str:
    mean, half = mean_and_half_width(values)
    return NONE if np.isnan(mean) else f"{mean:{sign}.1f} ± {half:.1f}"


def sections(results: Results, shots: int) -> list[Section]:
    """The estimate of the default at each share, then each figure of all methods and what the default is ahead."""
    columns, rows = results.benchmark.columns, list(results.benchmark.contenders)
    protocols = {cell.column: cell.protocol for cell in results.benchmark.cells}
    estimates = []
    for column, protocol in protocols.items():
        error, covered = results[column, AUTO]["share_error"], results[column, AUTO]["covered"]
        estimate = text(100 * protocol.outlier_share + error)
        queries = f"{protocol.queries} + {protocol.outlier_queries}"
        estimates.append((column, queries, estimate, text(error, "+"), text(np.abs(error)), text(covered)))
    head = ("True share", "Queries a class", "Mean estimate", "Bias", "Mean absolute error", "Interval holds it, %")
    found = [Section(f"Share of unknowns, estimated by {AUTO}, {shots}-shot", head, estimates)]
    for figure, title in TITLES.items():
        cells = [(row, *(text(results[column, row][figure]) for column in columns)) for row in rows]
        cells += [
            (f"{AUTO} - {row}", *(text(results[c, AUTO][figure] - results[c, row][figure], "+") for c in columns))
            for row in rows
            if row != AUTO
        ]
        found.append(Section(f"{title}, {shots}-shot", ("Method", *columns), cells))
    return found


def main() -> None:
    parser = Parser(__doc__, "minutes")
    parser.add_data("features", "a feature set with labels")
    parser.add_size("--shots", [1, 5, 10], [1, 5], "examples of each class")
    parser.add_size("--queries", 15, 3, "queries of each class where half is unknown")
    parser.add_size("--tasks", 300, 6, "tasks of each kind")
    parser.add_part("--methods", help=f'these methods beside the default and EOL instead of "{OTHERS}"')
    parser.add_argument("--work", type=Path, help="a folder that keeps the figures of every task")
    given = parser.parse()
    features = parser.feature_set(given.features, small_classes)
    console = Console()
    rows = contenders(given.methods or ("knn" if given.quick else OTHERS))
    store = given.work or tempfile.mkdtemp(prefix="handful-share-store-")
    found: list[Section] = []
    for shots in given.shots:
        of = benchmark(Protocol(shots=shots, queries=given.queries), rows)
        with console.status(f"{shots}-shot ...") as status:
            results = run(
                of, features, None, store, tasks=given.tasks, jobs=available_threads(),
                progress=lambda done, total, n=shots: status.update(f"{n}-shot: {done:,} of {total:,} tasks"),
            )  # fmt: skip
        found += sections(results, shots)
    for section in found:
        _report.show(console, section)
    notes = [_report.about(__doc__), f"{features.name}, {given.tasks} tasks of each kind. {_report.machine()}"]
    _report.write(console, given.output / "share.md", "The share of unknowns, not told", found, [], notes)


if __name__ == "__main__":
    main()

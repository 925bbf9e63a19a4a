"""The default method, told nothing, where tasks are odd: tiny and large piles, few and many classes, unequal ones. ::

    python benchmarks/edges.py FEATURES BASE     # a minute; writes benchmarks/results/edges.md
    python benchmarks/edges.py --quick           # some seconds, generated features; writes into a temporary folder

FEATURES has about 20 classes of many items each (`tiny_imagenet_test`), BASE many classes of few (`tiny_imagenet_base`,
used where 20 classes are known). EOL is told the truth. Errors of the share, accuracy, AUROC and the part of the knowns
that is called unknown: means over tasks, in percent.
"""

from __future__ import annotations

import _report
import numpy as np
from _problem import small_classes
from _report import Section
from _script import Parser
from rich.console import Console

import handful
from handful.core.metrics import accuracy, auroc
from handful.features import FeatureTable, Protocol, draw

HEADER = (
    "",
    "unknown",
    "estimated",
    "error",
    "AUROC",
    "EOL told",
    "accuracy",
    "EOL told",
    "knowns called unknown",
    "unknowns found",
)

ODD = {
    "1 query, known": (200, Protocol(queries=1, outlier_queries=0, outlier_ways=0)),
    "1 query, unknown": (200, Protocol(queries=0, outlier_queries=1)),
    "10 queries": (100, Protocol(queries=1, outlier_queries=1)),
    "30 queries": (100, Protocol(queries=3, outlier_queries=3)),
    "2,000 queries": (5, Protocol(queries=200, outlier_queries=200)),
    "2 ways, few outliers": (100, Protocol(ways=2, queries=25, outlier_queries=2)),
    "2 ways": (100, Protocol(ways=2, queries=25, outlier_queries=10)),
    "unequal shots": (100, Protocol(unequal_shots=2.0)),
    "one outlier class": (100, Protocol(outlier_ways=1, outlier_queries=40)),
    "fifteen outlier classes": (100, Protocol(outlier_ways=15, outlier_queries=5)),
    "classes a little unequal (Dirichlet 5)": (100, Protocol(queries=20, outlier_queries=10, unequal_queries=5.0)),
    "classes unequal (Dirichlet 2)": (100, Protocol(queries=20, outlier_queries=10, unequal_queries=2.0)),
    "classes very unequal (Dirichlet 0.7)": (100, Protocol(queries=20, outlier_queries=10, unequal_queries=0.7)),
    "unequal (2), nothing unknown": (
        100, Protocol(queries=25, outlier_ways=0, outlier_queries=0, unequal_queries=2.0)
    ),
}  # fmt: skip
MANY = {
    "20 ways, 5-shot": (20, Protocol(ways=20, queries=10, outlier_ways=20, outlier_queries=10)),
    "20 ways, 1-shot": (20, Protocol(ways=20, shots=1, queries=10, outlier_ways=20, outlier_queries=10)),
    "20 ways, nothing unknown": (20, Protocol(ways=20, queries=10, outlier_ways=0, outlier_queries=0)),
}


def replace_query(task: handful.Task, n: int) -> handful.Task:
    """The tasks with their first n queries."""
    return handful.Task(task.support, np.take_along_axis(task.classes, task.labels, axis=1), task.query[:, :n])


def row(name: str, features: FeatureTable, tasks: int, protocol: Protocol) -> tuple[str, ...]:
    episodes = draw(features.features, features.labels, protocol, seed=0, tasks=tasks)
    if name.startswith("1 query"):
        task, truth = replace_query(episodes.task, 1), episodes.truth[:, :1]
    else:
        task, truth = episodes.task, episodes.truth
    found = handful.solve_task(task)
    told = handful.solve_task(task, method="eol", outlier_share=float(np.clip(protocol.outlier_share, 0.01, 0.99)))
    share, known = protocol.outlier_share, truth >= 0

    def ranks(result: handful.Result) -> str:
        return f"{100 * auroc(result.outlier_scores, truth < 0).mean():.1f}" if 0 < share < 1 else "-"

    def right(result: handful.Result) -> str:
        return f"{100 * accuracy(result.probabilities, truth).mean():.1f}" if known.any() else "-"

    return (
        name, f"{100 * share:.0f}", f"{100 * found.outlier_share.mean():.0f}",
        f"{100 * np.abs(found.outlier_share - share).mean():.1f}", ranks(found), ranks(told), right(found), right(told),
        f"{100 * found.unknown[known].mean():.1f}" if known.any() else "-",
        f"{100 * found.unknown[~known].mean():.1f}" if share else "-",
    )  # fmt: skip


def main() -> None:
    parser = Parser(__doc__, "about a minute")
    parser.add_data("features", "a feature set of twenty classes of many items, as tiny_imagenet_test.npz")
    parser.add_data("base", "one of forty classes or more, as tiny_imagenet_base.npz")
    parser.add_size("--tasks", 200, 2, "most tasks of a kind")
    given = parser.parse()
    console = Console()
    features = parser.feature_set(given.features, small_classes)
    base = parser.feature_set(given.base, lambda: small_classes(40, 30))
    kinds = [(name, features, *of) for name, of in ODD.items()] + [(name, base, *of) for name, of in MANY.items()]
    with console.status("Solving …"):
        rows = [row(name, of, min(tasks, given.tasks), protocol) for name, of, tasks, protocol in kinds]
    section = Section("Odd tasks, 5-way 5-shot unless said", HEADER, rows)
    _report.show(console, section)
    note = f"{features.name}; {base.name} where 20 classes are known. `python benchmarks/edges.py FEATURES BASE`."
    _report.write(console, given.output / "edges.md", "Odd tasks", [section], [], [note])


if __name__ == "__main__":
    main()

"""`handful bench`: methods compared on many tasks."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from handful.cli._app import OUTPUT, argument, command, option
from handful.cli._console import Console
from handful.cli._options import JSON, TableOptions

COLOURS = {True: "green", False: "red", None: "yellow"}


@dataclass(frozen=True)
class DataOptions:
    """Features: which features."""

    features: Path | None = option("Features with labels, see `handful info`. Default: the built-in digits.")
    split: str | None = option("Only this split of the features, as in novel.")
    base: Path | None = option(
        "Features of the classes that the backbone was trained on, whose mean methods centre on; or a base file, see "
        "`handful base`. Methods that learn from base classes need the latter."
    )


@dataclass(frozen=True)
class TaskOptions:
    """Tasks: what a task looks like, and how many there are."""

    tasks: int = option("Tasks of each seed.", 1000, min=1)
    seeds: int = option("How many seeds; they are 0, 1, 2, ...", 1, min=1)
    ways: int = option("Known classes of a task.", 5, min=1)
    shots: int = option("Examples of each class.", 5, min=1)
    queries: int = option("Queries of each class in a balanced task.", 15, min=1)
    outlier_queries: int | None = option("Queries of each unknown class, if not as many as --queries.", min=1)
    outlier_ways: int = option("Unknown classes of a task.", 5, min=1)
    broad: bool = option("Take unknown items from all other classes instead of a few.", False)
    unequal: float | None = option("Classes of unequal size: a Dirichlet concentration, the smaller the more unequal.")


@dataclass(frozen=True)
class ComparisonOptions:
    """Comparison: which methods, and what is printed about them."""

    methods: str | None = option(
        'These methods instead of the sixteen of the paper. "eol, simpleshot+knn" names a method and a pair.'
    )
    against: str | None = option("Also print differences to this method, task by task.")
    paper: bool = option("Print the figures of the paper beside.", False)
    plots: bool = option("Also draw curves, histograms and one optimisation.", False)


@command()
def bench(
    name: str = argument("balanced, imbalanced, sweep-b, ablation or claims."),
    output: Path = option("Folder for the tables and results.", Path("handful-bench"), names=OUTPUT),
    jobs: int | None = option("Processes at once, at most. Default: one per core.", names=("--jobs", "-j"), min=1),
    *,
    data: DataOptions,
    comparison: ComparisonOptions,
    kind: TaskOptions,
    table: TableOptions,
    as_json: bool = JSON,
) -> None:
    """Compare methods on many tasks: the tables of the paper, its sweep over b, its ablation, its claims.

    Every method sees the same tasks. Results are stored in the output folder at once: if a run is stopped, the same
    command continues, and another benchmark on the same features uses what is there. In the .csv, text that begins with
    = + - @ gets an apostrophe in front, because a spreadsheet would read it as a formula.

    Example: handful bench balanced --features embeddings.parquet --methods "auto, eol, knn" --tasks 100 -o results
    """
    from handful.bench import report as job
    from handful.core.base import is_base, read_base
    from handful.features import Protocol, read
    from handful.utils.threads import available_threads

    protocol = Protocol(
        kind.ways, kind.shots, kind.queries, kind.outlier_ways, kind.outlier_queries or kind.queries,
        broad=kind.broad, unequal_shots=kind.unequal, unequal_queries=kind.unequal,
    )  # fmt: skip
    features = None if data.features is None else read(data.features, warn=False, **table.arguments())
    base: Any = None
    if data.base is not None and is_base(data.base):
        base = read_base(data.base)
    elif data.base is not None:
        base = read(data.base, warn=False, **table.arguments())
        base = base.of_split("base") or base
    if features is not None and data.split is not None:
        features = features.select(split=data.split)
    console = Console(aside=as_json)
    if features is not None and features.about_columns:
        console.print(f"{data.features}: {features.about_columns}")
    with console.work("tasks", f"Finished tasks are stored in {output}: the same command continues from there.") as bar:
        outcome = job.perform(
            name, features, base, output=output, methods=comparison.methods, protocol=protocol, tasks=kind.tasks,
            seeds=kind.seeds, jobs=jobs or available_threads(),
            against=comparison.against, paper=comparison.paper, plots=comparison.plots,
            command=shlex.join(["handful", *sys.argv[1:]]), progress=bar,
        )  # fmt: skip
    if as_json:
        typer.echo(outcome.files["json"].read_text("utf-8"), nl=False)
        return
    for one in outcome.tables:
        console.terminal.print(one.to_rich(), "")
    for verdict in outcome.claims:
        console.terminal.print(f"[{COLOURS[verdict.holds]}]{verdict.word}[/]: {verdict.statement}")
        if detail := verdict.narrowest or verdict.remark:
            console.print(f"    {detail}" + (" (the narrowest)" if verdict.narrowest else ""), wrap=True)
    console.print("Written: " + ", ".join(str(path) for path in outcome.files.values()))

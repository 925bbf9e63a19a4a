"""`handful bench`: methods compared on many tasks."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import typer

from handful.cli import _options as shared
from handful.cli._console import Console
from handful.cli._options import argument, command, option, parse_table

of_data = partial(option, panel="Features")
of_comparison = partial(option, panel="Comparison")
of_tasks = partial(option, panel="Tasks")
COLOURS = {True: "green", False: "red", None: "yellow"}


@command()
def bench(
    name: str = argument("balanced, imbalanced, sweep-b, ablation or claims."),
    output: Path = option("Folder for the tables and results.", Path("handful-bench"), names=shared.OUTPUT),
    jobs: int | None = option("Processes at once, at most. Default: one per core.", names=("--jobs", "-j"), min=1),
    features: Path | None = of_data("Features with labels, see `handful info`. Default: the built-in digits."),
    split: str | None = of_data("Only this split of the features, as in novel."),
    base: Path | None = of_data(
        "Features of the classes that the backbone was trained on, whose mean methods centre on; or a base file, see "
        "`handful base`. Methods that learn from base classes need the latter."
    ),
    methods: str | None = of_comparison(
        'These methods instead of the sixteen of the paper. "eol, simpleshot+knn" names a method and a pair.'
    ),
    against: str | None = of_comparison("Also print differences to this method, task by task."),
    paper: bool = of_comparison("Print the figures of the paper beside.", False),
    plots: bool = of_comparison("Also draw curves, histograms and one optimisation.", False),
    tasks: int = of_tasks("Tasks of each seed.", 1000, min=1),
    seeds: int = of_tasks("How many seeds; they are 0, 1, 2, ...", 1, min=1),
    ways: int = of_tasks("Known classes of a task.", 5, min=1),
    shots: int = of_tasks("Examples of each class.", 5, min=1),
    queries: int = of_tasks("Queries of each class in a balanced task.", 15, min=1),
    outlier_queries: int | None = of_tasks("Queries of each unknown class, if not as many as --queries.", min=1),
    outlier_ways: int = of_tasks("Unknown classes of a task.", 5, min=1),
    broad: bool = of_tasks("Take unknown items from all other classes instead of a few.", False),
    unequal: float | None = of_tasks(
        "Classes of unequal size: a Dirichlet concentration, the smaller the more unequal."
    ),
    embedding: str | None = shared.EMBEDDING,
    label: str | None = shared.LABEL,
    columns: str | None = shared.COLUMNS,
    exclude: str | None = shared.EXCLUDE,
    as_json: bool = shared.JSON,
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
        ways, shots, queries, outlier_ways, outlier_queries or queries,
        broad=broad, unequal_shots=unequal, unequal_queries=unequal,
    )  # fmt: skip
    columns_of = parse_table(embedding, label, columns, exclude)
    table = None if features is None else read(features, warn=False, **columns_of)
    known: Any = None
    if base is not None and is_base(base):
        known = read_base(base)
    elif base is not None:
        known = read(base, warn=False, **columns_of)
        known = known.of_split("base") or known
    if table is not None and split is not None:
        if (part := table.of_split(split)) is None:
            there = [] if table.splits is None else sorted({*map(repr, table.splits.tolist())})
            raise ValueError(f"{table.name} has no split {split!r}: there are {', '.join(there) or 'none'}")
        table = part
    console = Console(aside=as_json)
    if table is not None and table.about_columns:
        console.print(f"{features}: {table.about_columns}")
    with console.work("tasks", f"Finished tasks are stored in {output}: the same command continues from there.") as bar:
        outcome = job.perform(
            name, table, known, output=output, methods=methods, protocol=protocol, tasks=tasks, seeds=seeds,
            jobs=jobs or available_threads(), against=against, paper=paper, plots=plots,
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

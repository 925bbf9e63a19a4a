"""`handful bench`: methods compared on many tasks."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from handful.cli._app import command
from handful.cli._console import console_for, print_lines, progress_bars, stoppable
from handful.cli._options import Json, TableOptions

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = {True: "green", False: "red", None: "yellow"}


@dataclass(frozen=True)
class DataOptions:
    """Which features."""

    PANEL: ClassVar[str] = "Features"

    features: Annotated[
        Path | None, typer.Option(help="Features with labels, see `handful info`. Default: the built-in digits.")
    ] = None
    split: Annotated[str | None, typer.Option(help="Only this split of the features, as in novel.")] = None
    base: Annotated[
        Path | None,
        typer.Option(
            help="Features of the classes that the backbone was trained on, whose mean methods centre on; or a base "
            "file, see `handful base`. Methods that learn from base classes need the latter."
        ),
    ] = None


@dataclass(frozen=True)
class TaskOptions:
    """What a task looks like, and how many there are."""

    PANEL: ClassVar[str] = "Tasks"

    tasks: Annotated[int, typer.Option(min=1, help="Tasks of each seed.")] = 1000
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; they are 0, 1, 2, ...")] = 1
    ways: Annotated[int, typer.Option(min=1, help="Known classes of a task.")] = 5
    shots: Annotated[int, typer.Option(min=1, help="Examples of each class.")] = 5
    queries: Annotated[int, typer.Option(min=1, help="Queries of each class in a balanced task.")] = 15
    outlier_queries: Annotated[
        int | None,
        typer.Option(min=1, help="Queries of each unknown class, if not as many as --queries."),
    ] = None
    outlier_ways: Annotated[int, typer.Option(min=1, help="Unknown classes of a task.")] = 5
    broad: Annotated[
        bool, typer.Option("--broad", help="Take unknown items from all other classes instead of a few.")
    ] = False
    unequal: Annotated[
        float | None,
        typer.Option(help="Classes of unequal size: a Dirichlet concentration, the smaller the more unequal."),
    ] = None


@dataclass(frozen=True)
class ComparisonOptions:
    """Which methods, and what is printed about them."""

    PANEL: ClassVar[str] = "Comparison"

    methods: Annotated[
        str | None,
        typer.Option(
            help='These methods instead of the sixteen of the paper. "eol, simpleshot+knn" names a method and a pair.'
        ),
    ] = None
    against: Annotated[str | None, typer.Option(help="Also print differences to this method, task by task.")] = None
    paper: Annotated[bool, typer.Option("--paper", help="Print the figures of the paper beside.")] = False
    plots: Annotated[bool, typer.Option("--plots", help="Also draw curves, histograms and one optimisation.")] = False


@command()
def bench(
    name: Annotated[str, typer.Argument(help="balanced, imbalanced, sweep-b, ablation or claims.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the tables and results.")] = Path(
        "handful-bench"
    ),
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes at once, at most. Default: one per core.")
    ] = None,
    *,
    data: DataOptions,
    comparison: ComparisonOptions,
    kind: TaskOptions,
    table: TableOptions,
    as_json: Json = False,
) -> None:
    """Compare methods on many tasks: the tables of the paper, its sweep over b, its ablation, its claims.

    Every method sees the same tasks. Results are stored in the output folder at once: if a run is stopped, the same
    command continues, and another benchmark on the same features uses what is there. In the .csv, text that begins with
    = + - @ gets an apostrophe in front, because a spreadsheet would read it as a formula.

    Example: handful bench balanced --features embeddings.parquet --methods "auto, eol, knn" --tasks 100 -o results
    """
    from handful.bench import report as job
    from handful.core.base import is_base, read_base
    from handful.features import FeatureTable, Protocol, read
    from handful.utils.threads import available_threads

    protocol = Protocol(
        kind.ways, kind.shots, kind.queries, kind.outlier_ways, kind.outlier_queries or kind.queries,
        broad=kind.broad, unequal_shots=kind.unequal, unequal_queries=kind.unequal,
    )  # fmt: skip
    features = None if data.features is None else read(data.features, warn=False, **table.arguments())
    base: Any = None
    if data.base is not None:
        base = read_base(data.base) if is_base(data.base) else read(data.base, warn=False, **table.arguments())
    if isinstance(base, FeatureTable):
        base = base.of_split("base") or base
    if features is not None and data.split is not None:
        features = features.select(split=data.split)
    console = console_for(as_json)
    if features is not None and features.about_columns:
        print_lines(console, [f"{data.features}: {features.about_columns}"])
    stored = f"Finished tasks are stored in {output}: the same command continues from there."
    with stoppable(console, stored), progress_bars(console, "tasks") as progress:
        outcome = job.perform(
            name, features, base, output=output, methods=comparison.methods, protocol=protocol, tasks=kind.tasks,
            seeds=kind.seeds, jobs=jobs or available_threads(),
            against=comparison.against, paper=comparison.paper, plots=comparison.plots,
            command=shlex.join(["handful", *sys.argv[1:]]), progress=progress,
        )  # fmt: skip
    if as_json:
        typer.echo(outcome.files["json"].read_text("utf-8"), nl=False)
        return
    _print_outcome(console, outcome)


def _print_outcome(console: Console, outcome: Any) -> None:
    for table in outcome.tables:
        console.print(table.to_rich(), "")
    for verdict in outcome.claims:
        console.print(f"[{COLOURS[verdict.holds]}]{verdict.word}[/]: {verdict.statement}")
        detail = verdict.narrowest or verdict.remark
        if detail:
            console.print(f"    {detail}" + (" (the narrowest)" if verdict.narrowest else ""), markup=False)
    print_lines(console, ["Written: " + ", ".join(str(path) for path in outcome.files.values())])

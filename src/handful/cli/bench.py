"""`handful bench`: methods compared on many tasks."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from handful.cli._app import command
from handful.cli._console import console_for, print_lines, progress_bars, stoppable
from handful.cli._estimators import EstimatorOptions, compare_estimators
from handful.cli._open_world import OpenWorldOptions, bench_open_world
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
            "file, see `handful base`. Methods that learn from base classes need it."
        ),
    ] = None


@dataclass(frozen=True)
class TaskOptions:
    """What a task looks like, and how many there are."""

    PANEL: ClassVar[str] = "Tasks"

    tasks: Annotated[
        int | None, typer.Option(min=1, help="Tasks per seed. Default: 1000; share: 300; random piles: 150.")
    ] = None
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; they are 0, 1, 2, ...")] = 1
    ways: Annotated[int, typer.Option(min=1, help="Known classes of a task.")] = 5
    shots: Annotated[str | None, typer.Option(help="Examples of each class. Default: 5; for share: 1,5,10.")] = None
    queries: Annotated[int, typer.Option(min=1, help="Queries of each class in a balanced task.")] = 15
    outlier_queries: Annotated[
        int | None,
        typer.Option(min=1, help="For balanced: queries of each unknown class, if not as many as --queries."),
    ] = None
    outlier_ways: Annotated[int, typer.Option(min=1, help="Unknown classes of a task.")] = 5
    broad: Annotated[
        bool, typer.Option("--broad", help="Take unknown items from all other classes instead of a few.")
    ] = False
    unequal: Annotated[
        float | None,
        typer.Option(help="Classes of unequal size: a Dirichlet concentration, the smaller the more unequal."),
    ] = None
    piles: Annotated[
        str,
        typer.Option(
            help="For domains and --estimators: random (of all kinds), equal (classes of equal size), paper (its "
            "balanced tasks); for domains also no-class (unknown items that belong to no class)."
        ),
    ] = "random"


@dataclass(frozen=True)
class ComparisonOptions:
    """Which methods, and what is printed about them."""

    PANEL: ClassVar[str] = "Comparison"

    methods: Annotated[
        str | None,
        typer.Option(
            help="These methods instead of the sixteen of the paper; for share: beside auto and EOL. "
            '"eol, simpleshot+knn" names one method and one pair.'
        ),
    ] = None
    against: Annotated[str | None, typer.Option(help="Also print differences to this method, task by task.")] = None
    paper: Annotated[bool, typer.Option("--paper", help="Print the figures of the paper beside.")] = False
    plots: Annotated[bool, typer.Option("--plots", help="Also draw curves, histograms and one optimisation.")] = False


@dataclass(frozen=True)
class MachineOptions:
    """Where the tasks are solved."""

    PANEL: ClassVar[str] = "Processes"

    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes at once, at most. Default: one per core.")
    ] = None


@command()
def bench(
    name: Annotated[
        str, typer.Argument(help="balanced, imbalanced, sweep-b, ablation, claims, share, domains or open-world.")
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="For domains, and for share --estimators: a folder of feature sets with labels.", show_default=False
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the tables and results.")] = Path(
        "handful-bench"
    ),
    *,
    data: DataOptions,
    table: TableOptions,
    comparison: ComparisonOptions,
    kind: TaskOptions,
    world: OpenWorldOptions,
    estimator: EstimatorOptions,
    machine: MachineOptions,
    as_json: Json = False,
) -> None:
    """Compare methods on many tasks: the tables of the paper, its sweep over b, its ablation, its claims.

    `share` measures methods that do not know the share of unknowns, at shares from none to five sixths. `domains
    FOLDER` solves random piles of every feature set of a folder, of all kinds and sizes. What is learned was learned
    from the other feature sets. `share FOLDER --estimators` compares estimators of the share on such piles.

    `open-world` measures a process that goes on: items arrive, new classes keep appearing, and after each block of
    items a person names some groups of unknown ones, from which the model learns.

    Every method sees the same tasks. Results are stored in the output folder at once: if a run is stopped, the same
    command continues, and another benchmark on the same features uses what is there. In the .csv, text that begins with
    = + - @ gets an apostrophe in front, because a spreadsheet would read it as a formula.

    Example: handful bench balanced --features embeddings.parquet --tasks 1000 --seeds 7 -o results
    """
    from handful.bench import report as job
    from handful.core.base import is_base, read_base
    from handful.features import FeatureTable, Protocol, read
    from handful.utils.threads import available_threads

    if estimator.estimators:
        if kind.seeds != 1:
            raise ValueError("share --estimators has one seed: give it as --seed, or more --tasks")
        compare_estimators(
            name, folder, data.features, data.split, comparison.methods, kind.tasks, kind.piles, estimator.seed, table,
            output, as_json,
        )  # fmt: skip
        return
    if estimator.seed is not None:
        raise ValueError("--seed is for share --estimators: other benchmarks take --seeds")
    if name == "domains":
        _bench_domains(folder, output, comparison.methods, kind, table, as_json)
        return
    if folder is not None:
        raise ValueError(f"only domains takes a folder, and share --estimators: {name} takes --features {folder}")
    if name == "open-world":
        bench_open_world(
            data.features, data.split, data.base, comparison.methods, kind.seeds, world, table, output, as_json
        )
        return
    shots = _shots(name, kind.shots)
    protocol = Protocol(
        kind.ways, shots[0], kind.queries, kind.outlier_ways, kind.queries,
        broad=kind.broad, unequal_shots=kind.unequal, unequal_queries=kind.unequal,
    )  # fmt: skip
    tasks = kind.tasks or job.DEFAULT_TASKS.get(name)
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
            name, features, base, output=output, methods=comparison.methods, protocol=protocol, tasks=tasks,
            outlier_queries=kind.outlier_queries, seeds=kind.seeds, shots=shots if name == "share" else None,
            jobs=machine.jobs or available_threads(),
            against=comparison.against, paper=comparison.paper, plots=comparison.plots,
            command=_command_of(name, data, table, comparison, kind, tasks, shots), progress=progress,
            learn_base=_learner(),
        )  # fmt: skip
    if as_json:
        typer.echo(outcome.files["json"].read_text("utf-8"), nl=False)
        return
    _print_outcome(console, outcome)


def _bench_domains(
    folder: Path | None, output: Path, methods: str | None, kind: TaskOptions, table: Any, as_json: bool
) -> None:
    """Random piles of every feature set of a folder."""
    from handful.bench import domain_picture, domains, plots
    from handful.bench.piles import KINDS
    from handful.bench.report import DEFAULT_PILES
    from handful.utils.files import write_whole

    if folder is None:
        raise ValueError("give a folder of feature sets, as in handful bench domains FOLDER")
    if kind.seeds != 1:
        raise ValueError("domains has one seed: give more --tasks")
    if kind.piles not in KINDS:
        raise ValueError(f"--piles is {kind.piles}: give one of {', '.join(KINDS)}")
    paths, rows = domains.find_feature_sets(folder), domains.contenders(methods)
    words = ["handful", "bench", "domains", str(folder)] + (["--methods", methods] if methods else [])
    words += ["--piles", kind.piles] if kind.piles != "random" else []
    words += ["--tasks", str(kind.tasks)] if kind.tasks else []
    console = console_for(as_json)
    with stoppable(console, "Nothing was written."), progress_bars(console, "piles") as progress:
        results = domains.run(
            paths, rows, piles=kind.tasks or DEFAULT_PILES, kind=kind.piles, progress=progress,
            arguments=table.arguments(),
        )  # fmt: skip
    files = results.write(output, shlex.join(words))
    if plots.available():
        files["png"] = output / "domains.png"
        write_whole(files["png"], plots.png(domain_picture.draw(results)))
    if as_json:
        typer.echo(files["json"].read_text("utf-8"), nl=False)
        return
    print_lines(console, results.summary())
    print_lines(console, ["Written: " + ", ".join(str(path) for path in files.values())])


def _print_outcome(console: Console, outcome: Any) -> None:
    for table in outcome.headline:
        console.print(table.to_rich(), "")
    for aim in outcome.aims:
        console.print(f"[{COLOURS[aim.met]}]{aim.word}[/]: {aim.statement}")
        if aim.worst:
            console.print(f"    {aim.worst} (the narrowest)", markup=False)
    for verdict in outcome.claims:
        console.print(f"[{COLOURS[verdict.holds]}]{verdict.word}[/]: {verdict.statement}")
        detail = verdict.narrowest or verdict.remark
        if detail:
            console.print(f"    {detail}" + (" (the narrowest)" if verdict.narrowest else ""), markup=False)
    print_lines(console, ["Written: " + ", ".join(str(path) for path in outcome.files.values())])


def _learner() -> Any:
    """The function that learns from base classes, or None if the package `training` is not installed."""
    if find_spec("handful.training") is None:
        return None
    from handful.training.heads import learn_base

    return learn_base


def _usual_shots(name: str) -> list[int]:
    return [1, 5, 10] if name == "share" else [5]


def _shots(name: str, text: str | None) -> list[int]:
    """One number, or several for share."""
    if text is None:
        return _usual_shots(name)
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(
            f"{text!r}: give a whole number of at least 1, or several, as in 1,5,10", param_hint="'--shots'"
        )
    if name != "share" and len(parts) > 1:
        raise typer.BadParameter(f"{text!r}: only share runs at several numbers of shots", param_hint="'--shots'")
    return [int(part) for part in parts]


def _command_of(
    name: str,
    data: DataOptions,
    table: TableOptions,
    comparison: ComparisonOptions,
    kind: TaskOptions,
    tasks: int | None,
    shots: list[int],
) -> str:
    """The command that makes the same tables: without options for speed and for the output folder."""
    words = ["handful", "bench", name]
    values = {
        "features": data.features, "split": data.split, "base": data.base, "methods": comparison.methods,
        "tasks": tasks, "seeds": kind.seeds, "against": comparison.against, **vars(table),
    }  # fmt: skip
    for option, value in values.items():
        words += [f"--{option}", str(value)] if value is not None else []
    words += ["--paper"] * comparison.paper + ["--broad"] * kind.broad
    defaults = {one.name: one.default for one in fields(TaskOptions)}
    for option in ("ways", "shots", "queries", "outlier_queries", "outlier_ways", "unequal"):
        if option == "shots":
            words += ["--shots", ",".join(map(str, shots))] if shots != _usual_shots(name) else []
        elif getattr(kind, option) != defaults[option]:
            words += [f"--{option.replace('_', '-')}", f"{getattr(kind, option):g}"]
    return shlex.join(words)

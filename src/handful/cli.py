"""The command line: parse, call, print. Heavy imports happen inside the commands, so that --help is quick."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Few-shot open-set recognition: label a pile from a handful of examples and set the unknowns aside.",
)
Json = Annotated[bool, typer.Option("--json", help="Print for machines: one JSON document, nothing else.")]


def _version(wanted: bool) -> None:
    if wanted:
        from handful import __version__

        typer.echo(f"handful {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None: ...


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the labels and the report.")] = Path(
        "handful-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Which drawings are the examples and the pile.")] = 0,
    tasks: Annotated[int, typer.Option(min=2, help="How many other piles the figures are averaged over.")] = 200,
    as_json: Json = False,
) -> None:
    """Label a pile of handwritten digits, five kinds known by five drawings each, and write a report.

    Needs no data: the digits come with scikit-learn. Writes labels.csv, labels.parquet and report.html.
    """
    from rich.console import Console
    from rich.table import Table

    from handful import demo as job

    console = Console(quiet=as_json, highlight=False)
    with console.status("Labelling a pile of digits …"):
        found = job.run(seed, tasks, done=lambda step: console.print(f"[dim]· {step}[/dim]"))
        paths = job.write(found, output)
    if as_json:
        figures = {
            method: {name: {"mean": mean, "half_width": half} for name, (mean, half) in of.items()}
            for method, of in found.figures.items()
        }
        files = {name: str(path.resolve()) for name, path in paths.items()}
        typer.echo(json.dumps({"seed": seed, "tasks": tasks, "figures": figures, "files": files}, indent=2))
        return
    console.print()
    for sentence in found.sentences:
        console.print(sentence)
    shown = found.table
    table = Table(title=f"\n{shown.title}", caption=shown.note, title_justify="left", caption_justify="left")
    for i, column in enumerate(shown.columns):
        table.add_column(column, justify="right" if i else "left")
    for i, row in enumerate(shown.rows):
        table.add_row(*row, style="bold" if i == 0 else "")
    console.print(table)
    console.print(f"\nThe labelled pile: {paths['labels.csv']} and {paths['labels.parquet']}")
    console.print(f"The report, with pictures: [bold]{paths['report.html'].resolve()}[/bold]")


@app.command()
def info(
    path: Annotated[
        Path, typer.Argument(help="A .parquet, .npz, .npy, .safetensors, .pkl, or a folder of `datasets`.")
    ],
    as_json: Json = False,
) -> None:
    """Say what a file of features holds: classes, counts, norms, duplicates, and which tasks it can support."""
    from handful.features import describe, read

    found = describe(read(path))
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{found['name']}: {found['items']:,} items, {found['classes']} classes", show_header=False)
    for name, value in found.items():
        if name not in ("name", "counts"):
            table.add_row(name.replace("_", " "), _in_words(value))
    console = Console(highlight=False)
    console.print(table)
    counts = sorted(found["counts"].items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{name} {count}" for name, count in counts[:20])
    console.print(f"Items per class: {shown}" + (f" and {len(counts) - 20} more" if len(counts) > 20 else ""))


def _in_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_in_words(part)}" for name, part in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods with what is known about each."""
    from dataclasses import asdict

    from handful.methods import get, list_methods

    infos = list_methods()
    if as_json:
        rows = [asdict(info) | {"parameters": get(info.name).defaults} for info in infos]
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in ("name", "method", "year", "paradigm", "setting", "prepared by"):
        table.add_column(column)
    for info in infos:
        prepared = ", ".join(info.preparation)
        table.add_row(info.name, info.title, str(info.year), info.paradigm, info.setting, prepared)
    Console().print(table)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="balanced, imbalanced, sweep-b, ablation or claims.")],
    features: Annotated[
        Path | None, typer.Option(help="Features with labels, see `handful info`. Default: the embedded digits.")
    ] = None,
    base: Annotated[
        Path | None, typer.Option(help="Features of the backbone's training classes: methods centre on their mean.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help='Instead of the paper\'s sixteen: "eol, simpleshot+knn, knn:k=5".')
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of each seed.")] = 1000,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, 0 and up.")] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the tables and results.")] = Path(
        "handful-bench"
    ),
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes. Default: one a core.")] = None,
    against: Annotated[str | None, typer.Option(help="Also print differences to this method, task by task.")] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Show the paper's own figures beside.")] = False,
    plots: Annotated[bool, typer.Option("--plots", help="Also draw curves, histograms and one optimisation.")] = False,
    ways: Annotated[int, typer.Option(min=1, help="Known classes of a task.")] = 5,
    shots: Annotated[int, typer.Option(min=1, help="Examples of each.")] = 5,
    queries: Annotated[int, typer.Option(min=1, help="Queries of each class in a balanced task.")] = 15,
    outlier_ways: Annotated[int, typer.Option(min=1, help="Outlier classes of a task.")] = 5,
    broad: Annotated[bool, typer.Option("--broad", help="Outliers from all the other classes instead.")] = False,
    unequal: Annotated[
        float | None, typer.Option(help="Dirichlet concentration: classes of unequal size, the smaller the more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare methods on many tasks: the paper's tables, its sweep over b, its ablation, its claims.

    Every method sees the same tasks. Results are kept in the output folder as they come, so that a run that was
    stopped goes on where it was, and another benchmark on the same features uses what is there.

    Example: handful bench balanced --features embeddings.parquet --tasks 1000 --seeds 7 -o results
    """
    from rich.console import Console

    from handful.bench import job
    from handful.features import Protocol, read
    from handful.methods.solving import available_threads

    protocol = Protocol(
        ways, shots, queries, outlier_ways, queries, broad=broad, unequal_shots=unequal, unequal_queries=unequal
    )
    console = Console(stderr=as_json, highlight=False)
    given, given_base = (None if path is None else read(path) for path in (features, base))
    try:
        with _progress(console) as show:
            found = job.perform(
                name, given, given_base, output=output, methods=methods, protocol=protocol, tasks=tasks, seeds=seeds,
                jobs=jobs or available_threads(), against=against, paper=paper, plots=plots,
                command=_bench_command(locals()), progress=show,
            )  # fmt: skip
    except KeyboardInterrupt:
        console.print(f"Stopped. What was finished is kept in {output}: the same command goes on from there.")
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(found.files["json"].read_text("utf-8"), nl=False)
        return
    for table in found.tables:
        console.print(table.to_rich(), "")
    for verdict in found.claims:
        colour = {True: "green", False: "red", None: "yellow"}[verdict.holds]
        console.print(f"[{colour}]{verdict.word}[/{colour}]: {verdict.statement}")
        detail = verdict.narrowest or verdict.remark
        if detail:
            console.print(f"    {detail}" + (" (the narrowest)" if verdict.narrowest else ""), markup=False)
    console.print("Written: " + ", ".join(str(path) for path in found.files.values()))


def _bench_command(given: dict[str, Any]) -> str:
    """The command that makes the same tables: without what only says how fast and where to."""
    words = ["handful", "bench", given["name"]]
    for option in ("features", "base", "methods", "tasks", "seeds", "against"):
        words += [f"--{option}", str(given[option])] if given[option] is not None else []
    words += [f"--{option}" for option in ("paper", "broad") if given[option]]
    usual = {"ways": 5, "shots": 5, "queries": 15, "outlier_ways": 5, "unequal": None}
    for option, default in usual.items():
        words += [f"--{option.replace('_', '-')}", f"{given[option]:g}"] if given[option] != default else []
    return shlex.join(words)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar with the rate and the time left, one for each thing that is run."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("tasks, {task.fields[rate]}")
    columns = "{task.description}", BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn(), TextColumn("left")
    bars: dict[str, Any] = {}
    with Progress(*columns, console=console, speed_estimate_period=120) as progress:

        def show(name: str, done: int, total: int) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name, total=total, completed=done, rate="")
            speed = progress.tasks[bars[name]].speed
            progress.update(bars[name], completed=done, rate=f"{speed:.0f} a second" if speed else "")

        yield show


def main() -> None:
    """Errors that a user can mend are told in a sentence; the rest keep their traceback."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        typer.secho(f"handful: {error}", err=True, fg="red")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

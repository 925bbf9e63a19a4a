"""The small commands: demo, info, methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._shared import Json, app


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

    How much of the pile is of other digits is not told, but estimated. Figures over many piles stand beside those of
    EOL, which is told, and of two yardsticks.

    Needs no data: the digits come with scikit-learn. Writes labels.csv, labels.parquet and report.html.
    """
    from rich.console import Console
    from rich.table import Table

    from handful.label import demo as job

    console = Console(quiet=as_json, highlight=False)
    with console.status("Labelling a pile of digits …"):
        found = job.run(seed, tasks, done=lambda step: console.print(f"[dim]· {step}[/dim]"))
        paths = job.write(found, output)
    if as_json:
        figures = {
            method: {name: {"mean": mean, "half_width": half} for name, (mean, half) in of.items()}
            for method, of in found.figures.items()
        }
        shares = {"true": found.share, "estimated": found.shares.tolist()}  # of the piles of the figures
        files = {name: str(path.resolve()) for name, path in paths.items()}
        said = {"seed": seed, "tasks": tasks, "figures": figures, "outlier_share": shares, "files": files}
        typer.echo(json.dumps(said, indent=2))
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
    """Say what a file of features holds: classes, counts, norms, duplicates, and which tasks it can support.

    A file that would take more than 8 GiB of memory is refused before it is read, and so is a small one that would
    take more than 512 MiB and 1,000 times its size. Set HANDFUL_MAX_BYTES to allow more, as in HANDFUL_MAX_BYTES=32GB.
    """
    from handful.features import describe, read

    found = describe(read(path))
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    from handful.core.checks import shortened

    table = Table(title=f"{found['name']}: {found['items']:,} items, {found['classes']} classes", show_header=False)
    for name, value in found.items():
        if name not in ("name", "counts"):
            table.add_row(name.replace("_", " "), _in_words(value))
    console = Console(highlight=False)
    console.print(table)
    counts = sorted(found["counts"].items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{shortened(str(name))} {count}" for name, count in counts[:20])
    console.print(f"Items per class: {shown}" + (f" and {len(counts) - 20} more" if len(counts) > 20 else ""))


def _in_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_in_words(part)}" for name, part in value.items())
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods with what is known about each."""
    from dataclasses import asdict

    from handful.core.parameters import AUTO
    from handful.solving import describe, get_solver, list_methods

    infos = [describe(name) for name in list_methods()]
    if as_json:
        rows = [asdict(info) | {"parameters": get_solver(info.name).defaults} for info in infos]
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    said = f"{AUTO}, the default, is {get_solver(AUTO).name}. A base is made by `handful base` or `handful train`."
    columns = "method", "year", "paradigm", "setting", "prepared by", "needs"
    table = Table(Column("name", no_wrap=True), *columns, caption=said, caption_justify="left")
    for info in infos:
        prepared = ", ".join(info.preparation)
        needs = info.needs or (f"[{info.extra}]" if info.extra else "")
        row = info.name, info.title, str(info.year), info.paradigm, info.setting, prepared, escape(needs)
        table.add_row(*row)
    Console().print(table)

"""`handful demo`: an example that needs no data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import absolute, print_lines, written_tables
from handful.cli._options import Json


@command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the labels and the report.")] = Path(
        "handful-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Which drawings are the examples and the pile.")] = 0,
    tasks: Annotated[int, typer.Option(min=2, help="How many other piles the figures are averaged over.")] = 200,
    as_json: Json = False,
) -> None:
    """Label a pile of handwritten digits from five drawings of five digits each, and write a report.

    handful does not know how much of the pile shows other digits: it estimates that. Figures over many piles compare it
    with EOL, which gets the true share, and with two simple methods.

    Needs no data: the digits come with scikit-learn. Writes labels.csv, labels.parquet (with the extra
    `parquet`) and report.html.
    """
    from rich.console import Console
    from rich.table import Table

    from handful.project import demo as digits_demo

    console = Console(quiet=as_json, highlight=False)
    with console.status("Labelling a pile of digits …"):
        outcome = digits_demo.run(seed, tasks, done=lambda step: console.print(f"[dim]· {step}[/dim]"))
        paths = digits_demo.write(outcome, output)
    if as_json:
        figures = {
            method: {name: {"mean": mean, "half_width": half} for name, (mean, half) in of.items()}
            for method, of in outcome.figures.items()
        }
        shares = {"true": outcome.share, "estimated": outcome.shares.tolist()}  # of the piles of the figures
        document = {"seed": seed, "tasks": tasks, "figures": figures, "outlier_share": shares, "files": absolute(paths)}
        typer.echo(json.dumps(document, indent=2))
        return
    console.print()
    for sentence in outcome.sentences:
        console.print(sentence)
    figures_table = outcome.table
    table = Table(
        title=f"\n{figures_table.title}",
        caption=figures_table.note,
        title_justify="left",
        caption_justify="left",
    )
    for i, column in enumerate(figures_table.columns):
        table.add_column(column, justify="right" if i else "left")
    for i, row in enumerate(figures_table.rows):
        table.add_row(*row, style="bold" if i == 0 else "")
    console.print(table)
    print_lines(console, [f"\nThe labelled pile: {written_tables(paths)}"])
    console.print(f"The report, with pictures: [bold]{paths['report.html'].resolve()}[/bold]")

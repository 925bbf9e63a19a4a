"""`handful demo`: an example that needs no data, and small piles to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import absolute, print_json, print_lines, print_table, written_tables
from handful.cli._options import Json

DEFAULT_OUTPUT = Path("handful-demo")
NEXT = {
    "pictures": "handful label examples/ pile/ -o out",
    "texts": "handful label tickets.csv -o out",
    "embeddings": "handful label table.csv -o out",
}


@command()
def demo(
    practice: Annotated[
        str | None,
        typer.Option(
            metavar="pictures|texts|embeddings",
            help="Only write a small pile to try the other commands on: drawn shapes (examples/ and pile/), written "
            "tickets (tickets.csv), or handwritten digits (table.csv and embeddings.npz). A file that is there with "
            "other contents is never replaced.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the labels and the report. Default: handful-demo; with --practice, this folder.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which drawings are the examples and the pile.")] = 0,
    tasks: Annotated[int, typer.Option(min=2, help="How many other piles the figures are averaged over.")] = 200,
    as_json: Json = False,
) -> None:
    """Label a pile of handwritten digits from five drawings of five digits each, and write a report.

    handful does not know how much of the pile shows other digits: it estimates that. Figures over many piles compare it
    with EOL, which gets the true share, and with two simple methods.

    Needs no data: the digits come with scikit-learn. Writes labels.csv, labels.parquet (with the extra `parquet`) and
    report.html.

    To try the other commands: handful demo --practice pictures
    """
    if practice is not None:
        _write_practice(practice, output or Path("."), as_json)
        return
    from rich.console import Console

    from handful.project import demo as digits_demo

    console = Console(quiet=as_json, highlight=False)
    with console.status("Labelling a pile of digits …"):
        outcome = digits_demo.run(seed, tasks, done=lambda step: console.print(f"[dim]· {step}[/dim]"))
        paths = digits_demo.write(outcome, output or DEFAULT_OUTPUT)
    if as_json:
        figures = {
            method: {name: {"mean": mean, "half_width": half} for name, (mean, half) in of.items()}
            for method, of in outcome.figures.items()
        }
        shares = {"true": outcome.share, "estimated": outcome.shares.tolist()}  # of the piles of the figures
        print_json(
            {"seed": seed, "tasks": tasks, "figures": figures, "outlier_share": shares, "files": absolute(paths)}
        )
        return
    print_lines(console, ["", *outcome.sentences, ""])
    table = outcome.table
    print_table(console, table.columns, table.rows, title=table.title, note=table.note)
    print_lines(console, [f"\nThe labelled pile: {written_tables(paths)}"])
    console.print(f"The report, with pictures: [bold]{paths['report.html'].resolve()}[/bold]")


def _write_practice(kind: str, output: Path, as_json: bool) -> None:
    from handful.features.practice import practice

    paths = practice(kind, output)
    if as_json:
        print_json([str(path) for path in paths])
        return
    places = sorted({str(path.relative_to(output).parts[0]) + "/" * (path.parent != output) for path in paths})
    typer.echo(f"Written to {output.resolve()}: {', '.join(places)} ({len(paths)} file{'s' * (len(paths) != 1)})")
    typer.echo(f"Next: {NEXT[kind]}")

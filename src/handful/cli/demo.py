"""`handful demo`: an example that needs no data, and small piles to try the other commands on."""

from __future__ import annotations

from pathlib import Path

import typer

from handful.cli._console import Console, absolute, print_json, written_tables
from handful.cli._options import JSON, OUTPUT, command, option

NEXT = {
    "pictures": "handful label examples/ pile/ -o out",
    "texts": "handful label tickets.csv -o out",
    "embeddings": "handful label table.csv -o out",
}


@command()
def demo(
    practice: str | None = option(
        "Only write a small pile to try the other commands on: drawn shapes (examples/ and pile/), written tickets "
        "(tickets.csv), or handwritten digits (table.csv and embeddings.npz). A file that is there with other contents "
        "is never replaced.",
        metavar="pictures|texts|embeddings",
    ),
    output: Path | None = option(
        "Folder for the labels and the report. Default: handful-demo; with --practice, this folder.", names=OUTPUT
    ),
    seed: int = option("Which drawings are the examples and the pile.", 0, min=0),
    tasks: int = option("How many other piles the figures are averaged over.", 200, min=2),
    as_json: bool = JSON,
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
    from handful.project import demo as digits_demo

    console = Console()
    console.terminal.quiet = as_json
    with console.terminal.status("Labelling a pile of digits …"):
        outcome = digits_demo.run(seed, tasks, done=lambda step: console.print(f"· {step}", wrap=True, style="dim"))
        paths = digits_demo.write(outcome, output or Path("handful-demo"))
    if as_json:
        figures = {
            method: {name: {"mean": mean, "half_width": half} for name, (mean, half) in of.items()}
            for method, of in outcome.figures.items()
        }
        shares = {"true": outcome.share, "estimated": outcome.shares.tolist()}  # of the piles of the figures
        document = {"seed": seed, "tasks": tasks, "figures": figures, "outlier_share": shares}
        print_json(document | {"files": absolute(paths)})
        return
    console.print("", *outcome.sentences, "")
    table = outcome.table
    console.table(table.columns, table.rows, title=table.title, note=table.note)
    console.print(f"\nThe labelled pile: {written_tables(paths)}")
    console.print(f"The report, with pictures: {paths['report.html'].resolve()}", style="bold")


def _write_practice(kind: str, output: Path, as_json: bool) -> None:
    from handful.features.practice import practice

    paths = practice(kind, output)
    if as_json:
        print_json([str(path) for path in paths])
        return
    places = sorted({str(path.relative_to(output).parts[0]) + "/" * (path.parent != output) for path in paths})
    typer.echo(f"Written to {output.resolve()}: {', '.join(places)} ({len(paths)} file{'s' * (len(paths) != 1)})")
    typer.echo(f"Next: {NEXT[kind]}")

"""`handful practice`: a small pile to try the other commands on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._options import Json

NEXT = {
    "pictures": "handful label examples/ pile/ -o out",
    "texts": "handful label tickets.csv -o out",
    "embeddings": "handful label table.csv -o out",
}


@command()
def practice(
    kind: Annotated[str, typer.Argument(help="pictures, texts or embeddings.", metavar="KIND")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write into.")] = Path("."),
    as_json: Json = False,
) -> None:
    """Write a small pile to try the other commands on: drawn shapes, written tickets, or handwritten digits.

    `pictures` writes examples/ and pile/, `texts` writes tickets.csv, and `embeddings` writes table.csv and
    embeddings.npz. A file that is there with other contents is never replaced.

    Example: handful practice pictures
    """
    from handful.features.practice import practice as write

    paths = write(kind, output)
    if as_json:
        typer.echo(json.dumps([str(path) for path in paths], indent=2))
        return
    places = sorted({str(path.relative_to(output).parts[0]) + "/" * (path.parent != output) for path in paths})
    typer.echo(f"Written to {output.resolve()}: {', '.join(places)} ({len(paths)} file{'s' * (len(paths) != 1)})")
    typer.echo(f"Next: {NEXT[kind]}")

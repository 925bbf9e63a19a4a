"""`handful methods`: the methods, and what is known about each."""

from __future__ import annotations

import json

import typer

from handful.cli._app import command
from handful.cli._options import Json


@command()
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

    caption = f"{AUTO}, the default, is {get_solver(AUTO).name}. `handful base` or `handful train` makes a base file."
    columns = "method", "year", "paradigm", "setting", "prepared by", "needs"
    table = Table(Column("name", no_wrap=True), *columns, caption=caption, caption_justify="left")
    for info in infos:
        prepared = ", ".join(info.preparation)
        needs = info.needs or (f"[{info.extra}]" if info.extra else "")
        table.add_row(info.name, info.title, str(info.year), info.paradigm, info.setting, prepared, escape(needs))
    Console().print(table)

"""`handful backbones`: the networks that turn pictures into features."""

from __future__ import annotations

import json

import typer

from handful.cli._app import command
from handful.cli._console import console_for
from handful.cli._options import Json


@command()
def backbones(as_json: Json = False) -> None:
    """List the backbones, which turn pictures into features."""
    from dataclasses import asdict

    from handful.backbones import list_backbones
    from handful.backbones.catalogue import LEVELS

    infos = list_backbones()
    if as_json:
        typer.echo(json.dumps([asdict(info) for info in infos], indent=2))
        return
    from rich.table import Column, Table
    from rich.text import Text

    levels = "\n".join(f"{level}: {sentence} ({name})" for level, (name, sentence) in LEVELS.items())
    lines = f'For pictures:\n{levels}\nTo install an extra: pip install "handful[images]"'
    caption = Text(lines)  # as text: its brackets are not markup
    columns = "what it is", "features", "input", "MB", "licence", "extra"
    table = Table(Column("name", no_wrap=True), *columns, caption=caption, caption_justify="left")
    for info in infos:
        numbers = ("" if x is None else f"{x:g}" for x in (info.dimension, info.input_size, info.megabytes))
        table.add_row(info.name, info.title, *numbers, info.licence, info.extra)
    console_for(False).print(table)

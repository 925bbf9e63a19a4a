"""`handful undo`: sorted pictures back to where they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import ask_user
from handful.cli._options import Json, Yes


@command()
def undo(
    journal: Annotated[Path, typer.Argument(help="The undo.jsonl that `handful label --sort move` wrote.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move sorted pictures back to where they were.

    Pictures are moved only from the folder of the journal to the one folder that they came from. If the journal may
    come from somebody else or from another machine, the command shows what it would move, and asks before it continues.
    """
    from handful.backbones.folders import shown
    from handful.label.move_journal import undo as move_back

    back, problems = move_back(journal, ask_user(yes))
    if as_json:
        typer.echo(json.dumps({"back": back, "left": problems}, indent=2))
    else:
        typer.echo(f"Pictures moved back to where they were: {back}.")
        for line in problems:
            typer.echo(shown(line), err=True)
    if problems:
        raise typer.Exit(1)

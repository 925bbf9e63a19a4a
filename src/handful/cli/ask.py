"""`handful ask`: a person answers the questions that change the labels most."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import console_for, stoppable
from handful.cli._options import Json
from handful.cli._questions import ask_about, print_next


@command()
def ask(
    results: Annotated[Path, typer.Argument(help="A folder that `handful label` wrote.")],
    answers: Annotated[int, typer.Option(min=0, help="How many items to ask about now.")] = 5,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open pictures in a viewer.")] = False,
    as_json: Json = False,
) -> None:
    """Answer a few questions that improve the labels most: few, different items that handful is unsure about.

    For each item, answer y if its label is right; or name its class: by its name or number, u if it belongs to none of
    the classes, +NAME for a class that is new. Each answer is stored at once in RESULTS/asked.json. The last line is
    the command that labels the pile again with the answers as examples. Its results have new questions.

    To find out how many labels are right, use `handful check`: its items are a fair sample, those of this command are
    not.

    Example: handful ask out --answers 10
    """
    from handful.project.job import RECORD
    from handful.project.sitting import Asking
    from handful.utils.files import locked

    console = console_for(as_json)
    current = Asking(results)
    kept = f"The answers are stored in {current.path}: the same command continues."
    with locked(results / RECORD, "folder of results"), stoppable(console, kept):
        current = Asking(results)  # once more, now that no other process changes it
        ask_about(console, current, answers, no_open)
        document = current.write()
    if as_json:
        typer.echo(json.dumps({**document, "files": {"asked.json": str(current.path.resolve())}}, indent=2))
        return
    print_next(console, current)

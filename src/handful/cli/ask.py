"""`handful ask`: a person answers the questions that change the labels most."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import console_for, print_json, stoppable
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
    the classes, +NAME for a class that is new. Each answer is stored at once. The last line is the command that labels
    the pile again with the answers as examples. Then there are new questions.

    To find out how many labels are right, use `handful check`: its items are a fair sample, those of this command are
    not.

    Example: handful ask out --answers 10
    """
    from handful.project.sitting import Sitting

    console = console_for(as_json)
    with closing(Sitting(results, "ask")) as sitting:
        kept = f"The answers are stored in {sitting.path}: the same command continues."
        with stoppable(console, kept):
            ask_about(console, sitting, answers, no_open)
        if as_json:
            files = {sitting.path.name: str(sitting.path.resolve())}
            print_json({**sitting.document(), "files": files})
            return
        print_next(console, sitting)

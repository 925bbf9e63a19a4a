"""`handful check`: a person looks at a few items, and learns how many labels are right."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from handful.cli._app import command
from handful.cli._console import MAX_TABLE_ROWS, console_for, print_json, print_lines, print_table, stoppable
from handful.cli._options import Json
from handful.cli._questions import ask_about, print_next

if TYPE_CHECKING:
    from rich.console import Console

    from handful.project.sitting import Sitting

HEAD = ("Class", "Labels", "Looked at", "Right", "Precision")


@command()
def check(
    results: Annotated[Path, typer.Argument(help="A folder that `handful label` wrote.")],
    answers: Annotated[int, typer.Option(min=0, help="How many items to ask about now.")] = 10,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**32 - 1, help="Another number asks about other items. Default: as before, or 0."),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open pictures in a viewer.")] = False,
    as_json: Json = False,
) -> None:
    """Find out how many labels are right: look at a few items and say what they are.

    Items are drawn so that a few of them say the most about all: every label has its turn, unsure ones more often. For
    each item, answer y if its label is right and n if it is wrong; or name its class, which says more: by its name or
    number, u if it belongs to none of the classes, +NAME for a class that is new. Pictures open in the viewer of the
    system; texts are printed, and of a table the other columns of the row.

    Each answer is stored at once: stop at any time, and the same command continues. At the end you see how many labels
    are right, with an interval that holds the truth nine times in ten, and how many more answers would halve it. The
    answers are good examples, too: the last line is the command that uses them.

    Example: handful check out --answers 30

    Answers can also come from a file or a program, one in each line: handful check out < answers.txt
    """
    from handful.project.sitting import Sitting

    console = console_for(as_json)
    with closing(Sitting(results, "check", seed)) as sitting:
        kept = f"The answers are stored in {sitting.path}: the same command continues."
        with stoppable(console, kept):
            ask_about(console, sitting, answers, no_open)
            problem = sitting.update_report()
        if problem:
            print_lines(console, [problem])
        if as_json:
            files = {sitting.path.name: str(sitting.path.resolve())}
            print_json({**sitting.document(), "files": files})
            return
        _print_checked(console, sitting)


def _print_checked(console: Console, sitting: Sitting) -> None:
    checked = sitting.checked
    print_lines(console, ["", *checked.sentences])
    counts = sitting.rows_by_class()
    rows = [[name, *map(str, counts[name]), estimate.in_words()] for name, estimate in checked.by_class.items()]
    if rows:
        console.print()
        print_table(console, HEAD, rows, limit=MAX_TABLE_ROWS)
    print_next(console, sitting)

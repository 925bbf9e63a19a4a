"""`handful check`: a person looks at a few items, and learns how many labels are right."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli._app import command
from handful.cli._console import console_for, print_lines, print_table, stoppable
from handful.cli._options import Json

if TYPE_CHECKING:
    from rich.console import Console

    from handful.label.checking import Check, Question

KEYS = "[y]es, [n]o, [s]kip, [q]uit"
MAX_LISTED_CLASSES = 40
MAX_SHOWN_COLUMNS = 12
MAX_CELL_CHARACTERS = 200
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
    system; of a table, the other columns of the row are printed.

    Each answer is stored at once in RESULTS/checked.json: stop at any time, and the same command continues. At the end
    you see how many labels are right, with an interval that holds the truth nine times in ten, and how many more
    answers would halve it. The answers are good examples, too: the last line is the command that uses them.

    Example: handful check out --answers 30

    Answers can also come from a file or a program, one in each line: handful check out < answers.txt
    """
    from handful.label.checking import Check, update_report
    from handful.label.record import RECORD
    from handful.utils.files import locked

    console = console_for(as_json)
    current = Check(results, seed)
    kept = f"The answers are stored in {current.path}: the same command continues."
    with locked(results / RECORD, "folder of results"), stoppable(console, kept):
        current = Check(results, seed)  # once more, now that no other process changes it
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        _ask(console, current, answers, opens=is_terminal and not no_open)
        document = current.write()
        problem = update_report(results, document)
    if problem:
        print_lines(console, [problem])
    if as_json:
        files = {"checked.json": str(current.path.resolve())}
        typer.echo(json.dumps({**document, "files": files}, indent=2))
        return
    _print_checked(console, current)


def _open(picture: Path) -> None:
    """Open a picture in the viewer of the system, if there is one."""
    with suppress(OSError):
        if hasattr(os, "startfile"):  # pragma: no cover - Windows
            os.startfile(picture)
            return
        has_screen = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        program = shutil.which("open" if sys.platform == "darwin" else "xdg-open") if has_screen else None
        if program:
            quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            subprocess.Popen([program, str(picture)], start_new_session=True, **quiet)


def _ask(console: Console, check: Check, count: int, opens: bool) -> None:
    """Ask about items until there are no more, or somebody quits."""
    from handful.backbones.pictures import shown
    from handful.utils.shares_in_words import percent

    questions = check.questions(count)
    if not questions:
        print_lines(console, ["There is no item left to ask about."] if count else [])
        return
    numbers = _numbers(check.classes)
    if len(check.classes) <= MAX_LISTED_CLASSES:
        names = [f"{numbers[name]} {shown(name)}" if numbers else shown(name) for name in check.classes]
        print_lines(console, [f"The classes: {', '.join(names)}."])
    how = f"{KEYS}, or the class ({'number or ' if numbers else ''}name; u = none of these, +NAME = a new one)"
    for place, question in enumerate(questions, 1):
        says = f"handful says {shown(question.says)} ({percent(question.confidence)})"
        lines = [f"{place} of {len(questions)}: {shown(question.item)} — {says}. Right? {how}"]
        cells = [
            f"    {shown(name)}: {shown(str(value))[:MAX_CELL_CHARACTERS]}" for name, value in question.columns.items()
        ]
        print_lines(console, cells[:MAX_SHOWN_COLUMNS] + lines)
        if opens and question.picture is not None:
            _open(question.picture)
        if not _take(console, check, question, numbers):
            return


def _take(console: Console, check: Check, question: Question, numbers: dict[str, int]) -> bool:
    """Read one answer and store it; False to stop."""
    while True:
        line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line or line.strip() == "q":
            return False
        try:
            said = parse_answer(line.strip(), question.says, check.classes, numbers)
        except ValueError as error:
            print_lines(console, [f"    {error}"])
            continue
        if said == "":
            check.skip(question)
        else:
            check.answer(question, said)
        return True


def parse_answer(text: str, says: str, classes: Sequence[str], numbers: dict[str, int]) -> str | None:
    """What a person typed: a label, None for "wrong", "" for "skip". ValueError if it means nothing.

    >>> [parse_answer(text, "cat", ["cat", "hen"], {"cat": 1, "hen": 2}) for text in ("y", "n", "s", "u", "2", "hen")]
    ['cat', None, '', 'unknown', 'hen', 'hen']
    """
    from handful.core.checks import UNKNOWN_NAME, is_no_class
    from handful.utils.files import class_name, in_brief

    by_number = {str(number): name for name, number in numbers.items()}
    name = class_name(text)
    if name in classes:
        return name
    if name in by_number:
        return by_number[name]
    keys: dict[str, str | None] = {
        "y": says, "yes": says, "n": None, "no": None, "s": "", "skip": "", "u": UNKNOWN_NAME,
    }  # fmt: skip
    if text.lower() in keys:
        return keys[text.lower()]
    if is_no_class(text):
        return UNKNOWN_NAME
    if name.startswith("+") and (new := name[1:].strip()):
        return UNKNOWN_NAME if is_no_class(new) else new
    raise ValueError(
        f"there is no class {in_brief(name, 60)}: answer {KEYS}, a class, u for none of these, or "
        f"+{name[:60] or 'NAME'} if that is a new class"
    )


def _numbers(classes: Sequence[str]) -> dict[str, int]:
    """Numbers for the classes; none if names of classes are numbers themselves."""
    if any(name.isdecimal() for name in classes):
        return {}
    return {name: number for number, name in enumerate(classes, 1)}


def _print_checked(console: Console, check: Check) -> None:
    checked = check.checked
    print_lines(console, ["", *checked.sentences])
    counts = check.rows_by_class()
    rows = [[name, *map(str, counts[name]), estimate.in_words()] for name, estimate in checked.by_class.items()]
    if rows:
        console.print()
        print_table(console, HEAD, rows)
    print_lines(console, [f"\nThe answers: {check.path}"])
    if following := check.next_command():
        print_lines(console, [f"To use them as examples: {following}"])

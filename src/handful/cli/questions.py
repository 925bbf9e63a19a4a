"""`handful ask` and `handful check`: questions in the terminal about items of a folder of results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handful.cli._console import Console, print_json
from handful.cli._options import JSON, argument, command, option

if TYPE_CHECKING:
    from handful.project.sitting import Sitting

KEYS = "[y]es, [n]o, [s]kip, [q]uit"
MAX_LISTED_CLASSES = 40
MAX_SHOWN_COLUMNS = 12
MAX_CELL_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 1000  # of a text that is shown
RESULTS = argument("A folder that `handful label` wrote.")
NO_OPEN = option("Do not open pictures in a viewer.", False)


@command()
def ask(
    results: Path = RESULTS,
    answers: int = option("How many items to ask about now.", 5, min=0),
    no_open: bool = NO_OPEN,
    as_json: bool = JSON,
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

    with closing(Sitting(results, "ask")) as sitting:
        _sit(sitting, answers, no_open, as_json)


@command()
def check(
    results: Path = RESULTS,
    answers: int = option("How many items to ask about now.", 10, min=0),
    seed: int | None = option("Another number asks about other items. Default: as before, or 0.", min=0, max=2**32 - 1),
    no_open: bool = NO_OPEN,
    as_json: bool = JSON,
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

    with closing(Sitting(results, "check", seed)) as sitting:
        _sit(sitting, answers, no_open, as_json, is_check=True)


def _sit(sitting: Sitting, count: int, no_open: bool, as_json: bool, is_check: bool = False) -> None:
    """Ask, and print what the answers say, where they are, and the command that uses them."""
    console = Console(aside=as_json)
    with console.work(kept=f"The answers are stored in {sitting.path}: the same command continues."):
        _ask_about(console, sitting, count, no_open)
        problem = sitting.update_report() if is_check else None
    if problem:
        console.print(problem)
    if as_json:
        print_json({**sitting.document(), "files": {sitting.path.name: str(sitting.path.resolve())}})
        return
    if is_check:
        console.print("", *sitting.checked.sentences)
        counts, by_class = sitting.rows_by_class(), sitting.checked.by_class
        rows = [[name, *map(str, counts[name]), estimate.in_words()] for name, estimate in by_class.items()]
        if rows:
            console.print("")
        console.classes(("Class", "Labels", "Looked at", "Right", "Precision"), rows)
    console.print(f"\nThe answers are stored in {sitting.path}")
    if following := sitting.next_command():
        console.print(f"To use them as examples: {following}")


def _ask_about(console: Console, sitting: Sitting, count: int, no_open: bool) -> None:
    """Ask about items until there are no more, or somebody quits."""
    from handful.backbones.folders import shown
    from handful.utils.shares_in_words import percent
    from handful.utils.text import one_line

    opens = sys.stdin is not None and sys.stdin.isatty() and not no_open
    questions, classes = sitting.questions(count), sitting.classes
    if count and not questions:
        console.print("There is no item left to ask about.")
    if not questions:
        return
    has_number_names = any(name.isdecimal() for name in classes)  # then numbers would mean two classes
    numbers = {} if has_number_names else {name: number for number, name in enumerate(classes, 1)}
    if len(classes) <= MAX_LISTED_CLASSES:
        names = [f"{numbers[name]} {shown(name)}" if numbers else shown(name) for name in classes]
        console.print(f"The classes: {', '.join(names)}.")
    how = f"{KEYS}, or the class ({'number or ' if numbers else ''}name; u = none of these, +NAME = a new one)"
    for place, question in enumerate(questions, 1):
        filled = {shown(name): shown(str(value)) for name, value in question.columns.items() if value is not None}
        cells = [f"    {one_line(question.text, MAX_TEXT_CHARACTERS)}"] if question.text else []
        cells += [f"    {name}: {value[:MAX_CELL_CHARACTERS]}" for name, value in filled.items()]
        guess = f"handful says {shown(question.label)} ({percent(question.confidence)})"
        console.print(*cells[:MAX_SHOWN_COLUMNS])
        console.print(f"{place} of {len(questions)}: {shown(question.name)} — {guess}. Right? {how}")
        if opens and question.picture is not None:
            _open(question.picture)
        while True:
            line = sys.stdin.readline() if sys.stdin is not None else ""
            if not line or line.strip() == "q":
                return
            try:
                label = parse_answer(line.strip(), question.label, classes, numbers)
                break
            except ValueError as error:
                console.print(f"    {error}")
        if label == "":
            sitting.skip(question)
        else:
            sitting.answer(question, label)


def parse_answer(text: str, label: str, classes: Sequence[str], numbers: dict[str, int]) -> str | None:
    """What a person typed: a label, None for "wrong", "" for "skip". ValueError if it means nothing."""
    from handful.core.checks import UNKNOWN_NAME, is_no_class, is_no_label
    from handful.utils.files import class_name, in_brief

    name = class_name(text)
    keys: dict[str, str | None] = {
        "y": label, "yes": label, "n": None, "no": None, "s": "", "skip": "", "u": UNKNOWN_NAME,
    }  # fmt: skip
    named = {str(number): one for one, number in numbers.items()} | {one: one for one in classes}
    if name in named:
        return named[name]
    if text.lower() in keys:
        return keys[text.lower()]
    if is_no_class(text):
        return UNKNOWN_NAME
    if name.startswith("+") and not is_no_label(new := name[1:].strip()):
        return UNKNOWN_NAME if is_no_class(new) else new
    raise ValueError(
        f"there is no class {in_brief(name, 60)}: answer {KEYS}, a class, u for none of these, or "
        f"+{name[:60] or 'NAME'} if that is a new class"
    )


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

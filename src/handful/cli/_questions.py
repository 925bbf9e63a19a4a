"""Questions in the terminal about items of a folder of results: for `handful check` and `handful ask`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handful.cli._console import print_lines

if TYPE_CHECKING:
    from rich.console import Console

    from handful.project.sitting import Question, Sitting

KEYS = "[y]es, [n]o, [s]kip, [q]uit"
MAX_LISTED_CLASSES = 40
MAX_SHOWN_COLUMNS = 12
MAX_CELL_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 1000  # of a text that is shown


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


def ask_about(console: Console, sitting: Sitting, count: int, no_open: bool) -> None:
    """Ask about items until there are no more, or somebody quits."""
    from handful.backbones.folders import shown
    from handful.utils.shares_in_words import percent
    from handful.utils.text import one_line

    opens = sys.stdin is not None and sys.stdin.isatty() and not no_open
    questions = sitting.questions(count)
    if not questions:
        print_lines(console, ["There is no item left to ask about."] if count else [])
        return
    numbers = _numbers(sitting.classes)
    if len(sitting.classes) <= MAX_LISTED_CLASSES:
        names = [f"{numbers[name]} {shown(name)}" if numbers else shown(name) for name in sitting.classes]
        print_lines(console, [f"The classes: {', '.join(names)}."])
    how = f"{KEYS}, or the class ({'number or ' if numbers else ''}name; u = none of these, +NAME = a new one)"
    for place, question in enumerate(questions, 1):
        says = f"handful says {shown(question.label)} ({percent(question.confidence)})"
        lines = [f"{place} of {len(questions)}: {shown(question.name)} — {says}. Right? {how}"]
        cells = [
            f"    {shown(name)}: {shown(str(value))[:MAX_CELL_CHARACTERS]}"
            for name, value in question.columns.items()
            if value is not None
        ]
        if question.text:
            cells = [f"    {one_line(question.text, MAX_TEXT_CHARACTERS)}", *cells]
        print_lines(console, cells[:MAX_SHOWN_COLUMNS] + lines)
        if opens and question.picture is not None:
            _open(question.picture)
        if not _read_answer(console, sitting, question, numbers):
            return


def _read_answer(console: Console, sitting: Sitting, question: Question, numbers: dict[str, int]) -> bool:
    """Read one answer and store it; return whether to go on."""
    while True:
        line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line or line.strip() == "q":
            return False
        try:
            label = parse_answer(line.strip(), question.label, sitting.classes, numbers)
        except ValueError as error:
            print_lines(console, [f"    {error}"])
            continue
        if label == "":
            sitting.skip(question)
        else:
            sitting.answer(question, label)
        return True


def parse_answer(text: str, label: str, classes: Sequence[str], numbers: dict[str, int]) -> str | None:
    """What a person typed: a label, None for "wrong", "" for "skip". ValueError if it means nothing.

    >>> [parse_answer(text, "cat", ["cat", "hen"], {"cat": 1, "hen": 2}) for text in ("y", "n", "s", "u", "2", "hen")]
    ['cat', None, '', 'unknown', 'hen', 'hen']
    """
    from handful.core.checks import UNKNOWN_NAME, is_no_class, is_no_label
    from handful.utils.files import class_name, in_brief

    by_number = {str(number): name for name, number in numbers.items()}
    name = class_name(text)
    if name in classes:
        return name
    if name in by_number:
        return by_number[name]
    keys: dict[str, str | None] = {
        "y": label, "yes": label, "n": None, "no": None, "s": "", "skip": "", "u": UNKNOWN_NAME,
    }  # fmt: skip
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


def _numbers(classes: Sequence[str]) -> dict[str, int]:
    """Numbers for the classes; none if names of classes are numbers themselves."""
    if any(name.isdecimal() for name in classes):
        return {}
    return {name: number for number, name in enumerate(classes, 1)}


def print_next(console: Console, sitting: Sitting) -> None:
    """Print where the answers are, and the command that uses them."""
    print_lines(console, [f"\nThe answers are stored in {sitting.path}"])
    if following := sitting.next_command():
        print_lines(console, [f"To use them as examples: {following}"])

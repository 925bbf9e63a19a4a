"""What commands print with: lines, tables, progress bars, the end after Ctrl-C, and JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from handful.utils import interrupts
from handful.utils.extras import PARQUET

if TYPE_CHECKING:
    from handful.project.trust import Agree, Request

Progress = Callable[[str, int, int], None]  # what is done, how many are done, of how many

MAX_SKIPPED_LINES = 10
MAX_TABLE_ROWS = 30
CACHE_KEPT = "The features so far are stored: the same command will be faster."
PARTS_KEPT = "What is embedded so far is stored: the same command continues from there."


def print_json(document: object) -> None:
    """Print what --json asks for."""
    typer.echo(json.dumps(document, indent=2, default=str))  # a table may hold dates


class Console:
    """Prints for people: to standard error if `aside`, because standard output is for the answer of a program."""

    def __init__(self, aside: bool = False) -> None:
        from rich.console import Console as Terminal

        self.terminal = Terminal(stderr=aside, highlight=False)

    def print(self, *lines: str, wrap: bool = False, style: str | None = None) -> None:
        """Print lines as they are, so that a path in them can be copied; or, with `wrap`, broken between words."""
        for line in lines:
            self.terminal.print(line, markup=False, soft_wrap=not wrap, style=style)

    def table(
        self, head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, title: str = "", note: str = ""
    ) -> None:
        """Print a table of text, `left` columns to the left and the others to the right."""
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=title or None, caption=Text(note) if note else None, title_justify="left", caption_justify="left",
            box=None, pad_edge=False, header_style="bold",
        )  # fmt: skip
        for place, name in enumerate(head):
            table.add_column(name, no_wrap=not place, justify="left" if place < left else "right")
        for row in rows:
            table.add_row(*map(Text, row))
        self.terminal.print(table)

    def classes(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table with a row for each class, of which there may be many; nothing if there is none."""
        if rows:
            self.table(head, rows[:MAX_TABLE_ROWS])
        if len(rows) > MAX_TABLE_ROWS:
            self.print(f"and {len(rows) - MAX_TABLE_ROWS} more; --json lists all.")

    def skipped(self, skipped: Sequence[tuple[str, str]]) -> None:
        """Print how many files were skipped, and why for the first of them."""
        if skipped:
            self.print(f"\nSkipped ({len(skipped)}):", wrap=True)
            self.print(*(f"    {name!r}: {reason}" for name, reason in skipped[:MAX_SKIPPED_LINES]), wrap=True)
        if len(skipped) > MAX_SKIPPED_LINES:
            self.print(f"    and {len(skipped) - MAX_SKIPPED_LINES} more; --json lists all.")

    @contextmanager
    def work(self, unit: str = "", kept: str = "") -> Iterator[Progress]:
        """Show bars with the rate and the time left; Ctrl-C ends the command and says what was `kept`."""
        from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        rate = TextColumn(f"{unit}, {{task.fields[rate]}}")
        done = BarColumn(), MofNCompleteColumn()
        left = TimeRemainingColumn(), TextColumn("left")
        progress = Bars("{task.description}", *done, rate, *left, console=self.terminal, speed_estimate_period=120)
        bars: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int) -> None:
            if not bars:
                progress.start()  # not before: without a bar it would print an empty line
            if name not in bars:
                bars[name] = progress.add_task(name, total=total, completed=done, rate="")
            speed = progress.tasks[bars[name]].speed or 0
            words = f"{speed:.0f} per second" if speed >= 1 else f"{60 * speed:.0f} per minute" if speed else ""
            progress.update(bars[name], completed=done, total=total, rate=words)

        interrupts.say_last(last := f"Stopped. {kept}".rstrip())
        try:
            try:
                yield show
            finally:
                if bars:
                    progress.stop()
        except KeyboardInterrupt:
            interrupts.say_last("")  # it is printed here
            self.print(last)
            raise typer.Exit(interrupts.STOPPED) from None


def ask_user(yes: bool) -> Agree:
    """A function that shows what a file asks for, which others may have made, and asks whether to continue."""

    def agree(request: Request) -> None:
        if yes:
            return
        if sys.stdin is None or not sys.stdin.isatty():  # None: it is closed
            raise ValueError(f"{request.sentence}: {request.advice}")
        typer.echo(f"{request.sentence}.", err=True)
        for line in request.details:
            typer.echo(line, err=True)
        typer.echo("Continue? [y/N] ", err=True, nl=False)  # `confirm` would print to standard output too
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise ValueError("nothing was done")

    return agree


def written_tables(files: Mapping[str, Path]) -> str:
    """The tables of labels among these files, in words; and how to get labels.parquet too, if PyArrow is missing."""
    if "labels.parquet" in files:
        return f"{files['labels.csv']} and {files['labels.parquet']}"
    return f"{files['labels.csv']} (a labels.parquet too with: pip install {PARQUET})"


def skipped_rows(skipped: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Skipped files for --json."""
    return [{"path": path, "reason": reason} for path, reason in skipped]


def absolute(files: Mapping[str, Path]) -> dict[str, str]:
    """Paths for --json."""
    return {name: str(path.resolve()) for name, path in files.items()}

"""What commands print with: the console, progress bars, questions, and the end after Ctrl-C."""

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
    from rich.console import Console

    from handful.project.trust import Agree, Request

Progress = Callable[[str, int, int], None]  # what is done, how many are done, of how many

MAX_SKIPPED_LINES = 10
MAX_TABLE_ROWS = 30
CACHE_KEPT = "The features so far are stored: the same command will be faster."
PARTS_KEPT = "What is embedded so far is stored: the same command continues from there."


def console_for(as_json: bool) -> Console:
    """The console for people: standard error if --json needs standard output for itself."""
    from rich.console import Console

    return Console(stderr=as_json, highlight=False)


def print_json(document: object) -> None:
    """Print what --json asks for."""
    typer.echo(json.dumps(document, indent=2, default=str))  # a table may hold dates


def print_lines(console: Console, lines: Sequence[str]) -> None:
    """Print text without markup and without line breaks inside a path, so that the path can be copied."""
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def written_tables(files: Mapping[str, Path]) -> str:
    """The tables of labels among these files, in words; and how to get labels.parquet too, if PyArrow is missing."""
    if "labels.parquet" in files:
        return f"{files['labels.csv']} and {files['labels.parquet']}"
    return f"{files['labels.csv']} (a labels.parquet too with: pip install {PARQUET})"


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


def _rate(speed: float | None) -> str:
    if not speed:
        return ""
    return f"{speed:.0f} per second" if speed >= 1 else f"{60 * speed:.0f} per minute"


@contextmanager
def progress_bars(console: Console, unit: str) -> Iterator[Progress]:
    """A bar with the rate and the time left for each thing that is done."""
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    rate = TextColumn(f"{unit}, {{task.fields[rate]}}")
    columns = "{task.description}", BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn(), TextColumn("left")
    bars: dict[str, TaskID] = {}
    progress = Bars(*columns, console=console, speed_estimate_period=120)

    def show(name: str, done: int, total: int) -> None:
        if not bars:
            progress.start()  # not before: without a bar it would print an empty line
        if name not in bars:
            bars[name] = progress.add_task(name, total=total, completed=done, rate="")
        speed = progress.tasks[bars[name]].speed
        progress.update(bars[name], completed=done, total=total, rate=_rate(speed))

    try:
        yield show
    finally:
        if bars:
            progress.stop()


@contextmanager
def stoppable(console: Console, kept: str) -> Iterator[None]:
    """End the command after Ctrl-C without a traceback, and say what is left of the work.

    Parameters
    ----------
    kept : str
        A sentence about the work that is kept, or "".
    """
    last = f"Stopped. {kept}".rstrip()
    interrupts.say_last(last)
    try:
        yield
    except KeyboardInterrupt:
        interrupts.say_last("")  # it is printed here
        console.print(last, markup=False, soft_wrap=True)
        raise typer.Exit(interrupts.STOPPED) from None


def print_table(
    console: Console,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int = 1,
    limit: int | None = None,
    title: str = "",
    note: str = "",
) -> None:
    """Print a table of text, `left` columns to the left and the others to the right, and at most `limit` rows."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title or None, caption=Text(note) if note else None, title_justify="left", caption_justify="left",
        box=None, pad_edge=False, header_style="bold",
    )  # fmt: skip
    for place, name in enumerate(head):
        table.add_column(name, no_wrap=not place, justify="left" if place < left else "right")
    for row in rows[:limit]:
        table.add_row(*map(Text, row))
    console.print(table)
    if limit is not None and len(rows) > limit:
        console.print(f"and {len(rows) - limit} more; --json lists all.", markup=False)


def skipped_rows(skipped: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Skipped files for --json."""
    return [{"path": path, "reason": reason} for path, reason in skipped]


def print_skipped(console: Console, skipped: Sequence[tuple[str, str]]) -> None:
    """How many files were skipped, and why for the first of them."""
    if not skipped:
        return
    count = len(skipped)
    lines = [f"\nSkipped ({count}):"]
    lines += [f"    {name!r}: {reason}" for name, reason in skipped[:MAX_SKIPPED_LINES]]
    if count > MAX_SKIPPED_LINES:
        lines.append(f"    and {count - MAX_SKIPPED_LINES} more; --json lists all.")
    for line in lines:
        console.print(line, markup=False)


def absolute(files: dict[str, Path]) -> dict[str, str]:
    """Paths for --json."""
    return {name: str(path.resolve()) for name, path in files.items()}

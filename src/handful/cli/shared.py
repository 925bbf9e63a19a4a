"""What the commands share: the app, the console, bars of progress. Heavy imports happen inside the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Few-shot open-set recognition: label a pile from a handful of examples and set the unknowns aside.",
)
Json = Annotated[bool, typer.Option("--json", help="Print for machines: one JSON document, nothing else.")]
Engine = Annotated[str, typer.Option(help="local, or ray: over the machines of a Ray cluster, see docs/scale.md.")]
Address = Annotated[
    str | None,
    typer.Option(
        help="With --engine ray: where the cluster is, HOST:PORT, or auto: the one that runs here. "
        "Default: this machine alone."
    ),
]
ENGINES = ("local", "ray")


def console_for(as_json: bool) -> Console:
    """Where people read: with --json standard output is the machine's."""
    from rich.console import Console

    return Console(stderr=as_json, highlight=False)


def share_from(text: str) -> float | str:
    """What --outlier-share says."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise ValueError(f"--outlier-share {text!r}: give auto, or a number between 0 and 1") from None


def check_engine(engine: str, address: str | None) -> None:
    """Refuse, before anything is read, an engine that there is not, one that is not installed, and half an option."""
    if engine not in ENGINES:
        raise ValueError(f"there is no engine {engine!r}; there are: {', '.join(ENGINES)}")
    if address is not None and engine != "ray":
        raise ValueError(f"--address {address} is where a Ray cluster is: give --engine ray too, or leave it out")
    if engine == "ray":
        from handful.scale.cluster import need

        need()


def _rate(speed: float | None) -> str:
    if not speed:
        return ""
    return f"{speed:.0f} a second" if speed >= 1 else f"{60 * speed:.0f} a minute"


@contextmanager
def bars(console: Console, unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar with the rate and the time left, one for each thing that is run."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn(f"{unit}, {{task.fields[rate]}}")
    columns = "{task.description}", BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn(), TextColumn("left")
    bars: dict[str, Any] = {}
    with Progress(*columns, console=console, speed_estimate_period=120) as progress:

        def show(name: str, done: int, total: int) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name, total=total, completed=done, rate="")
            speed = progress.tasks[bars[name]].speed
            progress.update(bars[name], completed=done, total=total, rate=_rate(speed))

        yield show

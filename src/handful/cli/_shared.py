"""What the commands share: the app, options, the console, bars. Heavy imports happen inside the commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.utils import interrupts

if TYPE_CHECKING:
    from rich.console import Console

    from handful.label.provenance import Agree, Request

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
Backbone = Annotated[str, typer.Option(help="See `handful backbones`; or an .onnx file.")]
Size = Annotated[int | None, typer.Option(help="Pixels a side that an .onnx file takes, if it does not say.")]
Mean = Annotated[str | None, typer.Option(help="Of its pixels, scaled to 0..1: 0.485,0.456,0.406.")]
Std = Annotated[str | None, typer.Option(help="Their deviation: 0.229,0.224,0.225.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first picture that cannot be read.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there under that name.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep features of pictures seen before.")]
BaseFile = Annotated[
    Path | None,
    typer.Option(
        help="What the backbone's base classes left behind, MODEL.base.safetensors: for methods that centre on it or "
        "learn from it. Default: the one beside MODEL.onnx, or the mean that `handful embed` stored with a table."
    ),
]
ShardSize = Annotated[
    int, typer.Option(min=1, help="With --engine ray: how many pictures go to a machine at a time, and into a file.")
]
Sort = Annotated[
    str | None, typer.Option(help="Also sort the pictures into a folder for each label: copy, link or move.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Agree, without a question, to what a file of others asks for.")]
ENGINES = ("local", "ray")
REMEMBERED = "Pictures seen so far are remembered: the same command will be quicker."
SHARDS_KEPT = "What is embedded so far is kept: the same command goes on from there."


def console_for(as_json: bool) -> Console:
    """Where people read: with --json standard output is the machine's."""
    from rich.console import Console

    return Console(stderr=as_json, highlight=False)


def ask_user(yes: bool) -> Agree:
    """Show what a file asks for that may be a stranger's, and go on if the user agrees."""

    def agree(request: Request) -> None:
        if yes:
            return
        if sys.stdin is None or not sys.stdin.isatty():  # None: it is closed
            raise ValueError(f"{request.sentence}: give --yes if that is right")
        typer.echo(f"{request.sentence}.", err=True)
        for line in request.details:
            typer.echo(line, err=True)
        if not typer.confirm("Go on?", err=True):
            raise ValueError("nothing was done")

    return agree


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
        from handful.cluster.connection import need

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


@contextmanager
def stoppable(console: Any, kept: str, journal: Path | None = None) -> Iterator[None]:
    """Ctrl-C ends a command without a word of Python's, and says what is left of the work: `kept`, a sentence."""

    def sentence() -> str:
        moved = journal is not None and journal.exists()
        undo = f" Pictures that were moved go back with: handful undo {journal}" if moved else ""
        return f"Stopped. {kept}".rstrip() + undo

    interrupts.say_last(sentence)
    try:
        yield
    except KeyboardInterrupt:
        last = sentence()
        interrupts.say_last(str)  # nothing: it is said here
        console.print(last, markup=False, soft_wrap=True)
        raise typer.Exit(interrupts.STOPPED) from None


def numbers(**given: Any) -> dict[str, Any]:
    """What was said of a backbone's input: lists of numbers come as text."""
    said: dict[str, Any] = {}
    for name, value in given.items():
        try:
            if value is not None:
                said[name] = [float(part) for part in value.split(",")] if isinstance(value, str) else value
        except ValueError:
            raise ValueError(f"--{name} {value}: give numbers with commas between them") from None
    return said


def as_rows(skipped: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"path": path, "reason": reason} for path, reason in skipped]


def say_skipped(console: Any, skipped: list[tuple[str, str]]) -> None:
    if not skipped:
        return
    console.print(f"\nSkipped: {len(skipped)}.", markup=False)
    for name, reason in skipped[:10]:
        console.print(f"    {name!r}: {reason}", markup=False)
    if len(skipped) > 10:
        console.print(f"    and {len(skipped) - 10} more; --json lists all.", markup=False)

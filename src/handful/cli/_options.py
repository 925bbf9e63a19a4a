"""The Typer application, how a command declares its arguments and options, and those that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Few-shot open-set recognition: label a pile from a handful of examples and set the unknowns aside.",
)
Command = Callable[..., None]


def command(parent: typer.Typer = app) -> Callable[[Command], Command]:
    """Register a command, whose docstring is its help. An option that is off has no opposite (--no-strict)."""

    def register(function: Command) -> Command:
        for name, parameter in inspect.signature(function).parameters.items():
            if getattr(parameter.default, "default", None) is False and not parameter.default.param_decls:
                parameter.default.param_decls = (f"--{name.replace('_', '-')}",)
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(part.split()) for part in paragraphs)  # the terminal breaks lines where it needs to
        parent.command(name=function.__name__, help=text)(function)
        return function

    return register


def argument(text: str, default: Any = ..., **rules: Any) -> Any:
    """An argument with this help; without a default it must be given. `rules` are those of `typer.Argument`."""
    return typer.Argument(default, help=text, **rules)


def option(text: str, default: Any = None, *, names: Sequence[str] = (), panel: str | None = None, **rules: Any) -> Any:
    """An option with this help, under the heading `panel`. `rules` are those of `typer.Option`."""
    return typer.Option(default, *names, help=text, rich_help_panel=panel, **rules)


def under(panel: str, shared: Any) -> Any:
    """An option that several commands share, under another heading."""
    moved = copy(shared)
    moved.rich_help_panel = panel
    return moved


OUTPUT = ("--output", "-o")
TABLES, READING, MACHINES = "Tables and arrays", "Reading pictures", "Many machines"
JSON = option("Print one JSON document for programs, and nothing else.", False, names=("--json",))
OVERWRITE = option("Replace files that exist under that name.", False)
SORT = option("Also sort the files into a folder for each label: copy or link.")
YES = option("Answer yes to what is asked about files that others may have made.", False)
PRECISION = option(
    "Keep only as many labels as this part of them should be right, between 0 and 1; the least sure ones are called "
    "unknown."
)
MEAN = option("Mean of its pixels, scaled to 0..1, one number per channel: 0.485,0.456,0.406.")
STD = option("Standard deviation of its pixels, in the same way: 0.229,0.224,0.225.")
ALL_HEADS = "all"
HEADS = option(
    "What methods learn from the base classes: any of feat (also for SnaTCHer-F), peeler, flowr, meta_bce, ood_maml, "
    "frob and conformal, with commas between them; or all; or none. conformal and none need no torch.",
    ALL_HEADS,
)
STRICT = option("Stop at the first picture that cannot be read.", False, panel=READING)
NO_CACHE = option("Do not use or store the features of pictures that were seen before.", False, panel=READING)
TEXT = option(
    "The column of texts. Default: text, sentence, message, body or the like, or the column that looks most like "
    "language.",
    metavar="COLUMN",
    panel=TABLES,
)
EMBEDDING = option(
    "The column (or array) of features. Default: embedding (features), or else all columns of numbers.", panel=TABLES
)
LABEL = option("The column (or array) of labels. Default: label (labels), if there is one.", panel=TABLES)
COLUMNS = option('The columns of numbers that are features: names or patterns, "f*" or a,b,c.', panel=TABLES)
EXCLUDE = option("Columns of numbers that are not features, as in price,year; also patterns.", panel=TABLES)
ENGINE = option(
    "local: this machine. ray: Ray on this machine; ray:auto: the Ray cluster that runs here; ray:HOST:PORT: the "
    "cluster at that address. See docs/how-to/many-machines.md.",
    "local",
    metavar="local|ray|ray:ADDRESS",
    panel=MACHINES,
)


def parse_table(embedding: str | None, label: str | None, columns: str | None, exclude: str | None) -> dict[str, Any]:
    """The keyword arguments of `handful.features.read`; options that are not given are left out."""
    options: dict[str, Any] = {"embedding": embedding, "label": label}
    options |= {"columns": columns and parse_names(columns), "exclude": exclude and parse_names(exclude)}
    return {name: value for name, value in options.items() if value is not None}


def parse_engine(text: str) -> tuple[str, str | None]:
    """The engine and its address. ValueError if there is none, ImportError if Ray is needed and not installed."""
    engine, _, address = text.partition(":")
    if engine not in ("local", "ray") or (address and engine != "ray"):
        raise ValueError(f"there is no engine {text!r}; there are: local, ray, ray:ADDRESS")
    if engine == "ray":
        from handful.utils.ray import need

        need()
    return engine, address or None


def parse_share(text: str) -> float | str:
    """The value of --outlier-share."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise ValueError(f"--outlier-share {text!r}: give auto, or a number between 0 and 1") from None


def parse_numbers(text: str) -> list[float]:
    """Numbers with commas between them."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{text!r}: give numbers with commas between them, as for --mean and --std") from None


def parse_names(text: str) -> list[str]:
    """Names with commas between them; "none" is an empty list."""
    return [] if text.strip() == "none" else [name.strip() for name in text.split(",") if name.strip()]


def parse_heads(text: str) -> list[str]:
    """Names of heads with commas between them; "all" is every head, "none" is no head."""
    from handful.training.heads.learned_base import HEADS

    return list(HEADS) if text.strip() == ALL_HEADS else parse_names(text)

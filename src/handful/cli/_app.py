"""The Typer application, and how a command declares its arguments and options.

A command with many options takes them as a few dataclasses. The fields of one are options under one heading of --help,
the beginning of its docstring:

    @dataclass(frozen=True)
    class ReadingOptions:
        # with the docstring "Reading pictures: what happens with files that cannot be read."
        strict: bool = option("Stop at the first picture that cannot be read.", False)

    @command()
    def embed(pictures: Path = argument("A folder of pictures."), *, reading: ReadingOptions) -> None: ...

Typer itself sees a function with one parameter for each field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Few-shot open-set recognition: label a pile from a handful of examples and set the unknowns aside.",
)
Command = Callable[..., None]
OUTPUT = ("--output", "-o")


def argument(text: str, default: Any = ..., **rules: Any) -> Any:
    """An argument with this help; without a default it must be given. `rules` are those of `typer.Argument`."""
    return typer.Argument(default, help=text, **rules)


def option(text: str, default: Any = None, *, names: Sequence[str] = (), panel: str | None = None, **rules: Any) -> Any:
    """An option with this help, called as its parameter or by `names`. `rules` are those of `typer.Option`."""
    return typer.Option(default, *names, help=text, rich_help_panel=panel, **rules)


def command(parent: typer.Typer = app) -> Callable[[Command], Command]:
    """Register a command under the name of its function; parameters that are dataclasses become groups of options."""

    def register(function: Command) -> Command:
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(part.split()) for part in paragraphs)  # the terminal breaks lines where it needs to
        parent.command(name=function.__name__, help=text)(flatten(function))
        return function

    return register


def flatten(function: Command) -> Command:
    """A function with one parameter for each field of the dataclasses that `function` takes.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Size:
    ...     width: int = option("in pixels", 1)
    ...     height: int = option("in pixels", 2)
    >>> def area(name: str, size: Size) -> None:
    ...     print(name, size.width * size.height)
    >>> flatten(area)(name="page", width=5, height=3)
    page 15
    """
    hints = get_type_hints(function)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            group = groups[name] = hints[name]
            kinds, panel = get_type_hints(group), (group.__doc__ or "").partition(":")[0]
            parameters += [_parameter(one.name, kinds[one.name], one.default, panel) for one in fields(group)]
        else:
            parameters.append(_parameter(name, hints[name], parameter.default))

    def flat(**values: Any) -> None:
        options: dict[str, Any] = {
            name: group(**{one.name: values.pop(one.name) for one in fields(group)}) for name, group in groups.items()
        }
        function(**options, **values)

    flat.__name__, flat.__module__ = function.__name__, function.__module__
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {one.name: one.annotation for one in parameters}
    return flat


def _parameter(name: str, kind: Any, default: Any, panel: str | None = None) -> inspect.Parameter:
    """A parameter as Typer wants it. A flag has no opposite: --strict, and not also --no-strict."""
    default = copy(default)  # options are shared between commands
    if panel is not None:
        default.rich_help_panel = panel
    if kind is bool and not default.param_decls:
        default.param_decls = (f"--{name.replace('_', '-')}",)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

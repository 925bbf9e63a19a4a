"""The Typer application, and commands whose options come in groups.

A command with many options takes them as a few dataclasses. Each field of such a dataclass is one option:

    @dataclass(frozen=True)
    class ReadingOptions:
        strict: Annotated[bool, typer.Option("--strict", help="...")] = False

    @command()
    def embed(pictures: ..., reading: ReadingOptions) -> None: ...

Typer itself sees a function with one parameter for each field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Few-shot open-set recognition: label a pile from a handful of examples and set the unknowns aside.",
)
Command = Callable[..., None]


def command(parent: typer.Typer = app) -> Callable[[Command], Command]:
    """Register a command under the name of its function; parameters that are dataclasses become groups of options."""

    def register(function: Command) -> Command:
        parent.command(name=function.__name__, help=_paragraphs(function.__doc__ or ""))(flatten(function))
        return function

    return register


def flatten(function: Command) -> Command:
    """A function with one parameter for each field of the dataclasses that `function` takes.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Size:
    ...     width: int = 1
    ...     height: int = 2
    >>> def area(name: str, size: Size) -> None:
    ...     print(name, size.width * size.height)
    >>> flatten(area)(name="page", width=5, height=3)
    page 15
    """
    hints = _annotations(function)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]) and isinstance(hints[name], type):
            groups[name] = hints[name]
            parameters += _parameters_of(hints[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    def flat(**values: Any) -> None:
        arguments: dict[str, Any] = {
            name: group(**{one.name: values.pop(one.name) for one in fields(group)}) for name, group in groups.items()
        }
        function(**arguments, **values)

    flat.__name__, flat.__doc__, flat.__module__ = function.__name__, function.__doc__, function.__module__
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {one.name: one.annotation for one in parameters}
    return flat


def _annotations(annotated: Any) -> dict[str, Any]:
    """The annotations with their options. Python 3.10 wraps one whose default is None: Optional[Annotated[...]]."""
    hints = get_type_hints(annotated, include_extras=True)
    for name, hint in hints.items():
        inner = [part for part in get_args(hint) if get_origin(part) is Annotated]
        if get_origin(hint) is not Annotated and len(inner) == 1:
            hints[name] = inner[0]
    return hints


def _parameters_of(group: type[Any]) -> list[inspect.Parameter]:
    """A keyword parameter for each field; the class attribute `PANEL` is its heading in --help."""
    hints = _annotations(group)
    panel = getattr(group, "PANEL", None)
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=hints[one.name] if panel is None else _under(panel, hints[one.name]),
        )
        for one in fields(group)
    ]


def _under(panel: str, hint: Any) -> Any:
    """The same annotation with its option under that heading; options are shared between groups, so it is a copy."""
    if get_origin(hint) is not Annotated:
        return hint
    value_type, *details = get_args(hint)
    details = [copy(detail) for detail in details]
    for detail in details:
        if isinstance(detail, ParameterInfo):
            detail.rich_help_panel = panel
    return Annotated[(value_type, *details)]


def _paragraphs(text: str) -> str:
    """A docstring whose paragraphs are one line each: the terminal breaks lines where it needs to."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))

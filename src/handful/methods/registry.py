"""The table of methods. Registering one is a decorator; what it is stands in its own file.

A package of yours adds methods by an entry point in the group `handful.methods` that names a module of it.
"""

from __future__ import annotations

import inspect
import pkgutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from difflib import get_close_matches
from functools import cache
from importlib import import_module, metadata
from math import inf
from pathlib import Path
from typing import Any

from handful.core.parameters import AUTO, Rule
from handful.methods.contract import Info, Method, Scores, Solution

METHODS: dict[str, Method] = {}
DEFAULT = "eol_kdo"  # what "auto" stands for: best where the share of unknowns is not known
NOT_METHODS = ("contract", "margin", "registry", "scores")  # files of this folder that hold no method


def register(
    info: Info | str,
    *,
    rules: Mapping[str, Rule] | None = None,
    score_new: Callable[..., Scores] | None = None,
    chunk_factor: float = 1,
    estimates_share: bool = False,
    max_queries: float = inf,
) -> Callable[[Callable[..., Solution]], Callable[..., Solution]]:
    """Register the decorated function as a method.

    Parameters
    ----------
    info : Info or str
        What the method is, or its name alone: it is then taken for inductive, with scores that rank.
    rules, score_new, chunk_factor, estimates_share, max_queries
        See `handful.methods.contract.Method`.

    Examples
    --------
    See "Add a method" in docs/building/extend.md.
    """

    def decorate(solve: Callable[..., Solution]) -> Callable[..., Solution]:
        facts = complete_info(info if isinstance(info, Info) else Info(info), solve)
        name = facts.name
        if name in METHODS and METHODS[name].solve.__module__ != solve.__module__:
            raise ValueError(f"{solve.__module__} cannot register {name!r}: {METHODS[name].solve.__module__} has it")
        METHODS[name] = Method(facts, solve, rules or {}, score_new, chunk_factor, estimates_share, max_queries)
        return solve

    return decorate


def complete_info(info: Info, solve: Callable[..., Solution]) -> Info:
    """The facts about a method, with what can be derived: class name, title, year, and a summary from the docstring."""
    doc = inspect.getdoc(solve)
    return replace(
        info,
        estimator=info.estimator or "".join(part.capitalize() for part in info.name.split("_")),
        title=info.title or info.name,
        year=info.year or date.today().year,
        preparation=tuple(info.preparation),
        summary=info.summary or (doc.splitlines()[0] if doc else ""),
    )


def find_method(name: str) -> Method:
    """The method of that name, in upper or lower case; "auto" is the default method.

    Raises
    ------
    ValueError
        If there is no such method. The message lists the valid names.
    """
    load_methods()
    key = name.lower() if isinstance(name, str) else name
    if key == AUTO:
        return METHODS[DEFAULT]
    if key not in METHODS:
        raise ValueError(
            f"there is no method {name!r}{did_you_mean(name)}; there are: {', '.join([AUTO, *list_methods()])}"
        )
    return METHODS[key]


def did_you_mean(name: Any, others: tuple[str, ...] = ()) -> str:
    """The end of a sentence about a wrong name: the name that is most like it, if there is one."""
    names = get_close_matches(str(name).lower(), [AUTO, *METHODS, *others], 1)
    return f" (did you mean {names[0]!r}?)" if names else ""


def list_methods() -> list[str]:
    """The names of all methods, sorted.

    Examples
    --------
    >>> "eol" in list_methods()
    True
    """
    load_methods()
    return sorted(METHODS)


@cache
def load_methods() -> None:
    """Import the methods of this package, one file each, and those that other packages bring."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_") and module.name not in NOT_METHODS:
            import_module(f"handful.methods.{module.name}")
    for entry in metadata.entry_points(group="handful.methods"):
        try:
            entry.load()
        except Exception as error:  # a fault of another package must not stop this one
            warnings.warn(f"methods of {entry.value!r} could not be loaded: {error!r}", RuntimeWarning, stacklevel=2)

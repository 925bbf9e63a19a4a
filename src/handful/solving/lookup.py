"""Methods by their names: one, "auto", or a pair as in "simpleshot+knn"."""

from __future__ import annotations

from handful.methods.contract import Info
from handful.methods.registry import find_method, method_names
from handful.solving.pairs import pair
from handful.solving.solver import MethodSolver, Solver


def get_solver(name: str) -> Solver:
    """The method of that name, ready to run.

    Parameters
    ----------
    name : str
        A name of `list_methods()`, "auto", or a pair as in "simpleshot+knn"; upper and lower case mean the same.

    Raises
    ------
    ValueError
        If there is no such method. The message lists the valid names.
    """
    if isinstance(name, str) and name.count("+") == 1:
        return pair(*name.lower().split("+"))
    return MethodSolver(find_method(name))


def list_methods() -> list[str]:
    """The names of all methods, sorted.

    Examples
    --------
    >>> "eol" in list_methods()
    True
    """
    return method_names()


def describe(name: str) -> Info:
    """What is known about a method: title, authors, paper, paradigm, preparation and more.

    Parameters
    ----------
    name : str
        The name of a method, or of a pair.

    Returns
    -------
    Info
        The facts.

    Examples
    --------
    >>> describe("eol").year
    2024
    """
    return get_solver(name).info

"""The docstring of an estimator class: what the method is, its parameters, its fitted attributes."""

from __future__ import annotations

import inspect
import re

from handful.solving.solver import Solver

SHARED_DOC = {
    "outlier_share": """float or "auto", default "auto"
    How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.""",
    "preparation": """str or sequence of str, optional
    Steps of preparation in place of the method's own, as in "task, l2".""",
    "base_mean": """array [D], optional
    Mean feature of the backbone's training set, for methods that centre on it.""",
    "threshold": """float, optional
    The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.""",
    "dtype": """{"float32", "float64"}
    What to compute in.""",
}
ATTRIBUTES = """Attributes
----------
classes_ : array [N]
    The names of the classes, sorted.
transduction_ : array [n]
    The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
label_distributions_ : array [n, N]
    P(class | known) of each item.
outlier_scores_ : array [n]
    High means more likely unknown. Labelled items are scored as new ones would be.
unknown_ : array [n] of bool
    Whether each item is called unknown.
groups_ : list of Group
    The unknown items as groups that look alike, the largest first; computed when it is asked for.
outlier_share_ : float
    The share of unknowns that the method worked with.
outlier_share_interval_ : tuple of two floats, or None
    Where the share was estimated: it should lie in this interval four times in five.
threshold_ : float
    The doubt (`Answers.doubts`) above which an item is unknown.
n_iter_, n_features_in_ : int
    Steps that were made; features of an item."""


def describe_estimator(solver: Solver) -> str:
    """The docstring of the estimator of a method, in numpydoc sections."""
    info = solver.info
    parameters = SHARED_DOC | parameters_of(solver)
    listed = "\n".join(f"{name} : {text}" for name, text in parameters.items())
    source = f"{info.authors}: {info.paper}, {info.year}." if info.paper and not info.paper.startswith("none") else ""
    return (
        f"{info.title}.\n\n{info.summary}\n\nIt is {info.paradigm} and made for the {info.setting} setting. New items "
        f"are scored {info.new_items}. {source}\n\nParameters\n----------\n{listed}\n\n{ATTRIBUTES}\n"
    )


def parameters_of(solver: Solver) -> dict[str, str]:
    """The documentation of each parameter, from the docstrings of the methods."""
    documented: dict[str, str] = {}
    for prefix, method in solver.parts.items():
        for name, text in parameter_texts(inspect.getdoc(method.solve) or "").items():
            own = name if name in solver.defaults and prefix != "detector/" else f"{method.name}_{name}"
            if own in solver.defaults:
                documented[own] = text
    return documented


def parameter_texts(docstring: str) -> dict[str, str]:
    r"""The entries of the section "Parameters" of a numpydoc docstring.

    >>> parameter_texts("Title.\n\nParameters\n----------\nk : int\n    How many.\n\nReturns\n-------\nint")
    {'k': 'int\n    How many.'}
    """
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S+\n-+\n|\Z)", docstring, re.M | re.S)
    if section is None:
        return {}
    entries: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines():
        if match := re.match(r"(\w[\w, ]*?) : (.*)", line):
            names = [name.strip() for name in match[1].split(",")]
            entries |= dict.fromkeys(names, match[2])
        elif line.strip():
            for name in names:
                entries[name] += f"\n{line}"
    return entries

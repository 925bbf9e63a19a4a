"""The benchmarks: which methods run on which kinds of tasks. A benchmark is a list of cells, one for each pair."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from handful.core.base import read_base
from handful.core.parameters import check
from handful.features import Protocol
from handful.solving import get_solver

FIGURES = ("accuracy", "auroc", "aupr", "prec@0.9")  # of the paper's tables
PAPER = (
    "knn", "iforest", "ocsvm", "pca", "copod", "simpleshot", "finetune", "laplacianshot", "bdcspn", "tim_gd", "pt_map",
    "openmax:weibull=false", "proser", "ostim", "oslo", "eol",
)  # fmt: skip  # the rows of the paper's tables in their order; its OpenMax has no Weibull fit
NOT_TOLD = "auto"  # the method that estimates the share of outliers, in every benchmark
GRID = tuple(round(0.1 * i, 1) for i in range(1, 10))  # of b
LEARNED = {
    "none": ("prototypes",),
    "eta": ("prototypes", "eta"),
    "delta": ("prototypes", "delta"),
    "eta, delta": ("prototypes", "eta", "delta"),
}


@dataclass(frozen=True)
class Contender:
    """A row of a table: a method and its parameters."""

    row: str
    method: str
    parameters: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the method, in the paper's terms: OOD, FSL, FSL-T, OSFSL or OSFSL-T."""
        info = get_solver(self.method).info
        if info.setting == "detector":
            return "OOD"
        return ("OSFSL" if info.setting == "open-set" else "FSL") + "-T" * (info.paradigm == "transductive")


@dataclass(frozen=True, eq=False)
class Cell:
    """One contender on one kind of tasks.

    Parameters
    ----------
    column : str
        The name of the kind, such as "25 + 5".
    protocol : Protocol
        How its tasks are drawn.
    contender : Contender
        A method with its parameters, and its name in the table.
    """

    column: str
    protocol: Protocol
    contender: Contender

    @property
    def row(self) -> str:
        """The row of the table that the cell stands in."""
        return self.contender.row


@dataclass(frozen=True)
class Benchmark:
    """A table to fill: each cell is a contender on one kind of task.

    Parameters
    ----------
    name : str
        What the command line calls it.
    title : str
        The title of its tables.
    cells : tuple of Cell
        What to solve.
    figures : tuple of str
        What is measured of each task.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    figures: tuple[str, ...] = FIGURES

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @property
    def contenders(self) -> dict[str, Contender]:
        """The contender of each row, in order."""
        return {cell.row: cell.contender for cell in self.cells}

    def row(self, text: str) -> str:
        """Return the name of a row.

        Parameters
        ----------
        text : str
            A row or a method: "EOL", "eol", "knn:k=5".
        """
        if text in self.contenders:
            return text
        rows = [row for row, contender in self.contenders.items() if contender.method == text]
        with suppress(ValueError):
            rows += [c.row for c in parse_methods(text) if c.row in self.contenders and c.row not in rows]
        if len(rows) != 1:
            which = "several" if rows else "none"
            raise ValueError(f"{text!r} names {which} of the rows to compare with: {', '.join(self.contenders)}")
        return rows[0]


def parse_methods(methods: str | Iterable[str]) -> list[Contender]:
    """Return the contenders that a text or a list names.

    Parameters
    ----------
    methods : str or iterable of str
        Methods, pairs, and parameters, as in "eol, simpleshot+knn, knn:k=5". Values are JSON or plain words.

    Returns
    -------
    list of Contender

    Examples
    --------
    >>> [(c.row, c.parameters) for c in parse_methods("eol, knn:k=5")]
    [('EOL', {}), ('kNN distance (k=5)', {'k': 5})]
    """
    texts = methods.split(",") if isinstance(methods, str) else list(methods)
    contenders = []
    for text in filter(None, (part.strip() for part in texts)):
        name, *settings = text.split(":")
        method = get_solver(name)
        parameters, settings_text = {}, []
        for setting in settings:
            key, equals, value = setting.partition("=")
            if key not in method.defaults:
                names = ", ".join(method.defaults) or "none"
                raise ValueError(f"{text!r}: {name} has no parameter {key!r}; it has: {names}")
            if not equals:
                raise ValueError(f"{text!r}: {key} has no value: write {key}=...")
            parameters[key] = read_base(value) if key == "base" else _value(value)
            settings_text.append(f"{key}={value if key == 'base' else parameters[key]}")
        check(parameters, method.rules, name)
        row = method.info.title.split(":")[0].split(" (")[0]
        if settings_text and text != "openmax:weibull=false":  # the paper's OpenMax is called OpenMax
            row += f" ({', '.join(settings_text)})"
        contenders.append(Contender(row, name, parameters))
    rows = [c.row for c in contenders]
    if not rows:
        raise ValueError("no method is named: give some, as in --methods eol,oslo,knn")
    if twice := {row for row in rows if rows.count(row) > 1}:
        raise ValueError(f"{sorted(twice)[0]} is there twice: name each method once")
    return contenders


def balanced(base: Protocol, contenders: Sequence[Contender]) -> Benchmark:
    """Return the benchmark with as many unknown queries as known ones, or as `base` has them."""
    title = "Balanced tasks" if base.outlier_queries == base.queries else "Tasks"
    return Benchmark("balanced", title, _cells(_named([base]), contenders))


def imbalanced(base: Protocol, contenders: Sequence[Contender]) -> Benchmark:
    """Return the benchmark with few, equally many and many unknown queries."""
    protocols = _named(_ratio(base, *ratio) for ratio in ((5, 1), (3, 3), (1, 5)))
    return Benchmark("imbalanced", "Imbalanced tasks", _cells(protocols, contenders))


def sweep_b(base: Protocol, contenders: Sequence[Contender]) -> Benchmark:
    """Return the benchmark of EOL over a grid of b. The other `contenders` are drawn as lines for comparison."""
    grid = [Contender(f"EOL (b={b})", "eol", {"b": b}) for b in GRID]
    others = [c for c in contenders if c.method != "eol"]
    return Benchmark("sweep-b", "EOL along b", _cells(_shares(base), [*grid, *others]))


def ablation(base: Protocol, contenders: Sequence[Contender] = ()) -> Benchmark:
    """Return the benchmark of EOL with only some of its parameters learned."""
    rows = [Contender(name, "eol", {"learn": learn}) for name, learn in LEARNED.items()]
    return Benchmark("ablation", "What EOL learns", _cells(_shares(base), rows))


BENCHMARKS: dict[str, tuple[Callable[..., Benchmark], tuple[str, ...]]] = {
    "balanced": (balanced, PAPER),
    "imbalanced": (imbalanced, PAPER),
    "sweep-b": (sweep_b, ("ostim", "oslo")),
    "ablation": (ablation, ()),
}


def best_b(share: float) -> float:
    """Return the b that the paper found best at 20, 50 or 80 % outliers, whichever is nearest."""
    return (0.3, 0.5, 0.7)[min(range(3), key=lambda i: abs(share - (0.2, 0.5, 0.8)[i]))]


def _ratio(base: Protocol, known_ratio: int, outlier_ratio: int) -> Protocol:
    """Return `base` with the queries of a known and of an unknown class divided in this ratio."""
    total = base.queries + base.outlier_queries
    queries = round(total * known_ratio / (known_ratio + outlier_ratio))
    return replace(base, queries=queries, outlier_queries=total - queries)


def _named(protocols: Iterable[Protocol]) -> dict[str, Protocol]:
    return {f"{p.queries} + {p.outlier_queries}": p for p in protocols}


def _shares(base: Protocol) -> dict[str, Protocol]:
    return {f"{100 * outlier // 10}%": _ratio(base, 10 - outlier, outlier) for outlier in (2, 5, 8)}


def _cells(protocols: Mapping[str, Protocol], contenders: Sequence[Contender]) -> tuple[Cell, ...]:
    return tuple(Cell(name, p, with_true_share(c, p)) for name, p in protocols.items() for c in contenders)


def with_true_share(contender: Contender, protocol: Protocol) -> Contender:
    """Return the contender with the true share of outliers, or the paper's b for it, unless it estimates the share."""
    if NOT_TOLD in contender.method.split("+"):
        return contender
    defaults, share = get_solver(contender.method).defaults, protocol.outlier_share
    if not {"b", "outlier_share"} & set(defaults) or {"b", "outlier_share"} & set(contender.parameters):
        return contender
    told = {"b": best_b(share)} if "b" in defaults else {"outlier_share": share}
    return replace(contender, parameters={**contender.parameters, **told})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

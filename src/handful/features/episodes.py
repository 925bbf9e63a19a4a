"""Episodes: few-shot open-set tasks drawn from a feature set, with the true classes of their queries.

Known and outlier classes are drawn without replacement; no item is both an example and a query. Task i of a seed is the
same on any machine, and does not depend on the other tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN
from handful.core.task import Task
from handful.features.labels import is_labelled


@dataclass(frozen=True)
class Protocol:
    """How a task is drawn.

    Parameters
    ----------
    ways, shots, queries : int
        The number of known classes, and of examples and queries of each.
    outlier_ways, outlier_queries : int
        The number of outlier classes, and of queries of each.
    broad : bool
        Draw the same number of outliers from all items of all other classes, not from `outlier_ways` classes.
    unequal_shots, unequal_queries : float, optional
        Classes get unequal numbers of items with the same total, by a symmetric Dirichlet distribution of this
        concentration (small: very unequal; None: equal numbers). Each known class has at least one example.

    Examples
    --------
    >>> Protocol(queries=25, outlier_queries=5)
    <Protocol: 5 ways, 5 shots, 125 known and 25 outlier queries of 5 classes>
    """

    ways: int = 5
    shots: int = 5
    queries: int = 15
    outlier_ways: int = 5
    outlier_queries: int = 15
    broad: bool = False
    unequal_shots: float | None = None
    unequal_queries: float | None = None

    def __post_init__(self) -> None:
        lowest = {"ways": 1, "shots": 1, "queries": 0, "outlier_ways": 0, "outlier_queries": 0}
        for name, low in lowest.items():
            if (value := getattr(self, name)) < low:
                raise ValueError(f"{name} is {value}: at least {low} is needed")
        for name in ("unequal_shots", "unequal_queries"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value}: give a concentration above 0, such as 2, or None for equal parts")

    def __repr__(self) -> str:
        where = "all the others" if self.broad else f"{self.outlier_ways} classes"
        known = f"{self.ways} ways, {self.shots} shots, {self.inliers} known"
        unequal = f", shots unequal ({self.unequal_shots:g})" if self.unequal_shots else ""
        unequal += f", queries unequal ({self.unequal_queries:g})" if self.unequal_queries else ""
        return f"<Protocol: {known} and {self.outliers} outlier queries of {where}{unequal}>"

    @property
    def inliers(self) -> int:
        """The number of known queries of a task."""
        return self.ways * self.queries

    @property
    def outliers(self) -> int:
        """The number of outlier queries of a task."""
        return self.outlier_ways * self.outlier_queries

    @property
    def outlier_share(self) -> float:
        """The share of outliers among the queries of a task."""
        return self.outliers / (self.outliers + self.inliers)


@dataclass(frozen=True)
class Episodes:
    """A batch of tasks with the truth about their queries.

    Parameters
    ----------
    task : Task
        The tasks, B of them.
    truth : array [B, Q]
        The class of each query as a column of the task's classes; -1 for an outlier.
    support_items : array [B, S]
        The rows of the feature table that became examples.
    query_items : array [B, Q]
        The rows that became queries.
    """

    task: Task
    truth: np.ndarray
    support_items: np.ndarray
    query_items: np.ndarray

    @property
    def outlier(self) -> np.ndarray:
        """Whether each query is an outlier, [B, Q]."""
        outlier: np.ndarray = self.truth == UNKNOWN
        return outlier


def draw(
    features: np.ndarray, labels: np.ndarray, protocol: Protocol, *, seed: int = 0, tasks: int | Iterable[int] = 100
) -> Episodes:
    """Draw tasks from a feature set. Items without a label (-1, None) are not drawn.

    Parameters
    ----------
    features : array [n, D]
        The features.
    labels : array [n]
        The classes.
    protocol : Protocol
        How a task is drawn.
    seed : int
        The seed of all tasks.
    tasks : int or iterable of int
        How many tasks; or the numbers of the tasks.

    Examples
    --------
    >>> from handful.features import digits
    >>> draw(*digits(), Protocol(ways=3, shots=2), seed=1, tasks=[7]).task
    <Task: 1 tasks of 3 classes with 2 examples each, 120 queries, 64 features>
    """
    labels = np.asarray(labels)
    rows = np.flatnonzero(is_labelled(labels)) if labels.ndim else np.empty(0, int)
    if not len(rows):
        raise ValueError("no item has a label: tasks are drawn from labelled items only")
    class_labels = labels[rows].astype(str) if labels.dtype.kind == "O" else labels[rows]
    classes, codes = np.unique(class_labels, return_inverse=True)
    members = np.split(rows[np.argsort(codes, kind="stable")], np.cumsum(np.bincount(codes))[:-1])
    check(protocol, dict(zip(classes.tolist(), map(len, members), strict=True)))
    numbers = range(tasks) if isinstance(tasks, int) else list(tasks)
    support, query, truth = zip(*(_one(members, protocol, seed, i) for i in numbers), strict=True)
    support_items, query_items = np.stack(support), np.stack(query)
    task = Task(features[support_items], labels[support_items], features[query_items])
    return Episodes(task, np.stack(truth), support_items, query_items)


def check(protocol: Protocol, counts: Mapping[Any, int]) -> None:
    """Raise ValueError if tasks of the protocol cannot be drawn from classes with these numbers of items."""
    others = 1 if protocol.broad and protocol.outliers else protocol.outlier_ways
    if protocol.ways + others > len(counts):
        need = f"{protocol.ways} known and {others} outlier classes need {protocol.ways + others} classes"
        raise ValueError(f"{need}, but there are {len(counts)}")
    outliers = 0 if protocol.broad else protocol.outlier_queries * (protocol.outlier_ways > 0)
    needed = max(protocol.shots + protocol.queries, outliers)
    for name, count in counts.items():
        if count < needed:
            raise ValueError(f"class {name} has {count} items, but tasks need {needed} of a class")
    remaining = sum(sorted(counts.values())[: len(counts) - protocol.ways])
    if protocol.broad and remaining < protocol.outliers:
        raise ValueError(
            f"{protocol.outliers} outliers are needed, but the other classes may have only {remaining} items"
        )


def _one(members: list[np.ndarray], protocol: Protocol, seed: int, number: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng([seed, number])
    class_order = rng.permutation(len(members))
    known_classes = np.sort(class_order[: protocol.ways])  # the task sorts its classes
    others = class_order[protocol.ways :]
    sizes = np.array([len(members[k]) for k in known_classes])
    shots = _shared_counts(rng, protocol.shots, protocol.unequal_shots, 1, sizes - protocol.queries)
    queries = _shared_counts(rng, protocol.queries, protocol.unequal_queries, 0, sizes - shots)
    support, query, truth = [], [], [np.repeat(np.arange(protocol.ways), queries)]
    for k, n_shots, n_queries in zip(known_classes, shots, queries, strict=True):
        items = rng.choice(members[k], n_shots + n_queries, replace=False)
        support.append(items[:n_shots])
        query.append(items[n_shots:])
    if protocol.broad:
        rest = np.concatenate([members[k] for k in others]) if len(others) else members[0][:0]
        query.append(rng.choice(rest, protocol.outliers, replace=False))
    else:
        others = others[: protocol.outlier_ways]
        room = np.array([len(members[k]) for k in others])
        counts = _shared_counts(rng, protocol.outlier_queries, protocol.unequal_queries, 0, room)
        query += [rng.choice(members[k], n, replace=False) for k, n in zip(others, counts, strict=True)]
    truth.append(np.full(protocol.outliers, UNKNOWN))
    return np.concatenate(support), np.concatenate(query), np.concatenate(truth)


def _shared_counts(
    rng: np.random.Generator, each: int, concentration: float | None, min_items: int, max_items: np.ndarray
) -> np.ndarray:
    """Share as many items as `each` of the classes would get, at least `min_items` and at most `max_items` of each."""
    classes = len(max_items)
    counts = np.full(classes, each)
    if concentration is None or not classes or not each:
        return counts
    shares = rng.dirichlet(np.full(classes, concentration))
    counts[:] = min_items
    for _ in range(classes * each - counts.sum()):  # one at a time, to the class that is furthest below its share
        shortage = np.where(counts < max_items, shares * classes * each - counts, -np.inf)
        counts[np.argmax(shortage)] += 1
    return counts

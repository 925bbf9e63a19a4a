"""Episodes: few-shot open-set tasks drawn from a feature set, with the truth kept beside them.

Known and outlier classes are drawn without replacement; a known class's examples and its queries never share
an item. Task i of a seed is the same on any machine, alone or among others, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from handful.task import UNKNOWN, Task


@dataclass(frozen=True)
class Protocol:
    """How a task is drawn: known classes, examples and queries of each, outlier classes and queries of each."""

    ways: int = 5
    shots: int = 5
    queries: int = 15
    outlier_ways: int = 5
    outlier_queries: int = 15

    @property
    def outlier_share(self) -> float:
        outliers = self.outlier_ways * self.outlier_queries
        return outliers / (outliers + self.ways * self.queries)


@dataclass(frozen=True)
class Episodes:
    """A batch of tasks, what their queries truly are, and which items of the feature set were drawn."""

    task: Task
    truth: np.ndarray  # [B, Q] columns of the task's classes, -1 for an outlier
    support_items: np.ndarray  # [B, S]
    query_items: np.ndarray  # [B, Q]

    @property
    def outlier(self) -> np.ndarray:
        return self.truth == UNKNOWN


def draw(
    features: np.ndarray, labels: np.ndarray, protocol: Protocol, *, seed: int = 0, tasks: int | Iterable[int] = 100
) -> Episodes:
    """Draw tasks number 0 .. tasks-1, or those numbered in `tasks`.

    >>> from handful.features import digits
    >>> episodes = draw(*digits(), Protocol(ways=3, shots=2), seed=1, tasks=[7])
    >>> episodes.task
    <Task: 1 tasks of 3 classes with 2 examples each, 120 queries, 64 features>
    """
    classes, codes = np.unique(labels, return_inverse=True)
    members = [np.flatnonzero(codes == k) for k in range(len(classes))]
    _check(protocol, classes, members)
    numbers = range(tasks) if isinstance(tasks, int) else list(tasks)
    support, query, truth = zip(*(_one(members, protocol, seed, i) for i in numbers), strict=True)
    support_items, query_items = np.stack(support), np.stack(query)
    task = Task(features[support_items], labels[support_items], features[query_items])
    return Episodes(task, np.stack(truth), support_items, query_items)


def _one(members: list[np.ndarray], protocol: Protocol, seed: int, number: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng([seed, number])
    chosen = rng.permutation(len(members))[: protocol.ways + protocol.outlier_ways]
    support, query, truth = [], [], []
    for column, k in enumerate(sorted(chosen[: protocol.ways])):  # the task sorts its classes
        items = rng.choice(members[k], protocol.shots + protocol.queries, replace=False)
        support.append(items[: protocol.shots])
        query.append(items[protocol.shots :])
        truth.append(np.full(protocol.queries, column))
    for k in chosen[protocol.ways :]:
        query.append(rng.choice(members[k], protocol.outlier_queries, replace=False))
        truth.append(np.full(protocol.outlier_queries, UNKNOWN))
    return np.concatenate(support), np.concatenate(query), np.concatenate(truth)


def _check(protocol: Protocol, classes: np.ndarray, members: list[np.ndarray]) -> None:
    wanted = protocol.ways + protocol.outlier_ways
    if wanted > len(classes):
        raise ValueError(
            f"{protocol.ways} known and {protocol.outlier_ways} outlier classes need {wanted} classes, "
            f"but there are {len(classes)}"
        )
    needed = max(protocol.shots + protocol.queries, protocol.outlier_queries if protocol.outlier_ways else 0)
    for name, items in zip(classes, members, strict=True):
        if len(items) < needed:
            raise ValueError(f"class {name} has {len(items)} items, but tasks need {needed} of a class")

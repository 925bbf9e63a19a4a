"""A pile that grows: what it takes to go on from where a model stood when more items came.

Half of the time of KDO, and of the estimate of the share of outliers, goes into who is near whom. That is kept and
changed only where items came. What follows from it is computed anew, and so is all of the methods that are quick:
descents and passes stop long before they converge, so that more of them, from where they stopped, would be another
answer, further from that of a fresh fit than chance is. This way only the preparation differs from a fresh fit: new
items are prepared as the first were, and the mean that is subtracted stays that of the first pile. Whoever calls sees
to it that this does not get old (`handful.estimators.classifier` fits a pile that has doubled from the start).

Of a pile larger than can be solved whole a sample is, and it is kept a fair one as items come (reservoir sampling,
Vitter 1985): once it is full, the t-th item takes the place of a random one with probability most / t. The draw is
always the same. A sample that is never renewed would never see the share of unknowns change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from handful.core.arrays import Array
from handful.core.prepare import prepare, replay
from handful.core.task import Task
from handful.engines.density import Graph, kernels
from handful.engines.share import MOST, PREPARATION, Share, estimate, sample

NEIGHBOURS = 10  # of the smoothing, where the share is estimated


@dataclass
class Growth:
    """One task with all items so far, as they came, and what was known before the last of them."""

    task: Task
    state: Mapping[str, Array]  # of the solution before
    examples: int  # the first so many of the support, and
    seen: int  # of the queries, were there before
    dtype: str
    kept: Mapping[str, Any] = field(default_factory=dict)  # `Solution.kept` of the growth before

    def prepared(self, items: Array) -> Array:
        """Items [1, n, D] prepared as those of the first pile were."""
        return replay(self.state, items).astype(self.dtype, copy=False)

    def follow(self, before: Graph, shown: np.ndarray, prepared: Callable[[Array], Array]) -> tuple[Graph, np.ndarray]:
        """The graph of the examples and the queries `shown`, in that order, as it is now; and which these are now."""
        stayed, fresh = renew(shown, self.seen, self.task.query.shape[1], MOST)
        support, query = self.task.support[:, self.examples :], self.task.query[:, fresh]
        new = prepared(np.concatenate([support, query], axis=1))[0]
        graph = before.changed(np.concatenate([np.arange(self.examples), self.examples + stayed]), new)
        item, old = np.arange(len(graph.items)), self.examples + len(stayed)
        is_example = (item < self.examples) | ((item >= old) & (item < old + support.shape[1]))
        return graph.ordered(np.argsort(~is_example, kind="stable")), np.concatenate([shown[stayed], fresh])

    def share(self) -> tuple[Share, tuple[Any, ...]]:
        """The share of outliers, for methods that do not find it themselves, and what to keep for the next time."""
        task = self.task
        if "share" in self.kept:
            graph, shown, steps = self.kept["share"]
            graph, shown = self.follow(graph, shown, lambda items: replay(steps, items))
        else:
            shown = sample(task.query.shape[1], MOST)
            first = prepare(task.support, task.query[:, shown], PREPARATION)
            graph, steps = Graph.of(np.concatenate([first.support, first.query], axis=1)[0], NEIGHBOURS), first.state()
        return estimate(kernels(graph.neighbours(), task.labels, task.ways), task.labels), (graph, shown, steps)


def renew(shown: np.ndarray, seen: int, now: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Which places of a sample of the first `seen` items stay, and which of those up to `now` join it.

    >>> renew(np.arange(3), 3, 4, most=4)
    (array([0, 1, 2]), array([3]))
    """
    item = np.arange(seen, now)
    place = np.where(item < most, item, np.random.default_rng(seen).integers(0, item + 1))
    sampled = np.full(most, -1)
    sampled[: len(shown)] = shown
    sampled[place[place < most]] = item[place < most]  # of two at one place the later stays
    return np.flatnonzero(sampled[: len(shown)] == shown), np.sort(sampled[sampled >= seen])

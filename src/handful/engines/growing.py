"""A pile that grows: how a model goes on from its earlier state when more items come.

KDO, and the estimate of the share of outliers, spend half of their time on the graph of neighbours. That graph is kept
and changed only where items were added. Everything else is computed anew; methods that are quick keep nothing.
Descents and passes stop long before they converge. More of them, from where they stopped, would give another answer,
which differs from that of a fresh fit by more than chance does. So only the preparation differs from a fresh fit: new
items are prepared like the first ones, and the mean that is subtracted stays that of the first pile. The caller must
make sure that this mean does not become outdated (`handful.estimators.classifier` fits a pile that has doubled from the
start).

Of a pile that is too large to be solved whole, a sample is solved. It stays a fair sample as items come (reservoir
sampling, Vitter 1985): once it is full, the t-th item takes the place of a random one with probability size / t. The
draw is always the same. A sample that is never renewed would not show a change in the share of unknowns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from handful.core.arrays import Array
from handful.core.prepare import prepare, replay
from handful.core.task import Task
from handful.engines.density import kernels
from handful.engines.neighbours import Graph
from handful.engines.share import MAX_QUERIES, NEIGHBOURS, PREPARATION, Share, estimate, sample


@dataclass
class Growth:
    """One task with all items so far, and the state of the model before the last items came.

    Parameters
    ----------
    task : Task
        All items so far, not prepared: earlier items first.
    state : mapping of str to array
        The state of the earlier solution.
    n_support, n_query : int
        The number of examples and of queries that the earlier solution had.
    dtype : str
        The type of the prepared features.
    kept : mapping
        `Solution.kept` of the earlier growth.
    """

    task: Task
    state: Mapping[str, Array]
    n_support: int
    n_query: int
    dtype: str
    kept: Mapping[str, Any] = field(default_factory=dict)

    def prepared(self, items: Array) -> Array:
        """Prepare items [1, n, D] like those of the first pile."""
        return replay(self.state, items).astype(self.dtype, copy=False)

    def follow(
        self, graph: Graph, sampled_rows: np.ndarray, prepare_items: Callable[[Array], Array]
    ) -> tuple[Graph, np.ndarray]:
        """Bring a graph of the examples and of a sample of the queries up to date.

        Parameters
        ----------
        graph : Graph
            The earlier examples, followed by the earlier sample of the queries.
        sampled_rows : array of int
            The rows of the pile in that sample.
        prepare_items : callable
            Prepares items [1, n, D].

        Returns
        -------
        tuple of Graph and array of int
            The graph with all examples and the new sample of the queries, and the rows of that sample.
        """
        kept_places, new_rows = renew(sampled_rows, self.n_query, self.task.query.shape[1], MAX_QUERIES)
        support, query = self.task.support[:, self.n_support :], self.task.query[:, new_rows]
        new = prepare_items(np.concatenate([support, query], axis=1))[0]
        graph = graph.changed(np.concatenate([np.arange(self.n_support), self.n_support + kept_places]), new)
        item, n_old = np.arange(len(graph.items)), self.n_support + len(kept_places)
        is_example = (item < self.n_support) | ((item >= n_old) & (item < n_old + support.shape[1]))
        order = np.argsort(~is_example, kind="stable")
        return graph.ordered(order), np.concatenate([sampled_rows[kept_places], new_rows])

    def share(self) -> tuple[Share, tuple[Graph, np.ndarray, Mapping[str, Array]]]:
        """Estimate the share of outliers, for methods that do not estimate it themselves.

        Returns
        -------
        tuple of Share and tuple
            The estimate, and what the next growth takes as `kept["share"]`.
        """
        task = self.task
        steps: Mapping[str, Array]
        if "share" in self.kept:
            graph, sampled_rows, steps = self.kept["share"]
            graph, sampled_rows = self.follow(graph, sampled_rows, lambda items: replay(steps, items))
        else:
            sampled_rows = sample(task.query.shape[1], MAX_QUERIES)
            prepared = prepare(task.support, task.query[:, sampled_rows], PREPARATION)
            items, steps = np.concatenate([prepared.support, prepared.query], axis=1)[0], prepared.state()
            graph = Graph.of(items, NEIGHBOURS)
        kernel = kernels(graph.neighbours(), task.labels, task.ways)
        return estimate(kernel, task.labels), (graph, sampled_rows, steps)


def renew(sampled_rows: np.ndarray, n_before: int, n_now: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Renew a sample of the first `n_before` items when there are `n_now`.

    Returns
    -------
    tuple of two arrays of int
        The places of the sample that are kept, and the new items that join it.

    Examples
    --------
    >>> renew(np.arange(3), 3, 4, size=4)
    (array([0, 1, 2]), array([3]))
    """
    item = np.arange(n_before, n_now)
    place = np.where(item < size, item, np.random.default_rng(n_before).integers(0, item + 1))
    rows = np.full(size, -1)
    rows[: len(sampled_rows)] = sampled_rows
    rows[place[place < size]] = item[place < size]  # of two items for one place the later is taken
    return np.flatnonzero(rows[: len(sampled_rows)] == sampled_rows), np.sort(rows[rows >= n_before])

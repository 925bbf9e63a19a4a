"""Tasks of random classes drawn by the hundred, as rows of a feature set: for learning, where speed is all.

`handful.features.draw` makes the tasks of the tables one by one, each the same on any machine; here a batch is a few
array operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from handful.core.checks import UNKNOWN


class Tasks(NamedTuple):
    """A batch of tasks: rows of items, and what they are. The first `known` queries are of known classes."""

    support: np.ndarray  # [B, S]
    labels: np.ndarray  # [B, S]
    query: np.ndarray  # [B, Q]
    truth: np.ndarray  # [B, Q], -1 for the unknown
    known: int


class Drawer:
    """Draws from the items that have one of these classes' codes."""

    def __init__(self, codes: np.ndarray, classes: np.ndarray, ways: int, outlier_ways: int, queries: int) -> None:
        self.ways, self.outlier_ways, self.queries = ways, min(outlier_ways, len(classes) - ways), queries
        members = [np.flatnonzero(codes == k) for k in classes]
        self.counts = np.array([len(rows) for rows in members])
        self.rows = np.stack([np.pad(rows, (0, self.counts.max() - len(rows))) for rows in members])  # [C, most]

    def draw(self, rng: np.random.Generator, batch: int, shots: int) -> Tasks:
        """Classes without replacement, and so their items: examples and queries never share one."""
        ways, total = self.ways, self.ways + self.outlier_ways
        queries = min(self.queries, int(self.counts.min()) - shots)
        chosen = rng.random((batch, len(self.rows))).argsort(axis=1)[:, :total]
        order = rng.random((batch, total, self.rows.shape[1]))
        order[np.arange(self.rows.shape[1]) >= self.counts[chosen][..., None]] = np.inf  # what only fills a row up
        picked = order.argsort(axis=-1)[..., : shots + queries]
        rows = np.take_along_axis(self.rows[chosen], picked, axis=-1)  # [B, classes, items]
        known = ways * queries
        truth = np.repeat(np.r_[np.arange(ways), np.full(self.outlier_ways, UNKNOWN)], queries)
        return Tasks(
            rows[:, :ways, :shots].reshape(batch, -1),
            np.tile(np.repeat(np.arange(ways), shots), (batch, 1)),
            rows[:, :, shots:].reshape(batch, -1),
            np.tile(truth, (batch, 1)),
            known,
        )

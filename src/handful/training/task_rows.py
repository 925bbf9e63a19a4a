"""Batches of random tasks, as rows of a feature set: for learning, where speed matters most.

`handful.features.draw` draws the tasks of the benchmark one by one, so that each is the same on every machine. Here a
batch of tasks takes a few array operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from handful.core.checks import UNKNOWN


class Tasks(NamedTuple):
    """A batch of tasks: rows of items and their classes. The first `known` queries are of known classes."""

    support: np.ndarray  # [B, S]
    labels: np.ndarray  # [B, S]
    query: np.ndarray  # [B, Q]
    truth: np.ndarray  # [B, Q], -1 for the unknown
    known: int


class Drawer:
    """Draws tasks from the items whose code is one of these classes."""

    def __init__(self, codes: np.ndarray, classes: np.ndarray, ways: int, outlier_ways: int, queries: int) -> None:
        self.ways, self.outlier_ways, self.queries = ways, min(outlier_ways, len(classes) - ways), queries
        members = [np.flatnonzero(codes == k) for k in classes]
        self.counts = np.array([len(rows) for rows in members])
        self.rows = np.stack([np.pad(rows, (0, self.counts.max() - len(rows))) for rows in members])  # [C, most]

    def draw(self, rng: np.random.Generator, batch: int, shots: int) -> Tasks:
        """Draw classes and items without replacement: no item is both an example and a query."""
        ways, total = self.ways, self.ways + self.outlier_ways
        queries = min(self.queries, int(self.counts.min()) - shots)
        class_rows = rng.random((batch, len(self.rows))).argsort(axis=1)[:, :total]
        order = rng.random((batch, total, self.rows.shape[1]))
        order[np.arange(self.rows.shape[1]) >= self.counts[class_rows][..., None]] = np.inf  # padding is never drawn
        picked = order.argsort(axis=-1)[..., : shots + queries]
        rows = np.take_along_axis(self.rows[class_rows], picked, axis=-1)  # [B, classes, items]
        known = ways * queries
        truth = np.repeat(np.r_[np.arange(ways), np.full(self.outlier_ways, UNKNOWN)], queries)
        return Tasks(
            rows[:, :ways, :shots].reshape(batch, -1),
            np.tile(np.repeat(np.arange(ways), shots), (batch, 1)),
            rows[:, :, shots:].reshape(batch, -1),
            np.tile(truth, (batch, 1)),
            known,
        )

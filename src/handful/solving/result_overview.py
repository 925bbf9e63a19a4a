"""From a result to what pictures of it show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.engines.share_statistics import TRIED_SHARES
from handful.report.overview import Overview, make_overview
from handful.utils.shares_in_words import about, percent, span

if TYPE_CHECKING:
    from handful.solving.groups import Group
    from handful.solving.result import Result


def overview_of(result: Result, groups: Sequence[Group] | None, max_points: int = 800) -> Overview:
    """The overview of the result of one task; a pile that is not in memory has no map."""
    task, posterior = result.task, result.outlier_share_posterior
    query = task.query

    def features(rows: np.ndarray) -> np.ndarray:
        return to_numpy(query[0][rows])

    return make_overview(
        result,
        str(result.made_by["method"]),
        interval=result.outlier_share_interval,
        posterior=None if posterior is None else (TRIED_SHARES, posterior),
        groups=groups,
        features=None if task.is_large else features,
        examples=(task.support[0], task.labels[0]),
        max_points=max_points,
    )


def batch_lines(result: Result) -> tuple[list[tuple[int, int]], list[str]]:
    """For each task of a batch how many items are labelled and unknown, and its share of unknowns in words."""
    unknown = to_numpy(result.unknown)
    counts = [(int((~row).sum()), int(row.sum())) for row in unknown]
    shares, intervals = np.broadcast_to(result.outlier_share, len(counts)).tolist(), result.outlier_share_interval
    if intervals is None:
        return counts, [f"share {percent(share)}" for share in shares]
    pairs: Any = zip(shares, intervals.tolist(), strict=True)
    return counts, [f"share {about(share)}{span(share, interval)}" for share, interval in pairs]

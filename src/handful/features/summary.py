"""What is in a feature table, in numbers: `describe`."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from handful.core.arrays import norms
from handful.features.episodes import Protocol
from handful.features.labels import NDArray
from handful.features.table import FeatureTable, count_values


def describe(table: FeatureTable) -> dict[str, Any]:
    """What is in a table, as plain numbers and strings.

    Parameters
    ----------
    table : FeatureTable
        The table.

    Returns
    -------
    summary : dict
        `ways` says for 1, 5 and 10 shots how many known classes a task can have beside 5 outlier classes, with 15
        queries of each: classes with too few items for that are not counted.

    Examples
    --------
    >>> summary = describe(FeatureTable([[3.0, 4.0], [0.0, 0.0]], ["hen", None]))
    >>> summary["items"], summary["unlabelled"], summary["zero_rows"], summary["norms"]["max"]
    (2, 1, 1, 5.0)
    """
    x, counts = table.features, table.counts
    protocols = [Protocol(shots=shots) for shots in (1, 5, 10)]
    enough = {p.shots: sum(count >= p.shots + p.queries for count in counts.values()) for p in protocols}
    return {
        "name": table.name,
        "items": len(table),
        "unlabelled": len(table) - int(table.has_label.sum()),
        "classes": len(counts),
        "counts": counts,
        "items_per_class": _spread(np.array(list(counts.values()))) if counts else {},
        "dimension": table.dimension,
        "dtype": str(x.dtype),
        "norms": _spread(norms(x)),
        "mean_norm": float(np.linalg.norm(table.mean)),
        "base_mean_norm": None if table.base_mean is None else float(np.linalg.norm(table.base_mean)),
        "zero_rows": int((~x.any(axis=1)).sum()),
        "duplicate_rows": len(x) - len({blake2b((row + 0.0).data, digest_size=16).digest() for row in x}),  # -0 is 0
        "ways": {p.shots: max(0, enough[p.shots] - p.outlier_ways) for p in protocols},
        "paths": table.paths is not None,
        "splits": {} if table.splits is None else count_values(table.splits),
        "columns": None if table.columns is None else list(table.columns),
        "others": list(table.others),
        "set_aside": list(table.set_aside),
    }


def _spread(values: NDArray) -> dict[str, float]:
    return {"min": values.min().item(), "median": float(np.median(values)), "max": values.max().item()}

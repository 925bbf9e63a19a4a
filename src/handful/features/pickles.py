"""Per-class pickles, as research code publishes them: {class: array [n, D], list of arrays, or torch tensor}.

`handful.utils.unpickling` reads them without running code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import as_features
from handful.features.file_checks import ColumnChoice
from handful.features.table import FeatureTable
from handful.utils.unpickling import ADVICE, load_plain, quoted


def read_pickle(path: Path, choice: ColumnChoice) -> FeatureTable:
    """Rows class by class, in the order of the file; the class is the label. There are no columns to choose."""
    content = load_plain(path)
    if not isinstance(content, dict):
        raise ValueError(
            f"the pickle holds a {type(content).__name__}, but a dictionary {{class: array [n, D]}} is needed: "
            + ADVICE
        )
    if not content:
        raise ValueError("the pickle is empty: it has no classes")
    parts: list[np.ndarray] = []
    labels: list[Any] = []
    for name, value in content.items():
        if not isinstance(name, str | bytes | int):
            raise ValueError(f"the pickle has a class {quoted(name)}: names of classes are strings or integers")
        rows = _rows(value, f"class {quoted(name)}")
        if parts and rows.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"class {quoted(name)} has {rows.shape[1]} features in a row, but class {quoted(labels[0])} has "
                f"{parts[0].shape[1]}: embeddings of one backbone have one length"
            )
        parts.append(rows)
        labels += [name] * len(rows)
    return FeatureTable(np.concatenate(parts), labels)


def _rows(value: Any, where: str) -> np.ndarray:
    """One class as rows [n, D]."""
    if isinstance(value, list | tuple):
        rows = [np.atleast_2d(_vector(v, f"row {i} of {where}")) for i, v in enumerate(value)]
        widths = [row.shape[-1] for row in rows]
        wrong = [i for i, width in enumerate(widths) if width != widths[0]]
        if wrong:
            raise ValueError(
                f"{where} has {widths[0]} features in row 0 but {widths[wrong[0]]} in row {wrong[0]}: "
                "embeddings of one backbone have one length"
            )
        value = np.concatenate(rows) if rows else np.empty((0, 0), np.float32)
    if not isinstance(value, np.ndarray) or value.ndim != 2:
        what = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise ValueError(f"{where} is {what}: rows of features are needed, [items, features]")
    if value.dtype.kind in "biuf":
        value = value.astype(np.float32 if value.dtype.kind != "f" else value.dtype.newbyteorder("="), copy=False)
    return to_numpy(as_features(value, where))


def _vector(value: Any, where: str) -> np.ndarray:
    if isinstance(value, list | tuple) and all(issubclass(kind, int | float) for kind in {*map(type, value)}):
        value = np.asarray(value, np.float64)  # one level only: nested lists can expand to terabytes
    if not isinstance(value, np.ndarray) or value.ndim not in (1, 2):
        what = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise ValueError(f"{where} is {what}: an array of features is needed")
    return value

"""A small table of columns in NumPy arrays, which is written to CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]


class ColumnTable(dict[str, NDArray]):
    """Columns of one length by name: numbers, masked where one is missing; or texts and other objects.

    >>> table = ColumnTable({"path": ["a.png", None], "score": np.array([0.5, 1.0])})
    >>> list(table), table.num_rows, table["path"].tolist()
    (['path', 'score'], 2, ['a.png', None])
    >>> table.select(["score"]).to_pylist()
    [{'score': 0.5}, {'score': 1.0}]
    """

    def __init__(self, data: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        super().__init__({name: _column(values) for name, values in dict(data).items()})
        if len(set(map(len, self.values()))) > 1:
            raise ValueError("the columns of a table have one length")

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return max(map(len, self.values()), default=0)

    def select(self, names: Sequence[str]) -> ColumnTable:
        """Some columns."""
        return ColumnTable({name: self[name] for name in names})

    def take(self, rows: NDArray) -> ColumnTable:
        """Some rows."""
        return ColumnTable({name: values[rows] for name, values in self.items()})

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows, each as a dict."""
        return [dict(zip(self, row, strict=True)) for row in zip(*(v.tolist() for v in self.values()), strict=True)]


def _column(values: Any) -> NDArray:
    if not isinstance(values, np.ndarray):
        return object_array(values)
    return object_array(values.tolist()) if values.dtype.kind in "US" else values


def object_array(values: Any) -> NDArray:
    """An array [n] of Python's values as they are: NumPy's own texts would lose a zero character at the end."""
    plain = list(values)
    array: NDArray = np.empty(len(plain), object)
    array[:] = plain
    return array


def masked_numbers(values: Sequence[float | None], dtype: Any) -> NDArray:
    """Numbers of which some are missing (None), as a masked array."""
    missing = [value is None for value in values]
    return np.ma.array([0 if value is None else value for value in values], dtype, mask=missing)

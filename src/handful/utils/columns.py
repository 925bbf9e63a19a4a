"""A small table of columns in NumPy arrays: what is read from CSV and Parquet files, and what is written to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]


class Column:
    """Values of one kind: numbers, masked where one is missing; rows of numbers [n, D]; or texts and other objects."""

    def __init__(self, values: Any) -> None:
        self.values: NDArray = values if isinstance(values, np.ndarray) else object_array(values)
        if self.values.dtype.kind in "US":
            self.values = object_array(self.values.tolist())

    def __len__(self) -> int:
        return len(self.values)

    @property
    def type(self) -> np.dtype[Any]:
        """The kind of the values: a NumPy dtype, object for texts."""
        kind: np.dtype[Any] = self.values.dtype
        return kind

    @property
    def is_number(self) -> bool:
        """Whether it holds one number in each row."""
        return self.type.kind in "iuf" and self.values.ndim == 1

    @property
    def null_count(self) -> int:
        """How many values are missing."""
        if self.type.kind == "O":
            return sum(value is None for value in self.values)
        return int(np.ma.count_masked(self.values))  # type: ignore[no-untyped-call]

    def to_pylist(self) -> list[Any]:
        """The values as Python's; None where one is missing."""
        values: list[Any] = self.values.tolist()
        return values

    def to_numpy(self) -> NDArray:
        """The values as an array; a missing number is NaN."""
        if not isinstance(self.values, np.ma.MaskedArray):
            return self.values
        return np.where(np.ma.getmaskarray(self.values), np.nan, np.ma.getdata(self.values))

    def extended(self, values: Sequence[Any]) -> Column:
        """The column with more values at its end, None where one is missing."""
        if self.type.kind == "O":
            return Column([*self.to_pylist(), *values])
        return Column(np.ma.concatenate([self.values, masked_numbers(values, self.type)]))  # type: ignore[no-untyped-call]


class ColumnTable:
    """Named columns of one length. Names may occur twice, as in files.

    Examples
    --------
    >>> table = ColumnTable.of({"path": ["a.png", None], "score": np.array([0.5, 1.0])})
    >>> table.column_names, table.num_rows, table["path"].to_pylist()
    (['path', 'score'], 2, ['a.png', None])
    >>> table.select(["score"]).to_pylist()
    [{'score': 0.5}, {'score': 1.0}]
    """

    def __init__(
        self, names: Sequence[str], columns: Sequence[Column], metadata: Mapping[bytes, bytes] | None = None
    ) -> None:
        self.column_names = list(names)
        self.columns = list(columns)
        self.metadata = metadata or {}
        if len({len(column) for column in self.columns}) > 1:
            raise ValueError("the columns of a table have one length")

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> ColumnTable:
        """A table of arrays or lists, by name."""
        return cls(list(data), [Column(values) for values in data.values()])

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Column:
        """The column of a name; KeyError unless there is exactly one."""
        if self.column_names.count(name) != 1:
            raise KeyError(name)
        return self.columns[self.column_names.index(name)]

    __getitem__ = column

    def select(self, names: Sequence[str]) -> ColumnTable:
        """Some columns."""
        return ColumnTable(names, [self.column(name) for name in names])

    def take(self, rows: NDArray) -> ColumnTable:
        """Some rows."""
        return ColumnTable(self.column_names, [Column(column.values[rows]) for column in self.columns])

    def append_column(self, name: str, values: Any) -> ColumnTable:
        """The table with one more column."""
        return ColumnTable([*self.column_names, name], [*self.columns, Column(values)])

    def extended(self, data: Mapping[str, Sequence[Any]], rows: int) -> ColumnTable:
        """The table with more rows at its end; columns that `data` does not have are missing there."""
        missing = [None] * rows
        extended = [
            column.extended(data.get(name, missing))
            for name, column in zip(self.column_names, self.columns, strict=True)
        ]
        return ColumnTable(self.column_names, extended)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows, each as a dict."""
        rows = zip(*(column.to_pylist() for column in self.columns), strict=True)
        return [dict(zip(self.column_names, row, strict=True)) for row in rows]


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

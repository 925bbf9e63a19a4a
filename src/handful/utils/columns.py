"""A small table of columns, for results and for CSV files: it needs NumPy only.

It has those methods of a `pyarrow.Table` that handful uses, so that the same code takes either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

NDArray = np.ndarray[Any, Any]


class Column:
    """Values of one kind: numbers, masked where one is missing; or objects (texts, dates) with None."""

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

    def take(self, rows: NDArray) -> Column:
        """Some rows."""
        return Column(self.values[rows])

    def extended(self, values: Sequence[Any]) -> Column:
        """The column with more values at its end, None where one is missing."""
        if self.type.kind == "O":
            return Column([*self.to_pylist(), *values])
        return Column(np.ma.concatenate([self.values, masked_numbers(values, self.type)]))  # type: ignore[no-untyped-call]


class Field(NamedTuple):
    """The name and the kind of a column."""

    name: str
    type: np.dtype[Any]


class Schema:
    """The fields of a table, in order. The columns of such a table have no metadata."""

    metadata = None

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = list(fields)
        self.names = [field.name for field in self.fields]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def field(self, name: str) -> Field:
        """The field of a name."""
        return self.fields[self.names.index(name)]


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

    def __init__(self, names: Sequence[str], columns: Sequence[Column]) -> None:
        self.column_names = list(names)
        self.columns = list(columns)
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

    @property
    def schema(self) -> Schema:
        """The names and the kinds of the columns."""
        return Schema([Field(name, c.type) for name, c in zip(self.column_names, self.columns, strict=True)])

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
        return ColumnTable(self.column_names, [column.take(rows) for column in self.columns])

    def append_column(self, name: str, values: Any) -> ColumnTable:
        """The table with one more column."""
        return ColumnTable([*self.column_names, name], [*self.columns, Column(values)])

    def extended(self, data: Mapping[str, Sequence[Any]], rows: int) -> ColumnTable:
        """The table with more rows at its end; columns that `data` does not have are missing there."""
        return ColumnTable(
            self.column_names,
            [
                c.extended(data.get(name, [None] * rows))
                for name, c in zip(self.column_names, self.columns, strict=True)
            ],
        )

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

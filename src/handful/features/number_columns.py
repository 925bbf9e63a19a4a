"""Features in columns of numbers, one column for each: find these columns, and refuse likely mistakes.

A mistake that nobody notices is worse than an error: one word among the numbers of a column, a file without a header,
labels in a column named `Label`. Columns that count or name the rows are not features either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from handful.features.file_checks import OPTIONS, OTHER_COLUMNS, ColumnChoice, listed
from handful.features.labels import NDArray
from handful.utils.columns import Column
from handful.utils.limits import check_bytes
from handful.utils.text import shortened

INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|\s*")  # names of the index of a frame in files of pandas
NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")  # also with a decimal comma
ID_NAME = re.compile(r"(.*[^a-z])?(ids?|idx|index|indices|uuid|guid|row|rowid|row[ _.-]?(id|number|num|nr|no))", re.I)
CAMEL_ID = re.compile(r".*[a-z](Id|ID|Index|Idx)")
LABEL_NAMES = ("labels", "class", "classes", "target", "targets", "y")  # in a table without a column `label`
MIN_COUNTED_ROWS = 5  # 1, 2, 3, 4 may be a feature by chance


class NumberColumns(NamedTuple):
    """The columns that are features and their values [n, D]; and columns that look like something else."""

    names: list[str]
    values: NDArray
    set_aside: list[str]


def check_header(columns: Sequence[str], special: Sequence[str]) -> None:
    """Raise ValueError for names that are almost special ones, such as `Label`: likely mistakes."""
    if len(columns) == 1 and (mark := re.search(r"[;\t|]", columns[0])):
        raise ValueError(f"columns are separated by {mark[0]!r}: save it with commas, and a point in decimal numbers")
    for name in special:
        if columns.count(name) > 1:
            raise ValueError(f"there is more than one column {name!r}: rename all but one")
        alike = [column for column in columns if column.strip().casefold() == name.casefold()]
        if alike and name not in columns:
            raise ValueError(f"there is a column {alike[0]!r}, but no {name!r}: rename it")


def may_be_features(schema: Any, beside: Sequence[str]) -> list[str]:
    """The columns of a `pyarrow.Schema` that hold numbers, or text that may be numbers by mistake."""
    return [f.name for f in schema if f.name not in beside and not INDEX.fullmatch(f.name)
            if is_number(f.type) or is_text(f.type)]  # fmt: skip


def columns_of_numbers(table: Any, choice: ColumnChoice, stored: int | None) -> NumberColumns:
    """The feature columns of a `pyarrow.Table` or a `ColumnTable`.

    They are the columns that the user named; or else all columns of numbers that do not look like ids, row numbers or
    labels.

    stored: bytes of the file that the table was read from, if that is one file.
    """
    beside = () if choice.columns is not None else (*OTHER_COLUMNS, choice.label_column)
    feature_names = choice.find_columns(table.column_names) if choice.columns is not None else None
    names: list[str] = []
    values: list[NDArray] = []
    for column_field, column in zip(table.schema, table.columns, strict=True):
        name, kind = column_field.name, column_field.type
        if name in beside or (name not in feature_names if feature_names is not None else _is_left_out(name, choice)):
            continue
        if is_text(kind) and not _is_id_name(name):
            _check_text(name, column)
        elif is_number(kind):
            names.append(name)
            values.append(_numbers(column))
        if feature_names is not None and not is_number(kind):
            raise ValueError(f"column {name!r} holds {shortened(str(kind))}: a feature is a number")
    if feature_names is not None and len(set(names)) == len(names):
        order = [names.index(name) for name in feature_names]
        names, values = feature_names, [values[i] for i in order]
    check_bytes(8 * table.num_rows * len(values), "the columns of numbers", stored)
    if names and all(map(NUMBER.fullmatch, names)) and not (all(map(str.isdecimal, names)) and _distinct(names)):
        raise ValueError(f"the first line holds numbers, as {names[0]!r}: it must hold the names of the columns")
    set_aside: list[str] = []
    if feature_names is None:
        has_labels = choice.label_column in table.column_names
        is_odd_column = [looks_like_no_feature(name, x, has_labels) for name, x in zip(names, values, strict=True)]
        set_aside = [name for name, is_odd in zip(names, is_odd_column, strict=True) if is_odd]
        values = [x for x, is_odd in zip(values, is_odd_column, strict=True) if not is_odd]
        names = [name for name, is_odd in zip(names, is_odd_column, strict=True) if not is_odd]
        if set_aside and not names:
            raise ValueError(
                f"the only columns of numbers, {listed(set_aside)}, look like ids, row numbers or labels: if they are "
                f"features, name them with {OPTIONS['columns']}"
            )
    stacked = np.column_stack(values) if values else np.empty((table.num_rows, 0))
    return NumberColumns(names, stacked, set_aside)


def looks_like_no_feature(name: str, values: NDArray, has_labels: bool = True) -> bool:
    """Whether a column of numbers looks like ids, row numbers or labels, by its name or as it counts the rows.

    Examples
    --------
    >>> import numpy as np
    >>> looks_like_no_feature("image_id", np.array([7, 3])), looks_like_no_feature("refractive_index", np.array([1.5]))
    (True, False)
    >>> looks_like_no_feature("n", np.arange(1, 9))
    True
    """
    if not len(values) or not np.isfinite(values).all() or (values != np.floor(values)).any():
        return False
    if _is_id_name(name):
        return True
    if not has_labels and name.casefold() in LABEL_NAMES:
        return True
    return len(values) >= MIN_COUNTED_ROWS and values[0] in (0, 1) and bool((np.diff(values) == 1).all())


def is_number(kind: Any) -> bool:
    """Whether a `pyarrow.DataType` or a NumPy dtype is of numbers."""
    if isinstance(kind, np.dtype):
        return kind.kind in "iuf"
    import pyarrow.types as of

    return bool(of.is_floating(kind) or of.is_integer(kind) or of.is_decimal(kind))


def is_text(kind: Any) -> bool:
    """Whether a `pyarrow.DataType` or a NumPy dtype is of texts."""
    if isinstance(kind, np.dtype):
        return kind.kind == "O"
    import pyarrow.types as of

    return bool(of.is_string(kind) or of.is_large_string(kind))


def _is_id_name(name: str) -> bool:
    return bool(ID_NAME.fullmatch(name) or CAMEL_ID.fullmatch(name))


def _is_left_out(name: str, choice: ColumnChoice) -> bool:
    return INDEX.fullmatch(name) is not None or choice.is_excluded(name)


def _numbers(column: Any) -> NDArray:
    if isinstance(column, Column):
        return column.to_numpy()
    import pyarrow as pa
    import pyarrow.types as of

    return np.asarray((column.cast(pa.float64()) if of.is_decimal(column.type) else column).to_numpy())


def _distinct(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _check_text(name: str, column: Any) -> None:
    """A column of words is not a feature. Raise ValueError for numbers with a word among them, a likely mistake."""
    cells = [(row, cell) for row, cell in enumerate(column.to_pylist()) if cell is not None and cell.strip()]
    words = [(row, cell) for row, cell in cells if not NUMBER.fullmatch(cell)]
    if len(cells) - len(words) < len(cells) / 2 or not cells:
        return
    if words:
        row, cell = words[0]
        raise ValueError(f"column {name!r} holds numbers, but {cell[:40]!r} in row {row}: repair or remove that row")
    if any("," in cell for _, cell in cells):
        raise ValueError(f"column {name!r} has numbers with a comma, as {cells[0][1]!r}: write them with a point")
    raise ValueError(
        f"column {name!r} holds numbers as text: make it numbers, or leave it out with exclude= (--exclude)"
    )

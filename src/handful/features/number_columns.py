"""Features that lie in columns of numbers, one for each: which columns they are, and what is refused as a mistake.

What is left out unnoticed is worse than an error: a column that lost its type by one word among its numbers, a file
without a header, labels in a column that is called `Label`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from handful.utils.limits import check_bytes

INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|\s*")  # what pandas calls the index of a frame, in files
NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")  # also with a decimal comma


def check_header(columns: Sequence[str], special: Sequence[str]) -> None:
    """Refuse names that are almost special ones: such a column would be taken for a feature, or for nothing."""
    if len(columns) == 1 and (mark := re.search(r"[;\t|]", columns[0])):
        raise ValueError(f"columns are separated by {mark[0]!r}: save it with commas, and a point in decimal numbers")
    for name in special:
        if columns.count(name) > 1:
            raise ValueError(f"there is more than one column {name!r}: rename all but one")
        alike = [column for column in columns if column.strip().casefold() == name.casefold()]
        if alike and name not in columns:
            raise ValueError(f"there is a column {alike[0]!r}, but no {name!r}: rename it")


def may_be_features(schema: Any, beside: Sequence[str]) -> list[str]:
    """The columns of a `pyarrow.Schema` that hold features, and those of text, which could by mistake."""
    return [
        f.name
        for f in schema
        if f.name not in beside and not INDEX.fullmatch(f.name)
        if _is_number(f.type) or _is_text(f.type)
    ]


def columns_of_numbers(table: Any, beside: Sequence[str], stored: int | None) -> tuple[list[str], np.ndarray]:
    """The names of all columns of numbers of a `pyarrow.Table` but those `beside` features, and their values [n, D].

    stored: bytes of the file that it was read from, if that is one file.
    """
    import pyarrow as pa
    import pyarrow.types as of

    names, values = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.name in beside or INDEX.fullmatch(field.name):
            continue
        if _is_text(field.type):
            _check_text(field.name, column)
        elif _is_number(field.type):
            names.append(field.name)
            values.append((column.cast(pa.float64()) if of.is_decimal(field.type) else column).to_numpy())
    check_bytes(8 * table.num_rows * len(values), "the columns of numbers", stored)
    if not values:
        return [], np.empty((table.num_rows, 0))
    if all(map(NUMBER.fullmatch, names)) and not (all(name.isdecimal() for name in names) and _distinct(names)):
        raise ValueError(f"the first line holds numbers, as {names[0]!r}: it must hold the names of the columns")
    return names, np.column_stack(values)


def same_columns(names: Sequence[str] | None, others: Sequence[str] | None) -> list[int] | None:
    """Where `names` are among the columns `others`, to bring those into their order; None if there is nothing to do.

    Refused if they are not the same: features are told apart by nothing else.
    """
    if names is None or others is None or list(names) == list(others):
        return None
    if _distinct(names) and sorted(names) == sorted(others):
        place = {name: i for i, name in enumerate(others)}
        return [place[name] for name in names]
    differing = [name for name in others if name not in names] or [name for name in names if name not in others]
    said = f", as {differing[0]!r}" if differing else ", more than once each"
    raise ValueError(f"its columns of numbers are not those of the examples{said}: give the same columns")


def _distinct(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _is_number(kind: Any) -> bool:
    import pyarrow.types as of

    return bool(of.is_floating(kind) or of.is_integer(kind) or of.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    import pyarrow.types as of

    return bool(of.is_string(kind) or of.is_large_string(kind))


def _check_text(name: str, column: Any) -> None:
    """A column of words stands beside the features; one of numbers with a word among them is a mistake."""
    cells = [(row, cell) for row, cell in enumerate(column.to_pylist()) if cell is not None and cell.strip()]
    words = [(row, cell) for row, cell in cells if not NUMBER.fullmatch(cell)]
    if len(cells) - len(words) < len(cells) / 2 or not cells:
        return
    if words:
        row, cell = words[0]
        raise ValueError(f"column {name!r} holds numbers, but {cell[:40]!r} in row {row}: repair or remove that row")
    if any("," in cell for _, cell in cells):
        raise ValueError(f"column {name!r} has numbers with a comma, as {cells[0][1]!r}: write them with a point")
    raise ValueError(f"column {name!r} holds numbers as text: make it numbers, or leave it out")

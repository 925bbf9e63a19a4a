"""Feature tables in CSV files: a column for each feature, or a column `embedding` of JSON lists.

A CSV file has no types. Labels and other columns are read as they are written: whole numbers if all of them are (007 is
a name, not a number), else text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handful.features.feature_columns import (
    EMBEDDING,
    LABEL,
    PATH,
    SPLIT,
    ColumnChoice,
    Content,
    check_header,
    from_columns,
    looks_like_no_feature,
    one_kind,
    to_columns,
)
from handful.features.labels import NDArray, numbers_if_whole
from handful.features.table import FeatureTable, free_name
from handful.utils import csv_file
from handful.utils.columns import ColumnTable, object_array
from handful.utils.files import damaged
from handful.utils.limits import check_bytes

BYTES_IN_MEMORY = 4  # for each byte of a file: itself, its text, and numbers


def read_csv(path: Path, choice: ColumnChoice) -> FeatureTable:
    """Read a table of numbers, or of one JSON list in each row."""
    check_bytes(BYTES_IN_MEMORY * path.stat().st_size, "the table")
    try:
        parsed = csv_file.parse(path)
    except ValueError as error:
        raise damaged("csv", error) from None
    check_header([name for name, _ in parsed], choice)
    cells: dict[str, NDArray] = {}
    for name, column in parsed:
        cells[free_name(name, cells)] = column
    columns: dict[str, NDArray] = {}
    for name, column in cells.items():
        numbers = None if name in (PATH, SPLIT, choice.embedding_column) else csv_file.numbers_of(column)
        if name == choice.label_column:
            numbers = _as_written(column)
        columns[name] = object_array(csv_file.texts_of(column)) if numbers is None else numbers
    table = from_columns(Content(columns), choice)
    return table.replace(others={name: _as_written(cells[name]) for name in table.others if name in cells})


def _as_written(column: NDArray) -> NDArray:
    texts = [text or None for text in csv_file.texts_of(column)]
    values = numbers_if_whole(texts)
    return object_array(texts) if isinstance(values, list) else values


def write_csv(table: FeatureTable, path: Path) -> None:
    """One column for each feature, unless another column could be taken for a feature: then lists in one column."""
    if table.base_mean is not None:
        raise ValueError("a .csv file has no place for base_mean: write .parquet or .npz, or set it to None")
    data: dict[str, Any] = {name: one_kind(values, name) for name, values in to_columns(table).columns.items()}
    names = [str(name) for name in table.columns or [f"f{i}" for i in range(table.dimension)]]
    texts = data.pop(EMBEDDING).astype(str)  # the shortest text that gives the same number
    if _may_be_wide(table, names, list(data)):
        data |= {name: texts[:, i] for i, name in enumerate(names)}
    else:
        data[EMBEDDING] = [f"[{', '.join(row)}]" for row in texts.tolist()]
    for name, values in data.items():
        for row, text in enumerate(values):
            if isinstance(text, str) and csv_file.escape(text) != text:
                raise ValueError(
                    f"column {name!r} has {text[:40]!r} in row {row}, which spreadsheets take for a formula: write "
                    ".parquet"
                )
    csv_file.write_table(ColumnTable(data), path, change=str)


def _may_be_wide(table: FeatureTable, names: Sequence[str], beside: Sequence[str]) -> bool:
    if len({*names, *beside, EMBEDDING, LABEL}) < len(names) + len({*beside, EMBEDDING, LABEL}):
        return False
    has_labels = table.labels is not None
    if any(looks_like_no_feature(name, x, has_labels) for name, x in zip(names, table.features.T, strict=True)):
        return False
    return all(
        values.dtype.kind == "O"
        and any(isinstance(value, str) and not csv_file.NUMBER.fullmatch(value.strip()) for value in values)
        for values in table.others.values()
    )

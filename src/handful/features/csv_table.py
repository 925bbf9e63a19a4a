"""Feature tables in CSV files: a column for each feature, or a column `embedding` of JSON lists.

A CSV file has no types. Labels and other columns are read as they are written: whole numbers if all of them are (007 is
a name, not a number), else text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from handful.features.arrow_table import EMBEDDING, LABEL, PATH, SPLIT, beside_features
from handful.features.feature_columns import check_header, from_columns, looks_like_no_feature
from handful.features.file_checks import ColumnChoice, damaged
from handful.features.labels import NDArray, numbers_if_whole
from handful.features.table import FeatureTable
from handful.utils import csv_file
from handful.utils.columns import ColumnTable
from handful.utils.limits import check_bytes

BYTES_IN_MEMORY = 4  # for each byte of a file: itself, its text, and numbers


def read_csv(path: Path, choice: ColumnChoice) -> FeatureTable:
    """Read a table of numbers, or of one JSON list in each row."""
    special = (choice.embedding_column, choice.label_column, PATH)
    table = _parse(path, (*special, SPLIT))
    check_header(table.column_names, () if choice.columns is not None else special)
    choice.check_label(table.column_names, "column")
    read = from_columns(table, choice, stored=path.stat().st_size)
    if read.labels is not None and read.labels.dtype.kind != "i":
        read = read.replace(labels=numbers_if_whole(read.label_names))
    return read.replace(others=_as_written(path, list(read.others))) if read.others else read


def write_csv(table: FeatureTable, path: Path) -> None:
    """One column for each feature, unless another column could be taken for a feature: then lists in one column."""
    beside = beside_features(table)
    names = [str(name) for name in table.columns or [f"f{i}" for i in range(table.dimension)]]
    texts = table.features.astype(str)  # the shortest text that gives the same number
    if _may_be_wide(table, names, beside):
        data = beside | {name: texts[:, i] for i, name in enumerate(names)}
    else:
        data = beside | {EMBEDDING: [f"[{', '.join(row)}]" for row in texts.tolist()]}
    if table.base_mean is not None:
        raise ValueError("a .csv file has no place for base_mean: write .parquet or .npz, or set it to None")
    for name, values in data.items():
        _check_cells(name, values)
    csv_file.write_table(ColumnTable.of(data), path, change=str)


def _parse(path: Path, texts: tuple[str, ...], columns: list[str] | None = None) -> ColumnTable:
    """Parse a file. The columns `texts` stay text. columns: read only these."""
    check_bytes(BYTES_IN_MEMORY * path.stat().st_size, "the table")
    try:
        return csv_file.parse_table(path, texts, columns)
    except ValueError as error:
        raise damaged("csv", error) from None


def _as_written(path: Path, names: list[str]) -> dict[str, NDArray]:
    """The other columns as they are written, without guessed types."""
    table = _parse(path, tuple(names))
    others = {}
    for name in names:
        texts = table[name].to_pylist() if table.column_names.count(name) == 1 else []
        texts = [text or None for text in texts]
        if len(texts) != table.num_rows:  # an index without a name, or two columns of one name
            continue
        values = numbers_if_whole(texts) if None not in texts else texts
        others[name] = np.array(values, object) if isinstance(values, list) else values
    return others


def _may_be_wide(table: FeatureTable, names: list[str], beside: dict[str, Any]) -> bool:
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


def _check_cells(name: str, values: Any) -> None:
    """Raise ValueError for text that a spreadsheet would run as a formula."""
    for row, text in enumerate(values):
        if isinstance(text, str) and csv_file.escape(text) != text:
            raise ValueError(
                f"column {name!r} has {text[:40]!r} in row {row}, which spreadsheets take for a formula: write .parquet"
            )

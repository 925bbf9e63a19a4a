"""Tables of embeddings of which some rows have a label and the others wait for one: Parquet and CSV."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.arrays import to_numpy
from handful.checks import UNKNOWN, as_features
from handful.features.columns import checked_mean, damaged
from handful.features.shards import is_sharded, read_parts
from handful.features.tables import mean_of_schema, vectors_of
from handful.features.wide import check_header, columns_of_numbers

BESIDE = ("label", "path", "split")  # columns of a CSV that are no features
MISSING = ("nan", "NaN", "<NA>", "NaT", "None", "null", "NULL", "#N/A")  # how programs write that there is none


class Partly(NamedTuple):
    """Features [n, D]; a class for each row, or None; the file each row came from, or None where no column says; the
    mean of the base classes [D], or None where the file does not carry it; the names of the D columns, or None where
    features are one column of lists."""

    features: np.ndarray
    labels: list[str | None]
    paths: list[str] | None
    base_mean: np.ndarray | None = None
    columns: list[str] | None = None

    @property
    def names(self) -> list[str]:
        """What rows are called: by their path, else by their place. Rows may share a name."""
        return self.paths or [f"row {i}" for i in range(len(self.labels))]


def read_partly(path: str | Path, *, embedding: str = "embedding", label: str = "label") -> Partly:
    """Read a .parquet or .csv table, or a folder of Parquet parts.

    A blank label or -1 means unlabelled; without that column, every row is. Labels are compared as people see them:
    without blanks around them, in one Unicode form (NFC). Features are the list column `embedding` (in a CSV: a JSON
    list), or else every column of numbers.
    """
    path = Path(path)
    parts = is_sharded(path)
    if not parts and not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    if not parts and path.suffix.lower() not in (".parquet", ".csv"):
        raise ValueError(f"{str(path)!r}: tables of embeddings are .parquet or .csv, or give folders of pictures")
    try:
        table = read_parts(path) if parts else _read(path, (embedding, label, "path"))
        check_header(table.column_names, (embedding, label, "path"))
        features, columns = _features(table, embedding, label)
        labels = _labels(table[label].to_pylist()) if label in table.column_names else [None] * table.num_rows
        mean = checked_mean(mean_of_schema(table.schema), features.shape[1])
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    paths = names_of_rows(table["path"].to_pylist()) if "path" in table.column_names else None
    return Partly(features, labels, paths, mean, columns)


def names_of_rows(paths: list[Any], at: int = 0) -> list[str]:
    """The paths as text, to the last blank; a row that has none is called by its place, which of the first is `at`."""
    return [text if text.strip() else f"row {i}" for i, text in enumerate(map(_text, paths), at)]


def _read(path: Path, texts: tuple[str, ...]) -> Any:
    """A `pyarrow.Table`. Of a CSV, the columns `texts` are kept as written: 007 is no 7."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            table = parquet.read_table(path, partitioning=None)
        else:
            as_written = csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string()))
            multiline = csv.ParseOptions(newlines_in_values=True)  # names of files may have them
            table = csv.read_csv(path, convert_options=as_written, parse_options=multiline)
    except (pa.ArrowException, OSError) as error:
        raise damaged(suffix[1:], error) from None
    return table


def _features(table: Any, embedding: str, label: str) -> tuple[np.ndarray, list[str] | None]:
    import pyarrow.types as of

    if not table.num_rows:
        raise ValueError("the table has no rows")
    columns = None
    if embedding not in table.column_names:
        columns, values = columns_of_numbers(table, (*BESIDE, label))
        if not columns:
            there = ", ".join(map(repr, table.column_names[:20])) + ", ..." * (len(table.column_names) > 20)
            raise ValueError(f"there is no column {embedding!r} and no column of numbers, only {there}")
    elif of.is_string(kind := table.schema.field(embedding).type) or of.is_large_string(kind):
        values = _parsed(table[embedding].to_pylist(), embedding)
    else:
        values = vectors_of(table[embedding], f"column {embedding!r}")
    return to_numpy(as_features(values, "features")), columns


def _parsed(texts: list[Any], embedding: str) -> np.ndarray:
    """[n, D] of JSON lists."""
    rows: list[np.ndarray] = []
    for i, text in enumerate(texts):
        try:
            row = np.asarray(json.loads(text))
        except (TypeError, ValueError, RecursionError):
            row = np.empty(0)
        if row.ndim != 1 or row.dtype.kind not in "iuf" or not len(row):
            raise ValueError(f"column {embedding!r} is text, but not a JSON list of numbers in row {i}")
        if rows and len(row) != len(rows[0]):
            raise ValueError(f"column {embedding!r} has {len(rows[0])} numbers in row 0 but {len(row)} in row {i}")
        rows.append(row)
    return np.stack(rows).astype(np.float64)


def _labels(values: list[Any]) -> list[str | None]:
    labels = _words(values)
    for row, text in enumerate(labels):
        if text in MISSING:
            raise ValueError(
                f"the label {text!r} of row {row} looks like one that is missing: leave it blank, or rename that class"
            )
    return [None if text in (None, str(UNKNOWN)) else unicodedata.normalize("NFC", text) for text in labels]


def _words(values: list[Any]) -> list[str | None]:
    """Blank and missing become None; numbers that name classes become text as people write them."""
    words = [_text(value).strip() or None for value in values]
    if all(word is None or re.fullmatch(r"-?\d+(\.0)?", word) for word in words):  # pandas' way with blanks among them
        return [word and word.removesuffix(".0") for word in words]
    return words


def _text(value: Any) -> str:
    """ "" for what is missing."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)

"""Tables of embeddings of which some rows have a label and the others wait for one: Parquet and CSV."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import UNKNOWN, as_features, shortened
from handful.features.columns import checked_mean, damaged
from handful.features.number_columns import check_header, columns_of_numbers, may_be_features
from handful.features.parquet_file import MAX_COLUMNS, read_columns, values_of
from handful.features.parts import is_sharded, read_parts
from handful.features.tables import check_vectors, mean_of_schema, vectors_of
from handful.utils.limits import check_bytes

BESIDE = ("label", "path", "split")  # columns of a CSV that are no features
LINE_BYTES = 2**22  # of a CSV that are looked at together
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
        read_parquet = partial(_read_parquet, embedding=embedding, label=label)
        if parts:
            table = read_parts(path, read_parquet)
        else:
            is_csv = path.suffix.lower() == ".csv"
            table = _read_csv(path, (embedding, label, "path")) if is_csv else read_parquet(path)
        features, columns = _features(table, embedding, label, None if parts else path.stat().st_size)
        labels: list[str | None] = [None] * table.num_rows
        if label in table.column_names:
            labels = _labels(values_of(table[label]))
        mean = checked_mean(mean_of_schema(table.schema), features.shape[1])
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    paths = names_of_rows(values_of(table["path"])) if "path" in table.column_names else None
    return Partly(features, labels, paths, mean, columns)


def names_of_rows(paths: list[Any], at: int = 0) -> list[str]:
    """The paths as text, to the last blank; a row that has none is called by its place, which of the first is `at`."""
    return [text if text.strip() else f"row {i}" for i, text in enumerate(map(_text, paths), at)]


def _read_parquet(path: Path, embedding: str, label: str, where: str = "") -> Any:
    import pyarrow.types as of

    def choose(schema: Any) -> list[str]:
        check_header(schema.names, (embedding, label, "path"))
        if embedding not in schema.names:
            return [label, "path", *may_be_features(schema, (*BESIDE, label))]
        if not of.is_string(kind := schema.field(embedding).type) and not of.is_large_string(kind):
            check_vectors(kind, f"{where}column {embedding!r}")
        return [embedding, label, "path"]

    return read_columns(path, choose, (label, "path"), where)


def _read_csv(path: Path, texts: tuple[str, ...]) -> Any:
    """A `pyarrow.Table`, of which the columns `texts` are kept as written: 007 is no 7."""
    import pyarrow as pa
    from pyarrow import csv

    _check_csv(path)
    try:
        as_written = csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string()))
        multiline = csv.ParseOptions(newlines_in_values=True)  # names of files may have them
        table = csv.read_csv(path, convert_options=as_written, parse_options=multiline)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise damaged("csv", error) from None
    check_header(table.column_names, texts)
    return table


def _check_csv(path: Path) -> None:
    """Raise if a text file has more columns, or more numbers, than can be read."""
    with path.open("rb") as file:
        columns = file.readline(LINE_BYTES).count(b",") + 1
        if columns > MAX_COLUMNS:
            raise ValueError(f"there are {columns:,} columns or more, and {MAX_COLUMNS:,} at most are read")
        file.seek(0)
        count = sum(block.count(b",") + block.count(b"\n") for block in iter(partial(file.read, LINE_BYTES), b""))
    check_bytes(8 * count, "the table", path.stat().st_size)


def _features(table: Any, embedding: str, label: str, stored: int | None) -> tuple[np.ndarray, list[str] | None]:
    import pyarrow.types as of

    if not table.num_rows:
        raise ValueError("the table has no rows")
    columns = None
    if embedding not in table.column_names:
        columns, values = columns_of_numbers(table, (*BESIDE, label), stored)
        if not columns:
            there = shortened(", ".join(map(repr, table.column_names[:20])), 300)
            raise ValueError(f"there is no column {embedding!r} and no column of numbers, only {there}")
    elif of.is_string(kind := table.schema.field(embedding).type) or of.is_large_string(kind):
        values = _parsed(values_of(table[embedding]), embedding, stored)
    else:
        values = vectors_of(table[embedding], f"column {embedding!r}")
    return to_numpy(as_features(values, "features")), columns


def _parsed(texts: list[Any], embedding: str, stored: int | None) -> np.ndarray:
    """[n, D] of JSON lists; a text that stands in several rows is parsed once."""
    rows: dict[Any, np.ndarray] = {}
    first = -1
    for i, text in enumerate(texts):
        if text in rows:
            continue
        try:
            row = np.asarray(json.loads(text))
        except (TypeError, ValueError, RecursionError):
            row = np.empty(0)
        if row.ndim != 1 or row.dtype.kind not in "iuf" or not len(row):
            raise ValueError(f"column {embedding!r} is text, but not a JSON list of numbers in row {i}")
        first = len(row) if first < 0 else first
        if len(row) != first:
            raise ValueError(f"column {embedding!r} has {first} numbers in row 0 but {len(row)} in row {i}")
        if not rows:
            check_bytes(8 * first * len(texts), f"column {embedding!r}", stored)
        rows[text] = row
    return np.stack([rows[text] for text in texts]).astype(np.float64)


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

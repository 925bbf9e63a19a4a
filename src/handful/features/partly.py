"""Tables of embeddings of which some rows have a label and the others wait for one: Parquet and CSV."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.arrays import to_numpy
from handful.checks import UNKNOWN, as_features
from handful.features.columns import checked_mean, damaged
from handful.features.shards import is_sharded, read_parts
from handful.features.tables import mean_of_schema, vectors_of

BESIDE = ("label", "path", "split")  # columns of a CSV that are no features
INDEX = "__index_level_"  # how pandas calls the index of a frame in a Parquet file


class Partly(NamedTuple):
    """Features [n, D]; a class for each row, or None; the file each row came from, or None where no column says; the
    mean of the base classes [D], or None where the file does not carry it."""

    features: np.ndarray
    labels: list[str | None]
    paths: list[str] | None
    base_mean: np.ndarray | None = None

    @property
    def names(self) -> list[str]:
        """What rows are called: by their path, else by their place. Rows may share a name."""
        return self.paths or [f"row {i}" for i in range(len(self.labels))]


def read_partly(path: str | Path, *, embedding: str = "embedding", label: str = "label") -> Partly:
    """Read a .parquet or .csv table, or a folder of Parquet parts.

    A blank label or -1 means unlabelled; without that column, every row is. Features are the list column `embedding`
    (in a CSV: a JSON list), or else every column of numbers.
    """
    path = Path(path)
    parts = is_sharded(path)
    if not parts and not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    if not parts and path.suffix.lower() not in (".parquet", ".csv"):
        raise ValueError(f"{str(path)!r}: tables of embeddings are .parquet or .csv, or give folders of pictures")
    try:
        table = read_parts(path) if parts else _read(path, (embedding, label, "path"))
        features = _features(table, embedding, label)
        mean = checked_mean(mean_of_schema(table.schema), features.shape[1])
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    rows = table.num_rows
    labels = _words(table[label].to_pylist() if label in table.column_names else [None] * rows)
    labels = [None if text == str(UNKNOWN) else text for text in labels]
    paths = names_of_rows(table["path"].to_pylist()) if "path" in table.column_names else None
    return Partly(features, labels, paths, mean)


def names_of_rows(paths: list[Any], at: int = 0) -> list[str]:
    """The paths as text; a row that has none is called by its place, which of the first is `at`."""
    return [text or f"row {i}" for i, text in enumerate(_words(paths), at)]


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
    for name in texts:
        if table.column_names.count(name) > 1:
            raise ValueError(f"there is more than one column {name!r}: rename all but one")
    return table


def _features(table: Any, embedding: str, label: str) -> np.ndarray:
    import pyarrow.types as of

    if not table.num_rows:
        raise ValueError("the table has no rows")
    if embedding not in table.column_names:
        beside = (*BESIDE, label)
        numbers = [
            table.column(i).to_numpy()
            for i, field in enumerate(table.schema)
            if field.name not in beside and not field.name.startswith(INDEX)
            if of.is_floating(field.type) or of.is_integer(field.type)
        ]
        if not numbers:
            there = ", ".join(map(repr, table.column_names))
            raise ValueError(f"there is no column {embedding!r} and no column of numbers, only {there}")
        values = np.column_stack(numbers)
    elif of.is_string(kind := table.schema.field(embedding).type) or of.is_large_string(kind):
        values = _parsed(table[embedding].to_pylist(), embedding)
    else:
        values = vectors_of(table[embedding], f"column {embedding!r}")
    return to_numpy(as_features(values.astype(np.float32 if values.dtype.kind != "f" else values.dtype), "features"))


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


def _words(values: list[Any]) -> list[str | None]:
    """Blank and missing become None; numbers that name classes become text as people write them."""
    words = [None if v is None or v != v else str(v).strip() or None for v in values]
    if all(word is None or re.fullmatch(r"-?\d+\.0", word) for word in words):  # pandas' way with blanks among integers
        return [word and word[:-2] for word in words]
    return words

"""Tables of embeddings of which some rows have a label and the others wait for one: Parquet and CSV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.arrays import to_numpy
from handful.checks import as_features
from handful.features.columns import damaged

BESIDE = ("label", "path", "split")  # columns of a CSV that are no features


class Partly(NamedTuple):
    """Features [n, D]; a class for each row, or None; the file each row came from, or None where no column says."""

    features: np.ndarray
    labels: list[str | None]
    paths: list[str] | None


def read_partly(path: str | Path, *, embedding: str = "embedding", label: str = "label") -> Partly:
    """Read a .parquet or .csv table. A blank label means unlabelled, a table without that column is all unlabelled.

    Features are the list column `embedding` (in a CSV: a JSON list), or else every column of numbers.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    suffix = path.suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise ValueError(f"{str(path)!r}: tables of embeddings are .parquet or .csv, or give folders of pictures")
    try:
        table = parquet.read_table(path, partitioning=None) if suffix == ".parquet" else csv.read_csv(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{str(path)!r}: {damaged(suffix[1:], error)}") from None
    try:
        features = _features(table, embedding, label)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    rows = table.num_rows
    labels = _words(table[label].to_pylist() if label in table.column_names else [None] * rows)
    paths = (
        [text or f"row {i}" for i, text in enumerate(_words(table["path"].to_pylist()))]
        if "path" in table.column_names
        else None
    )
    return Partly(features, labels, paths)


def _features(table: Any, embedding: str, label: str) -> np.ndarray:
    import pyarrow.types as of

    if not table.num_rows:
        raise ValueError("the table has no rows")
    if embedding in table.column_names:
        rows = table[embedding].to_pylist()
        if of.is_string(table.schema.field(embedding).type) or of.is_large_string(table.schema.field(embedding).type):
            try:
                rows = [json.loads(row) for row in rows]
            except (TypeError, ValueError):
                raise ValueError(f"column {embedding!r} is text, but not a JSON list of numbers in every row") from None
        lengths = {len(row) if isinstance(row, list) else None for row in rows}
        if len(lengths) != 1 or None in lengths:
            raise ValueError(f"column {embedding!r} must hold a list of numbers of one length in every row")
        values = np.asarray(rows)
    else:
        fields = [f for f in table.schema if f.name not in (*BESIDE, label)]
        named = [f.name for f in fields if of.is_floating(f.type) or of.is_integer(f.type)]
        if not named:
            there = ", ".join(map(repr, table.column_names))
            raise ValueError(f"there is no column {embedding!r} and no column of numbers, only {there}")
        columns = [table[name].to_numpy() for name in named]
        values = np.column_stack(columns)
    if values.dtype.kind not in "iuf":
        raise ValueError("features must be numbers")
    return to_numpy(as_features(values.astype(np.float32 if values.dtype.kind != "f" else values.dtype), "features"))


def _words(values: list[Any]) -> list[str | None]:
    """Blank and missing become None; numbers that name classes become text as people write them."""
    return [None if v is None or v != v or not (text := _word(v)) else text for v in values]


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()

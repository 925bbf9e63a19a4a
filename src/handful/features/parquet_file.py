"""Parquet files: sizes are checked by the file's own description before a column is read.

Features are one column of lists, or one column for each feature.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from handful.features.arrow_table import (
    EMBEDDING,
    LABEL,
    PATH,
    SHARING,
    SPLIT,
    check_vectors,
    columns_of,
    is_carried,
    is_list_of_numbers,
    is_number,
    is_text,
    to_arrow,
    values_of,
)
from handful.features.feature_columns import check_header, from_columns, is_left_out, stored_choice
from handful.features.file_checks import MAX_COLUMNS, OPTIONS, OTHER_COLUMNS, ColumnChoice, damaged, listed, require
from handful.features.table import FeatureTable
from handful.utils.columns import ColumnTable
from handful.utils.extras import need_pyarrow
from handful.utils.limits import check_bytes
from handful.utils.text import shortened

__all__ = ["check_flat", "check_once", "check_sizes", "open_parquet", "read_columns", "read_parquet", "values_of"]
POINTER_BYTES = 16  # of a value in a Python list or an array of objects
ROWS_PER_GROUP = 2**16  # written
ROWS_PER_BATCH = 2**13  # read

Choose = Callable[[Any], Iterable[str]]  # chooses columns of a schema


@contextmanager
def open_parquet(path: str | Path, where: str = "") -> Iterator[Any]:
    """A `pyarrow.parquet.ParquetFile`. Errors of Arrow become a ValueError that begins with `where`."""
    need_pyarrow("a Parquet file")
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    if not os.path.isfile(path):  # opening a pipe would wait
        raise ValueError(f"{str(path)!r} is not a file")
    try:
        with ParquetFile(path, pre_buffer=False) as file:
            if file.metadata.num_columns > MAX_COLUMNS:
                raise ValueError(f"{where}there are {file.metadata.num_columns:,} columns, more than {MAX_COLUMNS:,}")
            yield file
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise damaged("parquet", error, where) from None


def check_sizes(path: str | Path, file: Any, names: Sequence[str], where: str = "") -> None:
    """ValueError if these columns of an open file would take more memory than the limit, by its types and rows."""
    rows, schema = file.metadata.num_rows, file.schema_arrow
    count = sum(rows * _bytes_per_row(field.type) for field in schema if field.name in names)
    check_bytes(count, f"{where}a table of {rows:,} rows", os.path.getsize(path))


def _bytes_per_row(kind: Any) -> int:
    """At least how many; lists of any length and texts show their size only while they are read."""
    import pyarrow.types as of

    plain = getattr(kind, "storage_type", kind)
    if not of.is_fixed_size_list(plain) or not of.is_primitive(plain.value_type):
        return POINTER_BYTES
    return int(plain.list_size * max(1, plain.value_type.bit_width // 8))


def read_columns(path: str | Path, choose: Choose, flat: Sequence[str] | None, where: str = "") -> ColumnTable:
    """Columns of a Parquet file; see `read_arrow`."""
    return columns_of(read_arrow(path, choose, flat, where))


def read_arrow(path: str | Path, choose: Choose, flat: Sequence[str] | None, where: str = "") -> Any:
    """Columns of a Parquet file as a `pyarrow.Table`, with the metadata of its schema.

    Parameters
    ----------
    choose : gives the names of columns for a schema, or raises ValueError; missing columns are left out.
    flat : the columns that have one value a row: labels, paths, splits. None: all columns.
    where : what errors begin with.
    """
    need_pyarrow("a Parquet file")
    import pyarrow as pa

    with open_parquet(path, where) as file:
        schema = file.schema_arrow
        names = [name for name in dict.fromkeys(choose(schema)) if name in set(schema.names)]
        check_once(schema.names, names, where)
        for name in names if flat is None else [name for name in flat if name in names]:
            check_flat(schema.field(name).type, f"{where}column {name!r}")
        check_sizes(path, file, names, where)
        stored, total, batches = os.path.getsize(path), 0, []
        for batch in file.iter_batches(ROWS_PER_BATCH, columns=names):  # a few bytes can be a billion equal numbers
            total += batch.nbytes
            check_bytes(total, f"{where}the table", stored)
            batches.append(batch)
        table = pa.Table.from_batches(batches, pa.schema([schema.field(name) for name in names]))
        table.validate(full=True)  # Arrow does not check codes and offsets when it reads
    return table.replace_schema_metadata(schema.metadata)


def check_once(present: Iterable[str], names: Iterable[str], where: str = "") -> None:
    """Raise if a column is there twice."""
    counts = Counter(present)
    for name in names:
        if counts[name] > 1:
            raise ValueError(f"{where}there is more than one column {shortened(name)!r}: rename all but one")


def check_flat(kind: Any, what: str) -> None:
    """Raise unless a column has one value a row."""
    import pyarrow.types as of

    kind = kind.value_type if of.is_dictionary(kind) else kind
    if of.is_nested(kind) or str(kind).startswith(SHARING):
        raise ValueError(f"{what} holds {shortened(str(kind))}: one text or number a row is needed")


# ---- features


def read_parquet(path: Path, choice: ColumnChoice) -> FeatureTable:
    """A feature table; lists and binary data beside the features stay in the file."""
    return from_columns(columns_of(read_feature_table(path, choice)), choice, stored=path.stat().st_size)


def read_feature_table(path: Path, choice: ColumnChoice, where: str = "") -> Any:
    """A `pyarrow.Table` of the features, labels, paths and splits, and of the columns that are carried along."""
    flat = (choice.label_column, PATH, SPLIT)

    def choose(schema: Any) -> list[str]:
        check_header(schema.names, () if choice.columns else (choice.embedding_column, choice.label_column, PATH))
        choice.check_label(schema.names, f"{where}column")
        full_choice = stored_choice(choice, schema.names, schema.metadata)
        counts = Counter(schema.names)
        others = [field.name for field in schema if is_carried(field.type) and counts[field.name] == 1]
        if not _is_wide(schema, full_choice, where):
            kind = schema.field(full_choice.embedding_column).type
            if not is_text(kind):
                check_vectors(kind, f"{where}column {full_choice.embedding_column!r}")
            return [full_choice.embedding_column, *flat, *others]
        if full_choice.columns is not None:
            return [*_checked(schema, full_choice.find_columns(schema.names), where), *flat, *others]
        beside = (*OTHER_COLUMNS, choice.label_column)
        may_be = [field for field in schema if field.name not in beside and not is_left_out(field.name, choice)]
        return [*(field.name for field in may_be if is_number(field.type) or is_text(field.type)), *flat, *others]

    return read_arrow(path, choose, flat, where)


def _is_wide(schema: Any, choice: ColumnChoice, where: str) -> bool:
    """Whether features are columns of numbers, and not a column of lists; ValueError if neither is clear."""
    if choice.columns is not None:
        return True
    if choice.embedding is not None or choice.embedding_column in schema.names:
        require(schema.names, choice.embedding_column, f"{where}column", "embedding")
        return False
    if lists := [f.name for f in schema if is_list_of_numbers(f.type) and f.name != choice.label]:
        raise ValueError(
            f"{where}there is no column {EMBEDDING!r}, only {listed(schema.names)}: {listed(lists)} holds lists of "
            f"numbers, name the right one with {OPTIONS['embedding']}"
        )
    return True


def _checked(schema: Any, names: Sequence[str], where: str) -> Sequence[str]:
    for name in names:
        kind = schema.field(name).type if schema.names.count(name) == 1 else None
        if kind is not None and not is_number(kind):
            raise ValueError(f"{where}column {name!r} holds {shortened(str(kind))}: a feature is a number")
    return names


def write_parquet(table: FeatureTable, path: Path) -> None:
    """Features that had a column each get one again."""
    with path.open("wb") as file:
        write_rows(table, file)


def write_rows(table: FeatureTable, file: IO[bytes], metadata: dict[bytes, bytes] | None = None) -> None:
    """Write a table as Parquet, with metadata for its header."""
    need_pyarrow("a Parquet file")
    from pyarrow import parquet

    content = to_arrow(table, as_list=not _can_be_wide(table))
    content = content.replace_schema_metadata({**(content.schema.metadata or {}), **(metadata or {})} or None)
    names = [name for name in content.column_names if name != EMBEDDING and name not in (table.columns or ())]
    parquet.write_table(content, file, compression="zstd", use_dictionary=names, row_group_size=ROWS_PER_GROUP)


def _can_be_wide(table: FeatureTable) -> bool:
    if table.columns is None or len(set(table.columns)) < len(table.columns):
        return False
    return not {EMBEDDING, LABEL, PATH, SPLIT, *table.others} & set(table.columns)

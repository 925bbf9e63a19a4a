"""Read Parquet files that may come from anyone: with limits, and only after the sizes of their pages are checked.

Columns of text stay dictionaries: a name that is repeated a million times is stored once.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from handful.features.file_checks import damaged
from handful.features.parquet_pages import (
    PLAIN,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    Pages,
    RowGroup,
    read_footer,
    read_pages,
)
from handful.features.thrift import BadStruct
from handful.utils.columns import Column
from handful.utils.extras import need_pyarrow
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.text import shortened

FOOTER_EXPANSION = 30  # a parsed footer takes at most about this many times its own size
MIN_LIST_ITEM_BYTES = 4  # of an item in a list of the footer; in real files, items take more
POINTER_BYTES = 16  # of a value in a Python list or an array of objects
WIDE = ("DOUBLE", "INT64", "INT96")  # physical types of 8 bytes or more
BATCH_BYTES = 32 * 2**20  # of texts of unknown length that are decoded at a time
MAX_COLUMNS = 65_536
AS_DICTIONARY = {PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY}  # encodings that Arrow can leave as a dictionary
SHARING = ("string_view", "binary_view", "run_end_encoded")  # types whose rows can share values

Choose = Callable[[Any], Iterable[str]]  # chooses columns of a schema


@contextmanager
def open_parquet(path: str | Path, texts: Sequence[str] = (), where: str = "") -> Iterator[Any]:
    """A `pyarrow.parquet.ParquetFile`; `texts` are the columns that stay dictionaries.

    Errors of Arrow become a ValueError that begins with `where`.
    """
    need_pyarrow("a Parquet file")
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, read_dictionary=list(texts), pre_buffer=False, **_footer_limits(path)) as file:
            if file.metadata.num_columns > MAX_COLUMNS:
                raise ValueError(f"{where}there are {file.metadata.num_columns:,} columns, more than {MAX_COLUMNS:,}")
            yield file
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise damaged("parquet", error, where) from None


def read_columns(path: str | Path, choose: Choose, flat: Sequence[str] | None, where: str = "") -> Any:
    """Columns of a Parquet file as a `pyarrow.Table`, with the metadata of its schema.

    Parameters
    ----------
    choose : gives the names of columns for a schema, or raises ValueError; missing columns are left out.
    flat : the columns that have one value a row: labels, paths, splits. None: all columns.
    where : what errors begin with.
    """
    need_pyarrow("a Parquet file")
    import pyarrow as pa

    with open_parquet(path, where=where) as file:
        schema = file.schema_arrow
        present = set(schema.names)
        names = [name for name in dict.fromkeys(choose(schema)) if name in present]
        flat = names if flat is None else [name for name in flat if name in names]
        check_once(schema.names, names, where)
        for name in flat:
            check_flat(schema.field(name).type, f"{where}column {name!r}")
        pages = check_pages(path, file, names, where)
    texts = [name for name in flat if _encodings(pages[name]) <= AS_DICTIONARY]
    counted = [name for name in flat if name not in texts and any(c.expands for c in pages[name])]
    with open_parquet(path, texts, where) as file:
        whole = file.read(columns=[name for name in names if name not in counted])
        for name in counted:
            largest = max(chunk.largest for chunk in pages[name])
            column = _read_counted(file, name, largest, os.path.getsize(path), f"{where}column {name!r}")
            whole = whole.append_column(schema.field(name), column) if whole.num_columns else pa.table({name: column})
        whole.validate(full=True)  # codes may be larger than the dictionary
    return whole.select(names).replace_schema_metadata(schema.metadata)


def check_pages(
    path: str | Path, file: Any, names: Sequence[str], where: str = "", whole: bool = True
) -> dict[str, list[Pages]]:
    """The pages of these columns, one entry for each row group; ValueError if they hold more than the limit.

    whole : all columns will be in memory together; else one row group of one column at a time.
    """
    schema, rows, stored = file.metadata.schema, file.metadata.num_rows, os.path.getsize(path)
    columns = [schema.column(i) for i in range(file.metadata.num_columns)]
    leaves = _leaves([column.path for column in columns], names)
    if whole:
        check_bytes(rows * POINTER_BYTES, f"{where}a table of {rows:,} rows", stored)
    pages: dict[str, list[Pages]] = {name: [] for name in names}
    total = 0
    with open(path, "rb", buffering=0) as raw:
        for group, (_, chunks) in enumerate(row_groups(path, file, where)):
            for name in names:
                what = f"{where}column {shortened(name)!r}" + ("" if whole else f" of row group {group}")
                for leaf in leaves[name]:
                    try:
                        pages[name].append(read_pages(raw, chunks[leaf]))
                    except BadStruct as error:
                        raise damaged("parquet", f"column {shortened(name)!r} {error}", where) from None
                    total = _bytes_of(pages[name][-1], columns[leaf].physical_type) + (total if whole else 0)
                    check_bytes(total + pages[name][-1].largest, what, stored)
    return pages


def _leaves(paths: Sequence[str], names: Sequence[str]) -> dict[str, list[int]]:
    """Which of the file's columns belong to a column of the table: `embedding.list.element` to `embedding`."""
    leaves: dict[str, list[int]] = {name: [] for name in names}
    for i, path in enumerate(paths):
        parts = path.split(".")  # names may have dots in them
        for end in range(1, len(parts) + 1):
            if (name := ".".join(parts[:end])) in leaves:
                leaves[name].append(i)
    return leaves


def row_groups(path: str | Path, file: Any, where: str = "") -> list[RowGroup]:
    """The row groups in the footer of a file; each has all columns."""
    try:
        with open(path, "rb") as raw:
            groups = read_footer(raw, os.path.getsize(path))
    except BadStruct as error:
        raise damaged("parquet", f"its description {error}", where) from None
    if any(len(group.chunks) != file.metadata.num_columns for group in groups):
        raise damaged("parquet", "a row group does not have the columns of the table", where)
    if sum(group.rows for group in groups) != file.metadata.num_rows:
        raise damaged("parquet", "its row groups have more or fewer rows than it says", where)
    return groups


def check_once(present: Iterable[str], names: Iterable[str], where: str = "") -> None:
    """Raise if a column is there twice."""
    counts = Counter(present)
    for name in names:
        if counts[name] > 1:
            raise ValueError(f"{where}there is more than one column {shortened(name)!r}: rename all but one")


def check_flat(kind: Any, what: str) -> None:
    """Raise unless a column has one value a row."""
    if isinstance(kind, np.dtype):
        return
    import pyarrow.types as of

    kind = kind.value_type if of.is_dictionary(kind) else kind
    if of.is_nested(kind) or str(kind).startswith(SHARING):
        raise ValueError(f"{what} holds {shortened(str(kind))}: one text or number a row is needed")


def values_of(column: Any) -> list[Any]:
    """A column as Python's values; rows with the same text of a dictionary share one."""
    if isinstance(column, Column):
        return column.to_pylist()
    import pyarrow.types as of

    values: list[Any] = []
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        if of.is_dictionary(chunk.type):
            texts = chunk.dictionary.to_pylist()
            values += [None if code is None else texts[code] for code in chunk.indices.to_pylist()]
        else:
            values += chunk.to_pylist()
    return values


def _encodings(pages: Iterable[Pages]) -> frozenset[int]:
    return frozenset().union(*(chunk.encodings for chunk in pages))


def _bytes_of(pages: Pages, kind: str) -> int:
    """The bytes of a column in memory."""
    if kind == "BYTE_ARRAY":
        return pages.values * POINTER_BYTES + pages.unpacked
    return pages.values * (8 if kind in WIDE else 4)


def _footer_limits(path: str | Path) -> dict[str, int]:
    """Limits for the footer: a list cannot have more items than bytes, but Arrow reserves memory for any number."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{str(path)!r} is not a file")
    with open(path, "rb") as file:
        file.seek(max(0, status.st_size - 8))
        length = int.from_bytes(file.read(4), "little")
    length = min(length, status.st_size)
    check_bytes(length * FOOTER_EXPANSION, "the description of the table", status.st_size)
    return {
        "thrift_string_size_limit": max(length, 2**20),
        "thrift_container_size_limit": max(length // MIN_LIST_ITEM_BYTES, 1000),
    }


def _read_counted(file: Any, name: str, largest: int, stored: int, what: str) -> Any:
    """Read a column of texts of unknown length block by block, and check the sum."""
    import pyarrow as pa

    chunks: list[Any] = []
    total = 0
    for batch in file.iter_batches(max(1, BATCH_BYTES // max(1, largest)), columns=[name], use_threads=False):
        chunks.append(batch.column(0))
        total += batch.column(0).nbytes
        check_bytes(TEXT_EXPANSION * total, what, stored)
    return pa.chunked_array(chunks, file.schema_arrow.field(name).type)

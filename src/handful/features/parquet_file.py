"""Parquet files, and tables of Arrow, as columns and back. PyArrow is imported only where it is used.

Features are one column of lists, or one column for each feature.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from handful.features.feature_columns import (
    EMBEDDING,
    LABEL,
    OPTIONS,
    PATH,
    SPLIT,
    ColumnChoice,
    Content,
    check_header,
    listed,
    one_kind,
    require,
    to_columns,
)
from handful.features.labels import NDArray
from handful.features.table import FeatureTable
from handful.utils.columns import masked_numbers, object_array
from handful.utils.extras import need_pyarrow
from handful.utils.files import damaged, parse_json
from handful.utils.limits import check_bytes
from handful.utils.text import shortened

MEAN_KEY = b"handful.base_mean"  # in the metadata of a schema, where other tools ignore it: the mean of base classes
NAMES_KEY = b"handful.columns"  # ...: the names of the features
TEXT_KEY = b"handful.text"  # ...: the column of texts that the features were made of
ROWS_PER_GROUP = 2**16  # written

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
            yield file
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise damaged("parquet", error, where) from None


def read_arrow(path: str | Path, choose: Choose, where: str = "") -> Any:
    """Columns of a Parquet file as a `pyarrow.Table`; `choose` gives their names for a schema, or raises ValueError."""
    with open_parquet(path, where) as file:
        names = list(choose(file.schema_arrow))
        check_once(file.schema_arrow.names, names, where)
        groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
        chunks = [group.column(k) for group in groups for k in range(group.num_columns)]
        size = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.partition(".")[0] in names)
        check_bytes(size, f"{where}a table of {file.metadata.num_rows:,} rows")
        table = file.read(names)
        table.validate(full=True)  # Arrow does not check codes and offsets when it reads
    return table


def check_once(present: Iterable[str], names: Iterable[str], where: str = "") -> None:
    """Raise ValueError if one of the columns is there twice."""
    counts = Counter(present)
    for name in names:
        if counts[name] > 1:
            raise ValueError(f"{where}there is more than one column {shortened(name)!r}: rename all but one")


# ---- columns of Arrow


def columns_of(table: Any) -> dict[str, NDArray]:
    """A `pyarrow.Table` as columns: numbers as arrays, lists of numbers as [n, D], anything else as Python's values."""
    return {name: _column(column, name) for name, column in zip(table.column_names, table.columns, strict=True)}


def _column(column: Any, name: str) -> NDArray:
    import pyarrow as pa

    if is_list_of_numbers(column.type):
        return vectors_of(column, f"column {name!r}")
    if not is_number(column.type):
        return object_array(column.to_pylist())
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not column.null_count:
        return np.asarray(column.to_numpy())
    return masked_numbers(column.to_pylist(), column.type.to_pandas_dtype())


def vectors_of(column: Any, where: str) -> NDArray:
    """A column of lists as [n, D], copied."""
    import pyarrow.types as of

    check_vectors(column.type, where)
    if column.null_count:
        raise ValueError(f"{where} has no embedding in row {column.is_null().to_numpy().argmax()}: remove that row")
    kind = getattr(column.type, "storage_type", column.type).value_type
    dtype = np.float64 if of.is_float64(kind) or (of.is_integer(kind) and kind.bit_width > 16) else np.float32
    chunks = [getattr(chunk, "storage", chunk) for chunk in column.chunks if len(chunk)]
    if not chunks:
        return np.empty((0, 0), dtype)
    lengths = _joined(chunk.value_lengths() for chunk in chunks)
    width = int(lengths[0])
    if (lengths != width).any():
        row = int((lengths != width).argmax())
        odd = f"{where} has {width} numbers in row 0 but {lengths[row]} in row {row}"
        raise ValueError(f"{odd}: embeddings of one backbone have one length")
    numbers = [chunk.flatten() for chunk in chunks]
    if any(flat.null_count for flat in numbers):
        row, position = divmod(int(_joined(flat.is_null() for flat in numbers).argmax()), width)
        raise ValueError(f"{where} has no number in row {row}, position {position}: remove that row")
    return _joined(numbers).astype(dtype, copy=False).reshape(len(lengths), width)


def _joined(arrays: Iterable[Any]) -> NDArray:
    return np.concatenate([array.to_numpy(zero_copy_only=False) for array in arrays])


def check_vectors(kind: Any, where: str) -> None:
    """Raise ValueError unless a column of this `pyarrow.DataType` has a list of numbers in each row."""
    if not is_list_of_numbers(kind):
        raise ValueError(f"{where} holds {shortened(str(kind))}: a list of numbers in each row is needed")


def is_list_of_numbers(kind: Any) -> bool:
    """Whether a column of this `pyarrow.DataType` has a list of numbers in each row."""
    import pyarrow.types as of

    plain = getattr(kind, "storage_type", kind)  # of a tensor
    if not (of.is_list(plain) or of.is_large_list(plain) or of.is_fixed_size_list(plain)):
        return False
    return bool(of.is_floating(plain.value_type) or of.is_integer(plain.value_type))


def is_number(kind: Any) -> bool:
    """Whether a `pyarrow.DataType` is of numbers."""
    import pyarrow.types as of

    return bool(of.is_floating(kind) or of.is_integer(kind) or of.is_decimal(kind))


def is_carried(kind: Any) -> bool:
    """Whether a column of this `pyarrow.DataType` is carried along. Lists and pictures stay in their file."""
    import pyarrow.types as of

    kind = kind.value_type if of.is_dictionary(kind) else kind
    is_binary = of.is_binary(kind) or of.is_large_binary(kind) or of.is_fixed_size_binary(kind)
    return not (of.is_nested(kind) or is_binary or str(kind).startswith(("binary_view", "run_end", "extension")))


def arrow_table(columns: Mapping[str, NDArray]) -> Any:
    """A `pyarrow.Table` of columns."""
    import pyarrow as pa

    return pa.table({name: _arrow_array(values, name) for name, values in columns.items()})


def _arrow_array(values: NDArray, name: str) -> Any:
    import pyarrow as pa

    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    if values.dtype.kind != "O":
        return pa.array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))
    plain = one_kind(values, name).tolist()
    if all(value is None or isinstance(value, str) for value in plain):
        return pa.array(plain, pa.string())  # the type is given, because an empty list has none
    try:
        return pa.array(plain)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in plain], pa.string())


# ---- feature tables


def read_parquet(path: Path, choice: ColumnChoice) -> Content:
    """The columns of a table; lists and binary data beside the features stay in the file."""
    return content_of(read_feature_columns(path, choice))


def read_feature_columns(path: Path, choice: ColumnChoice, where: str = "") -> Any:
    """A `pyarrow.Table` of the features, labels, paths and splits, and of the columns that are carried along."""
    need_pyarrow("a Parquet file")
    import pyarrow.types as of

    def choose(schema: Any) -> list[str]:
        check_header(schema.names, choice)
        lists = [field.name for field in schema if is_list_of_numbers(field.type) and field.name != choice.label]
        has_embedding = choice.columns is None and (choice.embedding or EMBEDDING in schema.names)
        if has_embedding:
            require(schema.names, choice.embedding_column, f"{where}column", "embedding")
            kind = schema.field(choice.embedding_column).type
            if not is_carried(kind) or is_number(kind):  # else it may have JSON lists
                check_vectors(kind, f"{where}column {choice.embedding_column!r}")
        elif lists and choice.columns is None and NAMES_KEY not in (schema.metadata or {}):
            there = f"{where}there is no column {EMBEDDING!r}, only {listed(schema.names)}"
            advice = f"{listed(lists)} holds lists of numbers, name the right one with {OPTIONS['embedding']}"
            raise ValueError(f"{there}: {advice}")
        flat = {choice.label_column, PATH, SPLIT} & set(schema.names)
        for name in flat:
            if of.is_nested(kind := schema.field(name).type):
                kind = shortened(str(kind))
                raise ValueError(f"{where}column {name!r} holds {kind}: one text or number a row is needed")
        chosen = flat | ({choice.embedding_column} if has_embedding else set())
        return [field.name for field in schema if is_carried(field.type) or field.name in chosen]

    return read_arrow(path, choose, where)


def content_of(table: Any) -> Content:
    """The columns of a `pyarrow.Table`, and what its metadata say of them."""
    metadata = table.schema.metadata or {}
    columns, class_names = columns_of(table), _class_names(metadata)
    columns |= {name: _named(columns[name], class_names[name], name) for name in columns.keys() & class_names.keys()}
    names = metadata.get(NAMES_KEY)
    if names is not None:
        where = f"{NAMES_KEY.decode()} of the schema's metadata"
        names = parse_json(b'{"names": ' + names + b"}", where)["names"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{where} is not a list of texts: write the file again")
    text = metadata.get(TEXT_KEY, b"").decode("utf-8", "replace")
    return Content(columns, mean_of_metadata(metadata), names, text or None)


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """The names of classes by column, if Hugging Face `datasets` noted them."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        labels = {name: about for name, about in features.items() if about.get("_type") == "ClassLabel"}
        return {name: [str(each) for each in about["names"]] for name, about in labels.items()}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return {}


def _named(codes: NDArray, names: list[str], column: str) -> NDArray:
    """The names that codes of classes stand for; None for -1 and no code."""
    for row, code in enumerate(codes.tolist()):
        if code is not None and (not isinstance(code, int) or not -1 <= code < len(names)):
            what = f"column {column!r} has code {shortened(str(code))} in row {row}"
            raise ValueError(f"{what}, but there are {len(names)} names: label that row")
    return object_array(None if code in (None, -1) else names[code] for code in codes.tolist())


def mean_of_metadata(metadata: Mapping[bytes, bytes] | None) -> NDArray | None:
    """The mean of base classes in the metadata of a schema, or None."""
    text = (metadata or {}).get(MEAN_KEY)
    return None if text is None else mean_of_json(text, f"{MEAN_KEY.decode()} of the schema's metadata")


def mean_of_json(text: str | bytes, where: str) -> NDArray:
    """The mean that `mean_to_json` wrote; `where` names the place in errors."""
    try:
        return np.asarray(parse_json(text, where)["base_mean"], np.float64)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{where} holds no base mean, or is damaged: {shortened(str(error), 200)}") from None


def mean_to_json(mean: NDArray) -> str:
    """JSON has the digits of float64, so every float32 comes back exactly."""
    return json.dumps({"base_mean": mean.tolist()})


def write_parquet(table: FeatureTable, path: Path) -> None:
    """Features that had a column each get one again."""
    with path.open("wb") as file:
        write_rows(table, file)


def write_rows(table: FeatureTable, file: IO[bytes], metadata: Mapping[bytes, bytes] | None = None) -> None:
    """Write a table as Parquet, with metadata for its header."""
    need_pyarrow("a Parquet file")
    from pyarrow import parquet

    content = to_columns(table)
    columns, about = dict(content.columns), dict(metadata or {})
    beside = [name for name in columns if name != EMBEDDING]
    if content.names is not None:
        about[NAMES_KEY] = json.dumps(list(content.names)).encode()
        if len(set(content.names) - {*beside, LABEL, PATH, SPLIT, EMBEDDING}) == len(content.names):
            del columns[EMBEDDING]
            columns |= {name: table.features[:, i] for i, name in enumerate(content.names)}
    if content.base_mean is not None:
        about[MEAN_KEY] = mean_to_json(content.base_mean).encode()
    if content.text is not None:
        about[TEXT_KEY] = content.text.encode()
    rows = arrow_table(columns).replace_schema_metadata(about or None)
    parquet.write_table(rows, file, compression="zstd", use_dictionary=beside, row_group_size=ROWS_PER_GROUP)

"""Tables of Arrow to tables of columns, and back. PyArrow is imported only where it is used."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from handful.features.base_mean import MEAN_KEY, mean_to_json
from handful.features.labels import NDArray
from handful.features.table import FeatureTable, free_name
from handful.utils.columns import Column, ColumnTable, object_array
from handful.utils.limits import check_bytes
from handful.utils.text import shortened

EMBEDDING, LABEL, PATH, SPLIT = "embedding", "label", "path", "split"
TEXT_KEY = b"handful.text"  # in the metadata of a schema: the column of texts from which the features were made
COLUMNS_KEY = b"handful.columns"  # in the metadata of a schema: the names of the features
SHARING = ("string_view", "binary_view", "run_end_encoded")  # types whose rows can share values


# ---- from Arrow


def columns_of(table: Any) -> ColumnTable:
    """A `pyarrow.Table` as columns: numbers as arrays, lists of numbers as [n, D], anything else as Python's values."""
    columns = [_column(column, name) for column, name in zip(table.columns, table.column_names, strict=True)]
    return ColumnTable(table.column_names, columns, table.schema.metadata)


def _column(column: Any, name: str) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_list_of_numbers(column.type):
        return Column(vectors_of(column, f"column {name!r}"))
    if not is_number(column.type):
        return Column(object_array(values_of(column)))
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not column.null_count:
        return Column(np.asarray(column.to_numpy()))
    mask = np.asarray(pc.is_null(column).to_numpy())
    return Column(np.ma.array(np.asarray(pc.fill_null(column, 0).to_numpy()), mask=mask))


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


def vectors_of(column: Any, where: str) -> NDArray:
    """A column of lists as [n, D]. It is copied, so that the array is contiguous and writable."""
    import pyarrow.compute as pc

    kind = check_vectors(column.type, where)
    if column.null_count:
        raise ValueError(f"{where} has no embedding in row {_first_null(column)}: remove that row")
    chunks = [getattr(chunk, "storage", chunk) for chunk in column.chunks if len(chunk)]
    width = pc.list_value_length(chunks[0])[0].as_py() if chunks else 0
    dtype = np.dtype(_precision(kind.value_type))
    check_bytes(len(column) * width * dtype.itemsize, where)
    vectors: NDArray = np.empty((len(column), width), dtype)
    start = 0
    for chunk in chunks:
        lengths = pc.list_value_length(chunk).to_numpy(zero_copy_only=False)
        if (lengths != width).any():
            at = int((lengths != width).argmax())
            raise ValueError(
                f"{where} has {width} numbers in row 0 but {lengths[at]} in row {start + at}: embeddings of one "
                "backbone have one length"
            )
        flat = chunk.flatten()
        if flat.null_count:
            row, position = divmod(_first_null(flat), width)
            raise ValueError(f"{where} has no number in row {start + row}, position {position}: remove that row")
        vectors[start : start + len(chunk)] = flat.to_numpy(zero_copy_only=False).reshape(len(chunk), width)
        start += len(chunk)
    return vectors


def _first_null(column: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.index(pc.is_null(column), True).as_py())


def _precision(kind: Any) -> type:
    """float64 where float32 would lose digits."""
    import pyarrow.types as of

    return np.float64 if of.is_float64(kind) or (of.is_integer(kind) and kind.bit_width > 16) else np.float32


# ---- types


def check_vectors(kind: Any, where: str) -> Any:
    """The type of a column of lists of numbers, without the name that a tensor type gives it; others are refused."""
    if not is_list_of_numbers(kind):
        raise ValueError(f"{where} holds {shortened(str(kind))}: a list of numbers in each row is needed")
    return getattr(kind, "storage_type", kind)


def is_list_of_numbers(kind: Any) -> bool:
    """Whether a column of this `pyarrow.DataType` has a list of numbers in each row."""
    import pyarrow.types as of

    plain = getattr(kind, "storage_type", kind)
    if not (of.is_list(plain) or of.is_large_list(plain) or of.is_fixed_size_list(plain)):
        return False
    return bool(of.is_floating(plain.value_type) or of.is_integer(plain.value_type))


def is_number(kind: Any) -> bool:
    """Whether a `pyarrow.DataType` is of numbers."""
    import pyarrow.types as of

    return bool(of.is_floating(kind) or of.is_integer(kind) or of.is_decimal(kind))


def is_text(kind: Any) -> bool:
    """Whether a `pyarrow.DataType` is of texts."""
    import pyarrow.types as of

    kind = kind.value_type if of.is_dictionary(kind) else kind
    return bool(of.is_string(kind) or of.is_large_string(kind))


def is_carried(kind: Any) -> bool:
    """Whether a column of this `pyarrow.DataType` is carried along. Lists and pictures stay in their file."""
    import pyarrow.types as of

    kind = kind.value_type if of.is_dictionary(kind) else kind
    if of.is_nested(kind) or of.is_binary(kind) or of.is_large_binary(kind) or of.is_fixed_size_binary(kind):
        return False
    return not str(kind).startswith((*SHARING, "extension"))


# ---- to Arrow


def beside_features(table: FeatureTable) -> dict[str, Any]:
    """Labels, paths, splits and other columns, by the names that they have in files.

    Unlabelled is None among texts and -1 among numbers.
    """
    data: dict[str, Any] = {}
    for name, values in ((LABEL, table.labels), (PATH, table.paths), (SPLIT, table.splits)):
        if values is not None:
            data[name] = values if values.dtype.kind == "i" else _valid_texts(values.tolist(), name)
    for name, values in table.others.items():
        data[free_name(name, (EMBEDDING, LABEL, PATH, SPLIT, *data))] = one_kind(values, name)
    return data


def one_kind(values: NDArray, name: str) -> NDArray:
    """Another column as it is written; values that have no common type become texts."""
    if values.dtype.kind != "O":
        return values
    plain = values.tolist()
    kinds = {type(value) for value in plain} - {type(None)}
    if kinds <= {str}:
        return _valid_texts(plain, f"column {name!r}: the text")
    if len(kinds) == 1 or kinds == {int, float}:
        return values
    return _valid_texts([None if value is None else str(value) for value in plain], f"column {name!r}: the text")


def _valid_texts(values: list[str | None], what: str) -> NDArray:
    """An array of Python texts; ValueError for one that UTF-8 cannot hold."""
    for row, value in enumerate(values):
        try:
            (value or "").encode()
        except UnicodeEncodeError:
            raise ValueError(f"{what} {value!r} of row {row} is not valid Unicode: rename it, or write .npz") from None
    return object_array(values)


def to_arrow(table: FeatureTable, *, as_list: bool = True) -> Any:
    """A `pyarrow.Table` with a column of lists, or with a column for each feature; names of features in its schema."""
    import pyarrow as pa

    rows = {name: arrow_array(Column(values), name) for name, values in beside_features(table).items()}
    data: dict[str, Any] = {}
    if as_list:
        flat = pa.array(table.features.ravel())
        data[EMBEDDING] = pa.FixedSizeListArray.from_arrays(flat, table.dimension)
    data |= rows
    if not as_list:
        data |= {name: table.features[:, i] for i, name in enumerate(table.columns or ())}
    metadata: dict[bytes, bytes] = {}
    if table.base_mean is not None:
        metadata[MEAN_KEY] = mean_to_json(table.base_mean).encode()
    if table.columns is not None:
        metadata[COLUMNS_KEY] = json.dumps(list(table.columns)).encode()
    if table.texts is not None and table.source.get("text") in rows:
        metadata[TEXT_KEY] = table.source["text"].encode()
    return pa.table(data).replace_schema_metadata(metadata or None)


def arrow_table(table: ColumnTable) -> Any:
    """A `pyarrow.Table` of a `ColumnTable`."""
    import pyarrow as pa

    columns = zip(table.columns, table.column_names, strict=True)
    return pa.table([arrow_array(column, name) for column, name in columns], names=table.column_names)


def arrow_array(column: Column, name: str) -> Any:
    """A column as an Arrow array."""
    import pyarrow as pa

    values = column.values
    if values.dtype.kind != "O":
        return pa.array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))
    plain = one_kind(values, name).tolist()
    if all(value is None or isinstance(value, str) for value in plain):
        return pa.array(plain, pa.string())  # the type is given, because an empty list has none
    try:
        return pa.array(plain)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in plain], pa.string())

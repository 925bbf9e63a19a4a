"""Tables to feature tables and back: what Parquet files, CSV files and folders of `datasets` share.

A table is a `pyarrow.Table`; or a `ColumnTable`, whose types are NumPy's, where a CSV file is read without PyArrow.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import as_features
from handful.features.base_mean import MEAN_KEY, mean_of_schema, mean_to_json
from handful.features.file_checks import OPTIONS, ColumnChoice, class_names, listed, parse_json, require
from handful.features.labels import NDArray, check_missing_words, clean_labels
from handful.features.number_columns import columns_of_numbers, is_number, is_text
from handful.features.parquet_file import SHARING, check_flat, values_of
from handful.features.table import FeatureTable, free_name
from handful.utils.columns import Column, ColumnTable, object_array
from handful.utils.limits import check_bytes
from handful.utils.text import shortened

ONE_LENGTH = "embeddings of one backbone have one length"
TEXT_KEY = b"handful.text"  # in the metadata of a schema: the column of texts from which the features were made
COLUMNS_KEY = b"handful.columns"  # in the metadata of a schema: the names of the features
MAX_NAME_LETTERS = 10_000  # of a column
EMBEDDING, LABEL, PATH, SPLIT = "embedding", "label", "path", "split"


def from_arrow(
    table: Any, choice: ColumnChoice, *, more: Any = None, stored: int | None = None, about: Any = None
) -> FeatureTable:
    """A feature table of a `pyarrow.Table` or a `ColumnTable`.

    Parameters
    ----------
    table : has the features, and labels, paths and splits as far as there are any.
    more : a `pyarrow.Table` of the other columns, if they are not in `table`.
    stored : bytes of the file that the table was read from, if that is one file.
    about : what `datasets` knows of the columns; in Parquet files that it wrote it is in the schema.
    """
    about = about_columns(table.schema) if about is None else about
    if not isinstance(about, dict):
        raise ValueError(f"what `datasets` noted of the columns is a {type(about).__name__}, not an object")
    if long := [name for name in table.column_names if len(name) > MAX_NAME_LETTERS]:
        raise ValueError(f"the name of column {shortened(long[0])!r} has {len(long[0]):,} letters: rename it")
    choice = with_stored_columns(choice, table.schema)
    label = choice.label_column
    flat = {name: name for name in (PATH, SPLIT) if name in table.column_names} | (
        {LABEL: label} if label in table.column_names else {}
    )
    for name in flat.values():
        check_flat(table.schema.field(name).type, f"column {name!r}")
    features, columns, set_aside = _features(table, choice, stored)
    values = {key: _values(table.column(name), about.get(name), name) for key, name in flat.items()}
    for key in values.keys() & {PATH, SPLIT}:  # numbers that name rows
        values[key] = [str(value) if isinstance(value, float) and value == value else value for value in values[key]]
    labels = None if LABEL not in values else clean_labels(_plain_labels(values[LABEL]))
    if labels is not None and not _has_class_names(about.get(label)):
        check_missing_words(labels)
    used = {*flat.values(), *(columns or (choice.embedding_column,))}
    others = other_columns(table, used, about) | ({} if more is None else other_columns(more, used, about))
    return FeatureTable(
        features, labels, values.get(PATH), values.get(SPLIT), base_mean=mean_of_schema(table.schema),
        columns=columns if columns is not None else _stored_columns(table.schema, features.shape[1]), others=others,
        set_aside=set_aside, **_texts(table.schema, others),
    )  # fmt: skip


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


def with_stored_columns(choice: ColumnChoice, schema: Any) -> ColumnChoice:
    """The choice, with the feature columns that a table of columns itself names, unless the user names others."""
    names = _stored_columns(schema)
    is_chosen = choice.columns is not None or choice.embedding is not None or choice.exclude
    if names is None or is_chosen or choice.embedding_column in schema.names:
        return choice
    return replace(choice, columns=tuple(names))


def is_wide(schema: Any, choice: ColumnChoice, where: str = "") -> bool:
    """Whether features are columns of numbers, and not a column of lists; ValueError if neither is clear."""
    if choice.columns is not None:
        return True
    if choice.embedding is not None or choice.embedding_column in schema.names:
        require(schema.names, choice.embedding_column, f"{where}column", "embedding")
        return False
    lists = [f.name for f in schema if is_list_of_numbers(f.type) and f.name != choice.label]
    if lists:
        raise ValueError(
            f"{where}there is no column {EMBEDDING!r}, only {listed(schema.names)}: {listed(lists)} holds lists of "
            f"numbers, name the right one with {OPTIONS['embedding']}"
        )
    return True


def other_columns(table: Any, used: set[str], about: Any = None) -> dict[str, NDArray]:
    """The columns of a `pyarrow.Table` that are carried along: one text, number or date a row."""
    others: dict[str, NDArray] = {}
    for column_field, column in zip(table.schema, table.columns, strict=True):
        if column_field.name in used or not is_carried(column_field.type):
            continue
        name = free_name(column_field.name.strip() or "index", others)
        if is_number(column_field.type) and not column.null_count and "decimal" not in str(column_field.type):
            others[name] = column.to_numpy()
        else:
            values = _values(column, (about or {}).get(column_field.name), column_field.name)
            others[name] = np.empty(len(values), object)
            others[name][:] = values
    return others


def is_carried(kind: Any) -> bool:
    """Whether a column of this `pyarrow.DataType` is carried along. Lists and pictures stay in their file."""
    if isinstance(kind, np.dtype):
        return True
    import pyarrow.types as of

    kind = kind.value_type if of.is_dictionary(kind) else kind
    if of.is_nested(kind) or of.is_binary(kind) or of.is_large_binary(kind) or of.is_fixed_size_binary(kind):
        return False
    return not str(kind).startswith((*SHARING, "extension"))


def check_vectors(kind: Any, where: str) -> Any:
    """The type of a column of lists of numbers, without the name that a tensor type gives it; others are refused."""
    if not is_list_of_numbers(kind):
        raise ValueError(f"{where} holds {shortened(str(kind))}: a list of numbers in each row is needed")
    return getattr(kind, "storage_type", kind)


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
                f"{where} has {width} numbers in row 0 but {lengths[at]} in row {start + at}: {ONE_LENGTH}"
            )
        flat = chunk.flatten()
        if flat.null_count:
            row, position = divmod(_first_null(flat), width)
            raise ValueError(f"{where} has no number in row {start + row}, position {position}: remove that row")
        vectors[start : start + len(chunk)] = flat.to_numpy(zero_copy_only=False).reshape(len(chunk), width)
        start += len(chunk)
    return vectors


def _features(table: Any, choice: ColumnChoice, stored: int | None) -> tuple[NDArray, list[str] | None, list[str]]:
    """Features [n, D], the names of their columns if each has one, and the columns that look like something else."""
    name = choice.embedding_column
    if not table.num_rows:
        raise ValueError("features is empty: the table has no rows")
    if is_wide(table.schema, choice):
        numbers = columns_of_numbers(table, choice, stored)
        if not numbers.names:
            raise ValueError(
                f"there is no column {name!r} and no column of numbers, only {listed(table.column_names)}: name the "
                f"right one with {OPTIONS['embedding']}"
            )
        return to_numpy(as_features(numbers.values, "features")), numbers.names, numbers.set_aside
    if is_text(table.schema.field(name).type):
        return _parsed(values_of(table[name]), name, stored), None, []
    return to_numpy(as_features(vectors_of(table[name], f"column {name!r}"), "features")), None, []


def _parsed(texts: list[Any], name: str, stored: int | None) -> NDArray:
    """[n, D] from JSON lists; a text that occurs in several rows is parsed once."""
    rows: dict[Any, NDArray] = {}
    width = -1
    for i, text in enumerate(texts):
        if text in rows:
            continue
        try:
            row = np.asarray(json.loads(text))
        except (TypeError, ValueError, RecursionError):
            row = np.empty(0)
        if row.ndim != 1 or row.dtype.kind not in "iuf" or not len(row):
            raise ValueError(f"column {name!r} is text, but not a JSON list of numbers in row {i}")
        width = len(row) if width < 0 else width
        if len(row) != width:
            raise ValueError(f"column {name!r} has {width} numbers in row 0 but {len(row)} in row {i}")
        if not rows:
            check_bytes(8 * width * len(texts), f"column {name!r}", stored)
        rows[text] = row
    return np.stack([rows[text] for text in texts]).astype(np.float64)


def _texts(schema: Any, others: dict[str, NDArray]) -> dict[str, Any]:
    """The texts from which the features were made, if the file says which column holds them."""
    name = (schema.metadata or {}).get(TEXT_KEY, b"").decode("utf-8", "replace")
    if name not in others:
        return {}
    return {"texts": [value if isinstance(value, str) else "" for value in others[name]], "source": {"text": name}}


def about_columns(schema: Any) -> Any:
    """What `datasets` noted of the columns in the schema of a Parquet file: an object, empty if it did not write it."""
    text = (schema.metadata or {}).get(b"huggingface")
    content = {} if text is None else parse_json(text, "the schema's metadata `huggingface`")
    info = content.get("info", {})
    if not isinstance(info, dict):
        raise ValueError("the schema's metadata `huggingface` has no object `info`: write the file again")
    return info.get("features") or {}


def _stored_columns(schema: Any, dimension: int | None = None) -> list[str] | None:
    text = (schema.metadata or {}).get(COLUMNS_KEY)
    if text is None:
        return None
    where = f"{COLUMNS_KEY.decode()} of the schema's metadata"
    try:
        names = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON, or is damaged: {shortened(str(error), 200)}") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{where} is not a list of texts: write the file again")
    return names if dimension is None or len(names) == dimension else None


def is_list_of_numbers(kind: Any) -> bool:
    """Whether a column of this `pyarrow.DataType` has a list of numbers in each row."""
    if isinstance(kind, np.dtype):
        return False
    import pyarrow.types as of

    plain = getattr(kind, "storage_type", kind)
    if not (of.is_list(plain) or of.is_large_list(plain) or of.is_fixed_size_list(plain)):
        return False
    return bool(of.is_floating(plain.value_type) or of.is_integer(plain.value_type))


def _precision(kind: Any) -> type:
    """float64 where float32 would lose digits."""
    import pyarrow as pa

    return (
        np.float64 if pa.types.is_float64(kind) or (pa.types.is_integer(kind) and kind.bit_width > 16) else np.float32
    )


def _has_class_names(about: Any) -> bool:
    return isinstance(about, dict) and about.get("_type") == "ClassLabel" and bool(about.get("names"))


def _values(column: Any, about: Any, name: str) -> list[Any]:
    values = values_of(column)
    if _has_class_names(about):
        return list(class_names(values, about["names"], f"column {name!r}", unlabelled=-1))
    return values


def _plain_labels(values: list[Any]) -> list[Any]:
    """True and False, dates and the like as texts."""
    plain = (str, bytes, int, float, type(None))
    return [value if isinstance(value, plain) and not isinstance(value, bool) else str(value) for value in values]


def _valid_texts(values: list[str | None], what: str) -> NDArray:
    """An array of Python texts; ValueError for one that UTF-8 cannot hold."""
    for row, value in enumerate(values):
        try:
            (value or "").encode()
        except UnicodeEncodeError:
            raise ValueError(f"{what} {value!r} of row {row} is not valid Unicode: rename it, or write .npz") from None
    return object_array(values)


def _first_null(column: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.index(pc.is_null(column), True).as_py())

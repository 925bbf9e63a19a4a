"""Feature sets as tables: Parquet, and folders as Hugging Face `datasets` saves them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from handful.core.checks import shortened
from handful.features.arrow_stream import read_stream
from handful.features.columns import (
    BASE_MEAN,
    Columns,
    coded,
    inside,
    mean_from_json,
    mean_of_folder,
    mean_to_json,
    named,
    parse_json,
    read_json,
    require,
)
from handful.features.parquet_file import check_flat, check_once, read_columns, values_of
from handful.utils.limits import check_bytes

ONE_LENGTH = "embeddings of one backbone have one length"
MEAN = b"handful.base_mean"  # its key in the metadata of a table's schema, which tools that do not know it pass over


# ---- .parquet


def read_parquet(path: Path, embedding: str, label: str, where: str = "") -> Columns:
    return from_arrow(read_set(path, embedding, label, where), embedding, label)


def read_set(path: Path, embedding: str, label: str, where: str = "") -> Any:
    """The columns of a feature set in a Parquet file; others, pictures perhaps, stay on disk."""
    flat = (label, "path", "split")

    def choose(schema: Any) -> list[str]:
        require(schema.names, (embedding, label), f"{where}column")
        check_vectors(schema.field(embedding).type, f"{where}column {embedding!r}")
        return [embedding, *flat]

    return read_columns(path, choose, flat, where)


def write_parquet(columns: Columns, path: Path) -> None:
    with path.open("wb") as file:
        write_table(columns, file)


def write_table(columns: Columns, file: IO[bytes], metadata: dict[bytes, bytes] | None = None) -> None:
    from pyarrow import parquet

    mean = {} if columns.base_mean is None else {MEAN: mean_to_json(columns.base_mean).encode()}
    table = _to_arrow(columns).replace_schema_metadata({**(metadata or {}), **mean} or None)
    names = [name for name in table.column_names if name != "embedding"]
    parquet.write_table(table, file, compression="zstd", use_dictionary=names, row_group_size=2**16)


# ---- a folder as Hugging Face `datasets` saves it


def read_dataset(path: Path, embedding: str, label: str) -> Columns:
    import pyarrow as pa

    if (path / "dataset_dict.json").is_file():
        parts = shortened(str(read_json(path / "dataset_dict.json").get("splits")), 200)
        raise ValueError(f"the folder holds several datasets: give the folder of one of them in it, {parts}")
    for needed in ("state.json", "dataset_info.json"):
        if not (path / needed).is_file():
            raise ValueError(
                f"the folder is no Hugging Face dataset, {needed} is missing: give a folder that save_to_disk of "
                "`datasets` wrote, or a file of features"
            )
    state = read_json(path / "state.json")
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise ValueError(
            "the dataset is a selection kept apart from its rows: call flatten_indices() and save it again"
        )
    try:
        files = [path / inside(entry["filename"]) for entry in state["_data_files"]]
    except (KeyError, TypeError):
        files = []
    if not files:
        raise ValueError("state.json names no data files: the dataset is empty")
    if len(set(files)) < len(files):
        raise ValueError("state.json names a data file twice: save the dataset again")
    tables = []
    for file in files:
        if not file.is_file():
            raise ValueError(f"{shortened(file.name)} is missing, which state.json names: the dataset is incomplete")
        tables.append(read_stream(file))
    check_bytes(sum(table.nbytes for table in tables), "the dataset")
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowException as error:
        raise ValueError(f"the data files have different columns: {shortened(str(error), 200)}") from None
    require(table.column_names, (embedding, label), "column")
    check_once(table.column_names, ("path", "split"))
    features = read_json(path / "dataset_info.json").get("features")
    read = from_arrow(table, embedding, label, features)
    return read._replace(base_mean=mean_of_folder(path))


def write_dataset(columns: Columns, path: Path) -> None:
    import pyarrow as pa

    names, codes = coded(columns.labels)
    table = _to_arrow(columns._replace(labels=codes))
    value = {"dtype": str(columns.features.dtype), "_type": "Value"}
    features: dict[str, Any] = {
        "embedding": {"feature": value, "length": columns.features.shape[1], "_type": "Sequence"},
        "label": {"dtype": "int64", "_type": "Value"} if names is None else {"names": names, "_type": "ClassLabel"},
    }
    features |= {name: {"dtype": "string", "_type": "Value"} for name in table.column_names[2:]}
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    file = "data-00000-of-00001.arrow"
    path.mkdir()
    with (path / file).open("wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=1000)  # as `datasets` does: it finds rows by their batch
    content = hashlib.blake2b(columns.features.data, digest_size=8)
    content.update(json.dumps([features, table.drop_columns(["embedding"]).to_pydict()]).encode())
    state: dict[str, Any] = {
        "_data_files": [{"filename": file}],
        "_fingerprint": content.hexdigest(),  # `datasets` keys its caches by it
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    for name, what in (("state.json", state), ("dataset_info.json", info)):
        (path / name).write_text(json.dumps(what, indent=2, sort_keys=True), encoding="utf-8")
    if columns.base_mean is not None:  # beside them: `datasets` drops whatever it does not know from its own files
        (path / BASE_MEAN).write_text(mean_to_json(columns.base_mean), encoding="utf-8")


# ---- Arrow tables, for both of the above


def from_arrow(table: Any, embedding: str, label: str, features: Any = None) -> Columns:
    """`features` is what `datasets` knows of the columns; in parquet files of its making it is in the schema."""
    if features is None:
        features = _features_of_schema(table.schema)
    if not isinstance(features, dict):
        raise ValueError(f"what `datasets` noted of the columns is a {type(features).__name__}, not an object")
    names = [name for name in (label, "path", "split") if name in table.column_names]
    for name in names:
        check_flat(table.schema.field(name).type, f"column {name!r}")
    labels = table.column(label)
    if labels.null_count:
        raise ValueError(f"column {label!r} has no label in row {_first_null(labels)}: label that row or remove it")
    vectors = vectors_of(table.column(embedding), f"column {embedding!r}")
    read = {name: _values(table.column(name), features.get(name), name) for name in names}
    return Columns(vectors, read[label], read.get("path"), read.get("split"), mean_of_schema(table.schema))


def _features_of_schema(schema: Any) -> Any:
    text = (schema.metadata or {}).get(b"huggingface")
    content = {} if text is None else parse_json(text, "the schema's metadata `huggingface`")
    info = content.get("info", {})
    if not isinstance(info, dict):
        raise ValueError("the schema's metadata `huggingface` has no object `info`: write the file anew")
    return info.get("features") or {}


def mean_of_schema(schema: Any) -> np.ndarray | None:
    """The mean of the base classes that a Parquet file carries, or None."""
    text = (schema.metadata or {}).get(MEAN)
    return None if text is None else mean_from_json(text, f"{MEAN.decode()} of the schema's metadata")


def check_vectors(kind: Any, where: str) -> Any:
    """The type of a column of lists of numbers, without the name that a tensor type gives it; others are refused."""
    import pyarrow.types as of

    plain = getattr(kind, "storage_type", kind)
    lists = of.is_list(plain) or of.is_large_list(plain) or of.is_fixed_size_list(plain)
    if not lists or not (of.is_floating(plain.value_type) or of.is_integer(plain.value_type)):
        raise ValueError(f"{where} holds {shortened(str(kind))}: a list of numbers in each row is needed")
    return plain


def vectors_of(column: Any, where: str) -> np.ndarray:
    """A column of lists as [n, D]. Copied chunk by chunk: the array is then ours, whole and writable."""
    import pyarrow.compute as pc

    kind = check_vectors(column.type, where)
    if column.null_count:
        raise ValueError(f"{where} has no embedding in row {_first_null(column)}: remove that row")
    chunks = [getattr(chunk, "storage", chunk) for chunk in column.chunks if len(chunk)]
    width = pc.list_value_length(chunks[0])[0].as_py() if chunks else 0
    dtype = np.dtype(_precision(kind.value_type))
    check_bytes(len(column) * width * dtype.itemsize, where)
    vectors = np.empty((len(column), width), dtype)
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


def _precision(kind: Any) -> type:
    """float64 where float32 would lose digits."""
    import pyarrow as pa

    return (
        np.float64 if pa.types.is_float64(kind) or (pa.types.is_integer(kind) and kind.bit_width > 16) else np.float32
    )


def _values(column: Any, feature: Any, name: str) -> list[Any]:
    values = values_of(column)
    if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and feature.get("names"):
        return named(values, feature["names"], f"column {name!r}")
    return values


def _to_arrow(columns: Columns) -> Any:
    import pyarrow as pa

    features = columns.features
    data = {
        "embedding": pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), features.shape[1]),
        "label": _texts(columns.labels, "label"),
        "path": columns.paths if columns.paths is None else _texts(columns.paths, "path"),
        "split": columns.splits if columns.splits is None else _texts(columns.splits, "split"),
    }
    return pa.table({name: values for name, values in data.items() if values is not None})


def _texts(values: np.ndarray, what: str) -> Any:
    """As Python's own: Arrow would end NumPy's strings at a zero character."""
    import pyarrow as pa

    plain = values.tolist()
    for row, value in enumerate(plain if values.dtype.kind == "U" else ()):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{what} {value!r} of row {row} is no valid Unicode: rename it, or write .npz") from None
    return pa.array(plain, pa.string() if values.dtype.kind == "U" else None)  # said, as no values have no type


def _first_null(column: Any) -> int:
    import pyarrow.compute as pc

    return pc.index(pc.is_null(column), True).as_py()

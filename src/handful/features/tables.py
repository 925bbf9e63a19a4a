"""Feature sets as tables: Parquet, and folders as Hugging Face `datasets` saves them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from handful.features.columns import (
    BASE_MEAN,
    Columns,
    coded,
    damaged,
    inside,
    mean_from_json,
    mean_of_folder,
    mean_to_json,
    named,
    read_json,
    require,
)

ONE_LENGTH = "embeddings of one backbone have one length"
MEAN = b"handful.base_mean"  # its key in the metadata of a table's schema, which tools that do not know it pass over


# ---- .parquet


def read_parquet(path: Path, embedding: str, label: str) -> Columns:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            names = file.schema_arrow.names
            wanted = [name for name in (embedding, label, "path", "split") if name in names]
            table = file.read(columns=wanted)  # other columns, pictures perhaps, stay on disk
    except (pa.ArrowException, OSError) as error:
        raise damaged("parquet", error) from None
    return from_arrow(table, names, embedding, label)


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
        parts = read_json(path / "dataset_dict.json").get("splits")
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
    tables = []
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file.name} is missing, which state.json names: the dataset is incomplete")
        try:
            with pa.memory_map(str(file)) as source:
                tables.append(pa.ipc.open_stream(source).read_all())
            tables[-1].validate(full=True)  # Arrow trusts a file's offsets: wrong ones would end the process
        except (pa.ArrowException, OSError) as error:
            raise damaged(f"{file.name}: Arrow", error) from None
    table = pa.concat_tables(tables)
    features = read_json(path / "dataset_info.json").get("features")
    read = from_arrow(table, table.column_names, embedding, label, features)
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


def from_arrow(
    table: Any, names: list[str], embedding: str, label: str, features: dict[str, Any] | None = None
) -> Columns:
    """`features` is what `datasets` knows of the columns; in parquet files of its making it is in the schema."""
    require(names, (embedding, label), "column")
    if features is None and b"huggingface" in (table.schema.metadata or {}):
        features = json.loads(table.schema.metadata[b"huggingface"]).get("info", {}).get("features")
    features = features or {}
    vectors = vectors_of(table.column(embedding), f"column {embedding!r}")
    labels = table.column(label)
    if labels.null_count:
        raise ValueError(f"column {label!r} has no label in row {_first_null(labels)}: label that row or remove it")
    read = {name: _values(table.column(name), features.get(name), name) for name in {label, "path", "split"} & {*names}}
    return Columns(vectors, read[label], read.get("path"), read.get("split"), mean_of_schema(table.schema))


def mean_of_schema(schema: Any) -> np.ndarray | None:
    """The mean of the base classes that a Parquet file carries, or None."""
    text = (schema.metadata or {}).get(MEAN)
    return None if text is None else mean_from_json(text, f"{MEAN.decode()} of the schema's metadata")


def vectors_of(column: Any, where: str) -> np.ndarray:
    """A column of lists as [n, D]. Copied chunk by chunk: the array is then ours, whole and writable."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = getattr(column.type, "storage_type", column.type)  # a tensor type is a list underneath
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not lists or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise ValueError(f"{where} holds {column.type}: a list of numbers in each row is needed")
    if column.null_count:
        raise ValueError(f"{where} has no embedding in row {_first_null(column)}: remove that row")
    chunks = [getattr(chunk, "storage", chunk) for chunk in column.chunks if len(chunk)]
    width = pc.list_value_length(chunks[0])[0].as_py() if chunks else 0
    vectors = np.empty((len(column), width), _precision(kind.value_type))
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


def _values(column: Any, feature: dict[str, Any] | None, name: str) -> list[Any]:
    values = column.to_pylist()
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

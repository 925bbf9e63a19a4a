"""Feature tables in folders as Hugging Face `datasets` saves them: an Arrow stream with two JSON files beside it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from handful.features.arrow_stream import read_stream
from handful.features.arrow_table import EMBEDDING, LABEL, PATH, SPLIT, from_arrow, to_arrow
from handful.features.base_mean import BASE_MEAN, mean_of_folder, mean_to_json
from handful.features.file_checks import ColumnChoice, inside, read_json
from handful.features.parquet_file import check_once
from handful.features.table import FeatureTable
from handful.utils.extras import need_pyarrow
from handful.utils.limits import check_bytes
from handful.utils.text import shortened

DATA_FILE = "data-00000-of-00001.arrow"
ROWS_PER_BATCH = 1000  # as `datasets` does: it finds rows by their batch


def read_dataset(path: Path, choice: ColumnChoice) -> FeatureTable:
    """Read a folder that Hugging Face `datasets` saved."""
    need_pyarrow("a folder of Hugging Face `datasets`")
    import pyarrow as pa

    if (path / "dataset_dict.json").is_file():
        parts = shortened(str(read_json(path / "dataset_dict.json").get("splits")), 200)
        raise ValueError(f"the folder holds several datasets: give the folder of one of them in it, {parts}")
    for needed in ("state.json", "dataset_info.json"):
        if not (path / needed).is_file():
            raise ValueError(
                f"the folder is not a Hugging Face dataset, {needed} is missing: give a folder that save_to_disk of "
                "`datasets` wrote, or a file of features"
            )
    tables = [read_stream(file) for file in _data_files(path)]
    check_bytes(sum(table.nbytes for table in tables), "the dataset")
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowException as error:
        raise ValueError(f"the data files have different columns: {shortened(str(error), 200)}") from None
    choice.check_label(table.column_names, "column")
    check_once(table.column_names, (choice.embedding_column, PATH, SPLIT))
    read = from_arrow(table, choice, about=read_json(path / "dataset_info.json").get("features"))
    mean = mean_of_folder(path)
    return read if mean is None else read.replace(base_mean=mean)


def write_dataset(table: FeatureTable, path: Path) -> None:
    """Write a folder that Hugging Face `datasets` loads."""
    need_pyarrow("a folder of Hugging Face `datasets`")
    import pyarrow as pa

    content = to_arrow(table)
    value = {"dtype": str(table.features.dtype), "_type": "Value"}
    features: dict[str, Any] = {}
    for column_field in content.schema:
        name = column_field.name
        if name == EMBEDDING:
            features[name] = {"feature": value, "length": table.dimension, "_type": "Sequence"}
        elif name == LABEL and table.labels is not None and table.labels.dtype.kind != "i":
            names = table.classes.tolist()
            codes = {label: code for code, label in enumerate(names)}
            column = pa.array([None if label is None else codes[label] for label in table.labels.tolist()], pa.int64())
            content = content.set_column(content.column_names.index(LABEL), LABEL, column)
            features[name] = {"names": names, "_type": "ClassLabel"}
        else:
            features[name] = {"dtype": _dtype(column_field.type), "_type": "Value"}
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    metadata = {key: text for key, text in (content.schema.metadata or {}).items() if b"base_mean" not in key}
    content = content.replace_schema_metadata({**metadata, **about})
    path.mkdir()
    with (path / DATA_FILE).open("wb") as sink, pa.ipc.new_stream(sink, content.schema) as stream:
        stream.write_table(content, max_chunksize=ROWS_PER_BATCH)
    digest = hashlib.blake2b(np.ascontiguousarray(table.features).data, digest_size=8)
    digest.update(json.dumps([features, content.drop_columns([EMBEDDING]).to_pydict()], default=str).encode())
    state: dict[str, Any] = {
        "_data_files": [{"filename": DATA_FILE}],
        "_fingerprint": digest.hexdigest(),  # `datasets` keys its caches by it
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    for name, what in (("state.json", state), ("dataset_info.json", info)):
        (path / name).write_text(json.dumps(what, indent=2, sort_keys=True), encoding="utf-8")
    if table.base_mean is not None:  # in a separate file: `datasets` removes unknown entries from the others
        (path / BASE_MEAN).write_text(mean_to_json(table.base_mean), encoding="utf-8")


def _data_files(path: Path) -> list[Path]:
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
    for file in files:
        if not file.is_file():
            raise ValueError(f"{shortened(file.name)} is missing, which state.json names: the dataset is incomplete")
    return files


def _dtype(kind: Any) -> str:
    """The name that `datasets` has for a type of Arrow."""
    return {"double": "float64", "float": "float32", "halffloat": "float16"}.get(str(kind), str(kind))

"""Files of arrays as columns, and feature tables to such files: .npz, .npy, .safetensors; pickles are only read.

`files.read` adds the name of the file to errors. No reader runs code, or reserves memory before a header is checked.
"""

from __future__ import annotations

import json
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import as_features
from handful.features.feature_columns import EMBEDDING, LABEL, PATH, SPLIT, ColumnChoice, Content, require, to_columns
from handful.features.labels import NDArray, numbers_if_whole
from handful.features.table import FeatureTable, free_name
from handful.utils.columns import object_array
from handful.utils.files import damaged, parse_json
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.unpickling import ADVICE, load_plain, quoted

FORMAT = 1  # version of the JSON in a .safetensors header
ARRAYS = {EMBEDDING: "features", LABEL: "labels", PATH: "paths", SPLIT: "splits"}  # the usual names of arrays
DAMAGE_ERRORS = (
    ValueError, EOFError, OSError, RuntimeError, SyntaxError, MemoryError, TypeError, OverflowError, struct.error,
    TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


def _columns(
    shapes: Mapping[str, Sequence[int]], choice: ColumnChoice, what: str, read: Callable[[str], NDArray]
) -> dict[str, NDArray]:
    """The arrays of a file, of these shapes, as columns. Others are read if they have one value for each row."""
    chosen = (("embedding", choice.embedding), ("label", choice.label), (PATH, None), (SPLIT, None))
    arrays = {name or usual: name or ARRAYS[usual] for usual, name in chosen}
    require(list(shapes), arrays[choice.embedding_column], what, "embedding")
    if choice.label is not None:
        require(list(shapes), choice.label, what, "label")
    columns = {column: read(name) for column, name in arrays.items() if name in shapes}
    rows = columns[choice.embedding_column].shape[:1]
    for name, shape in shapes.items():
        if name not in (*arrays.values(), "base_mean", "columns") and tuple(shape) == rows:
            columns[free_name(name, (*ARRAYS, *columns))] = read(name)
    return columns


def _stored_name(name: str, used: Mapping[str, Any]) -> str:
    """np.savez has a parameter `file`."""
    return ARRAYS.get(name) or free_name(name, (*ARRAYS.values(), "base_mean", "columns", "file", *used))


# ---- .npz and .npy


def read_npz(path: Path, choice: ColumnChoice) -> Content:
    """Arrays of any names; others that have one value for each row are carried along."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}

            def read(name: str) -> NDArray:
                with archive.open(members[name]) as stream:
                    return _array(stream, f"array {name!r}")

            columns = _columns({name: _shape_in(archive, members[name]) for name in members}, choice, "array", read)
            mean = read("base_mean") if "base_mean" in members else None
            names = read("columns") if "columns" in members else None
    except ValueError:
        raise
    except DAMAGE_ERRORS as error:
        raise damaged(".npz", error) from None
    is_names = names is not None and names.dtype.kind == "U" and names.ndim == 1
    return Content(columns, mean, names.tolist() if names is not None and is_names else None)


def _shape_in(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Sequence[int]:
    """The shape of an array; () if it cannot be carried along."""
    try:
        with archive.open(member) as stream:
            shape, dtype = _header(stream, member.filename)
    except DAMAGE_ERRORS:  # the features can be used without it
        return ()
    return shape if dtype.kind in "biufUS" else ()


def _header(stream: IO[bytes], what: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of the array that begins here; `what` names it in errors."""
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):  # 3.0 is for field names of structured arrays
            raise ValueError(f"it has format {version[0]}.{version[1]}, but only 1.0 and 2.0 are read")
        parse = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = parse(stream)
    except (*DAMAGE_ERRORS, RecursionError) as error:
        raise damaged(".npy", error, f"{what}: ") from None
    if dtype.hasobject:
        advice = "save names with labels.astype(str), numbers as float32"
        raise ValueError(f"{what} is an array of Python objects, which could run code: {advice}")
    if dtype.kind == "V":
        raise ValueError(f"{what} has dtype {str(dtype)[:80]}: one plain type is needed, such as float32")
    return shape, dtype


def _array(stream: Any, what: str) -> NDArray:
    """The array that begins here, if its header is that of numbers or texts which fit into memory."""
    shape, dtype = _header(stream, what)
    check_bytes(math.prod(map(abs, shape)) * dtype.itemsize, what)
    stream.seek(0)
    try:
        array: NDArray = np.lib.format.read_array(stream, allow_pickle=False)
    except DAMAGE_ERRORS as error:
        raise damaged(".npy", error, f"{what}: ") from None
    return array


def write_npz(table: FeatureTable, path: Path) -> None:
    """Write a table as arrays in a .npz file."""
    content = to_columns(table)
    arrays: dict[str, Any] = {}
    for name, values in content.columns.items():
        arrays[_stored_name(name, arrays)] = _plain_array(values)
    if content.base_mean is not None:
        arrays["base_mean"] = content.base_mean
    if content.names is not None:
        arrays["columns"] = np.array(list(content.names), str)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _plain_array(values: NDArray) -> NDArray:
    """Objects as strings, "" for None: arrays of objects could run code."""
    if values.dtype.kind != "O":
        return values
    plain = values.tolist()
    kinds = {type(value) for value in plain if value is not None}
    if kinds and kinds <= {int, float}:
        return np.array([np.nan if value is None else value for value in plain], np.float64)
    return np.array(["" if value is None else str(value) for value in plain], str)


def read_npy(path: Path, choice: ColumnChoice) -> Content:
    """Read one array of features; labels are in a file beside it with one of three names."""
    places = [path.with_name(path.stem + end) for end in (".labels.npy", ".labels.txt", "_labels.npy")]
    file = next((file for file in places if file.is_file()), None)
    columns = {choice.embedding_column: _npy(path, "the file")}
    if file is not None:
        columns[choice.label_column] = _lines(file) if file.suffix == ".txt" else _npy(file, file.name)
    mean = beside(path, "base_mean")
    return Content(columns, _npy(mean, mean.name) if mean.is_file() else None)


def write_npy(table: FeatureTable, path: Path) -> None:
    """Write the features as a .npy file, and the labels beside it."""
    if table.paths is not None or table.splits is not None or table.others:
        raise ValueError("a .npy file has no place for paths or splits, nor for other columns: write .npz or .parquet")
    labels = None if table.labels is None else _plain_array(table.labels)
    arrays = {path: table.features, beside(path, "labels"): labels, beside(path, "base_mean"): table.base_mean}
    for file, values in arrays.items():
        if values is not None:
            with file.open("wb") as sink:
                np.save(sink, values, allow_pickle=False)


def beside(path: Path, what: str) -> Path:
    """The file of the labels, or of the base mean, of a .npy file."""
    return path.with_name(f"{path.stem}.{what}.npy")


def _npy(path: Path, what: str) -> NDArray:
    with path.open("rb") as file:
        return _array(file, what)


def _lines(path: Path) -> NDArray:
    """One label for each line, blank for unlabelled; integers if all labels are whole numbers."""
    check_bytes(TEXT_EXPANSION * path.stat().st_size, path.name)
    try:
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text: {error}") from None
    values = numbers_if_whole(lines)
    return object_array(values) if isinstance(values, list) else values


# ---- .safetensors


def read_safetensors(path: Path, choice: ColumnChoice) -> Content:
    """Read features. The library checks the header: tensors do not overlap or reach beyond the file."""
    from safetensors import SafetensorError, safe_open

    check_bytes(path.stat().st_size, "the file")
    try:
        with safe_open(path, framework="np") as file:
            texts, feature_names = _about((file.metadata() or {}).get("handful"))
            names = list(file.keys())  # not a dict
            shapes = {name: file.get_slice(name).get_shape() for name in names}
            columns = _columns(shapes, choice, "tensor", file.get_tensor)
            if any(x.dtype.kind == "V" for x in columns.values()):  # a type of the package onnx
                raise TypeError("bfloat16")
            mean = file.get_tensor("base_mean") if "base_mean" in names else None
    except (SafetensorError, OverflowError) as error:
        raise damaged("safetensors", error) from None
    except (TypeError, AttributeError) as error:  # bfloat16 and the 8-bit floats
        raise ValueError(f"a tensor has a type that NumPy does not know ({error}): save it as float32") from None
    return Content(columns | texts, mean, feature_names)


def write_safetensors(table: FeatureTable, path: Path) -> None:
    """Write a table as tensors, with its texts as JSON in the header."""
    from safetensors import SafetensorError
    from safetensors.numpy import save

    content = to_columns(table)
    tensors: dict[str, NDArray] = {}
    texts: dict[str, list[Any]] = {}
    for name, values in content.columns.items():
        if values.dtype.kind in "iuf" and values.dtype.itemsize > 1:
            tensors[_stored_name(name, tensors)] = np.ascontiguousarray(values)
        else:
            texts[name] = [v if v is None or isinstance(v, str | int | float) else str(v) for v in values.tolist()]
    if content.base_mean is not None:
        tensors["base_mean"] = content.base_mean
    about = {"format": FORMAT, "texts": texts, "columns": None if content.names is None else list(content.names)}
    try:
        data = save(tensors, metadata={"handful": json.dumps(about)})
    except SafetensorError as error:  # a header of 100 MB
        raise ValueError(f"the paths are too long for a .safetensors file ({error}): write .parquet") from None
    path.write_bytes(data)


def _about(text: str | None) -> tuple[dict[str, NDArray], list[str] | None]:
    """The columns of texts and the names of features in the header."""
    if text is None:
        return {}, None
    about = parse_json(text, "the header's `handful`")
    if "method" in about:
        raise ValueError("the file is a model, not features: handful.load reads it")
    number, texts, names = about.get("format", FORMAT), about.get("texts", {}), about.get("columns")
    if isinstance(number, int) and number > FORMAT:
        raise ValueError(f"the file has format {number}, newer than {FORMAT}: pip install -U handful")
    if not isinstance(texts, dict) or not all(isinstance(values, list) for values in texts.values()):
        raise ValueError("the header's `texts` are not lists by name: write the file again")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("the header's `columns` are not a list of texts: write the file again")
    return {name: object_array(values) for name, values in texts.items()}, names


# ---- per-class pickles, as research code publishes them: {class: array [n, D], list of arrays, or torch tensor}


def read_pickle(path: Path, choice: ColumnChoice) -> Content:
    """Rows class by class, in the order of the file; the class is the label. There are no columns to choose."""
    check_bytes(path.stat().st_size, "the file")
    content = load_plain(path)
    if not isinstance(content, dict):
        needed = "a dictionary {class: array [n, D]} is needed"
        raise ValueError(f"the pickle holds {_shape(content)}, but {needed}: {ADVICE}")
    if not content:
        raise ValueError("the pickle is empty: it has no classes")
    parts: list[NDArray] = []
    labels: list[Any] = []
    for name, value in content.items():
        if not isinstance(name, str | bytes | int):
            raise ValueError(f"the pickle has a class {quoted(name)}: names of classes are strings or integers")
        rows = _rows(value, f"class {quoted(name)}")
        if parts and rows.shape[1] != parts[0].shape[1]:
            here, first = f"{quoted(name)} has {rows.shape[1]} features in a row", quoted(labels[0])
            there = f"class {first} has {parts[0].shape[1]}: embeddings of one backbone have one length"
            raise ValueError(f"class {here}, but {there}")
        parts.append(rows)
        labels += [name] * len(rows)
    return Content({choice.embedding_column: np.concatenate(parts), choice.label_column: object_array(labels)})


def _rows(value: Any, where: str) -> NDArray:
    """One class as rows [n, D]."""
    if isinstance(value, list | tuple) and value:
        try:
            value = np.concatenate([np.atleast_2d(np.asarray(row)) for row in value])
        except ValueError:
            raise ValueError(f"{where} has rows of several lengths: embeddings of one backbone have one") from None
    if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype.kind not in "biuf":
        raise ValueError(f"{where} is {_shape(value)}: rows of features are needed, [items, features]")
    kind = value.dtype.newbyteorder("=") if value.dtype.kind == "f" else np.float32
    return to_numpy(as_features(value.astype(kind, copy=False), where))


def _shape(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and type {value.dtype}"
    return f"a {type(value).__name__}"

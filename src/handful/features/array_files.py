"""Feature tables in files of arrays: .npz, .npy, .safetensors, and pickles.

Errors say where in the file something is wrong; `files.read` adds the name of the file. No reader runs code of a file
or reserves memory for an array before its header is checked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import as_features
from handful.features import npy_files
from handful.features.file_checks import ColumnChoice, class_names, damaged, parse_json, require
from handful.features.labels import NDArray, numbers_if_whole
from handful.features.table import FeatureTable, free_name
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.unpickling import ADVICE, load_plain, quoted

FORMAT = 1  # version of the JSON in a .safetensors header
OWN_ARRAYS = ("features", "labels", "paths", "splits", "base_mean", "columns")  # the names that `write` gives


# ---- .npz


def read_npz(path: Path, choice: ColumnChoice) -> FeatureTable:
    """Arrays of any names; others that have one value for each row are carried along."""
    features, label = choice.arrays
    with npy_files.open_npz(path) as archive:
        names = npy_files.names_of(archive)
    require(names, features, "array", "embedding")
    if choice.label is not None:
        require(names, label, "array", "label")
    arrays = npy_files.read_npz(path, (features, label, *OWN_ARRAYS[2:]))
    rows = len(arrays[features]) if arrays[features].ndim else 0
    used = {features, label, *OWN_ARRAYS[2:]}
    others = npy_files.read_rows(path, [name for name in names if name not in used], rows)
    return FeatureTable(
        arrays[features], arrays.get(label), arrays.get("paths"), arrays.get("splits"),
        base_mean=arrays.get("base_mean"), columns=_column_names(arrays.get("columns"), arrays[features]),
        others=others,
    )  # fmt: skip


def write_npz(table: FeatureTable, path: Path) -> None:
    """Write a table as arrays in a .npz file."""
    arrays = {name: getattr(table, name) for name in OWN_ARRAYS if getattr(table, name) is not None}
    if table.labels is not None:
        arrays["labels"] = _plain_array(table.labels)
    if table.columns is not None:
        arrays["columns"] = np.array(list(table.columns), str)
    for name, values in table.others.items():
        arrays[free_name(name, (*OWN_ARRAYS, *arrays, "file"))] = _plain_array(values)  # `file` is np.savez's own
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


def _column_names(names: NDArray | None, features: NDArray) -> list[str] | None:
    """The names of the features; None if the array is something else."""
    if names is None or names.dtype.kind != "U" or features.ndim != 2 or names.shape != (features.shape[1],):
        return None
    return [str(name) for name in names]


# ---- .npy


def read_npy(path: Path, choice: ColumnChoice) -> FeatureTable:
    """Read one array of features. Labels are in a file beside it with one of three names; the first one is used."""
    beside = [path.with_name(path.stem + end) for end in (".labels.npy", ".labels.txt", "_labels.npy")]
    file = next((file for file in beside if file.is_file()), None)
    labels: Any = None
    if file is not None:
        labels = _lines(file) if file.suffix == ".txt" else npy_files.read_npy(file, file.name)
    mean = mean_beside(path)
    base_mean = npy_files.read_npy(mean, mean.name) if mean.is_file() else None
    return FeatureTable(npy_files.read_npy(path, "the file"), labels, base_mean=base_mean)


def write_npy(table: FeatureTable, path: Path) -> None:
    """Write the features as a .npy file, and the labels beside it."""
    if table.paths is not None or table.splits is not None or table.others:
        raise ValueError(
            "a .npy file has no place for paths or splits: write .npz or .parquet, or set them to None"
            + (f" (nor for other columns, as {next(iter(table.others))!r})" if table.others else "")
        )
    labels = None if table.labels is None else _plain_array(table.labels)
    for file, values in (
        (path, table.features),
        (labels_beside(path), labels),
        (mean_beside(path), table.base_mean),
    ):
        if values is not None:
            with file.open("wb") as sink:
                np.save(sink, values, allow_pickle=False)


def labels_beside(path: Path) -> Path:
    """The file of the labels of a .npy file."""
    return path.with_name(f"{path.stem}.labels.npy")


def mean_beside(path: Path) -> Path:
    """The file of the base mean of a .npy file."""
    return path.with_name(f"{path.stem}.base_mean.npy")


def _lines(path: Path) -> Any:
    """One label for each line, blank for unlabelled; integers if all labels are whole numbers."""
    check_bytes(TEXT_EXPANSION * path.stat().st_size, path.name)
    try:
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text: {error}") from None
    return numbers_if_whole(lines)


# ---- .safetensors


def read_safetensors(path: Path, choice: ColumnChoice) -> FeatureTable:
    """Read features. The library checks the header: tensors do not overlap or reach beyond the file."""
    from safetensors import SafetensorError, safe_open

    name, label = choice.arrays
    check_bytes(path.stat().st_size, "the file")
    try:
        with safe_open(path, framework="np") as file:
            names = list(file.keys())  # not a dict
            about = _about((file.metadata() or {}).get("handful"))
            require(names, name, "tensor", "embedding")
            if choice.label is not None:
                require(names, label, "tensor", "label")
            tensors = {each: file.get_tensor(each) for each in (name, label, "base_mean") if each in names}
            rows = len(tensors[name]) if tensors[name].ndim else 0
            others = {
                each: file.get_tensor(each)
                for each in names
                if each not in tensors and file.get_slice(each).get_shape() == [rows]
            }
            for tensor in (*tensors.values(), *others.values()):
                if tensor.dtype.kind == "V":  # types that the package onnx adds to NumPy
                    raise TypeError(str(tensor.dtype))
    except (SafetensorError, OverflowError) as error:
        raise damaged("safetensors", error) from None
    except (TypeError, AttributeError) as error:  # bfloat16 and the 8-bit floats
        raise ValueError(f"a tensor has a type that NumPy does not know ({error}): save it as float32") from None
    labels = tensors.get(label)
    if labels is not None and about.get("classes") is not None:
        codes = labels.tolist() if labels.ndim == 1 else [labels.shape]
        labels = class_names(codes, about["classes"], "labels")
    return FeatureTable(
        tensors[name], labels, about.get("paths"), about.get("splits"), base_mean=tensors.get("base_mean"),
        columns=about.get("columns"), others=others | about.get("others", {}),
    )  # fmt: skip


def write_safetensors(table: FeatureTable, path: Path) -> None:
    """Write a table as tensors, with its texts as JSON in the header."""
    from safetensors import SafetensorError
    from safetensors.numpy import save

    about: dict[str, Any] = {"format": FORMAT, "classes": None}
    tensors = {"features": table.features}
    if table.labels is not None:
        about["classes"], tensors["labels"] = _coded(table.labels)
    if table.base_mean is not None:
        tensors["base_mean"] = table.base_mean
    for name in ("paths", "splits"):
        values = getattr(table, name)
        about[name] = None if values is None else values.tolist()
    if table.columns is not None:
        about["columns"] = list(table.columns)
    texts: dict[str, list[Any]] = {}
    for name, values in table.others.items():
        if values.dtype.kind in "iuf" and values.dtype.itemsize > 1:
            tensors[free_name(name, (*OWN_ARRAYS, *tensors))] = np.ascontiguousarray(values)
        else:
            plain = values.tolist()
            texts[name] = [v if v is None or isinstance(v, str | int | float) else str(v) for v in plain]
    if texts:
        about["others"] = texts
    try:
        data = save(tensors, metadata={"handful": json.dumps(about)})
    except SafetensorError as error:  # 100 MB
        raise ValueError(
            f"the paths are too long for the header of a .safetensors file ({error}): write .parquet"
        ) from None
    path.write_bytes(data)


def _coded(labels: NDArray) -> tuple[list[str] | None, NDArray]:
    """Names of classes and int64 codes; integers are their own codes, without names. Unlabelled is the class ""."""
    if labels.dtype.kind == "i":
        return None, labels
    names, codes = np.unique(_plain_array(labels), return_inverse=True)
    return names.tolist(), codes.astype(np.int64)


def _about(text: str | None) -> dict[str, Any]:
    """The entries of the header beside the tensors: {format, classes, paths, splits, columns, others}."""
    if text is None:
        return {}
    about = parse_json(text, "the header's `handful`")
    if "method" in about:
        raise ValueError("the file is a model, not features: handful.load reads it")
    number = about.get("format", FORMAT)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(
            f"the header's `format` is a {type(number).__name__}, not a whole number: write the file again"
        )
    if number > FORMAT:
        raise ValueError(f"the file has format {number}, newer than {FORMAT}: pip install -U handful")
    for key in ("paths", "splits", "columns"):
        if about.get(key) is not None and not isinstance(about[key], list):
            raise ValueError(
                f"the header's `{key}` are a {type(about[key]).__name__}, not a list: write the file again"
            )
    others = about.get("others", {})
    if not isinstance(others, dict) or not all(isinstance(values, list) for values in others.values()):
        raise ValueError("the header's `others` are not lists by name: write the file again")
    return about


# ---- per-class pickles, as research code publishes them: {class: array [n, D], list of arrays, or torch tensor}


def read_pickle(path: Path, choice: ColumnChoice) -> FeatureTable:
    """Rows class by class, in the order of the file; the class is the label. There are no columns to choose."""
    content = load_plain(path)
    if not isinstance(content, dict):
        raise ValueError(
            f"the pickle holds a {type(content).__name__}, but a dictionary {{class: array [n, D]}} is needed: "
            + ADVICE
        )
    if not content:
        raise ValueError("the pickle is empty: it has no classes")
    parts: list[np.ndarray] = []
    labels: list[Any] = []
    for name, value in content.items():
        if not isinstance(name, str | bytes | int):
            raise ValueError(f"the pickle has a class {quoted(name)}: names of classes are strings or integers")
        rows = _rows(value, f"class {quoted(name)}")
        if parts and rows.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"class {quoted(name)} has {rows.shape[1]} features in a row, but class {quoted(labels[0])} has "
                f"{parts[0].shape[1]}: embeddings of one backbone have one length"
            )
        parts.append(rows)
        labels += [name] * len(rows)
    return FeatureTable(np.concatenate(parts), labels)


def _rows(value: Any, where: str) -> np.ndarray:
    """One class as rows [n, D]."""
    if isinstance(value, list | tuple):
        rows = [np.atleast_2d(_vector(v, f"row {i} of {where}")) for i, v in enumerate(value)]
        widths = [row.shape[-1] for row in rows]
        wrong = [i for i, width in enumerate(widths) if width != widths[0]]
        if wrong:
            raise ValueError(
                f"{where} has {widths[0]} features in row 0 but {widths[wrong[0]]} in row {wrong[0]}: "
                "embeddings of one backbone have one length"
            )
        value = np.concatenate(rows) if rows else np.empty((0, 0), np.float32)
    if not isinstance(value, np.ndarray) or value.ndim != 2:
        what = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise ValueError(f"{where} is {what}: rows of features are needed, [items, features]")
    if value.dtype.kind in "biuf":
        value = value.astype(np.float32 if value.dtype.kind != "f" else value.dtype.newbyteorder("="), copy=False)
    return to_numpy(as_features(value, where))


def _vector(value: Any, where: str) -> np.ndarray:
    if isinstance(value, list | tuple) and all(issubclass(kind, int | float) for kind in {*map(type, value)}):
        value = np.asarray(value, np.float64)  # one level only: nested lists can expand to terabytes
    if not isinstance(value, np.ndarray) or value.ndim not in (1, 2):
        what = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise ValueError(f"{where} is {what}: an array of features is needed")
    return value

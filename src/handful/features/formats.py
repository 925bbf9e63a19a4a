"""Feature sets on disk, one reader and one writer a format. What they give and take is checked in `featureset`.

Readers say where in the file something is wrong; `featureset.read` puts the file's name before it. No reader runs
what a file says, and none takes memory for it before its headers are checked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from handful.features import npy_files as npyfiles
from handful.features.columns import Columns, coded, damaged, keys_of, named, parse_json, require
from handful.utils.limits import TEXT_EXPANSION, check_bytes

FORMAT = 1  # of the JSON in a .safetensors header


# ---- .npz, .npy


def read_npz(path: Path, embedding: str, label: str) -> Columns:
    keys = keys_of(embedding, label)
    with npyfiles.open_npz(path) as archive:
        require(npyfiles.names_of(archive), keys, "array")
    names = (*keys, *Columns._fields[2:])
    arrays = npyfiles.read_npz(path, names)
    return Columns(*map(arrays.get, names))


def write_npz(columns: Columns, path: Path) -> None:
    arrays = {name: values for name, values in columns._asdict().items() if values is not None}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_npy(path: Path, embedding: str = "", label: str = "") -> Columns:
    """One array of features; labels in a file beside it, the first there is of the three names."""
    beside = [path.with_name(path.stem + end) for end in (".labels.npy", ".labels.txt", "_labels.npy")]
    found = next((file for file in beside if file.is_file()), None)
    if found is None:
        names = ", ".join(file.name for file in beside)
        raise ValueError(f"there are no labels beside the features: write them to one of {names}")
    labels = _lines(found) if found.suffix == ".txt" else npyfiles.read_npy(found, found.name)
    mean = beside_npy(path)
    base_mean = npyfiles.read_npy(mean, mean.name) if mean.is_file() else None
    return Columns(npyfiles.read_npy(path, "the file"), labels, base_mean=base_mean)


def beside_npy(path: Path) -> Path:
    """Where the mean of the base classes stands."""
    return path.with_name(f"{path.stem}.base_mean.npy")


def _lines(path: Path) -> list[Any]:
    """One label a line; whole numbers are integers if all of them are."""
    check_bytes(TEXT_EXPANSION * path.stat().st_size, path.name)
    try:
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text: {error}") from None
    if "" in lines:
        raise ValueError(f"{path.name} is empty in line {lines.index('') + 1}: every row of features needs a label")
    try:
        numbers = [int(line) for line in lines]
    except ValueError:
        return lines
    return numbers if [str(number) for number in numbers] == lines else lines  # 007 is a name


def write_npy(columns: Columns, path: Path) -> None:
    if columns.paths is not None or columns.splits is not None:
        raise ValueError("a .npy file has no place for paths or splits: write .npz or .parquet, or set them to None")
    labels, mean = path.with_name(f"{path.stem}.labels.npy"), beside_npy(path)
    for file, values in ((path, columns.features), (labels, columns.labels), (mean, columns.base_mean)):
        if values is not None:
            with file.open("wb") as sink:
                np.save(sink, values, allow_pickle=False)


# ---- .safetensors


def read_safetensors(path: Path, embedding: str, label: str) -> Columns:
    """The file's own header is checked by its library: tensors neither overlap nor reach beyond the file."""
    from safetensors import SafetensorError, safe_open

    keys = keys_of(embedding, label)
    check_bytes(path.stat().st_size, "the file")
    try:
        with safe_open(path, framework="np") as file:
            names = list(file.keys())  # not a dict
            about = _about((file.metadata() or {}).get("handful"))
            require(names, keys, "tensor")
            features, labels = (file.get_tensor(key) for key in keys)
            mean = file.get_tensor("base_mean") if "base_mean" in names else None
            for tensor in (features, labels, mean):
                if tensor is not None and tensor.dtype.kind == "V":  # as where onnx has taught NumPy the names of them
                    raise TypeError(str(tensor.dtype))
    except (SafetensorError, OverflowError) as error:
        raise damaged("safetensors", error) from None
    except (TypeError, AttributeError) as error:  # bfloat16 and the 8-bit floats
        raise ValueError(f"a tensor has a type that NumPy does not know ({error}): save it as float32") from None
    if about.get("classes") is not None:
        labels = named(labels.tolist() if labels.ndim == 1 else [labels.shape], about["classes"], "labels")
    return Columns(features, labels, about.get("paths"), about.get("splits"), mean)


def _about(text: str | None) -> dict[str, Any]:
    """What the header says beside the tensors: {format, classes, paths, splits}."""
    if text is None:
        return {}
    about = parse_json(text, "the header's `handful`")
    if "method" in about:
        raise ValueError("the file is a model, not features: handful.load reads it")
    number = about.get("format", FORMAT)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"the header's `format` is a {type(number).__name__}, not a whole number: write the file anew")
    if number > FORMAT:
        raise ValueError(f"the file has format {number}, newer than {FORMAT}: pip install -U handful")
    for key in ("paths", "splits"):
        if about.get(key) is not None and not isinstance(about[key], list):
            raise ValueError(f"the header's `{key}` are a {type(about[key]).__name__}, not a list: write the file anew")
    return about


def write_safetensors(columns: Columns, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save

    names, codes = coded(columns.labels)
    more = {name: getattr(columns, name) for name in ("paths", "splits")}
    about = {"format": FORMAT, "classes": names} | {k: v if v is None else v.tolist() for k, v in more.items()}
    tensors = {"features": columns.features, "labels": codes}
    if columns.base_mean is not None:
        tensors["base_mean"] = columns.base_mean
    try:
        data = save(tensors, metadata={"handful": json.dumps(about)})
    except SafetensorError as error:  # 100 MB
        raise ValueError(
            f"the paths are too long for the header of a .safetensors file ({error}): write .parquet"
        ) from None
    path.write_bytes(data)

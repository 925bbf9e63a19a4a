"""Feature sets on disk, one reader and one writer a format. What they give and take is checked in `featureset`.

Readers say where in the file something is wrong; `featureset.read` puts the file's name before it. No reader runs
what a file says: arrays of Python objects are refused.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from handful.features.columns import Columns, coded, damaged, keys_of, named, require

OBJECTS = "is an array of Python objects, which could run code: save names with labels.astype(str), numbers as float32"
DAMAGE = (ValueError, EOFError, OSError, RuntimeError, SyntaxError, TokenError, zipfile.BadZipFile, zlib.error)
FORMAT = 1  # of the JSON in a .safetensors header


# ---- .npz, .npy


def read_npz(path: Path, embedding: str, label: str) -> Columns:
    try:
        zipfile.ZipFile(path).close()  # of what is no archive, np.load says that it is a pickle
    except DAMAGE as error:
        raise damaged(".npz", error) from None
    keys = keys_of(embedding, label)
    with np.load(path, allow_pickle=False) as file:
        require(file.files, keys, "array")
        names = (*keys, *Columns._fields[2:])
        return Columns(*(_member(file, name) if name in file.files else None for name in names))


def _member(file: Any, key: str) -> np.ndarray:
    try:
        return file[key]
    except DAMAGE as error:
        raise _unread(f"array {key!r}", error) from None


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
    labels = _lines(found) if found.suffix == ".txt" else _npy(found, found.name)
    mean = beside_npy(path)
    return Columns(_npy(path, "the file"), labels, base_mean=_npy(mean, mean.name) if mean.is_file() else None)


def beside_npy(path: Path) -> Path:
    """Where the mean of the base classes stands."""
    return path.with_name(f"{path.stem}.base_mean.npy")


def _npy(path: Path, what: str) -> np.ndarray:
    with path.open("rb") as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except DAMAGE as error:
            raise _unread(what, error) from None


def _unread(what: str, error: Exception) -> ValueError:
    return ValueError(f"{what} {OBJECTS}") if "Object arrays" in str(error) else damaged(".npy", error, f"{what}: ")


def _lines(path: Path) -> list[Any]:
    """One label a line; whole numbers are integers if all of them are."""
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
    from safetensors import SafetensorError, safe_open

    keys = keys_of(embedding, label)
    try:
        with safe_open(path, framework="np") as file:
            names = list(file.keys())  # not a dict
            about = json.loads((file.metadata() or {}).get("handful", "{}"))
            if not isinstance(about, dict) or "method" in about:
                raise ValueError("the file is a model, not features: handful.load reads it")
            require(names, keys, "tensor")
            features, labels = (file.get_tensor(key) for key in keys)
            mean = file.get_tensor("base_mean") if "base_mean" in names else None
            for tensor in (features, mean):
                if tensor is not None and tensor.dtype.kind == "V":  # as where onnx has taught NumPy the names of them
                    raise TypeError(str(tensor.dtype))
    except SafetensorError as error:
        raise damaged("safetensors", error) from None
    except json.JSONDecodeError as error:
        raise damaged("safetensors", f"its header is not JSON: {error}") from None
    except TypeError as error:  # bfloat16 and the 8-bit floats
        raise ValueError(f"a tensor has a type that NumPy does not know ({error}): save it as float32") from None
    if about.get("format", FORMAT) > FORMAT:
        raise ValueError(f"the file has format {about['format']}, newer than {FORMAT}: pip install -U handful")
    if about.get("classes") is not None:
        labels = named(labels.tolist(), about["classes"], "labels")
    return Columns(features, labels, about.get("paths"), about.get("splits"), mean)


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

"""What every reader gives and every writer takes, and what several of them say of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from errno import EINVAL
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import shortened
from handful.utils.limits import JSON_BYTES, in_units

BASE_MEAN = "base_mean.json"  # in a folder of features, whose files have no place for it


class Columns(NamedTuple):
    """What a file holds: features [n, D], labels [n]; paths and splits [n], the base classes' mean [D], or None."""

    features: Any
    labels: Any
    paths: Any = None
    splits: Any = None
    base_mean: Any = None


def keys_of(embedding: str, label: str) -> tuple[str, str]:
    """Names of arrays: the plural of the columns' names, unless others were asked for."""
    return "features" if embedding == "embedding" else embedding, "labels" if label == "label" else label


def coded(labels: np.ndarray) -> tuple[list[str] | None, np.ndarray]:
    """Names of classes, and int64 codes; integers are their own codes and have no names."""
    if labels.dtype.kind != "U":
        return None, labels
    names, codes = np.unique(labels, return_inverse=True)
    return names.tolist(), codes.astype(np.int64)


def named(codes: list[Any], names: Any, where: str) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"the names of classes of {where} are not a list of texts: write the file anew")
    for row, code in enumerate(codes):
        if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code < len(names):
            raise ValueError(
                f"{where} has code {shortened(str(code))} in row {row}, but there are {len(names)} names: "
                "label that row"
            )
    return [names[code] for code in codes]


def inside(name: Any) -> str:
    if not isinstance(name, str) or Path(name).name != name or "\0" in name or "\\" in name:
        raise ValueError(f"the dataset names a file {shortened(repr(name))} outside its folder: it was not opened")
    return name


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON file that holds an object."""
    size = path.stat().st_size
    if size > JSON_BYTES:
        raise ValueError(f"{path.name} has {in_units(size)}, more than {in_units(JSON_BYTES)}: it is damaged")
    return parse_json(path.read_bytes(), path.name)


def parse_json(text: str | bytes, where: str) -> dict[str, Any]:
    """An object as JSON."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON, or is damaged: {shortened(str(error), 200)}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{where} holds a {type(content).__name__}, not an object")
    return content


def checked_mean(mean: Any, dimension: int) -> np.ndarray | None:
    """The mean feature of the base classes as float32 [D], or None; refused if it is not one of such features."""
    if mean is None:
        return None
    try:
        mean = np.asarray(to_numpy(mean) if hasattr(mean, "dtype") else mean, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"base_mean is not a row of numbers: {shortened(str(error), 200)}") from None
    if mean.shape != (dimension,):
        raise ValueError(
            f"base_mean has shape {mean.shape} but items have {dimension} features: "
            "give the mean feature of base classes by the same backbone"
        )
    with np.errstate(over="ignore"):
        mean = mean.astype(np.float32)
    if not np.isfinite(mean).all():
        raise ValueError("base_mean contains NaN or infinity")
    return mean


def mean_to_json(mean: np.ndarray) -> str:
    """Every float32 comes back to the last bit: JSON has the digits of float64."""
    return json.dumps({"base_mean": mean.tolist()})


def mean_from_json(text: str | bytes, where: str) -> np.ndarray:
    return _mean_of(lambda: parse_json(text, where), where)


def mean_of_folder(folder: Path) -> np.ndarray | None:
    """What `base_mean.json` in a folder of features says; None without it."""
    path = folder / BASE_MEAN
    return _mean_of(lambda: read_json(path), BASE_MEAN) if path.is_file() else None


def _mean_of(content: Callable[[], dict[str, Any]], where: str) -> np.ndarray:
    try:
        return np.asarray(content()["base_mean"], np.float64)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{where} holds no base mean, or is damaged: {shortened(str(error), 200)}") from None


def require(names: list[str], keys: tuple[str, str], what: str) -> None:
    for key, option in zip(keys, ("embedding", "label"), strict=True):
        if names.count(key) != 1:
            there = shortened(", ".join(map(repr, names[:20])), 300) or "none"
            many = "more than one" if key in names else "no"
            raise ValueError(f"there is {many} {what} {key!r}, only {there}: name the right one with {option}=")


def damaged(kind: str, error: Exception | str, where: str = "") -> ValueError:
    if isinstance(error, OSError) and error.errno not in (None, EINVAL):
        raise error  # the disk's fault or the user's rights; a damaged file only leads to places that are not there
    return ValueError(f"the file is no {kind} file, or is damaged or cut off: {where}{shortened(str(error), 300)}")

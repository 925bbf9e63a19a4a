"""The mean feature of the base classes, which the backbone was trained on: checked, and as JSON beside features."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.features.file_checks import parse_json, read_json
from handful.features.labels import NDArray
from handful.utils.text import shortened

BASE_MEAN = "base_mean.json"  # a file in a folder of features
MEAN_KEY = b"handful.base_mean"  # in the metadata of a table's schema, where other tools ignore it


def checked_mean(mean: Any, dimension: int) -> NDArray | None:
    """The mean as float32 [D], or None; ValueError if it does not belong to features of this dimension."""
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
        checked: NDArray = mean.astype(np.float32)
    if not np.isfinite(checked).all():
        raise ValueError("base_mean contains NaN or infinity")
    return checked


def mean_to_json(mean: NDArray) -> str:
    """JSON has the digits of float64, so every float32 comes back exactly."""
    return json.dumps({"base_mean": mean.tolist()})


def mean_from_json(text: str | bytes, where: str) -> NDArray:
    """What `mean_to_json` wrote; `where` names the place in errors."""
    return _mean_of(lambda: parse_json(text, where), where)


def mean_of_folder(folder: Path) -> NDArray | None:
    """The mean in `base_mean.json` of a folder of features; None if the folder has no such file."""
    path = folder / BASE_MEAN
    return _mean_of(lambda: read_json(path), BASE_MEAN) if path.is_file() else None


def mean_of_metadata(metadata: Mapping[bytes, bytes] | None) -> NDArray | None:
    """The mean in the metadata of a table's schema, or None."""
    text = (metadata or {}).get(MEAN_KEY)
    return None if text is None else mean_from_json(text, f"{MEAN_KEY.decode()} of the schema's metadata")


def _mean_of(content: Callable[[], dict[str, Any]], where: str) -> NDArray:
    try:
        return np.asarray(content()["base_mean"], np.float64)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{where} holds no base mean, or is damaged: {shortened(str(error), 200)}") from None

"""What methods get about the base classes, which a backbone was trained on: their mean, or the whole base file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.core.base import HOW, is_base, read_base
from handful.features import FeatureTable, read
from handful.features.table import checked_mean
from handful.methods.registry import SCORES
from handful.project.items import of_files
from handful.solving import get_solver
from handful.solving.solver import needed_base

BASE_FILE = ".base.safetensors"


class BaseMean(NamedTuple):
    """The mean [D] float32 of the base classes, where it comes from in words, and the files that are not in it."""

    mean: np.ndarray
    sentence: str
    skipped: Sequence[tuple[str, str]] = ()


def find_base_mean(base: Path | None, backbone: Any, embed: Callable[[Path], FeatureTable]) -> BaseMean | None:
    """The mean of the base classes: of pictures, of features or in a base file; None if there is none."""

    def fitting(mean: Any, path: Path) -> np.ndarray:
        return _fitting(mean, path, backbone.dimension, f"the backbone {backbone.name} gives")

    stored = "The base classes' mean is stored with them: of"
    if base is None:
        own = backbone.base
        said = f"{stored} {own}, which came with the backbone"
        return None if own is None else BaseMean(fitting(read_base(own).mean, own), said)
    if not base.exists():
        raise FileNotFoundError(f"there is no file or folder {str(base)!r} of base classes")
    if base.name.lower().endswith(BASE_FILE) or is_base(base):
        return BaseMean(fitting(read_base(base).mean, base), f"{stored} {base}")
    of_pictures = of_files(base)
    items = embed(base) if of_pictures else read(base, warn=False)
    items = items if of_pictures else items.of_split("base") or items  # novel classes may be in a table too
    mean = fitting(items.features.mean(axis=0, dtype=np.float64), base)
    many = f"{len(items):,} {'pictures' if of_pictures else 'rows'}"
    return BaseMean(mean, f"{stored} {many} of {base}", items.skipped)


def base_parameters(method: str, means: Sequence[np.ndarray | None], file: Any, dimension: int) -> dict[str, Any]:
    """The parameters of a method about the base classes: `base`, `base_mean` or none. file: the base file."""
    solver = get_solver(method)
    if solver.info.needs == "base":
        if file is None:
            raise ValueError(
                f"{solver.name} needs the base file of its backbone: give --set base=MODEL{BASE_FILE}, or a "
                f"backbone MODEL.onnx with that file beside it, as `handful train` writes them; {HOW}"
            )
        needed_base(solver, file, dimension)
        return {"base": os.path.abspath(file) if isinstance(file, str | os.PathLike) else file}
    parts = [get_solver(name).info for name in solver.name.split("+") if name not in SCORES]
    if not any("base" in part.preparation for part in parts):
        return {}
    stored_means = [mean for mean in means if mean is not None]
    if any(not np.array_equal(mean, stored_means[0]) for mean in stored_means):
        raise ValueError(
            f"the examples and the pile carry different base means, and {solver.name} centres on that: embed both with "
            "the same --base, or give --set base=FILE here"
        )
    if stored_means or file is not None:
        mean = stored_means[0] if stored_means else _fitting(read_base(file).mean, file, dimension, "the items have")
        return {"base_mean": mean}
    return {}


def _fitting(mean: Any, path: Any, dimension: int, others: str) -> np.ndarray:
    if len(mean) != dimension:
        raise ValueError(
            f"{str(path)!r} is of base classes with {len(mean)} features, and {others} {dimension}: both must come "
            "from the same backbone"
        )
    try:
        checked = checked_mean(mean, dimension)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    assert checked is not None
    return checked

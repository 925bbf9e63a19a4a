"""How the arrays and facts of a run are stored. The file may come from anyone, so all of it is checked."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib import format as npy

from handful.workbench.domain.changes import MAX_ID

# Kind of number, and the shape: n items, N classes, m items on the map, k labels
SHAPES: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "classes": ("i", ("N",)),
    "ids": ("i", ("n",)),
    "probabilities": ("f", ("n", "N")),
    "scores": ("f", ("n",)),
    "p_unknown": ("f", ("n",)),
    "previous": ("i", ("n",)),
    "map_ids": ("i", ("m",)),
    "flat": ("f", ("m", 2)),
    "given_ids": ("i", ("k",)),
    "given": ("i", ("k",)),
}
RANGES = {"classes": (1, MAX_ID), "ids": (1, MAX_ID), "map_ids": (1, MAX_ID), "previous": (-1, MAX_ID),
          "given_ids": (1, MAX_ID), "given": (0, MAX_ID),
          "probabilities": (-1e-3, 1 + 1e-3), "p_unknown": (-1e-3, 1 + 1e-3)}  # fmt: skip
FACTS: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "is_probability": (bool,),
    "share": (int, float),
    "share_low": (int, float, type(None)),
    "share_high": (int, float, type(None)),
    "share_told": (bool,),
    "groups": (list,),
    "left_out": (list,),
    "again": (bool,),
    "exemplars": (list,),
    "parts": (list,),
    "detail": (int, float),
    "notice": (str,),
}


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the arrays of a run as the bytes of an .npz file."""
    file = io.BytesIO()
    np.savez(file, **{name: arrays[name] for name in SHAPES})  # type: ignore[arg-type]
    return file.getvalue()


def unpack(data: bytes) -> dict[str, np.ndarray]:
    """Read what `pack` wrote; raise ValueError for anything else. No array takes more memory than the data."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            if len(archive.infolist()) != len(SHAPES) or entries.keys() != {f"{name}.npy" for name in SHAPES}:
                raise ValueError("its arrays are not those of a run")
            arrays = {name: _read(archive, entries[f"{name}.npy"], len(data)) for name in SHAPES}
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError, OverflowError, SyntaxError):
        raise ValueError("its arrays are damaged") from None
    sizes: dict[str | int, int] = {2: 2}
    for name, array in arrays.items():
        kind, shape = SHAPES[name]
        fits = array.dtype.kind == kind and array.ndim == len(shape)
        if not fits or any(sizes.setdefault(side, n) != n for side, n in zip(shape, array.shape, strict=True)):
            raise ValueError(f"its array {name} does not fit the others")
        if not _is_in_range(name, array):
            raise ValueError(f"its array {name} has values that no run gives")
    if not sizes["n"] or not sizes["N"]:
        raise ValueError("it has no item or no class")
    return arrays


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, max_bytes: int) -> np.ndarray:
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > max_bytes:
        raise ValueError("its arrays are compressed, which handful does not do")
    with archive.open(entry) as file:
        if npy.read_magic(file) != (1, 0):
            raise ValueError("its arrays are of another version")
        shape, _, dtype = npy.read_array_header_1_0(file)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize > entry.file_size:
            raise ValueError("its arrays are said to be larger than they are")
    with archive.open(entry) as file:
        return npy.read_array(file, allow_pickle=False)


def _is_in_range(name: str, array: np.ndarray) -> bool:
    if name == "p_unknown":
        array = array[~np.isnan(array)]  # where scores only rank
    if name not in RANGES:
        return bool(np.isfinite(array).all())
    low, high = RANGES[name]
    return bool(((array >= low) & (array <= high)).all())


def read_facts(text: str) -> dict[str, Any]:
    """Read the facts of a run; raise ValueError if they are not valid."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("its facts are not JSON") from None
    if not isinstance(facts, dict) or not FACTS.keys() <= facts.keys() or not isinstance(facts["groups"], list):
        raise ValueError("its facts are not those of a run")
    for name, kinds in FACTS.items():
        value = facts[name]
        if type(value) not in kinds or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"its fact {name} has a value that no run gives")
    if not all(value is None or 0 <= value <= 1 for value in (facts[f"share{end}"] for end in ("", "_low", "_high"))):
        raise ValueError("its share of unknowns is not between 0 and 1")
    _check_groups(facts)
    if not -2 <= facts["detail"] <= 2:
        raise ValueError("its fact detail has a value that no run gives")
    if not all(isinstance(name, str) for name in facts["left_out"]):
        raise ValueError("its fact left_out has a value that no run gives")
    return facts


def _check_groups(facts: Mapping[str, Any]) -> None:
    """Raise ValueError unless groups, those that stand for them, and their parts are lists of items."""
    groups, exemplars, parts = facts["groups"], facts["exemplars"], facts["parts"]
    lists = [*groups, *exemplars, *(part for some in parts if isinstance(some, list) for part in some)]
    if not all(isinstance(some, list) for some in parts) or not all(_is_of_items(one) for one in lists):
        raise ValueError("its groups are not of items")
    if not len(groups) == len(exemplars) == len(parts):
        raise ValueError("its groups do not fit together")
    for group, some, kinds in zip(groups, exemplars, parts, strict=True):
        if not {*some, *(item for kind in kinds for item in kind)} <= set(group):
            raise ValueError("its groups do not fit together")


def _is_of_items(items: Any) -> bool:
    return isinstance(items, list) and all(type(item) is int for item in items)

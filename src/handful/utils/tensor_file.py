"""Arrays with a JSON header in a safetensors file: the format of models and bases. Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from handful.utils.files import parse_json
from handful.utils.limits import check_bytes
from handful.utils.text import shortened


def read_tensors(
    path: str | Path, key: str, otherwise: str, framework: str = "np"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header under `key` and the arrays; `otherwise` ends the error for a file without that header."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():  # opening a pipe would wait
        raise ValueError(f"{str(path)!r} is not a regular file")
    check_bytes(Path(path).stat().st_size, repr(str(path)))
    try:
        with safe_open(path, framework=framework) as file:
            header = (file.metadata() or {}).get(key)
            if header is None:
                raise ValueError(f"{str(path)!r} is a safetensors file, but {otherwise}")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OverflowError) as error:
        raise ValueError(
            f"{str(path)!r} is not a safetensors file, or is damaged: {shortened(str(error), 300)}"
        ) from None
    except (TypeError, AttributeError) as error:  # a type that NumPy does not have
        raise ValueError(f"{str(path)!r} is damaged: an array has a type that is not read: {error}") from None
    try:
        about = parse_json(header, "its header")
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is damaged: {error}") from None
    return about, arrays


def check_arrays(arrays: Mapping[str, np.ndarray], axes: Mapping[str, str], sizes: dict[str, int]) -> None:
    """Raise ValueError unless arrays are finite numbers with these axes.

    axes: as in "1 N D", equal letters for equal lengths; those that are not in `sizes` are added to it.

    >>> check_arrays({"points": np.ones((1, 3, 8))}, {"points": "1 N D"}, {"N": 2})
    Traceback (most recent call last):
    ...
    ValueError: 'points' has shape (1, 3, 8), but [1, N, D] with N = 2 is needed
    """
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            raise ValueError(f"{shortened(name)!r} holds something that is not a finite number")
    for name, text in axes.items():
        if name not in arrays:
            raise KeyError(name)
        shape, letters = arrays[name].shape, text.split()
        lengths = [int(letter) if letter.isdecimal() else sizes.get(letter) for letter in letters]
        if len(shape) != len(letters) or any(b not in (None, a) for a, b in zip(shape, lengths, strict=True)):
            known = ", ".join(f"{letter} = {sizes[letter]}" for letter in dict.fromkeys(letters) if letter in sizes)
            raise ValueError(
                f"{name!r} has shape {shortened(str(shape))}, but [{', '.join(letters)}]"
                f"{f' with {known}' if known else ''} is needed"
            )
        sizes.update({letter: side for letter, side in zip(letters, shape, strict=True) if not letter.isdecimal()})

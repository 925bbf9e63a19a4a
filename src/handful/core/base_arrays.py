"""The part of a base that a method needs, as arrays beside the features of its task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from array_api_compat import device

from handful.core.arrays import Array, as_like, to_numpy
from handful.core.base import ITEMS, Base
from handful.core.prepare import replay

OF_TASK = ("task", "qr", "scale")  # steps of preparation that learn from a task


class BaseArrays(Mapping[str, Any]):
    """The arrays of a head, or the negatives, of the type of `like`; made when they are asked for.

    Items, as the negatives, are prepared as the task is: [1, M, D], or [B, M, D] where what was learned from a task
    prepares them.
    """

    def __init__(self, base: Base | None, name: str, state: Mapping[str, Array], like: Array) -> None:
        self.base, self.name, self.state, self.like = base, name, state, like

    def __getitem__(self, key: str) -> Array:
        value = as_like(self._arrays[key], self.like)
        return replay(self._steps, value[None]) if ITEMS.get(self.name) == key else value

    @property
    def mark(self) -> str | None:
        """A digest of all that decides the arrays, to store what is computed from them; None if a task decides too."""
        if self.base is None or any(_is_of_task(name) for name in self._steps):
            return None
        digest = blake2b(f"{self.base.mark} {type(self.like)} {self.like.dtype} {device(self.like)}".encode())
        for name, array in self._steps.items():
            digest.update(name.encode() + np.ascontiguousarray(to_numpy(array)).tobytes())
        return digest.hexdigest()

    @property
    def _steps(self) -> dict[str, Array]:
        """What prepares items: of the first task alone, unless tasks differ."""
        steps = {name: array for name, array in self.state.items() if name.startswith("prepare.")}
        return steps if any(map(_is_of_task, steps)) else {name: array[:1] for name, array in steps.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def _arrays(self) -> dict[str, np.ndarray]:
        assert self.base is not None
        return self.base.part(self.name)


def _is_of_task(name: str) -> bool:
    return name.split(".")[2] in OF_TASK

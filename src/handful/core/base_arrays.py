"""The part of a base that a method needs, as arrays beside the features of its task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from handful.core.arrays import Array, as_like
from handful.core.base import NEGATIVES, Base
from handful.core.prepare import replay

OF_TASK = ("task", "qr", "scale")  # steps of preparation that learn from a task


class BaseArrays(Mapping[str, Any]):
    """The arrays of a head, or the negatives, prepared as the task is; made when they are asked for.

    Negatives are [1, M, D], or [B, M, D] where what was learned from a task prepares them.
    """

    def __init__(self, base: Base | None, name: str, state: Mapping[str, Array], like: Array) -> None:
        self.base, self.name, self.state, self.like = base, name, state, like

    def __getitem__(self, key: str) -> Array:
        value = as_like(self._arrays[key], self.like)
        if self.name != NEGATIVES:
            return value
        steps = {name: array for name, array in self.state.items() if name.startswith("prepare.")}
        if not any(name.split(".")[2] in OF_TASK for name in steps):
            steps = {name: array[:1] for name, array in steps.items()}
        return replay(steps, value[None])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def _arrays(self) -> dict[str, np.ndarray]:
        assert self.base is not None
        return self.base.part(self.name)

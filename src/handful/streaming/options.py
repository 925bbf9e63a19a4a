"""How a large pile is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handful.core.parameters import Number, check

RULES = {"block_rows": Number(1, closed=True, whole=True, optional=True)}


@dataclass(frozen=True)
class Streaming:
    """How a pile that does not fit into memory is read, for `handful.solve(..., streaming=Streaming(...))`.

    Parameters
    ----------
    engine : object, optional
        What makes the passes over the pile: threads of this machine by default, or `handful.cluster.Actors(...)`.
    block_rows : int, optional
        How many rows each worker holds at a time.
    checkpoint : path, optional
        A file from which a killed solve goes on. It is removed at the end.
    out : path, optional
        A folder for probabilities.npy and outlier_scores.npy, which are then mapped and not held in memory.
    progress : callable, optional
        Called with the number of passes made, and of passes in all.

    Examples
    --------
    >>> Streaming(block_rows=1000).block_rows
    1000
    """

    engine: Any = None
    block_rows: int | None = None
    checkpoint: Path | str | None = None
    out: Path | str | None = None
    progress: Callable[[int, int], object] | None = None

    def __post_init__(self) -> None:
        check(vars(self), RULES, "Streaming")

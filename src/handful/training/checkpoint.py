"""Where a training stands, on disk: one safetensors file, replaced whole: a kill leaves the last one or the next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import handful
from handful.utils.files import locked, write_whole

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
NAME = "checkpoint.safetensors"
LOCK = ".lock"


@dataclass
class Checkpoint:
    """`made_from` is what must not change between two halves of a training: the settings and the pictures."""

    made_from: dict[str, Any]
    step: int = 0  # the next one
    history: list[dict[str, Any]] = field(default_factory=list)  # a row an epoch
    losses: list[float] = field(default_factory=list)  # of the epoch under way
    best: dict[str, Any] = field(default_factory=dict)  # the row of the best epoch
    seconds: float = 0.0  # of training so far
    state: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)  # of the network in the best epoch


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Two trainings in one folder would overwrite each other; what a killed one left half written is removed."""
    with locked(folder / LOCK, "folder"):
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink()
        yield


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint into a folder; the file appears whole or not at all."""
    from safetensors.torch import save

    names = ("made_from", "step", "history", "losses", "best", "seconds")
    about = {"format": FORMAT, "handful": handful.__version__} | {name: getattr(checkpoint, name) for name in names}
    tensors = {f"state.{name}": value for name, value in checkpoint.state.items()}
    tensors |= {f"best.{name}": value for name, value in checkpoint.weights.items()}
    write_whole(folder / NAME, save(tensors, metadata={"handful": json.dumps(about)}))


def read(folder: Path) -> Checkpoint | None:
    """None if there is none; one that cannot be read is refused, for a new training would replace it."""
    from safetensors import SafetensorError, safe_open

    path = folder / NAME
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["handful"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if about.pop("format") > FORMAT:
            raise ValueError(f"{path} was written by handful {about['handful']}, which is newer: upgrade, or remove it")
        about.pop("handful")
        parts = {
            name: {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}
            for name in ("state", "best")
        }
        return Checkpoint(**about, state=parts["state"], weights=parts["best"])
    except (SafetensorError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged, or no checkpoint of handful: remove it to start anew ({error!r})"
        ) from None

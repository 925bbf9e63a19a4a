"""The state of a training on disk: one safetensors file, replaced as a whole, so that a kill never damages it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from handful.utils.files import locked, write_whole
from handful.utils.tensor_file import read_tensors

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
FORMAT = 2
NAME = "checkpoint.safetensors"
LOCK = ".lock"
MADE_FROM: dict[str, Any] = {"settings": {}, "pictures": "", "validation": ""}  # with its digests


@dataclass
class Checkpoint:
    """The state of a training. `made_from` (the settings and the pictures) must not change when training continues."""

    made_from: dict[str, Any]
    step: int = 0  # the next step
    history: list[dict[str, Any]] = field(default_factory=list)  # a row for each epoch
    losses: list[float] = field(default_factory=list)  # of the current epoch
    best: dict[str, Any] = field(default_factory=dict)  # the row of the best epoch
    seconds: float = 0.0  # of training so far
    state: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)  # of the network in the best epoch
    together: dict[str, Any] = field(default_factory=dict)  # how far the joint training is; empty before it begins
    together_state: dict[str, Tensor] = field(default_factory=dict)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, because two trainings would overwrite each other; remove files of a killed one."""
    with locked(folder / LOCK, "folder"):
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink()
        yield


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint into a folder; the file appears whole or not at all."""
    from safetensors.torch import save

    names = ("made_from", "step", "history", "losses", "best", "seconds", "together")
    about = {"format": FORMAT} | {name: getattr(checkpoint, name) for name in names}
    tensors = {f"state.{name}": value for name, value in checkpoint.state.items()}
    tensors |= {f"best.{name}": value for name, value in checkpoint.weights.items()}
    tensors |= {f"together.{name}": value for name, value in checkpoint.together_state.items()}
    write_whole(folder / NAME, save(tensors, metadata={"handful": json.dumps(about)}))


def read(folder: Path) -> Checkpoint | None:
    """Return the checkpoint, None if there is none. One that cannot be read is an error, so that it is not replaced."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        about, tensors = read_tensors(path, "handful", "not a checkpoint", framework="pt")
        if about.pop("format") == FORMAT:
            return _checked(about, tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, or not a checkpoint of handful: remove it to start again ({error})"
        ) from None
    raise ValueError(f"{path} was written by another version of handful: use that one, or remove the file")


def _checked(about: dict[str, Any], tensors: dict[str, Tensor]) -> Checkpoint:
    state, best, together = (with_prefix(tensors, f"{name}.") for name in ("state", "best", "together"))
    at = Checkpoint(**about, state=state, weights=best, together_state=together)
    for entries, blank in ((vars(at), vars(Checkpoint(MADE_FROM))), (at.made_from, MADE_FROM)):
        if wrong := [name for name in blank if type(entries[name]) is not type(blank[name])]:
            raise TypeError(f"{wrong[0]} is a {type(entries[wrong[0]]).__name__}")
    return at


def with_prefix(tensors: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the entries whose names begin with the prefix, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

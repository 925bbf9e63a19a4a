"""The loop of everything that is learned: a break changes nothing, for a step depends on its seed and number only."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from handful.utils.files import write_whole
from handful.utils.tensor_file import read_tensors

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

T = TypeVar("T")
Arrays = dict[str, np.ndarray]
Progress = Callable[[int, int], object]  # called with how much is done, and of how much
KEY = "handful.learning"
MOMENTS = ("momentum_buffer", "exp_avg", "exp_avg_sq")  # of the optimisers of torch
SAVE_EVERY_S = 60.0


@dataclass
class Reached:
    """How far a stage is, as plain data."""

    step: int = 0  # steps that were made
    best_step: int = 0  # 0: the start is the best
    before: dict[str, Any] = field(default_factory=dict)  # figures of the start
    best: dict[str, Any] = field(default_factory=dict)  # figures of the best step
    losses: list[float] = field(default_factory=list)  # since the last validation
    rows: list[dict[str, Any]] = field(default_factory=list)  # figures of each validation
    seconds: float = 0.0
    is_finished: bool = False


class Stage(ABC):
    """Something that learns step by step, and of which the best step is kept. `made_from` decides the result."""

    tensors: dict[str, Tensor]  # everything that steps change, by name; `prepare` sets it and the optimiser
    optimiser: Optimizer

    def __init__(self, name: str, steps: int, made_from: Mapping[str, Any]) -> None:
        self.name, self.steps, self.made_from = name, steps, dict(made_from)
        self.reached = Reached()
        self.best: Arrays = {}  # the result: arrays of the best step

    def start(self) -> None:  # noqa: B027  # a backbone is ready when it is made
        """Make ready for the first step."""

    def prepare(self, arrays: Arrays) -> None:  # noqa: B027
        """Make ready to continue with tensors of these values."""

    @abstractmethod
    def step(self, number: int) -> float:
        """Make step `number`, and return the loss before it."""

    @abstractmethod
    def is_validation_due(self) -> bool:
        """Whether a validation follows the last step."""

    @abstractmethod
    def validate(self) -> dict[str, Any]:
        """Return the figures of the last step."""

    @abstractmethod
    def result(self, figures: Mapping[str, Any]) -> Arrays:
        """Return a copy of the arrays that are learned."""

    def is_better(self, figures: Mapping[str, Any]) -> bool:
        """Whether accuracy and AUROC are better in sum, and neither is worse than before learning."""
        best, before, names = self.reached.best, self.reached.before, ("accuracy", "auroc")
        is_worse = any(figures[name] < before[name] for name in names)
        return not is_worse and sum(figures[name] for name in names) > sum(best[name] for name in names)

    def is_past_its_best(self) -> bool:
        """Whether later steps are not worth their time."""
        return False

    def state(self) -> Arrays:
        """Return a copy of all arrays on which the next step depends."""
        tensors = {f"value.{name}": tensor for name, tensor in self.tensors.items()}
        for name, tensor in self.tensors.items():
            moments = self.optimiser.state.get(tensor, {})
            tensors |= {f"{key}.{name}": moments[key] for key in MOMENTS if moments.get(key) is not None}
        return copied(tensors)

    def restore(self, state: Arrays) -> None:
        """Continue from such a state."""
        import torch

        self.prepare(with_prefix(state, "value."))
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(torch.from_numpy(state[f"value.{name}"]))
                moments = {
                    key: torch.empty_like(tensor).copy_(torch.from_numpy(state[f"{key}.{name}"]))
                    for key in MOMENTS
                    if f"{key}.{name}" in state
                }  # in the tensor's own layout
                if moments:
                    self.optimiser.state[tensor] = {"step": torch.tensor(float(self.reached.step))} | moments

    def set_rate(self, share: float) -> None:
        """Set the learning rates to this share of the highest ones."""
        for group in self.optimiser.param_groups:
            group["lr"] = group["highest"] * share


class Saved(NamedTuple):
    """What a checkpoint holds of one stage."""

    made_from: dict[str, Any]
    reached: dict[str, Any]
    arrays: Arrays


class Checkpoint:
    """The stages that are finished, and the state of the one that is not. Without a path nothing is written."""

    def __init__(self, path: Path | None, save_every: float = SAVE_EVERY_S) -> None:
        self.path, self.save_every, self.written = path, save_every, time.monotonic()
        self.stages: dict[str, Saved] = {}
        if path is None or not path.exists():
            return
        try:
            header, arrays = read_tensors(path, KEY, "it is not a checkpoint")
            for name, (made_from, reached) in header.items():
                self.stages[name] = Saved(made_from, asdict(Reached(**reached)), with_prefix(arrays, f"{name}/"))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is damaged, or not a checkpoint of handful: remove it to start again ({error})"
            ) from None

    def of(self, stage: Stage) -> Saved | None:
        """Return what is stored of a stage; an error if it was made from something else."""
        saved = self.stages.get(stage.name)
        if saved is None:
            return None
        now = json.loads(json.dumps(stage.made_from))  # tuples become lists
        differences = [
            f"{name} {saved.made_from.get(name)} there and {value} here"
            for name, value in now.items()
            if saved.made_from.get(name) != value
        ]
        if differences:
            raise ValueError(
                f"{self.path} holds a training with other settings or data ({'; '.join(differences)}): continue with "
                "the same ones, name another output, or remove the file to start again"
            )
        return saved

    def save(self, stage: Stage) -> None:
        """Write the file, if it is time, with the state of a stage, or with its result if it is finished."""
        is_finished = stage.reached.is_finished
        if self.path is None or not (is_finished or time.monotonic() - self.written >= self.save_every):
            return
        from safetensors.numpy import save

        state = {} if is_finished else {f"now/{name}": array for name, array in stage.state().items()}
        arrays = state | {f"best/{name}": array for name, array in stage.best.items()}
        self.stages[stage.name] = Saved(stage.made_from, asdict(stage.reached), arrays)
        header = {name: (saved.made_from, saved.reached) for name, saved in self.stages.items()}
        tensors = {
            f"{name}/{key}": np.asarray(array, order="C")
            for name, saved in self.stages.items()
            for key, array in saved.arrays.items()
        }
        write_whole(self.path, save(tensors, metadata={KEY: json.dumps(header)}))
        self.written = time.monotonic()


def learn(
    stage: Stage,
    checkpoint: Checkpoint,
    progress: Progress = lambda done, total: None,
    on_validation: Callable[[dict[str, Any]], object] = lambda row: None,
) -> None:
    """Learn until the last step; afterwards `stage.best` and `stage.reached` are the result."""
    saved = checkpoint.of(stage)
    if saved is None:
        stage.start()
    else:
        stage.reached, stage.best = Reached(**saved.reached), with_prefix(saved.arrays, "best/")
        if not stage.reached.is_finished:
            stage.restore(with_prefix(saved.arrays, "now/"))
    reached = stage.reached
    begun = time.monotonic() - reached.seconds
    progress(reached.step, stage.steps)
    while not reached.is_finished:
        if reached.step < stage.steps and not stage.is_past_its_best():
            reached.losses.append(stage.step(reached.step))
            reached.step += 1
            progress(reached.step, stage.steps)
            if stage.is_validation_due():
                figures = stage.validate()
                reached.rows.append(figures)
                reached.losses = []
                if stage.is_better(figures):
                    reached.best, reached.best_step, stage.best = figures, reached.step, stage.result(figures)
                on_validation(figures)
        else:
            reached.is_finished = True
        reached.seconds = time.monotonic() - begun
        checkpoint.save(stage)  # not at Ctrl-C, which may come in the middle of a step


def cosine(done: float) -> float:
    """Return the share of the highest learning rate after a part of the steps: 1 at the start, 0 at the end."""
    return (1 + math.cos(math.pi * done)) / 2


def with_prefix(arrays: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the entries whose names begin with the prefix, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def copied(tensors: Mapping[str, Tensor]) -> Arrays:
    """Return copies of tensors as NumPy arrays."""
    return {name: np.array(value.detach().cpu().numpy(), order="C") for name, value in tensors.items()}

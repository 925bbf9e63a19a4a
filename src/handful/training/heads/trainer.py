"""Learning on tasks that are drawn from base classes.

A step draws many tasks of random base classes, scores them with the functions that the method itself uses, and follows
the gradient of the loss. Some base classes are held out, and tasks of these choose the best step. The start is one of
the choices: a head that learns nothing useful stays there.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.arrays import softmax, unit
from handful.core.metrics import figures
from handful.features import FeatureTable
from handful.training.checkpoint import with_prefix
from handful.training.heads.head import Arrays, BaseItems, Head, Tasks, TaskSampler
from handful.utils.extras import TORCH, need
from handful.utils.files import write_whole
from handful.utils.tensor_file import read_tensors

HELD_OUT_SHARE = 0.25  # of the classes
QUERIES = 15  # of each class in a task, if there are enough items
OUTLIER_WAYS = 5
VALIDATION_TASKS = 100  # tasks of held-out classes for each number of shots
VALIDATIONS = 20  # number of validations; more often at first, because a head with few classes is soon past its best
PATIENCE_FACTOR = 4  # stop after this many times the best step, but not before an eighth of all steps
HEAT_FACTORS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # unknowns are told best at a higher temperature than classes
START, LEARNING = 3, 4  # streams of random numbers
KEY = "handful.learning"
SAVE_EVERY_S = 10.0
MOMENTS = ("first", "second")  # of Adam
PARTS = ("now", *MOMENTS, "best")

Progress = Callable[[int, int], object]  # called with the number of tasks learned from, and of all tasks


class HeadTrainer:
    """Tasks of base classes: most of them to learn from, some for validation.

    Parameters
    ----------
    features : FeatureTable
        Features of the base classes, with labels.
    validation : FeatureTable or None
        Classes to hold out instead of base classes.
    mean : array [D]
        What is subtracted from features before they are scaled to length 1.
    ways, shots : int, sequence of int
        The known classes of the tasks, and the examples of each class.
    seed : int
        The same seed gives the same heads.
    order : int
        1: heads with an inner descent take the gradients of its steps as constants. 2: they do not.
    """

    def __init__(
        self,
        features: FeatureTable,
        validation: FeatureTable | None,
        mean: np.ndarray,
        ways: int,
        shots: Sequence[int],
        seed: int,
        order: int = 2,
    ):
        self.seed, self.shots, self.order = seed, tuple(shots), order
        codes, usable = _usable(features.need_labels(), max(self.shots))
        items, validation_codes = features.features, codes
        if validation is None:
            self.ways = _ways(ways, len(usable), None, features.name, max(shots))
            fewest = (
                2 * self.ways if len(usable) >= 4 * self.ways else self.ways + 1
            )  # as many unknown classes, if possible
            held_out_count = max(fewest, int(HELD_OUT_SHARE * len(usable)))
            order_of_classes = np.random.default_rng([seed, 0]).permutation(usable)
            base_classes, held_out_classes = order_of_classes[held_out_count:], order_of_classes[:held_out_count]
        else:
            other_codes, held_out_classes = _usable(validation.need_labels(), max(self.shots))
            self.ways, base_classes = _ways(ways, len(usable), len(held_out_classes), features.name, max(shots)), usable
            items = np.concatenate([items, validation.features])
            absent = np.full(len(other_codes), -1)
            codes, validation_codes = (
                np.concatenate([codes, absent]),
                np.concatenate([np.full(len(codes), -1), other_codes]),
            )
        self.held_out = len(held_out_classes)
        raw = items.astype(np.float32, copy=False)
        self.varies = raw.shape[1] > 1 and bool((raw != raw[:1]).any())
        unseen = usable if validation is None else held_out_classes
        self.items = BaseItems(
            unit(raw - mean), np.where(np.isin(codes, base_classes), codes, -1), base_classes, self.shots, self.ways,
            raw, np.where(np.isin(validation_codes, unseen), validation_codes, -1),
        )  # fmt: skip
        self.sampler = TaskSampler(codes, base_classes, self.ways, OUTLIER_WAYS, QUERIES)
        validation_sampler = TaskSampler(validation_codes, held_out_classes, self.ways, OUTLIER_WAYS, QUERIES)
        rng = np.random.default_rng([seed, 2])
        self.validation_tasks = [validation_sampler.draw(rng, VALIDATION_TASKS, n) for n in self.shots]

    def train(
        self,
        name: str,
        head: Head,
        episodes: int,
        file: LearningFile,
        progress: Progress,
        start: Mapping[str, np.ndarray] | None = None,
    ) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays of the best step, and the figures on the held-out classes before and after learning.

        `start` are arrays to learn from instead of the head's own start.
        """
        if head.loss is not None and not self.varies:
            raise ValueError(
                f"the features have one column, or all rows are the same: head {name!r} cannot be learned from them, "
                "give other features, or leave the heads out (--heads none)"
            )
        steps = max(1, episodes // head.tasks_per_step) if head.loss is not None else 0
        state = file.state_of(name)
        if not state.arrays:
            arrays = start or head.start(self.items, np.random.default_rng([self.seed, START]))
            now = {key: np.asarray(value, np.float32) for key, value in arrays.items()}
            state.before = state.best = self.validate(head, now)
            zeros = {part: {key: np.zeros_like(value) for key, value in now.items()} for part in MOMENTS}
            state.arrays = {"now": now, "best": heated(head, now, state.best["heat"]), **zeros}
        if head.loss is not None:
            self._train(head, state, steps, file, progress)
        progress(1, 1)
        report = {"step": state.best_step, "steps": state.step, "before": state.before, "after": state.best}
        return state.arrays["best"], report

    def _train(self, head: Head, state: HeadState, steps: int, file: LearningFile, progress: Progress) -> None:
        """Follow the gradient from where the state is, and keep the best step."""
        torch = need("torch", "learning heads", TORCH)
        items = torch.from_numpy(self.items.features)
        highest, batch = head.learning_rate(self.items.dimension), head.tasks_per_step
        arrays = {key: torch.tensor(value, requires_grad=True) for key, value in state.arrays["now"].items()}
        adam = torch.optim.Adam(list(arrays.values()), lr=highest)
        if state.step:
            for key, array in arrays.items():
                first, second = (torch.tensor(state.arrays[part][key]) for part in MOMENTS)
                adam.state[array] = {"step": torch.tensor(float(state.step)), "exp_avg": first, "exp_avg_sq": second}

        def keep() -> None:
            """Copy the state of torch into the state."""
            state.arrays["now"] = _copied(arrays)
            for part, name in zip(MOMENTS, ("exp_avg", "exp_avg_sq"), strict=True):
                state.arrays[part] = _copied({key: adam.state[array][name] for key, array in arrays.items()})

        validation_steps = set(np.geomspace(min(5, steps), steps, VALIDATIONS).round().astype(int).tolist())
        while state.step < steps and not self._is_past_its_best(state, steps, validation_steps):
            rng = np.random.default_rng([self.seed, LEARNING, state.step])
            for group in adam.param_groups:
                group["lr"] = highest * (1 + math.cos(math.pi * state.step / steps)) / 2
            loss = self.loss(head, arrays, items, self.sampler.draw(rng, batch, int(rng.choice(self.shots))))
            adam.zero_grad()
            loss.backward()
            adam.step()
            state.step += 1
            progress(state.step * batch, steps * batch)
            if state.step in validation_steps:
                now = _copied(arrays)
                result = self.validate(head, now)
                if is_better(result, state.best, state.before):
                    state.best, state.best_step = result, state.step
                    state.arrays["best"] = heated(head, now, result["heat"])
            if file.is_due:
                keep()
                file.save()

    @staticmethod
    def _is_past_its_best(state: HeadState, steps: int, validation_steps: set[int]) -> bool:
        return state.step in validation_steps and state.step >= max(PATIENCE_FACTOR * state.best_step, steps // 8)

    def loss(self, head: Head, arrays: Mapping[str, Any], items: Any, tasks: Tasks) -> Any:
        """Return a head's loss on tasks."""
        assert head.loss is not None
        score = head.score_first_order if self.order == 1 and head.score_first_order is not None else head.score
        return head.loss(
            score(arrays, items[tasks.support], tasks.labels, items[tasks.query]), tasks.known, tasks.truth
        )

    def validate(self, head: Head, arrays: Arrays, features: np.ndarray | None = None) -> dict[str, float]:
        """Return accuracy and AUROC, in percent, on the held-out classes, and the heat with the best AUROC.

        `features` are prepared features of the same items, of another network than those of the trainer.
        """
        heats = (1.0,) if head.temperature is None else HEAT_FACTORS
        results_by_heat: dict[float, list[dict[str, np.ndarray]]] = {heat: [] for heat in heats}
        items = self.items.features if features is None else features
        for tasks in self.validation_tasks:
            logits, outlier_scores = head.score(arrays, items[tasks.support], tasks.labels, items[tasks.query])
            for heat in heats:
                p = softmax(logits / heat)
                scores = -p.max(axis=-1) if outlier_scores is None else outlier_scores
                results_by_heat[heat].append(figures(p, scores, tasks.truth))
        means = [
            {"heat": heat} | {name: 100 * float(np.mean([f[name] for f in results])) for name in ("accuracy", "auroc")}
            for heat, results in results_by_heat.items()
        ]
        return max(means, key=lambda result: result["auroc"])


def check_classes(labels: np.ndarray, others: np.ndarray | None, name: str, ways: int = 5, shots: int = 5) -> None:
    """Raise ValueError if no head can be learned on these classes: before a long training, not after it."""
    other_classes = None if others is None else len(_usable(others, shots)[1])
    _ways(ways, len(_usable(labels, shots)[1]), other_classes, name, shots)


def _ways(max_ways: int, usable: int, others: int | None, name: str, shots: int) -> int:
    """Return the number of known classes of a task. At least one class must be left as unknown."""
    ways = min(max_ways, usable // 2 - 1 if others is None else min(usable, others) - 1)
    if ways < 2:
        needed = (
            "6 or more" if others is None else f"3 or more, and as many for validation, of which there are {others}"
        )
        raise ValueError(
            f"{name} has {usable} classes of more than {shots} items, and a head needs {needed} to learn from: give "
            "more base classes, or leave the heads out (--heads none, and no --together)"
        )
    return ways


def _usable(labels: np.ndarray, shots: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the class of each item as a number, and the classes that have more than `shots` items."""
    codes = np.unique(labels, return_inverse=True)[1]
    return codes, np.flatnonzero(np.bincount(codes) > shots)


def _copied(tensors: Mapping[str, Any]) -> Arrays:
    return {key: value.detach().numpy().copy() for key, value in tensors.items()}


def is_better(result: Mapping[str, float], best: Mapping[str, float], before: Mapping[str, float]) -> bool:
    """Return whether accuracy and AUROC are better in sum, and neither is worse than before learning."""
    better = result["accuracy"] + result["auroc"] > best["accuracy"] + best["auroc"]
    return better and all(result[name] >= before[name] for name in ("accuracy", "auroc"))


def heated(head: Head, arrays: Arrays, heat: float) -> Arrays:
    """Return a copy of the arrays whose temperature is multiplied by `heat`."""
    copies = {key: value.copy() for key, value in arrays.items()}
    if head.temperature is None:
        return copies
    name, sign = head.temperature
    return copies | {name: copies[name] + np.float32(sign * np.log(heat))}


# ---- the state on disk


@dataclass
class HeadState:
    """How far the learning of one head is."""

    name: str
    step: int = 0  # steps that were made
    best_step: int = 0
    before: dict[str, float] = field(default_factory=dict)  # figures of the start
    best: dict[str, float] = field(default_factory=dict)  # figures of the best step
    arrays: dict[str, Arrays] = field(default_factory=dict)  # by PARTS


class LearningFile:
    """The heads that are finished, and the state that is not. Without a path nothing is written.

    Parameters
    ----------
    path : Path or None
        The file.
    made_from : dict
        What decides the result, as plain data. A file that was made from anything else is refused.
    save_every : float
        Seconds between two writings.
    """

    def __init__(self, path: Path | None, made_from: dict[str, Any], save_every: float = SAVE_EVERY_S) -> None:
        self.path, self.made_from, self.save_every, self.saved = path, made_from, save_every, time.monotonic()
        self.finished: dict[str, tuple[Arrays, dict[str, Any]]] = {}
        self.state: HeadState | None = None
        if path is not None and path.is_file():
            self._read(path)

    def _read(self, path: Path) -> None:
        header, arrays = read_tensors(path, KEY, "it does not hold a learning: remove it, or name another output")
        if header.get("made_from") != self.made_from:
            raise ValueError(
                f"{str(path)!r} holds a learning from other features or with other options: finish it with the same "
                "command, or remove it to start again"
            )
        try:
            for name, report in header["finished"].items():
                self.finished[name] = with_prefix(arrays, f"finished/{name}/"), report
            if header["state"] is not None:
                parts = {part: with_prefix(arrays, f"{part}/") for part in PARTS}
                shapes = [{name: array.shape for name, array in parts[part].items()} for part in PARTS]
                if not shapes[0] or any(others != shapes[0] for others in shapes):
                    raise KeyError("an array of the state")
                self.state = HeadState(**header["state"], arrays=parts)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{str(path)!r} is damaged ({error!r}): remove it to start again") from None

    def state_of(self, name: str) -> HeadState:
        """Return the state of a head: the one that was begun, or a new one."""
        if self.state is None or self.state.name != name:
            self.state = HeadState(name)
        return self.state

    @property
    def is_due(self) -> bool:
        """Whether the file is to be written, and the last time was long enough ago."""
        return self.path is not None and time.monotonic() - self.saved >= self.save_every

    def save(self) -> None:
        """Write the file."""
        if self.path is None:
            return
        from safetensors.numpy import save

        state = self.state
        arrays = {f"finished/{head}/{name}": a for head, (of, _) in self.finished.items() for name, a in of.items()}
        header: dict[str, Any] = {"made_from": self.made_from, "state": None}
        header["finished"] = {name: report for name, (_, report) in self.finished.items()}
        if state is not None and state.arrays:
            arrays |= {f"{part}/{name}": a for part, of in state.arrays.items() for name, a in of.items()}
            names = ("name", "step", "best_step", "before", "best")
            header["state"] = {name: getattr(state, name) for name in names}
        plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        write_whole(self.path, save(plain, metadata={KEY: json.dumps(header)}))
        self.saved = time.monotonic()

    def finish(self, name: str, arrays: Arrays, report: dict[str, Any]) -> None:
        """Add a finished head, and write the file."""
        self.finished[name], self.state = (arrays, report), None
        self.save()

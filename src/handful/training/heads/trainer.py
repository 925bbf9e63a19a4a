"""Learning on tasks that are drawn from base classes.

A step draws many tasks of random base classes, scores them with the functions that the method itself uses, and follows
the gradient of the loss. Some base classes are held out, and tasks of these choose the best step. The start is one of
the choices: a head that learns nothing useful stays there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from handful.core.arrays import softmax, unit
from handful.core.metrics import figures
from handful.features import FeatureTable
from handful.training.heads.head import Arrays, BaseItems, Head, TaskSampler
from handful.training.learning import Stage, copied, restore_into, state_of
from handful.utils.extras import TORCH, need

HELD_OUT_SHARE = 0.25  # of the classes
QUERIES = 15  # of each class in a task, if there are enough items
OUTLIER_WAYS = 5
VALIDATION_TASKS = 100  # tasks of held-out classes for each number of shots
VALIDATIONS = 20  # number of validations; more often at first, because a head with few classes is soon past its best
PATIENCE_FACTOR = 4  # stop after this many times the best step, but not before an eighth of all steps
HEAT_FACTORS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # unknowns are told best at a higher temperature than classes
START, LEARNING = 3, 4  # streams of random numbers


class HeadTasks:
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
        The same seed gives the same tasks.
    """

    def __init__(
        self,
        features: FeatureTable,
        validation: FeatureTable | None,
        mean: np.ndarray,
        ways: int,
        shots: Sequence[int],
        seed: int,
    ):
        self.seed, self.shots = seed, tuple(shots)
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

    def validate(self, head: Head, arrays: Arrays, features: np.ndarray | None = None) -> dict[str, float]:
        """Return accuracy and AUROC, in percent, on the held-out classes, and the heat with the best AUROC.

        `features` are prepared features of the same items, of another network.
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


class HeadStage(Stage):
    """A head that learns on fixed features.

    Parameters
    ----------
    name : str
        Its name.
    head : Head
        How it is learned.
    tasks : HeadTasks
        What it learns from.
    episodes : int
        The largest number of tasks.
    made_from : dict
        What decides the result, as plain data.
    first : mapping, optional
        Arrays to learn from instead of the head's own start.
    """

    def __init__(
        self,
        name: str,
        head: Head,
        tasks: HeadTasks,
        episodes: int,
        made_from: dict[str, Any],
        first: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        super().__init__()
        self.name, self.head, self.tasks, self.made_from, self.first = name, head, tasks, made_from, first
        self.steps = max(1, episodes // head.tasks_per_step) if head.loss is not None else 0
        self.validation_steps = set(
            np.geomspace(min(5, self.steps), self.steps, VALIDATIONS).round().astype(int).tolist() if self.steps else []
        )
        self.parameters: dict[str, Any] = {}

    def start(self) -> None:
        """Validate the start, which is the best so far."""
        if self.head.loss is not None and not self.tasks.varies:
            raise ValueError(
                f"the features have one column, or all rows are the same: head {self.name!r} cannot be learned from "
                "them, give other features, or leave the heads out (--heads none)"
            )
        arrays = self.first or self.head.start(self.tasks.items, np.random.default_rng([self.tasks.seed, START]))
        now = {key: np.asarray(value, np.float32) for key, value in arrays.items()}
        self.reached.before = self.reached.best = self.tasks.validate(self.head, now)
        self.best = heated(self.head, now, self.reached.best["heat"])
        self._prepare(now)

    def _prepare(self, arrays: Arrays) -> None:
        if self.head.loss is None:
            return
        torch = need("torch", "learning heads", TORCH)
        self.items = torch.from_numpy(self.tasks.items.features)
        self.parameters = {name: torch.tensor(value, requires_grad=True) for name, value in arrays.items()}
        self.highest_rate = self.head.learning_rate(self.tasks.items.dimension)
        self.adam = torch.optim.Adam(list(self.parameters.values()), lr=self.highest_rate)

    def step(self, number: int) -> float:
        """Learn from a batch of tasks."""
        head, tasks = self.head, self.tasks
        assert head.loss is not None
        rng = np.random.default_rng([tasks.seed, LEARNING, number])
        for group in self.adam.param_groups:
            group["lr"] = self.highest_rate * (1 + math.cos(math.pi * number / self.steps)) / 2
        drawn = tasks.sampler.draw(rng, head.tasks_per_step, int(rng.choice(tasks.shots)))
        scores = head.score(self.parameters, self.items[drawn.support], drawn.labels, self.items[drawn.query])
        loss = head.loss(scores, drawn.known, drawn.truth)
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return float(loss.detach())

    def is_validation_due(self) -> bool:
        """More often at first."""
        return self.reached.step in self.validation_steps

    def validate(self) -> dict[str, Any]:
        """Return the figures on held-out classes, and the heat."""
        return self.tasks.validate(self.head, copied(self.parameters))

    def result(self, figures: Mapping[str, Any]) -> Arrays:
        """Return the arrays at the heat that separates unknowns best."""
        return heated(self.head, copied(self.parameters), figures["heat"])

    def is_past_its_best(self) -> bool:
        """Whether the best step is long ago."""
        reached = self.reached
        return self.is_validation_due() and reached.step >= max(PATIENCE_FACTOR * reached.best_step, self.steps // 8)

    def state(self) -> Arrays:
        """Return the arrays and Adam's moments."""
        return state_of(self.adam, self.parameters) if self.parameters else {}

    def restore(self, state: Arrays) -> None:
        """Continue from such a state."""
        self._prepare(dict(self.best))  # for the shapes
        if self.parameters:
            restore_into(self.adam, self.parameters, state, self.reached.step)


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


def heated(head: Head, arrays: Arrays, heat: float) -> Arrays:
    """Return a copy of the arrays whose temperature is multiplied by `heat`."""
    copies = {key: value.copy() for key, value in arrays.items()}
    if head.temperature is None:
        return copies
    name, sign = head.temperature
    return copies | {name: copies[name] + np.float32(sign * np.log(heat))}

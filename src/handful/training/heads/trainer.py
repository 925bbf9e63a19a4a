"""Learning on tasks that are drawn from base classes; tasks of held-out classes choose the best step, or the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from handful.core.arrays import softmax, unit
from handful.core.metrics import figures
from handful.features import FeatureTable
from handful.training.heads.head import Arrays, BaseItems, Head, TaskSampler
from handful.training.learning import Stage, copied, cosine
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
    """Tasks of base classes to learn from; tasks of `validation`, or of a quarter of the base classes, to validate."""

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
        labels, others = features.need_labels(), None if validation is None else validation.need_labels()
        self.ways = ways = known_classes(labels, others, features.name, ways, max(shots))
        codes, usable = _usable(labels, max(shots))
        items = features.features
        if validation is None or others is None:
            fewest = 2 * ways if len(usable) >= 4 * ways else ways + 1  # as many unknown classes, if possible
            count = max(fewest, int(HELD_OUT_SHARE * len(usable)))
            order = np.random.default_rng([seed, 0]).permutation(usable)
            base_classes, held_out = order[count:], order[:count]
            unseen = usable
        else:
            other_codes, other_usable = _usable(others, max(shots))
            base_classes, held_out = usable, other_usable + codes.max() + 1
            items = np.concatenate([items, validation.features])
            codes = np.concatenate([codes, other_codes + codes.max() + 1])
            unseen = held_out
        self.held_out = len(held_out)
        raw = items.astype(np.float32, copy=False)
        self.varies = raw.shape[1] > 1 and bool((raw != raw[:1]).any())
        self.items = BaseItems(
            unit(raw - mean), np.where(np.isin(codes, base_classes), codes, -1), base_classes, self.shots, ways,
            raw, np.where(np.isin(codes, unseen), codes, -1),
        )  # fmt: skip
        self.sampler = TaskSampler(codes, base_classes, ways, OUTLIER_WAYS, QUERIES)
        validation_sampler = TaskSampler(codes, held_out, ways, OUTLIER_WAYS, QUERIES)
        rng = np.random.default_rng([seed, 2])
        self.validation_tasks = [validation_sampler.draw(rng, VALIDATION_TASKS, n) for n in self.shots]

    def validate(self, head: Head, arrays: Arrays, features: np.ndarray | None = None) -> dict[str, float]:
        """Return accuracy and AUROC on the held-out classes, and the best heat; `features` are of another network."""
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
    """A head that learns on fixed features, from at most `episodes` tasks; `first` replaces the head's own start."""

    def __init__(
        self,
        name: str,
        head: Head,
        tasks: HeadTasks,
        episodes: int,
        made_from: Mapping[str, Any],
        first: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        super().__init__(name, max(1, episodes // head.tasks_per_step) if head.loss is not None else 0, made_from)
        self.head, self.tasks, self.first = head, tasks, first
        validations = np.geomspace(min(5, self.steps), self.steps, VALIDATIONS) if self.steps else np.empty(0)
        self.validation_steps = set(validations.round().astype(int).tolist())

    def start(self) -> None:
        """Validate the start, which is the best so far."""
        if self.steps and not self.tasks.varies:
            raise ValueError(
                f"the features have one column, or all rows are the same: head {self.name!r} cannot be learned from "
                "them, give other features, or leave the heads out (--heads none)"
            )
        arrays = self.first or self.head.start(self.tasks.items, np.random.default_rng([self.tasks.seed, START]))
        now = {key: np.asarray(value, np.float32) for key, value in arrays.items()}
        self.reached.before = self.reached.best = self.tasks.validate(self.head, now)
        self.best = heated(self.head, now, self.reached.best["heat"])
        if self.steps:
            self.prepare(now)

    def prepare(self, arrays: Arrays) -> None:
        """Make tensors of the arrays, and the optimiser."""
        torch = need("torch", "learning heads", TORCH)
        self.items = torch.from_numpy(self.tasks.items.features)
        self.tensors = {name: torch.tensor(value, requires_grad=True) for name, value in arrays.items()}
        highest = self.head.learning_rate(self.tasks.items.dimension)
        self.optimiser = torch.optim.Adam([{"params": list(self.tensors.values()), "highest": highest}])

    def step(self, number: int) -> float:
        """Learn from a batch of tasks."""
        head, tasks = self.head, self.tasks
        assert head.loss is not None
        rng = np.random.default_rng([tasks.seed, LEARNING, number])
        self.set_rate(cosine(number / self.steps))
        drawn = tasks.sampler.draw(rng, head.tasks_per_step, int(rng.choice(tasks.shots)))
        scores = head.score(self.tensors, self.items[drawn.support], drawn.labels, self.items[drawn.query])
        loss = head.loss(scores, drawn.known, drawn.truth)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return float(loss.detach())

    def is_validation_due(self) -> bool:
        """More often at first."""
        return self.reached.step in self.validation_steps

    def validate(self) -> dict[str, Any]:
        """Return the figures on held-out classes, and the heat."""
        return self.tasks.validate(self.head, copied(self.tensors))

    def result(self, figures: Mapping[str, Any]) -> Arrays:
        """Return the arrays at the heat that separates unknowns best."""
        return heated(self.head, copied(self.tensors), figures["heat"])

    def is_past_its_best(self) -> bool:
        """Whether the best step is long ago."""
        reached = self.reached
        return self.is_validation_due() and reached.step >= max(PATIENCE_FACTOR * reached.best_step, self.steps // 8)


def known_classes(labels: np.ndarray, others: np.ndarray | None, name: str, ways: int = 5, shots: int = 5) -> int:
    """Return the number of known classes of a task, at most `ways`; ValueError if these classes are too few."""
    usable = len(_usable(labels, shots)[1])
    if others is None:
        ways, needed = min(ways, usable // 2 - 1), "6 or more"
    else:
        other_usable = len(_usable(others, shots)[1])
        ways = min(ways, min(usable, other_usable) - 1)  # one class or more is left as unknown
        needed = f"3 or more, and as many for validation, of which there are {other_usable}"
    if ways < 2:
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

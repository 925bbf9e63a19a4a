"""Heads of methods, learned on tasks drawn from the features of base classes.

A step draws many tasks of random base classes, solves them with the function that the method itself uses, and follows
the gradient of the loss. Some base classes are held out, and tasks of these choose the best step. The start, plain
prototypes, is one of the choices: a head that learns nothing useful stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from handful.core.arrays import logsumexp, softmax, unit
from handful.core.base import Base
from handful.core.metrics import figures
from handful.features import FeatureTable
from handful.methods import feat, peeler
from handful.solving.solve import versions
from handful.training.task_rows import Drawer, Tasks
from handful.utils.extras import TORCH, need

HELD_OUT_SHARE = 0.25  # of the classes
QUERIES = 15  # of each class in a task, if there are enough items
OUTLIER_WAYS = 5
TASKS_PER_STEP = 32  # tasks in a step
EXAM_TASKS = 100  # tasks of held-out classes for each number of shots
EXAMS = 20  # number of exams; more often at first, because a head with few classes is soon past its best
PATIENCE_FACTOR = 4  # stop after this many times the best step, but not before an eighth of all steps
TEMPERATURE = 0.2  # initial T: cosines times 10
HIDDEN_UNITS = 32  # units of PEELER's network
OPEN_LOSS_WEIGHT = 0.5  # weight of PEELER's loss on the unknown
HEAT_FACTORS = (
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
)  # the best temperature for unknowns is higher than the learned one, which is best for classes
HEADS = ("feat", "peeler")
Arrays = dict[str, Any]
Progress = Callable[[int, int], object]  # called with the number of tasks learned from, and of all tasks


class Head(NamedTuple):
    """How a head is learned: initial arrays, the logits of queries, the loss, and the step size."""

    start: Callable[[int, np.random.Generator], dict[str, np.ndarray]]
    logits: Callable[[Arrays, Any, np.ndarray, Any], Any]
    loss: Callable[[Any, int, np.ndarray], Any]
    cooler: tuple[str, int]  # the array that holds the logarithm of a temperature, and the sign of its exponent
    learning_rate: float  # times the number of features


def learn_base(
    features: FeatureTable,
    *,
    validation: FeatureTable | None = None,
    heads: Sequence[str] = HEADS,
    negatives: int = 1000,
    episodes: int = 20_000,
    ways: int = 5,
    shots: Sequence[int] = (1, 5),
    seed: int = 0,
    progress: Progress | None = None,
) -> Base:
    """Learn from base classes what methods need: the mean of their features, heads, and a sample of the items.

    Parameters
    ----------
    features : FeatureTable
        Features of the base classes, with labels.
    validation : FeatureTable, optional
        Classes to hold out instead of base classes. Best are classes on which the backbone was not trained.
    heads : sequence of str
        "feat", "peeler" or both; an empty sequence needs no torch.
    negatives : int
        The largest number of items to keep.
    episodes : int
        The largest number of tasks from which a head learns.
    ways, shots : int, sequence of int
        The known classes of these tasks, and the examples of each class.
    seed : int
        The same seed gives the same base.
    progress : callable, optional
        Called with the number of tasks learned from and of all tasks, for all heads together.

    Returns
    -------
    Base
        Its `about` holds the accuracy and AUROC on the held-out classes, before and after learning.
    """
    check_heads(heads)
    if heads:
        features = features.labelled()
        validation = None if validation is None else validation.labelled()
    mean = features.mean
    about: dict[str, Any] = {
        "name": features.name, "classes": len(features.classes), "items": len(features), "seed": seed,
        "episodes": episodes, "ways": ways, "shots": list(shots), "versions": dict(versions()), "heads": {},
    }  # fmt: skip
    learned = {}
    if heads:
        torch = need("torch", "learning heads", TORCH)
        about["versions"]["torch"] = torch.__version__
        school = School(torch, features, validation, mean, ways, shots, seed)
        about |= {"held_out": school.held_out, "ways": school.ways}
        names = list(dict.fromkeys(heads))
        for i, name in enumerate(names):
            report = partial(_report, progress, i, len(names))
            learned[name], about["heads"][name] = school.learn(name, episodes, report)
    negative_rows = np.random.default_rng([seed, 1]).permutation(len(features))[: max(0, negatives)]
    sample = features.features[negative_rows].astype(np.float32) if len(negative_rows) else None
    return Base(mean, learned, sample, about)


def _report(progress: Progress | None, before: int, count: int, done: int, total: int) -> None:
    """Report the progress of all heads together."""
    if progress is not None:
        progress(before * total + done, count * total)


class School:
    """Tasks of base classes: most of them to learn from, some for exams."""

    def __init__(
        self,
        torch: Any,
        features: FeatureTable,
        validation: FeatureTable | None,
        mean: np.ndarray,
        ways: int,
        shots: Sequence[int],
        seed: int,
    ):
        self.torch, self.seed, self.shots = torch, seed, tuple(shots)
        codes, usable = _usable(features.need_labels(), max(self.shots))
        items, examined = features.features, codes
        if validation is None:
            self.ways = _ways(ways, len(usable), None, features.name, max(shots))
            fewest = (
                2 * self.ways if len(usable) >= 4 * self.ways else self.ways + 1
            )  # as many unknown classes, if possible
            held_out_count = max(fewest, int(HELD_OUT_SHARE * len(usable)))
            order = np.random.default_rng([seed, 0]).permutation(usable)
            base_classes, held_out_classes = order[held_out_count:], order[:held_out_count]
        else:
            other_codes, held_out_classes = _usable(validation.need_labels(), max(self.shots))
            self.ways, base_classes = _ways(ways, len(usable), len(held_out_classes), features.name, max(shots)), usable
            items = np.concatenate([items, validation.features])
            absent = np.full(len(other_codes), -1)
            codes, examined = np.concatenate([codes, absent]), np.concatenate([np.full(len(codes), -1), other_codes])
        self.items = torch.from_numpy(unit(items.astype(np.float32, copy=False) - mean))
        self.held_out = len(held_out_classes)
        self.drawer = Drawer(codes, base_classes, self.ways, OUTLIER_WAYS, QUERIES)
        exam = Drawer(examined, held_out_classes, self.ways, OUTLIER_WAYS, QUERIES)
        rng = np.random.default_rng([seed, 2])
        self.exams = [exam.draw(rng, EXAM_TASKS, n) for n in self.shots]

    def learn(self, name: str, episodes: int, progress: Progress) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the arrays of the best step, and the figures on the held-out classes before and after learning."""
        torch, head, rng = self.torch, LESSONS[name], np.random.default_rng([self.seed, 3])
        start = head.start(self.items.shape[1], rng)
        arrays = {key: torch.tensor(value, dtype=torch.float32, requires_grad=True) for key, value in start.items()}
        steps = max(1, episodes // TASKS_PER_STEP)
        adam = torch.optim.Adam(list(arrays.values()), lr=head.learning_rate / self.items.shape[1])
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
        exam_steps = set(np.geomspace(min(5, steps), steps, EXAMS).round().astype(int).tolist())
        before = best = self.examine(head, arrays)
        best_arrays, best_step = self.copied(head, arrays, before), 0
        for step in range(1, steps + 1):
            loss = self.loss(head, arrays, self.drawer.draw(rng, TASKS_PER_STEP, int(rng.choice(self.shots))))
            adam.zero_grad()
            loss.backward()
            adam.step()
            schedule.step()
            progress(step * TASKS_PER_STEP, steps * TASKS_PER_STEP)
            if step not in exam_steps:
                continue
            figures_now = self.examine(head, arrays)
            better = figures_now["accuracy"] + figures_now["auroc"] > best["accuracy"] + best["auroc"]
            if better and figures_now["accuracy"] >= before["accuracy"]:
                best, best_arrays, best_step = figures_now, self.copied(head, arrays, figures_now), step
            if step >= max(PATIENCE_FACTOR * best_step, steps // 8):
                break
        progress(steps * TASKS_PER_STEP, steps * TASKS_PER_STEP)
        return best_arrays, {"step": best_step, "steps": step, "before": before, "after": best}

    def loss(self, head: Head, arrays: Arrays, tasks: Tasks) -> Any:
        """Return a head's loss on tasks."""
        query = self.items[tasks.query]
        return head.loss(head.logits(arrays, self.items[tasks.support], tasks.labels, query), tasks.known, tasks.truth)

    def examine(self, head: Head, arrays: Arrays) -> dict[str, float]:
        """Return accuracy and AUROC, in percent, on the held-out classes, and the heat with the best AUROC."""
        results_by_heat: dict[float, list[dict[str, np.ndarray]]] = {heat: [] for heat in HEAT_FACTORS}
        with self.torch.no_grad():
            for tasks in self.exams:
                logits = head.logits(arrays, self.items[tasks.support], tasks.labels, self.items[tasks.query]).numpy()
                for heat in HEAT_FACTORS:
                    p = softmax(logits / heat)
                    results_by_heat[heat].append(figures(p, -p.max(axis=-1), tasks.truth))
        means = [
            {"heat": heat} | {name: 100 * float(np.mean([f[name] for f in results])) for name in ("accuracy", "auroc")}
            for heat, results in results_by_heat.items()
        ]
        return max(means, key=lambda figures: figures["auroc"])

    def copied(self, head: Head, arrays: Arrays, measured: Mapping[str, float]) -> dict[str, np.ndarray]:
        """Return a copy of the arrays, with the heat included in the temperature."""
        name, sign = head.cooler
        copies = {key: value.detach().numpy().copy() for key, value in arrays.items()}
        return copies | {name: copies[name] + np.float32(sign * np.log(measured["heat"]))}


def check_heads(names: Sequence[str]) -> None:
    """Raise ValueError listing the heads that can be learned if a name is not one of them."""
    for name in names:
        if name not in LESSONS:
            raise ValueError(f"there is no head {name!r} to learn; there are: {', '.join(HEADS)}")


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
            "more base classes, or leave the heads out (--heads none)"
        )
    return ways


def _usable(labels: np.ndarray, shots: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the class of each item as a number, and the classes that have more than `shots` items."""
    codes = np.unique(labels, return_inverse=True)[1]
    return codes, np.flatnonzero(np.bincount(codes) > shots)


# FEAT


def _feat_start(dimension: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return random attention whose output is 0, which leaves prototypes unchanged."""
    return {
        "attention": rng.normal(scale=dimension**-0.5, size=(dimension, dimension)),
        "output": np.zeros((dimension, dimension)), "gain": np.ones(dimension), "shift": np.zeros(dimension),
        "log_temperature": np.full(1, np.log(TEMPERATURE)),
    }  # fmt: skip


def _feat_logits(arrays: Mapping[str, Any], support: Any, labels: np.ndarray, query: Any) -> Any:
    return feat.logits(query, feat.adapt(feat.class_prototypes(support, labels), arrays), arrays)


def _cross_entropy(logits: Any, known_queries: int, truth: np.ndarray) -> Any:
    """Return the cross-entropy of the first `known_queries` queries; the others belong to no class."""
    log_p = logits[:, :known_queries] - logsumexp(logits[:, :known_queries], axis=-1)
    picked = np.eye(logits.shape[-1], dtype=np.float32)[truth[:, :known_queries]]
    return -(log_p * log_p.new_tensor(picked)).sum(-1).mean()


# PEELER


def _peeler_start(dimension: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return a network whose output is 0: all classes have the same width in every direction."""
    return {
        "inner": rng.normal(size=(dimension, HIDDEN_UNITS)), "outer": np.zeros((HIDDEN_UNITS, dimension)),
        "log_precision": np.full(dimension, -np.log(TEMPERATURE)),
    }  # fmt: skip


def _peeler_logits(arrays: Mapping[str, Any], support: Any, labels: np.ndarray, query: Any) -> Any:
    return peeler.logits(peeler.gaussians(support, labels, arrays), query)


def _open_loss(logits: Any, known_queries: int, truth: np.ndarray) -> Any:
    """Return the cross-entropy on known queries minus the weighted entropy on unknown ones."""
    log_p = logits[:, known_queries:] - logsumexp(logits[:, known_queries:], axis=-1)
    return _cross_entropy(logits, known_queries, truth) + OPEN_LOSS_WEIGHT * (log_p.exp() * log_p).sum(-1).mean()


LESSONS = {
    "feat": Head(_feat_start, _feat_logits, _cross_entropy, ("log_temperature", 1), 0.4),
    "peeler": Head(_peeler_start, _peeler_logits, _open_loss, ("log_precision", -1), 0.4),
}

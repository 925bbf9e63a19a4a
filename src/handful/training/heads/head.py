"""What a head is while it is learned, the tasks that it learns from, and the losses that several heads use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import as_like, logsumexp
from handful.core.checks import UNKNOWN
from handful.core.decide import shift_of

Arrays = dict[str, np.ndarray]  # by name, as the base file has them
Scores = tuple[Any, Any]  # class logits [B, Q, N], and outlier scores [B, Q] or None
START_TASKS = 40  # tasks for each number of shots from which a start is computed
START_QUERIES = 10  # of each class
MANY_SHOTS = 1000  # `shift_of` then takes scores at their word
TINY = 1e-9  # inside logarithms


class BaseItems(NamedTuple):
    """The items that heads learn from."""

    features: np.ndarray  # [n, D], prepared
    codes: np.ndarray  # [n], the class of each item, -1 for items that are not learned from
    classes: np.ndarray  # [C], the codes that are learned from
    shots: tuple[int, ...]  # the examples of each class in the tasks
    ways: int  # the known classes of the tasks
    raw: np.ndarray  # [n, D], as they come
    unseen: np.ndarray  # [n], as `codes`, for classes that the backbone did not see: the validation set's, else all

    @property
    def dimension(self) -> int:
        """The number of features, D."""
        return int(self.features.shape[1])


@dataclass(frozen=True)
class Head:
    """How a head is learned. `score` and `loss` get torch tensors; in validation `score` gets NumPy arrays."""

    start: Callable[[BaseItems, np.random.Generator], Arrays]
    # score(arrays, support, labels, query); without outlier scores a small largest probability counts as unknown
    score: Callable[[Mapping[str, Any], Any, np.ndarray, Any], Scores]
    # loss(scores, known, truth): the first `known` queries are of known classes. None: the start is the result
    loss: Callable[[Scores, int, np.ndarray], Any] | None
    # of the number of features: the highest step size of Adam; it falls to 0 along a cosine
    learning_rate: Callable[[int], float] = lambda dimension: 1e-3
    # The array that holds the logarithm of a temperature, and the sign of its exponent. The temperature is raised after
    # learning if that separates unknowns better
    temperature: tuple[str, int] | None = None
    tasks_per_step: int = 32


# ---- tasks


class Tasks(NamedTuple):
    """A batch of tasks: rows of items and their classes. The first `known` queries are of known classes."""

    support: np.ndarray  # [B, S]
    labels: np.ndarray  # [B, S]
    query: np.ndarray  # [B, Q]
    truth: np.ndarray  # [B, Q], -1 for the unknown
    known: int


class TaskSampler:
    """Draws batches of random tasks of these classes, faster than `handful.features.draw`: learning needs many."""

    def __init__(self, codes: np.ndarray, classes: np.ndarray, ways: int, outlier_ways: int, queries: int) -> None:
        self.ways, self.outlier_ways, self.queries = ways, min(outlier_ways, len(classes) - ways), queries
        members = [np.flatnonzero(codes == k) for k in classes]
        self.counts = np.array([len(rows) for rows in members])
        self.rows = np.stack([np.pad(rows, (0, self.counts.max() - len(rows))) for rows in members])  # [C, most]

    def draw(self, rng: np.random.Generator, batch: int, shots: int) -> Tasks:
        """Draw classes and items without replacement: no item is both an example and a query."""
        ways, total = self.ways, self.ways + self.outlier_ways
        queries = min(self.queries, int(self.counts.min()) - shots)
        class_rows = rng.random((batch, len(self.rows))).argsort(axis=1)[:, :total]
        order = rng.random((batch, total, self.rows.shape[1]))
        order[np.arange(self.rows.shape[1]) >= self.counts[class_rows][..., None]] = np.inf  # padding is never drawn
        picked = order.argsort(axis=-1)[..., : shots + queries]
        rows = np.take_along_axis(self.rows[class_rows], picked, axis=-1)  # [B, classes, items]
        known = ways * queries
        truth = np.repeat(np.r_[np.arange(ways), np.full(self.outlier_ways, UNKNOWN)], queries)
        return Tasks(
            rows[:, :ways, :shots].reshape(batch, -1),
            np.tile(np.repeat(np.arange(ways), shots), (batch, 1)),
            rows[:, :, shots:].reshape(batch, -1),
            np.tile(truth, (batch, 1)),
            known,
        )


# ---- losses


def cross_entropy(scores: Scores, known: int, truth: np.ndarray) -> Any:
    """The cross-entropy of the first `known` queries; the others belong to no class."""
    logits = scores[0][:, :known]
    log_p = logits - logsumexp(logits, axis=-1)
    picked = np.eye(logits.shape[-1], dtype=np.float32)[truth[:, :known]]
    return -(log_p * log_p.new_tensor(picked)).sum(-1).mean()


def one_class_loss(scores: Scores, known: int, truth: np.ndarray) -> Any:
    """The binary cross-entropy of all pairs of a query and a class, plus that of the outlier scores."""
    logits, outlier_scores = scores
    known, unknown = (-array_namespace(p).log(p + TINY) for p in (1 - outlier_scores, outlier_scores))
    return pair_loss(logits, truth) + _balanced(unknown, known, as_like(truth < 0, logits))


def pair_loss(logits: Any, truth: np.ndarray) -> Any:
    """The binary cross-entropy of all pairs of a query and a class: logits [B, Q, N], truth [B, Q]."""
    is_member = as_like(truth[..., None] == np.arange(logits.shape[-1]), logits)
    return _balanced(softplus(-logits), softplus(logits), is_member)


def start_tasks(items: BaseItems, rng: np.random.Generator) -> list[Tasks]:
    """A batch of tasks of base classes for each number of shots."""
    sampler = TaskSampler(items.codes, items.classes, items.ways, items.ways, START_QUERIES)
    return [sampler.draw(rng, START_TASKS, shots) for shots in items.shots]


def start_rejection(scores_of_tasks: Iterable[tuple[Any, Tasks]]) -> np.ndarray:
    """The threshold r [1] at which the cross-entropy of outlier scores, made with r = 0, has no slope."""
    scores, unknown = [], []
    for outlier_scores, batch in scores_of_tasks:
        is_unknown = batch.truth < 0
        count = min(is_unknown.sum(axis=1).min(), (~is_unknown).sum(axis=1).min())  # equally many known and unknown
        scores += [outlier_scores[:, : batch.known][:, :count], outlier_scores[:, batch.known :][:, :count]]
        unknown += [np.zeros(scores[-2].size), np.ones(scores[-1].size)]
    everything = np.concatenate([s.ravel() for s in scores])
    return shift_of(everything[None], np.concatenate(unknown).mean(), MANY_SHOTS)


def _balanced(if_positive: Any, if_negative: Any, positive: Any) -> Any:
    """The mean loss of the positives and that of the negatives, with equal weight."""
    xp = array_namespace(positive)
    negative = 1 - positive
    means = [xp.sum(w * l) / xp.sum(w) for w, l in ((positive, if_positive), (negative, if_negative))]
    return (means[0] + means[1]) / 2


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    xp = array_namespace(x)
    return xp.log1p(xp.exp(-xp.abs(x))) + (x + xp.abs(x)) / 2

"""What a head is while it is learned: where it starts, how it scores queries, and the loss that it minimises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from handful.core.arrays import logsumexp

Arrays = dict[str, np.ndarray]  # by name, as the base file has them
Scores = tuple[Any, Any]  # class logits [B, Q, N], and outlier scores [B, Q] or None


class BaseItems(NamedTuple):
    """The items that heads learn from."""

    features: np.ndarray  # [n, D], prepared
    codes: np.ndarray  # [n], the class of each item, -1 for items that are not learned from
    classes: np.ndarray  # [C], the codes that are learned from
    shots: tuple[int, ...]  # the examples of each class in the tasks
    ways: int  # the known classes of the tasks
    raw: np.ndarray  # [n, D], as they come
    fresh: np.ndarray  # [n], classes that the backbone did not learn: of the validation, or of all if there is none

    @property
    def dimension(self) -> int:
        """The number of features, D."""
        return int(self.features.shape[1])


@dataclass(frozen=True)
class Head:
    """How a head is learned.

    `score` and `loss` get torch tensors while the head learns, and `score` gets NumPy arrays in exams.

    Parameters
    ----------
    start : callable
        `start(items, rng)` gives the initial arrays.
    score : callable
        `score(arrays, support, labels, query)` gives class logits [B, Q, N] and outlier scores [B, Q]. With None in
        place of the outlier scores, an item whose largest class probability is small counts as unknown.
    loss : callable, optional
        `loss(scores, known, truth)`: the first `known` queries are of known classes. None: the start is the result, and
        no torch is needed.
    learning_rate : callable
        `learning_rate(dimension)` gives the highest step size of Adam; it falls to 0 along a cosine.
    cooler : tuple of str and int, optional
        The array that holds the logarithm of a temperature, and the sign of its exponent. The temperature is raised
        after learning if that separates unknowns better.
    tasks_per_step : int
        How many tasks a step learns from.
    score_first_order : callable, optional
        As `score`, for a head with an inner descent: gradients of the inner steps are taken as constants.
    """

    start: Callable[[BaseItems, np.random.Generator], Arrays]
    score: Callable[[Mapping[str, Any], Any, np.ndarray, Any], Scores]
    loss: Callable[[Scores, int, np.ndarray], Any] | None
    learning_rate: Callable[[int], float] = lambda dimension: 1e-3
    cooler: tuple[str, int] | None = None
    tasks_per_step: int = 32
    score_first_order: Callable[[Mapping[str, Any], Any, np.ndarray, Any], Scores] | None = None


def cross_entropy(scores: Scores, known: int, truth: np.ndarray) -> Any:
    """The cross-entropy of the first `known` queries; the others belong to no class."""
    logits = scores[0][:, :known]
    log_p = logits - logsumexp(logits, axis=-1)
    picked = np.eye(logits.shape[-1], dtype=np.float32)[truth[:, :known]]
    return -(log_p * log_p.new_tensor(picked)).sum(-1).mean()

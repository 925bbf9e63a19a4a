"""What heads of one-class classifiers share: the loss, and what their starts are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import as_like
from handful.core.decide import shift_of
from handful.training.heads.head import BaseItems, Scores
from handful.training.task_rows import Drawer, Tasks

START_TASKS = 40  # tasks for each number of shots from which a start is computed
START_QUERIES = 10  # of each class
MANY_SHOTS = 1000  # `shift_of` then takes scores at their word
TINY = 1e-9  # inside logarithms


def one_class_loss(scores: Scores, known: int, truth: np.ndarray) -> Any:
    """The binary cross-entropy of all pairs of a query and a class, plus that of the outlier scores.

    `scores` are logits [B, Q, N] and outlier scores [B, Q]. Positives and negatives have equal weight in both terms.
    """
    logits, outlier_scores = scores
    return pair_loss(logits, truth) + _balanced(
        -_log(outlier_scores), -_log(1 - outlier_scores), as_like(truth < 0, logits)
    )


def pair_loss(logits: Any, truth: np.ndarray) -> Any:
    """The binary cross-entropy of all pairs of a query and a class: logits [B, Q, N], truth [B, Q]."""
    is_member = as_like(truth[..., None] == np.arange(logits.shape[-1]), logits)
    return _balanced(softplus(-logits), softplus(logits), is_member)


def start_tasks(items: BaseItems, rng: np.random.Generator) -> list[Tasks]:
    """A batch of tasks of base classes for each number of shots."""
    drawer = Drawer(items.codes, items.classes, items.ways, items.ways, START_QUERIES)
    return [drawer.draw(rng, START_TASKS, shots) for shots in items.shots]


def start_rejection(score: Callable[[Tasks], Scores], tasks: Iterable[Tasks]) -> np.ndarray:
    """The threshold r [1] at which the outlier scores of these tasks have the mean that they should have.

    `score(tasks)` gives the scores with r = 0. At this r the cross-entropy of the outlier scores has no slope.
    """
    scores, unknown = [], []
    for batch in tasks:
        outlier_scores, is_unknown = score(batch)[1], batch.truth < 0
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


def _log(p: Any) -> Any:
    return array_namespace(p).log(p + TINY)

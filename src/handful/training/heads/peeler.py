"""PEELER's head: the spread of classes. It learns to decide on known queries and to stay undecided on others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from handful.core.arrays import logsumexp
from handful.methods import peeler
from handful.training.heads.head import Arrays, BaseItems, Head, Scores, cross_entropy

TEMPERATURE = 0.2  # of the initial distances
HIDDEN_UNITS = 32
OPEN_LOSS_WEIGHT = 0.5  # weight of the loss on unknown queries


def start(items: BaseItems, rng: np.random.Generator) -> Arrays:
    """Return a network whose output is 0: all classes have the same width in every direction."""
    d = items.dimension
    return {
        "inner": rng.normal(size=(d, HIDDEN_UNITS)), "outer": np.zeros((HIDDEN_UNITS, d)),
        "log_precision": np.full(d, -np.log(TEMPERATURE)),
    }  # fmt: skip


def score(arrays: Mapping[str, Any], support: Any, labels: np.ndarray, query: Any) -> Scores:
    """Return minus the distances to the Gaussians."""
    return peeler.logits(peeler.gaussians(support, labels, arrays), query), None


def loss(scores: Scores, known: int, truth: np.ndarray) -> Any:
    """Return the cross-entropy on known queries minus the weighted entropy on unknown ones."""
    unknown = scores[0][:, known:]
    log_p = unknown - logsumexp(unknown, axis=-1)
    return cross_entropy(scores, known, truth) + OPEN_LOSS_WEIGHT * (log_p.exp() * log_p).sum(-1).mean()


HEAD = Head(start, score, loss, lambda dimension: 0.4 / dimension, ("log_precision", -1))

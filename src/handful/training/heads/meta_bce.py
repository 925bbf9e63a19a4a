"""The head of Meta-BCE: a representation in which members of a class are told from everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from handful.methods import meta_bce
from handful.training.heads.head import Arrays, BaseItems, Head, Scores, one_class_loss, start_rejection, start_tasks

RANK = 32  # of the projection
HIDDEN_UNITS = 8  # more of them overfit where base classes are few
NEWTON_STEPS = 30
RIDGE = 1e-3  # keeps the regression finite if distances separate the classes perfectly


def start(items: BaseItems, rng: np.random.Generator) -> Arrays:
    """Return the nearest mean by cosine: no projection, no gates; scale and thresholds fit base classes."""
    d = items.dimension
    arrays = {
        "down": rng.normal(scale=d**-0.5, size=(d, RANK)), "up": np.zeros((RANK, d)),
        "inner": rng.normal(size=(d, HIDDEN_UNITS)), "outer": np.zeros((HIDDEN_UNITS, d)),
        "log_scale": np.zeros(1), "threshold": np.zeros(2), "rejection": np.zeros(1),
    }  # fmt: skip
    arrays = {name: value.astype(np.float32) for name, value in arrays.items()}
    tasks = start_tasks(items, rng)
    rows, members = [], []
    for batch in tasks:
        state = meta_bce.one_class(items.features[batch.support], batch.labels, arrays)
        d_ij = meta_bce.distances(state, items.features[batch.query], arrays)
        shots = batch.support.shape[1] // items.ways
        rows.append(np.stack([d_ij, np.ones_like(d_ij), np.full_like(d_ij, 1 / shots)], axis=-1).reshape(-1, 3))
        members.append((batch.truth[..., None] == np.arange(items.ways)).ravel())
    scale, *threshold = -logistic_regression(np.concatenate(rows), np.concatenate(members))
    arrays |= {"log_scale": np.log(np.maximum([scale], 1.0)), "threshold": np.array(threshold)}
    z = items.features
    scores = ((score(arrays, z[b.support], b.labels, z[b.query])[1], b) for b in tasks)
    return arrays | {"rejection": start_rejection(scores)}


def logistic_regression(x: np.ndarray, is_member: np.ndarray) -> np.ndarray:
    """The coefficients [k] for rows [n, k] by Newton's method; members and others have equal weight."""
    x, y = x.astype(np.float64), is_member.astype(np.float64)
    weight = np.where(is_member, 0.5 / y.sum(), 0.5 / (1 - y).sum())
    coefficients = np.zeros(x.shape[1])
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ coefficients, -50, 50)))
        slope = x.T @ (weight * (p - y)) + RIDGE / len(y) * coefficients
        curvature = (x * (weight * p * (1 - p))[:, None]).T @ x + RIDGE / len(y) * np.eye(x.shape[1])
        coefficients -= np.linalg.solve(curvature, slope)
    return coefficients


def score(arrays: Mapping[str, Any], support: Any, labels: np.ndarray, query: Any) -> Scores:
    """Return the logits of the one-class classifiers, and how surely the best of them rejects."""
    s = meta_bce.logits(meta_bce.one_class(support, labels, arrays), query, arrays)
    return s, meta_bce.rejection(s, arrays)


HEAD = Head(start, score, one_class_loss, lambda dimension: min(0.2 / dimension, 1e-3))

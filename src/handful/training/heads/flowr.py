"""FLOWR's head: a start in closed form, then the likelihood of the true class of each query, or of a new class.

The start is probabilistic linear discriminant analysis. Classes that W was made from look too good in it: so s, s_0
and T are measured on halves of the base classes, each with the W of the other half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, as_like, logsumexp
from handful.methods import flowr
from handful.training.heads.head import Arrays, BaseItems, Head, Scores, TaskSampler

MAX_EMBEDDING = 256
SHRINKAGE = 0.5  # weight of the mean variance in the covariance within classes that W whitens
MIN_RATIO = 1e-3  # of s_0 to s
TEMPERATURES = np.geomspace(1, 32, 16)
OUTLIER_WAYS, QUERIES, TASKS = 5, 15, 30  # of the tasks that choose T


class Half(NamedTuple):
    """Classes that W was not made from."""

    embedded: np.ndarray  # [n, E]
    codes: np.ndarray  # [n]
    prior_mean: np.ndarray  # [E], of the classes that W was made from


def class_moments(features: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the class means [C, D], the number of items [C], and the covariance within classes [D, D]."""
    _, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
    means = np.stack([features[place == k].mean(axis=0) for k in range(len(counts))])
    residuals = features - means[place]
    return means, counts, residuals.T @ residuals / max(1, len(features) - len(counts))


def discriminants(features: np.ndarray, codes: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return W [D, size] and the mean of the embedded class means [size]."""
    principal = np.linalg.svd(features, full_matrices=False)[2][:size].T if size < features.shape[1] else np.eye(size)
    means, _, within = class_moments(features @ principal, codes)
    mean_variance = max(float(np.trace(within)) / size, FLOOR)
    root = np.linalg.cholesky((1 - SHRINKAGE) * within + SHRINKAGE * mean_variance * np.eye(size))
    directions = np.linalg.svd(np.linalg.solve(root, (means - means.mean(axis=0)).T))[0]
    rotation = np.linalg.solve(root.T, directions)
    return principal @ rotation, means.mean(axis=0) @ rotation


def variances(half: Half) -> tuple[np.ndarray, np.ndarray]:
    """Return s and s_0 [E]: the variances within classes, and of the class means without the part of their items."""
    means, counts, within = class_moments(half.embedded, half.codes)
    s = np.maximum(np.diag(within), FLOOR)
    return s, ((means - half.prior_mean) ** 2).mean(axis=0) - s * (1 / counts).mean()


def log_likelihoods(half: Half, arrays: Arrays, items: BaseItems, rng: np.random.Generator) -> np.ndarray:
    """Return the log-likelihood of the queries of random tasks at each of the TEMPERATURES."""
    classes = np.unique(half.codes)
    if len(classes) < 3:
        return np.zeros(len(TEMPERATURES))
    arrays = arrays | {"embedding": np.eye(half.embedded.shape[1]), "prior_mean": half.prior_mean}
    sampler = TaskSampler(half.codes, classes, min(items.ways, len(classes) - 1), OUTLIER_WAYS, QUERIES)
    totals = np.zeros(len(TEMPERATURES))
    for shots in items.shots:
        tasks = sampler.draw(rng, TASKS, shots)
        support, query = half.embedded[tasks.support], half.embedded[tasks.query]
        for i, temperature in enumerate(TEMPERATURES):
            scores = score(arrays | {"log_temperature": np.log([temperature])}, support, tasks.labels, query)
            totals[i] -= loss(scores, tasks.known, tasks.truth)
    return totals


def start(items: BaseItems, rng: np.random.Generator) -> Arrays:
    """Return W of all classes, s, s_0 and T as measured on the halves, and an alpha that expects half of a task new."""
    is_base = items.codes >= 0
    features, codes = items.features[is_base].astype(np.float64), items.codes[is_base]
    is_first_half = np.isin(codes, rng.permutation(items.classes)[: len(items.classes) // 2])
    smaller_half = min(is_first_half.sum(), (~is_first_half).sum())
    size = min(items.dimension, int(smaller_half), MAX_EMBEDDING)
    halves = []
    for inside in (is_first_half, ~is_first_half):
        embedding, prior_mean = discriminants(features[~inside], codes[~inside], size)
        halves.append(Half(features[inside] @ embedding, codes[inside], prior_mean))
    s, s_0 = np.mean([variances(half) for half in halves], axis=0)
    alpha = items.ways * np.exp(np.mean(np.log(items.shots)))
    arrays = {
        "log_between": np.log(np.maximum(s_0, MIN_RATIO * s)),
        "log_within": np.log(s),
        "log_alpha": np.log([alpha]),
    }
    totals = sum(log_likelihoods(half, arrays, items, rng) for half in halves)
    embedding, prior_mean = discriminants(features, codes, size)
    arrays |= {"embedding": embedding, "prior_mean": prior_mean}
    return arrays | {"log_temperature": np.log(TEMPERATURES[[np.argmax(totals)]])}


def score(arrays: Mapping[str, Any], support: Any, labels: np.ndarray, query: Any) -> Scores:
    """Return log P(class, query) up to a constant, and the logarithm of the odds of a new class."""
    counts, sums = flowr.statistics(support, labels, arrays)
    l = flowr.log_joint(query @ arrays["embedding"], counts, sums, arrays, arrays["log_alpha"])
    return l[..., :-1], l[..., -1] - logsumexp(l[..., :-1], axis=-1)[..., 0]


def loss(scores: Scores, known: int, truth: np.ndarray) -> Any:
    """Return minus the mean of log P(true class) of known queries, and of log P(new) of unknown ones, added."""
    logits, odds = scores
    xp = array_namespace(odds)
    zero = xp.zeros_like(odds)
    log_p = logits - logsumexp(logits, axis=-1) - xp.logaddexp(odds, zero)[..., None]  # log P(class and known)
    picked = as_like(np.eye(logits.shape[-1])[truth[:, :known]], logits)
    of_known = xp.mean(xp.sum(log_p[:, :known] * picked, axis=-1))
    return xp.mean(xp.logaddexp(-odds, zero)[:, known:]) - of_known


HEAD = Head(start, score, loss, lambda dimension: 2e-3)

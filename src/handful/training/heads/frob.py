"""FROB's head: the boundary samples and the descent that rejects them, learned through the steps of the descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from handful.core.arrays import logsumexp, unit
from handful.methods import frob
from handful.training.heads.head import Arrays, BaseItems, Head, Scores, cross_entropy, softplus

TEMPERATURE = 10.0  # initial tau
SAMPLES = 16  # boundary samples of a class, M
QUANTILE = 0.99  # of the base items of a class, which lie inside the initial radius
MIN_COSINE = 0.1  # of an item that sets the radius
THRESHOLD = 0.6  # initial threshold, in units of the expected cosine
RATES = {"prototypes": 0.05, "rejection": 0.05, "bias": 0.05}  # initial step sizes
LEARNING_RATE = 0.03


def start(items: BaseItems, rng: np.random.Generator) -> Arrays:
    """Return offsets along the principal directions within base classes, and the radius where the classes end."""
    residuals, cosines, pairs = [], [], []
    for code in items.classes:
        z = items.features[items.codes == code].astype(np.float64)
        total = z.sum(axis=0)
        residuals.append(z - z.mean(axis=0))
        cosines.append((z * unit(total - z)).sum(axis=1))  # to the mean of the other items of the class
        pairs.append((total @ total - len(z)) / (len(z) * (len(z) - 1)))
    edge = max(np.quantile(np.concatenate(cosines), 1 - QUANTILE), MIN_COSINE)
    _, _, directions = np.linalg.svd(np.concatenate(residuals), full_matrices=False)
    directions = np.resize(directions, (SAMPLES // 2, items.dimension))
    scalars = {
        "log_radius": np.log(np.sqrt(1 - edge**2) / edge), "log_tau": np.log(TEMPERATURE), "log_lambda": 0.0,
        "log_cosine": np.log(max(np.mean(pairs), MIN_COSINE**2)), "threshold": THRESHOLD,
    } | {f"log_rate_{name}": np.log(rate) for name, rate in RATES.items()}  # fmt: skip
    offsets = np.concatenate([directions, -directions]) * items.dimension**0.5
    return {"offsets": offsets} | {name: np.array([value]) for name, value in scalars.items()}


def score(arrays: Mapping[str, Any], support: Any, labels: np.ndarray, query: Any) -> Scores:
    """Return the logits of the classes, and the rejection's minus their logsumexp: the logit of P(reject)."""
    l = frob.logits(frob.train(support, labels, None, arrays), query, arrays)
    return l[..., :-1], l[..., -1] - logsumexp(l[..., :-1], axis=-1)[..., 0]


def loss(scores: Scores, known: int, truth: np.ndarray) -> Any:
    """Return the cross-entropy over N + 1 outputs: the class of known queries, rejection of the others."""
    odds, share = scores[1], known / truth.shape[1]  # P(reject) = sigmoid(odds)
    accepted, rejected = softplus(odds[:, :known]).mean(), softplus(-odds[:, known:]).mean()
    return share * (cross_entropy(scores, known, truth) + accepted) + (1 - share) * rejected


HEAD = Head(start, score, loss, lambda dimension: LEARNING_RATE)

"""Random tasks for tests of methods."""

from math import exp

import numpy as np


def random_task(rng, batch, shots, n_query, dimension, dtype=np.float64):
    """Features around class centres, [B, S, D], [B, S], [B, Q, D]; `shots` is a list, one number a class."""
    labels = np.repeat(np.arange(len(shots)), shots)
    centres = rng.normal(size=(batch, 2 * len(shots), dimension))
    support = centres[:, labels] + rng.normal(size=(batch, len(labels), dimension))
    kinds = rng.integers(0, 2 * len(shots), size=n_query)
    query = centres[:, kinds] + rng.normal(size=(batch, n_query, dimension))
    return support.astype(dtype), np.tile(labels, (batch, 1)), query.astype(dtype)


def softmax_of(values):
    e = [exp(v - max(values)) for v in values]
    return np.array([x / sum(e) for x in e])


def means_of(support, labels):
    return np.array([support[labels == j].mean(axis=0) for j in range(labels.max() + 1)])

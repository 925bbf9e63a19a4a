"""OpenMax: a Weibull model of the distances within a class. Inductive, open-set.

Fits, for each class, a Weibull distribution to how far its own examples lie from their mean; with fewer than ten
examples per class, one for all classes together. An item's activation for its closest classes is then cut by how
unusual its distance is, and what is cut off becomes the activation of the unknown. It was made for networks with
thousands of examples per class, and five are hardly enough. The score also falls again far away from every class, where
there is little activation left to cut. Setting `weibull=False` gives the simpler rule behind the published few-shot
figures, which ranks unknowns better.

Bendale, Boult: "Towards Open Set Deep Networks", 2016. With d_j the distance of an item to class mean c_j and
activations v_j = 2 - d_j (unit features are at most 2 apart, so they are positive, as the revision needs)::

    F_j  = Weibull distribution of class j, fitted to the largest distances of its examples to the mean of the others
    w_j  = 1 - (alpha - r) / alpha F_j(d_j)         for the class of rank r = 0 .. alpha-1 by activation, 1 for the rest
    v'_j = v_j w_j,    v'_out = sum_j v_j (1 - w_j),    o = the last of softmax over N + 1 of v'

Outlier score: o. Class output: (1 - o) softmax_j(v_j). The revised activations would not do: the best class loses most,
so with few examples they no longer tell which class is best. A class with fewer than ten examples borrows the distances
of all classes. With one example per class, or only copies of one, there is no spread to fit: then the scale is the
distance to the nearest other mean, and the shape is 10. `weibull=False` is the version of the published code, where the
fit is switched off: p = softmax of [-d_1 .. -d_N, 0].
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import (
    Array,
    as_like,
    at_least,
    class_count,
    class_means,
    one_hot,
    softmax,
    squared_distances,
    to_numpy,
)
from handful.core.parameters import Count, Flag, Number
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="openmax",
    estimator="OpenMax",
    title="OpenMax",
    authors="Bendale, Boult",
    year=2016,
    paper="Towards Open Set Deep Networks (CVPR 2016)",
    summary="Revises the activations of the top classes by Weibull models of how far their own examples lie.",
    new_items="by the class means and their Weibull models",
)

MIN_EXAMPLES_PER_FIT = 10  # a class with fewer has no Weibull model of its own
MIN_DISTANCE = 1e-6  # examples closer than this to the mean of the others are copies that differ by rounding


@register(INFO, chunk_factor=4)
def openmax(
    support: Array,
    labels: Array,
    query: Array,
    *,
    weibull: Flag = True,
    alpha: Count = 3,
    tail: Annotated[int, Number(2, closed=True, whole=True)] = 20,
) -> Solution:
    """Solve tasks by activations that Weibull models revise.

    Parameters
    ----------
    weibull : bool, default True
        Whether Weibull models are fitted. False gives the rule of the published code: a softmax of the negative
        distances and 0.
    alpha : int, default 3
        Number alpha of top classes whose activations are revised.
    tail : int, default 20
        How many of the largest distances a fit uses, at most.
    """
    xp = array_namespace(support)
    ways = class_count(labels)
    means = class_means(support, one_hot(labels, ways, like=support))
    distances = xp.sqrt(squared_distances(query, means))  # [B, Q, N]
    if not weibull:
        p = softmax(xp.concat([-distances, xp.zeros_like(distances[..., :1])], axis=-1))
        return Solution(p[..., :ways], p[..., ways])
    shape, scale = _fit(to_numpy(support), to_numpy(labels), to_numpy(means), tail)
    shape, scale = (as_like(x, support)[:, None, :] for x in (shape, scale))
    powers = shape * xp.log(at_least(distances / scale, 1e-12))
    cdf = 1 - xp.exp(-xp.exp(-at_least(-powers, -80.0)))  # beyond 80, F is 1 and the power would overflow
    v = 2 - distances
    rank = xp.argsort(xp.argsort(-v, axis=-1), axis=-1)
    top = min(alpha, ways)
    weight = at_least((top - xp.astype(rank, v.dtype)) / top, 0.0)
    w = 1 - weight * cdf
    p = softmax(xp.concat([v * w, xp.sum(v * (1 - w), axis=-1, keepdims=True)], axis=-1))
    return Solution((1 - p[..., ways:]) * softmax(v), p[..., ways])


def _fit(support: np.ndarray, labels: np.ndarray, means: np.ndarray, tail: int) -> tuple[np.ndarray, np.ndarray]:
    """Weibull shape and scale [B, N] of each class, from the distance of each example to the mean of the others."""
    batch, ways = means.shape[:2]
    own = np.take_along_axis(means, labels[..., None], axis=1)
    shots = (labels[..., None] == np.arange(ways)).sum(axis=1)  # [B, N]
    k = np.take_along_axis(shots, labels, axis=1)
    distances = np.linalg.norm(support - own, axis=-1) * k / np.maximum(k - 1, 1)  # leave-one-out, in closed form
    shape, scale = np.empty((batch, ways)), np.empty((batch, ways))
    between = np.sqrt(to_numpy(squared_distances(means, means))) + np.where(np.eye(ways), np.inf, 0)
    for j in range(ways):
        in_fit = (labels == j) | (shots[:, j : j + 1] < MIN_EXAMPLES_PER_FIT)
        x = np.where(in_fit & (distances > MIN_DISTANCE), distances, np.nan)
        no_spread = np.isnan(x).all(axis=1)
        nearest = between[:, j].min(axis=1) if ways > 1 else np.ones(batch)
        x[no_spread, 0] = np.maximum(nearest[no_spread], MIN_DISTANCE)
        shape[:, j], scale[:, j] = weibull_fit(np.sort(x, axis=1), tail)
        shape[no_spread, j] = 10.0
    return shape, scale


def weibull_fit(x: np.ndarray, tail: int) -> tuple[np.ndarray, np.ndarray]:
    """Fit a two-parameter Weibull to the `tail` largest values of each row; NaN means absent.

    The fit is that of maximum likelihood. The shape k solves sum x^k log x / sum x^k - 1/k = mean log x. The left side
    rises with k, so bisection finds it, for all rows at once. A row without spread gets shape 100: nearly a step.
    """
    count = (~np.isnan(x)).sum(axis=1, keepdims=True)
    order = np.cumsum(~np.isnan(x), axis=1)  # x is sorted, NaN last
    x = np.where(order > count - tail, x, np.nan)
    top = np.nanmax(x, axis=1, keepdims=True)
    top = np.where(top > 0, top, 1.0)
    logs = np.log(np.maximum(x / top, 1e-12))  # scaled so that no power overflows
    mean = np.nanmean(logs, axis=1)
    low, high = np.full(len(x), 1e-2), np.full(len(x), 100.0)
    for _ in range(60):
        k = (low + high) / 2
        powers = np.exp(k[:, None] * logs)
        falls_short = np.nansum(powers * logs, axis=1) / np.nansum(powers, axis=1) - 1 / k < mean
        low, high = np.where(falls_short, k, low), np.where(falls_short, high, k)
    scale = top[:, 0] * np.nanmean(np.exp(k[:, None] * logs), axis=1) ** (1 / k)
    return k, scale

"""The descent of `handful.engines.descent` over a pile in pieces: the same steps, in passes.

A step's gradient is a sum over queries, but for the mean prediction, on which the slope of every query depends::

    dL/dl_ij = p_ij (a_ij - sum_k p_ik a_ik) / Q,      a_ik = g_k - co_k (log p_ik + 1),   g_k of the mean alone

So it takes two passes, one for the mean and one for the slopes. Or one: the slopes are linear in g, and ::

    sum_i p_ij (g_j - sum_k p_ik g_k) z_i = sum_k (g_j - g_k) R_jk,      R_jk = sum_i p_ij p_ik z_i

The K (K - 1) / 2 sums R stand in for the mean that is not known yet. With few classes that costs less than reading
the pile again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from handful.core.arrays import FLOOR, class_count, class_means, one_hot, unit
from handful.engines.descent import Adam, forward
from handful.engines.infomax import PARAMETERS, InfoMax
from handful.streaming.passes import Learned, Pass, Passes, Rows, Sums, View

PAIRED = 8  # outputs at most, for one pass a step
WORTH = 1e11  # multiply-adds: some ten seconds of NumPy's, what compiling the kernel takes where it never was


@dataclass
class Descended:
    """Where the descent ended; each array a batch of one."""

    prototypes: np.ndarray  # [1, N, D]
    eta: np.ndarray  # [1, N]
    delta: np.ndarray
    refined: Any = None  # [1, N, D], if asked for


def descend_in_passes(
    support: np.ndarray,
    labels: np.ndarray,
    count: int,
    view: View,
    head: InfoMax,
    *,
    temperature: float,
    steps: int,
    learning_rate: float,
    learn: tuple[str, ...] = PARAMETERS,
    refine: bool = False,
    backend: str = "auto",
) -> Passes[Descended]:
    """As `handful.engines.descent.descend` on prepared support [1, S, D] and a pile of `count` rows."""
    ways = class_count(labels)
    outputs = ways + (head.outlier is not None)
    onehot = one_hot(labels, ways, like=support)
    items, no_query = unit(support), np.empty((1, 0, ways), support.dtype)
    c = class_means(support, onehot)
    at = {"prototypes": c, "eta": np.zeros_like(c[..., 0]), "delta": np.zeros_like(c[..., 0])}
    learn = tuple(name for name in PARAMETERS if name in learn)
    adam = {name: Adam(at[name], learning_rate) for name in learn}
    paired = outputs <= PAIRED
    if backend == "auto":
        backend = _choose(count * support.shape[2] * ways * steps)
    fused = {"fused": backend == "fast"}
    left = steps * (1 if paired else 2) + refine
    for _ in range(steps):
        norm, direction, _, scale, logits = forward(at, items, temperature)
        arrays = {"head": head, "direction": direction[0], **_affine(at, temperature), **fused}
        if paired:
            left -= 1
            sums = yield Pass(_pairs, arrays, view, left)
            g = head.marginal_term(sums["p"][None, None] / count)[0, 0]
            slope = _fold(head, _unpair(sums, "slope", g), ways), _fold(head, _unpair(sums, "total", g), ways)
        else:
            left -= 2
            mean = (yield Pass(_mean, arrays, view, left + 1))["p"] / count
            g = head.marginal_term(mean[None, None])[0, 0].astype(support.dtype)
            sums = yield Pass(_slopes, arrays | {"g": g}, view, left)
            slope = sums["slope"], sums["total"]
        of_support = head(logits, onehot, no_query)[1][0].T.astype(np.float64)  # [N, S]
        total = slope[1] / count + of_support.sum(axis=1)
        pull = scale[0, 0][:, None] * (slope[0] / count + of_support @ items[0])
        eta = (pull * direction[0]).sum(axis=1)  # sum_i A_ij cos_ij, by way of sum_i A_ij z_i
        gradients = {
            "prototypes": (pull - eta[:, None] * direction[0]) / norm[0],
            "eta": eta,
            "delta": temperature * total,
        }
        for name in learn:
            adam[name].move(at[name], gradients[name][None].astype(support.dtype))
    end = Descended(**at)
    if refine:
        *_, direction, _, _, logits = forward(at, items, temperature)
        arrays = {"head": head, "direction": direction[0], **_affine(at, temperature), **fused}
        sums = yield Pass(_refined, arrays, view)
        p = head.probabilities(logits)[0, :, :ways].astype(np.float64)
        refined = (p.T @ support[0] + sums["pull"]) / (p.sum(axis=0) + sums["p"])[:, None]
        end.refined = refined[None].astype(support.dtype)
    return end


def prototypes_in_passes(
    support: np.ndarray, labels: np.ndarray, count: int, view: View, head: InfoMax, **knobs: Any
) -> Passes[Learned]:
    """The descent of a method that learns prototypes alone."""
    end = yield from descend_in_passes(support, labels, count, view, head, learn=("prototypes",), **knobs)
    return Learned({"prototypes": end.prototypes}, n_iter=knobs["steps"])


def _affine(at: dict[str, np.ndarray], temperature: float) -> dict[str, np.ndarray]:
    return {"scale": temperature * np.exp(at["eta"][0]), "shift": temperature * at["delta"][0]}


def _choose(work: float) -> str:
    """The backend: the fused kernel where it saves more than compiling it may cost. The choice is always the same."""
    return "fast" if work > WORTH and find_spec("numba") is not None else "array"


def _probabilities(rows: Rows, head: InfoMax, direction: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> Any:
    """[1, n, K], in memory [K, n]."""
    logits = rows.cosines(direction)  # [N, n]
    logits *= scale[:, None]
    logits += shift[:, None]
    return head.probabilities(logits.T[None])


def _mean(rows: Rows, head: InfoMax, fused: bool, **affine: np.ndarray) -> Sums:
    if fused:
        return _fused("MEAN", rows, head, **affine)
    return {"p": _probabilities(rows, head, **affine)[0].sum(axis=0)}


def _slopes(rows: Rows, head: InfoMax, fused: bool, g: np.ndarray, **affine: np.ndarray) -> Sums:
    """Q dL/dl, the mean prediction being known: items summed by it, and itself."""
    if fused:
        return _fused("SLOPES", rows, head, g=g, **affine)
    p = _probabilities(rows, head, **affine)
    slope = head.fold(head.slope(p, np.log(p + FLOOR), g), len(affine["scale"]))[0].T  # [N, n]
    return {"slope": rows.unit_sums(slope), "total": slope.sum(axis=1)}


def _pairs(rows: Rows, head: InfoMax, fused: bool, **affine: np.ndarray) -> Sums:
    """The part of the slopes that does not depend on the mean, and what those that do are made of."""
    if fused:
        return _fused("PAIRS", rows, head, **affine)
    p = _probabilities(rows, head, **affine)
    weights = np.concatenate([head.slope(p, np.log(p + FLOOR), 0.0)[0].T, _products(p[0].T)])  # [K + K (K - 1) / 2, n]
    return {"p": p[0].sum(axis=0), "slope": rows.unit_sums(weights), "total": weights.sum(axis=1)}


def _fused(what: str, rows: Rows, head: InfoMax, **arrays: np.ndarray) -> Sums:
    from handful.streaming import descent_numba as fused  # numba is imported only where it is used

    return fused.sums(getattr(fused, what), rows.source, rows.centre, rows.by_length, head, **arrays)


def _products(p: np.ndarray) -> np.ndarray:
    first, second = _numbers(len(p))
    values: np.ndarray = p[first] * p[second]
    return values


def _unpair(sums: Sums, name: str, g: np.ndarray) -> np.ndarray:
    """The sums of whole slopes over K outputs, now that g is known."""
    first, second = _numbers(len(g))
    whole, pairs = sums[name][: len(g)].copy(), sums[name][len(g) :]
    apart = (g[first] - g[second]).reshape(-1, *[1] * (pairs.ndim - 1)) * pairs
    np.add.at(whole, first, apart)
    np.subtract.at(whole, second, apart)
    return whole


def _fold(head: InfoMax, slope: np.ndarray, ways: int) -> np.ndarray:
    """Over the first axis."""
    return np.moveaxis(head.fold(np.moveaxis(slope, 0, -1), ways), -1, 0)


def _refined(rows: Rows, head: InfoMax, fused: bool, **affine: np.ndarray) -> Sums:
    if fused:
        return _fused("REFINED", rows, head, **affine)
    p = _probabilities(rows, head, **affine)[0].T[: len(affine["scale"])]
    return {"pull": rows.sums(p), "p": p.sum(axis=1)}


@cache
def _numbers(outputs: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(outputs, 1)

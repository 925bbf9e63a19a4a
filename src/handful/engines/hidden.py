"""Each example hidden in the pile: where it lands there shows how far the answers of a pile can be trusted.

An example that is hidden is an item of the pile whose class is known: it and the pile's own items of that class may be
exchanged for one another. One example of each class is hidden at a time, or several of many. In such a fold H and E of
`handful.engines.density` stay what they are, and the rows of the hidden examples in P_support become free, so a fold is
a few passes of KDO at one share. Folds and tasks are computed together.

The only example of a class cannot be hidden. Which examples are hidden together does not depend on their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handful.core.arrays import FLOOR
from handful.engines.density import (
    DENSITY_FLOOR,
    MAX_CLASS_WEIGHT,
    MAX_OUTLIER_WEIGHT,
    MIN_QUERIES_PER_CLASS,
    OUTLIER_FLOOR,
    limited,
    posteriors,
)
from handful.engines.kernels import call, can_use

PASSES = 6
MAX_FOLDS = 10  # of a class with more examples several are hidden at a time


@dataclass
class Hidden:
    """Where each example landed when it was hidden; nan for the examples that were not."""

    p_unknown: np.ndarray  # P(unknown) of each example, [B, S]
    p_own: np.ndarray  # the probability of its own class
    certainty: np.ndarray  # the probability of its most probable class, given that it is of one of them
    rank: np.ndarray  # the part of the pile that looks more known


def hide_each(
    h: np.ndarray, codes: np.ndarray, ways: int, beta: np.ndarray, e0: np.ndarray, share: np.ndarray, usual: np.ndarray,
    backend: str = "auto",
) -> Hidden:  # fmt: skip
    """Hide each example once, with KDO at a share [B]; `usual` is the pressure of a pile too small to determine it."""
    (batch, n_support), n_query = codes.shape, h.shape[1] - codes.shape[1]
    onehot = codes[..., None] == np.arange(ways + 1)  # [B, S, N + 1]
    likeness = h[:, :n_support].sum(axis=2, dtype=np.float64)  # gives examples of a class an order that is their own
    same = codes[:, :, None] == codes[:, None]
    turn = (same & (likeness[:, :, None] > likeness[:, None])).sum(axis=2)  # the number of an example in its class
    several = (onehot.sum(axis=1) > 1)[:, :ways]
    can_hide = (codes < ways) & np.take_along_axis(several, np.minimum(codes, ways - 1), axis=1)
    nowhere = np.full((batch, n_support), np.nan)
    if not can_hide.any() or not n_query:
        return Hidden(nowhere, nowhere, nowhere, nowhere)
    folds = min(int(turn[can_hide].max()) + 1, MAX_FOLDS)
    is_hidden = can_hide[:, None] & (turn[:, None] % folds == np.arange(folds)[:, None])  # [B, F, S]
    shown = onehot[:, None] & ~is_hidden[..., None]
    weights = np.swapaxes(shown * (2 + 4 / np.maximum(shown.sum(axis=2, keepdims=True), 1)), 2, 3)

    trust = min(1.0, n_query / (MIN_QUERIES_PER_CLASS * (ways + 1)))
    fold = _folds_in_c if n_query > 1 and can_use(backend, h) else _folds
    own = fold(h, weights, is_hidden, beta, e0, share, usual, trust)  # P of all items, [B, F, N + 1, n]

    task, turn = np.arange(batch)[:, None], np.where(can_hide, turn % folds, 0)
    pile = own[:, :, -1, n_support:][task, turn]  # P(unknown) of the pile in the fold of each example, [B, S, Q]
    classes = own[task, turn, :, np.arange(n_support)]  # [B, S, N + 1]
    p_unknown, classes, own_class = classes[..., -1], classes[..., :-1], np.minimum(codes, ways - 1)[..., None]
    rank = (pile < p_unknown[..., None]).mean(axis=-1)
    p_own = np.take_along_axis(classes, own_class, axis=-1)[..., 0]
    certainty = classes.max(axis=-1) / np.maximum(classes.sum(axis=-1), FLOOR)
    return Hidden(*(np.where(can_hide, values, np.nan) for values in (p_unknown, p_own, certainty, rank)))


def _folds_in_c(
    h: np.ndarray, weights: np.ndarray, is_hidden: np.ndarray, beta: np.ndarray, e0: np.ndarray, share: np.ndarray,
    usual: np.ndarray, trust: float,
) -> np.ndarray:  # fmt: skip
    (batch, folds, outputs, n_support), n_items, kind = weights.shape, h.shape[1], h.dtype
    own = np.empty((batch, folds, outputs, n_items), kind)
    sizes = np.array([batch, n_support, n_items - n_support, outputs - 1, folds, PASSES], np.int64)
    numbers = np.array([trust, OUTLIER_FLOOR, MAX_CLASS_WEIGHT, MAX_OUTLIER_WEIGHT, DENSITY_FLOOR, FLOOR])
    of_tasks = [np.ascontiguousarray(values, np.float64) for values in (beta, e0, share, usual)]
    of_examples = [np.ascontiguousarray(values, kind) for values in (weights, is_hidden)]
    call("hide", kind, sizes, numbers, np.ascontiguousarray(h), *of_tasks, *of_examples, own)
    return own


def _folds(
    h: np.ndarray, weights: np.ndarray, is_hidden: np.ndarray, beta: np.ndarray, e0: np.ndarray, share: np.ndarray,
    usual: np.ndarray, trust: float,
) -> np.ndarray:  # fmt: skip
    (batch, folds, outputs, n_support), n_items, kind = weights.shape, h.shape[1], h.dtype
    ways = outputs - 1
    e = np.exp(beta[:, None, None].astype(kind) * (h - 1))
    e[:, np.arange(n_items), np.arange(n_items)] = 0
    fixed = np.zeros((batch, folds, outputs, n_items), kind)
    fixed[..., :n_support] = weights
    is_free = np.ones((batch, folds, 1, n_items), bool)
    is_free[:, :, 0, :n_support] = is_hidden
    known = np.repeat((1 - share)[:, None] / ways, ways, axis=1)
    target = np.concatenate([known, share[:, None]], axis=1)[:, None]  # [B, 1, N + 1]
    usual_bias = np.concatenate([np.full((batch, ways), -np.log(ways)), usual[:, None]], axis=1)[:, None]
    p, weight = fixed, np.ones((batch, folds, outputs))
    for i in range(PASSES):
        flat = p.reshape(batch, -1, n_items)
        toward, density = (flat @ h).reshape(p.shape), (flat @ e).reshape(p.shape)
        length = np.sqrt(np.maximum((p * toward).sum(axis=-1, keepdims=True), FLOOR))
        cosine = beta[:, None, None, None].astype(kind) * toward / length
        logits = (cosine + np.log(density + DENSITY_FLOOR)) / 2
        logits[:, :, -1] = np.log(density[:, :, -1] + (OUTLIER_FLOOR * e0)[:, None, None])
        odds = np.exp(logits - logits.max(axis=2, keepdims=True))
        for _ in range(10 if i < 2 or i == PASSES - 1 else 2):
            mean = posteriors(odds[..., n_support:], weight).mean(axis=-1)
            weight = limited(weight * target / np.maximum(mean, FLOOR))
        if trust < 1:
            bias = np.log(weight)
            bias -= np.log(weight[..., :-1].sum(axis=-1, keepdims=True))
            weight = np.exp(usual_bias + trust * (bias - usual_bias))
        p = np.where(is_free, posteriors(odds, weight), fixed).astype(kind)
    return p

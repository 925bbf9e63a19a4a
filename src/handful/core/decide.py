"""From scores to decisions: how likely an item is unknown, and above which outlier score it is called unknown.

A method's probabilities are its own opinion. Two things of it are known to be off, and are mended here: with few
examples it is too sure, and its mean need not be the share of unknowns. So, with s the number of examples a class::

    P(unknown) = sigmoid((1 - 1 / (2 s^2)) logit(score) + shift),    shift such that the mean over the pile is the share

Among items with P about 0.8, about 80 % are then unknown (docs/explanation/calibration.md shows how nearly). A small
pile cannot show its share: of fewer than 20 items the shift is taken in part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from handful.core.arrays import Array, sigmoid, to_numpy

MIN_PILE_ITEMS = 20  # a share can be seen in a pile of this size
MIN_PROBABILITY = 1e-7  # no answer is surer than this
ROUNDING = 1e-9  # a mean may be below a precision by so much


def calibrate(scores: Array, share: Any, shots: Any) -> np.ndarray:
    """P(unknown) [B, Q] of scores that are probabilities; the share of unknowns and the shots are numbers, or [B].

    >>> calibrate(np.array([[0.02, 0.1, 0.9, 0.99] * 10]), 0.5, 1).round(2)[0, :4]  # from one example a class
    array([0.12, 0.24, 0.74, 0.9 ])
    """
    return shifted(scores, shots, shift_of(scores, share, shots))


def shift_of(scores: Array, share: Any, shots: Any) -> np.ndarray:
    """The shift [B] of `calibrate`, for `shifted`: for a pile that is held one part at a time but for its scores."""
    odds = _odds(scores, shots)
    share = _column(share, odds)
    low, high = np.full_like(share, -20.0), np.full_like(share, 20.0)
    for _ in range(40 if odds.shape[1] else 0):
        middle = (low + high) / 2
        over = sigmoid(odds + middle).mean(axis=1, keepdims=True) > share
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    shift: np.ndarray = min(1.0, odds.shape[1] / MIN_PILE_ITEMS) * (low + high) / 2
    return shift[:, 0]


def shifted(scores: Array, shots: Any, shift: Any) -> np.ndarray:
    """P(unknown) [B, Q] of some items of a pile whose shift is known."""
    odds = _odds(scores, shots)
    p_unknown: np.ndarray = sigmoid(odds + _column(shift, odds))
    return p_unknown


def _odds(scores: Array, shots: Any) -> np.ndarray:
    p = np.clip(to_numpy(scores).astype(np.float64), MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    odds: np.ndarray = (1 - 1 / (2 * np.maximum(_column(shots, p), 1) ** 2)) * np.log(p / (1 - p))
    return odds


def _column(value: Any, scores: np.ndarray) -> np.ndarray:
    """A number, or one a task, as [B, 1]."""
    return np.broadcast_to(np.asarray(value, np.float64), scores.shape[:1])[:, None]


def threshold(scores: Array, kind: str, share: Any) -> Array:
    """One threshold a task [B] of scores [B, Q]: 0.5 for kind "probability"; for "rank" the top `share` is unknown."""
    xp = array_namespace(scores)
    if kind == "probability":
        return xp.full(scores.shape[:1], 0.5, dtype=scores.dtype, device=device(scores))
    if not scores.shape[-1]:  # no pile to rank: nothing is unknown
        return xp.full(scores.shape[:1], xp.inf, dtype=scores.dtype, device=device(scores))
    count = scores.shape[-1]
    known = np.floor((1 - np.broadcast_to(share, scores.shape[:1])) * count + 0.5).astype(int)  # how many stay below
    ordered = xp.sort(scores, axis=-1, stable=False)
    edges = xp.concat([ordered[:, :1] - 1, ordered, ordered[:, -1:] + 1], axis=-1)
    task = np.arange(len(known))
    return (edges[task, known] + edges[task, known + 1]) / 2


def at_share(scores: np.ndarray, share: float) -> float:
    """The threshold above which lies this share of the scores [n].

    >>> at_share(np.array([0.1, 0.9, 0.4, 0.2]), 0.25)
    0.65
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share of unknowns is {share}: give a number between 0 and 1")
    return float(threshold(np.asarray(scores, np.float64)[None], "rank", share)[0])


def at_false_unknown(p_unknown: np.ndarray, rate: float, scores: np.ndarray | None = None) -> float:
    """The lowest threshold of the scores, or of P(unknown) [n], with at most `rate` of the knowns expected above it.

    >>> at_false_unknown(np.array([0.9, 0.8, 0.1, 0.0]), 0.2)  # 0.3 of 2.2 expected knowns are above
    0.45
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"the rate of knowns called unknown is {rate}: give a number between 0 and 1")
    p = np.asarray(p_unknown, np.float64)
    values = p if scores is None else np.asarray(scores, np.float64)
    order = np.argsort(-values, kind="stable")
    knowns = np.cumsum(1 - p[order])
    count = int(np.searchsorted(knowns, rate * knowns[-1], side="right")) if len(p) else 0  # may be called unknown
    edges = np.concatenate([[1.0], values[order], [0.0]])
    return float((edges[count] + edges[count + 1]) / 2)


def at_precision(p_right: Any, precision: float, is_label: Any = None) -> Any:
    """How likely a label must be right, at least, so that of all labels the part `precision` is expected to be right.

    The longest beginning of the labels (`is_label` says which), ordered by `p_right` [n] or [B, n], is kept whose mean
    is not below `precision`; if there is none, the answer is `precision` itself.

    >>> at_precision(np.array([0.95, 0.6, 0.85, 0.4]), 0.8)  # the mean of the best three is 0.8
    0.5
    """
    if not 0 <= precision <= 1:
        raise ValueError(f"the precision is {precision}: give a number between 0 and 1, as in 0.9")
    p = np.asarray(p_right, np.float64)
    single, p = p.ndim == 1, np.atleast_2d(p)
    allowed = np.ones(p.shape, bool) if is_label is None else np.broadcast_to(is_label, p.shape)
    ordered = -np.sort(np.where(allowed, -p, 1.0), axis=1)  # those that may get no label come last, as -1
    edges = np.pad(ordered, ((0, 0), (1, 1)), constant_values=((0, 0), (1.0, -1.0)))
    rank = np.arange(1, p.shape[1] + 1)
    is_end = (ordered >= 0) & (ordered > edges[:, 2:])  # labels of one probability are not parted
    is_end &= np.cumsum(ordered, axis=1) >= (precision - ROUNDING) * rank
    count = np.max(is_end * rank, axis=1, initial=0)
    task = np.arange(len(p))
    last, following = edges[task, count], edges[task, count + 1]
    middle = np.where(following >= 0, (last + following) / 2, 0.0)
    lowest = np.where(count > 0, np.where(middle > following, middle, last), precision)
    return float(lowest[0]) if single else lowest

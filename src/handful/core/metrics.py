"""The figures of few-shot open-set recognition, for whole batches of tasks at once.

Every function takes one task ([Q] arrays) and gives a float, or B tasks of equal size ([B, Q]
arrays) and gives [B]. Outlier, unknown and -1 in `truth` mean the same thing, and it is the
positive class: a high score says "outlier". A figure that a task cannot define is nan.

Examples
--------
>>> scores = np.array([[0.1, 0.2, 0.8, 0.9], [0.5, 0.5, 0.5, 0.5]])  # two tasks
>>> auroc(scores, np.array([[False, False, True, True]] * 2))
array([1. , 0.5])
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from handful.core.checks import UNKNOWN

__all__ = [
    "accuracy", "aupr", "auroc", "calibration_error", "false_unknown", "figures", "label_precision",
    "open_set_balanced_accuracy", "oscr", "precision_at_recall", "unknown_f1",
]  # fmt: skip

Array = NDArray[Any]
Figure = Any  # a float for one task, [B] for a batch


class MeanAndHalfWidth(NamedTuple):
    """A mean and its 95 % interval, [mean - half_width_95, mean + half_width_95]."""

    mean: Any
    half_width_95: Any


# Closed set and outlier ranking: the four figures of the tables


def figures(probabilities: ArrayLike, scores: ArrayLike, truth: ArrayLike) -> dict[str, Figure]:
    """Accuracy, AUROC, AUPR and Prec@0.9 of each task, from a single sort of the scores.

    Parameters
    ----------
    probabilities : array [Q, N] or [B, Q, N]
        P(class) of each query.
    scores, truth : array [Q] or [B, Q]
        Outlier scores, high for unknown, and the class of each query, -1 for an outlier.

    Examples
    --------
    >>> results = figures([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]], [0.1, 0.3, 0.7], [0, 0, -1])
    >>> {name: float(value) for name, value in results.items()}
    {'accuracy': 0.5, 'auroc': 1.0, 'aupr': 1.0, 'prec@0.9': 1.0}
    """
    (p, s, y), single = _tasks(probabilities=probabilities, scores=scores, truth=truth)
    tp, fp = _outlier_curve(s, y == UNKNOWN)
    results = {
        "accuracy": accuracy(p, y),
        "auroc": _auroc(tp, fp),
        "aupr": _aupr(tp, fp),
        "prec@0.9": _precision_at_recall(tp, fp, 0.9),
    }
    return {name: _result(value, single) for name, value in results.items()}


def accuracy(probabilities: ArrayLike, truth: ArrayLike) -> Figure:
    """Share of the inlier queries whose most probable class is the true one; nan without inliers.

    Of equal probabilities the first class counts.

    Parameters
    ----------
    probabilities, truth : array [Q, N] and [Q], or [B, Q, N] and [B, Q]
        P(class) of each query, and the code of its class, -1 for an outlier.

    Examples
    --------
    >>> accuracy([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, -1])
    0.5
    """
    (p, y), single = _tasks(probabilities=probabilities, truth=truth)
    return _result(_ratio(_correct(p, y).sum(-1), (y != UNKNOWN).sum(-1)), single)


def auroc(scores: ArrayLike, outlier: ArrayLike) -> Figure:
    """Chance that an outlier scores above an inlier, ties counting half; nan unless both occur.

    As scikit-learn's `roc_auc_score`.

    Parameters
    ----------
    scores, outlier : array [Q] or [B, Q]
        Outlier scores, high for unknown, and whether each query is an outlier, as bool.

    Examples
    --------
    >>> auroc([0.1, 0.4, 0.4, 0.8], np.array([False, False, True, True]))
    0.875
    """
    (s, o), single = _tasks(scores=scores, outlier=outlier)
    return _result(_auroc(*_outlier_curve(s, o)), single)


def aupr(scores: ArrayLike, outlier: ArrayLike) -> Figure:
    """Trapezoid area under the precision-recall curve, not average precision; nan without outliers.

    As scikit-learn's `auc(recall, precision)` on its `precision_recall_curve`, which starts at recall 0, precision 1;
    so it is 1 when all are outliers.

    Parameters
    ----------
    scores, outlier : array [Q] or [B, Q]
        Outlier scores, high for unknown, and whether each query is an outlier, as bool.

    Examples
    --------
    >>> aupr([0.9, 0.8, 0.3], np.array([False, True, False]))  # from (0, 0) to (1, 1/2)
    0.25
    """
    (s, o), single = _tasks(scores=scores, outlier=outlier)
    return _result(_aupr(*_outlier_curve(s, o)), single)


def precision_at_recall(scores: ArrayLike, outlier: ArrayLike, recall: float = 0.9) -> Figure:
    """Precision at the smallest recall that is >= `recall`; nan without outliers.

    Lowering the threshold over inliers leaves the recall where it is and lets the precision sink. Of such points the
    first one reached counts, that of the highest threshold and precision: `precision[recall >= 0.9][-1]` in the arrays
    of scikit-learn's `precision_recall_curve`, which run from high recall to low.

    Parameters
    ----------
    scores, outlier : array [Q] or [B, Q]
        Outlier scores, high for unknown, and whether each query is an outlier, as bool.
    recall : float
        Above 0 and up to 1.

    Examples
    --------
    >>> precision_at_recall([0.9, 0.8, 0.7, 0.1], np.array([True, False, True, False]))
    0.6666666666666666
    """
    if not 0 < recall <= 1:
        raise ValueError(f"recall is {recall}; give a share above 0 and up to 1, such as 0.9")
    (s, o), single = _tasks(scores=scores, outlier=outlier)
    return _result(_precision_at_recall(*_outlier_curve(s, o), recall), single)


# Open-set decisions and probabilities


def unknown_f1(unknown: ArrayLike, outlier: ArrayLike) -> Figure:
    """F1 of the decision "unknown".

    Without outliers it is 1 if none was called unknown (nothing was there to find) and 0 otherwise.

    Parameters
    ----------
    unknown, outlier : array [Q] or [B, Q] of bool
        Whether each query was called unknown, and whether it is an outlier.

    Examples
    --------
    >>> unknown_f1(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    (u, o), single = _tasks(unknown=unknown, outlier=outlier)
    called_or_true = u.sum(-1) + o.sum(-1)  # = 2 TP + FP + FN
    f1 = np.where(called_or_true == 0, 1.0, _ratio(2 * (u & o).sum(-1), called_or_true))
    return _result(f1, single)


def open_set_balanced_accuracy(predicted: ArrayLike, truth: ArrayLike, ways: int) -> Figure:
    """Mean recall over the known classes and the unknown class, of those that occur in `truth`.

    Parameters
    ----------
    predicted : array [Q] or [B, Q] of int
        The decided class of each query, -1 for unknown.
    truth : array [Q] or [B, Q] of int
        The class of each query, -1 for an outlier.
    ways : int
        The number of known classes, N. Their codes are 0 .. N - 1.

    Examples
    --------
    >>> open_set_balanced_accuracy([0, 0, 1, -1], [0, 0, -1, -1], ways=2)
    0.75
    """
    (p, y), single = _tasks(ways, predicted=predicted, truth=truth)
    recall = _ratio(_count(y + 1, ways + 1, p == y), _count(y + 1, ways + 1))  # [B, N + 1]
    occurs = ~np.isnan(recall)
    return _result(_ratio(np.where(occurs, recall, 0.0).sum(-1), occurs.sum(-1)), single)


def false_unknown(unknown: ArrayLike, outlier: ArrayLike) -> Figure:
    """Share of the knowns that were called unknown; nan without knowns.

    Parameters
    ----------
    unknown, outlier : array [Q] or [B, Q] of bool
        Whether each query was called unknown, and whether it is an outlier.

    Examples
    --------
    >>> false_unknown(np.array([True, True, False]), np.array([True, False, False]))
    0.5
    """
    (u, o), single = _tasks(unknown=unknown, outlier=outlier)
    return _result(_ratio((u & ~o).sum(-1), (~o).sum(-1)), single)


def label_precision(probabilities: ArrayLike, unknown: ArrayLike, truth: ArrayLike) -> Figure:
    """Share of the items with a label whose label is right; nan if all are called unknown.

    Parameters
    ----------
    probabilities : array [Q, N] or [B, Q, N]
        P(class) of each query.
    unknown : array [Q] or [B, Q] of bool
        Whether each query was called unknown.
    truth : array [Q] or [B, Q] of int
        The class of each query, -1 for an outlier.

    Examples
    --------
    >>> label_precision([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], np.array([False, False, True]), [0, -1, 1])
    0.5
    """
    (p, u, y), single = _tasks(probabilities=probabilities, unknown=unknown, truth=truth)
    return _result(_ratio((_correct(p, y) & ~u).sum(-1), (~u).sum(-1)), single)


def decision_figures(probabilities: ArrayLike, unknown: ArrayLike, truth: ArrayLike) -> dict[str, Figure]:
    """What was decided: F1 of "unknown", balanced accuracy over the classes and unknown, knowns called unknown."""
    (p, u, y), single = _tasks(probabilities=probabilities, unknown=unknown, truth=truth)
    results = {
        "unknown_f1": unknown_f1(u, y == UNKNOWN),
        "balanced_accuracy": open_set_balanced_accuracy(np.where(u, UNKNOWN, p.argmax(axis=-1)), y, p.shape[-1]),
        "false_unknown": false_unknown(u, y == UNKNOWN),
    }
    return {name: _result(value, single) for name, value in results.items()}


def oscr(probabilities: ArrayLike, scores: ArrayLike, truth: ArrayLike) -> Figure:
    """Area under the correct classification rate of knowns against the false positive rate of unknowns.

    At threshold t, CCR is the share of the knowns with the right argmax and score < t, and FPR the share of the
    unknowns with score < t. Equal scores pass together, with trapezoids between them (Dhamija et al. 2018). It is at
    most the closed-set accuracy, and nan unless knowns and unknowns both occur.

    Parameters
    ----------
    probabilities : array [Q, N] or [B, Q, N]
        P(class) of each query.
    scores, truth : array [Q] or [B, Q]
        Outlier scores, high for unknown, and the class of each query, -1 for an outlier.

    Examples
    --------
    >>> oscr([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]], [0.1, 0.3, 0.7], [0, 0, -1])
    0.5
    """
    (p, s, y), single = _tasks(probabilities=probabilities, scores=scores, truth=truth)
    outlier = y == UNKNOWN
    accepted, let_through = _sweep(s, _correct(p, y), outlier)
    pairs = outlier.sum(-1) * (~outlier).sum(-1)
    return _result(_ratio(_trapezoid(let_through, accepted), pairs), single)


def calibration_error(p_unknown: ArrayLike, outlier: ArrayLike, bins: int = 15) -> Figure:
    """Expected calibration error: mean over items of |mean p - share of outliers| of their bin.

    Bins have equal width and are closed on the left, the last one also on the right. Small tasks fill bins thinly,
    which makes the error larger; to pool tasks, pass both arrays flattened.

    Parameters
    ----------
    p_unknown : array [Q] or [B, Q]
        P(unknown) of each query, between 0 and 1.
    outlier : array [Q] or [B, Q] of bool
        Whether each query is an outlier.
    bins : int
        The number of bins.

    Examples
    --------
    >>> calibration_error([0.25, 0.25, 0.25, 0.75], np.array([False, False, True, True]), bins=2)
    0.125
    """
    if bins != int(bins) or bins < 1:
        raise ValueError(f"bins is {bins}; give a whole number of at least 1")
    (p, o), single = _tasks(p_unknown=p_unknown, outlier=outlier)
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        raise ValueError(f"p_unknown runs from {p.min()} to {p.max()}; give probabilities in [0, 1], not scores")
    # Looked up among the edges: floor(p * bins) puts 0.29 below the edge 29/100.
    bin_of = np.searchsorted(np.arange(1, bins) / bins, p, side="right")
    gap = _count(bin_of, int(bins), p - o.astype(float))  # [B, bins], bin size * (mean p - share of outliers)
    return _result(np.abs(gap).sum(-1) / p.shape[-1], single)


def mean_and_half_width(values: ArrayLike, axis: int | None = None) -> MeanAndHalfWidth:
    """Mean and half the width of its 95 % interval, 1.96 sd / sqrt(n); nan values are left out."""
    x = np.asarray(values, dtype=np.float64)
    counted = ~np.isnan(x)
    n = counted.sum(axis, keepdims=True)
    mean = _ratio(np.where(counted, x, 0.0).sum(axis, keepdims=True), n)
    squares = (np.where(counted, x - mean, 0.0) ** 2).sum(axis, keepdims=True)
    half_width = 1.96 * np.sqrt(_ratio(squares, np.maximum(n - 1, 0)) / np.maximum(n, 1))
    return MeanAndHalfWidth(*(np.squeeze(a, axis)[()] for a in (mean, half_width)))


# Curves


def _sweep(scores: Array, *flags: Array, descending: bool = False) -> list[Array]:
    """How many of each flag [B, Q] the threshold has passed, [B, Q + 1]; tied scores pass together."""
    order = np.argsort(scores, axis=-1)
    if descending:
        order = order[:, ::-1]
    ranked = np.take_along_axis(scores, order, axis=-1)
    last_of_tie = np.ones(scores.shape, dtype=bool)
    last_of_tie[:, :-1] = ranked[:, 1:] != ranked[:, :-1]
    passed = []
    for flag in flags:
        count = np.zeros((len(scores), scores.shape[1] + 1), dtype=np.int64)
        np.cumsum(np.take_along_axis(flag, order, axis=-1), axis=-1, out=count[:, 1:])
        count[:, 1:] *= last_of_tie
        passed.append(np.maximum.accumulate(count, axis=-1))  # counts never fall, so this carries them on
    return passed


def _outlier_curve(scores: Array, outlier: Array) -> tuple[Array, Array]:
    """True and false positives [B, Q + 1] as the threshold comes down from above all scores."""
    tp, fp = _sweep(scores, outlier, ~outlier, descending=True)
    return tp, fp


def _correct(probabilities: Array, truth: Array) -> Array:
    """Whether the argmax over classes is right, [B, Q]; an outlier never is, its -1 equals no class."""
    right: Array = probabilities.argmax(axis=-1) == truth
    return right


def _auroc(tp: Array, fp: Array) -> Array:
    return _ratio(_trapezoid(fp, tp), tp[:, -1] * fp[:, -1])


def _precision(tp: Array, fp: Array) -> Array:
    return np.where(tp + fp > 0, tp / np.maximum(tp + fp, 1), 1.0)  # scikit-learn starts the curve at 1


def _aupr(tp: Array, fp: Array) -> Array:
    return _ratio(_trapezoid(tp, _precision(tp, fp)), tp[:, -1])


def _precision_at_recall(tp: Array, fp: Array, recall: float) -> Array:
    outliers = tp[:, -1:]
    first = np.argmax(_ratio(tp, outliers) >= recall, axis=-1)[:, None]
    at = _precision(*(np.take_along_axis(a, first, axis=-1) for a in (tp, fp)))
    return np.where(outliers > 0, at, np.nan)[:, 0]


def _trapezoid(x: Array, y: Array) -> Array:
    area: Array = (np.diff(x) * (y[:, 1:] + y[:, :-1])).sum(-1) / 2  # of counts: integers, so exact
    return area


def _ratio(part: Array, total: Array) -> Array:
    """part / total, nan where the total is 0."""
    part, total = np.broadcast_arrays(part, total)
    share: Array = np.divide(part, total, out=np.full(part.shape, np.nan), where=total != 0)
    return share


def _count(index: Array, size: int, weights: Array | None = None) -> Array:
    """`np.bincount` of each row: index [B, Q] in 0 .. size-1 to [B, size]."""
    rows = len(index)
    flat = (index + size * np.arange(rows)[:, None]).ravel()
    weights = None if weights is None else weights.ravel()
    return np.bincount(flat, weights, minlength=rows * size).reshape(rows, size)


# Arguments

_MASK = ("b", "a boolean mask, True where the query is unknown (from labels: `truth == -1`)")
_LABELS = ("iu", "integer labels, -1 for unknown")
_NUMBERS = ("biuf", "real numbers")
_EXPECTED = {"outlier": _MASK, "unknown": _MASK, "truth": _LABELS, "predicted": _LABELS}


def _tasks(ways: int | None = None, **arrays: ArrayLike) -> tuple[list[Array], bool]:
    """The arrays, checked, as [B, Q] ([B, Q, N] for probabilities), and whether they were one task [Q]."""
    results = {name: np.asarray(array) for name, array in arrays.items()}
    last = list(results)[-1]  # truth or outlier: the others are held against it
    shape = results[last].shape
    if len(shape) not in (1, 2) or shape[-1] == 0:
        raise ValueError(f"{last} has shape {shape}; give [Q] for one task or [B, Q] for B tasks, Q >= 1")
    single = len(shape) == 1
    for name, array in results.items():
        classes = array.shape[-1:] if name == "probabilities" else ()
        if array.shape != shape + classes or classes == (0,):
            axes = "[B, Q, N]" if name == "probabilities" else "[B, Q]"
            raise ValueError(
                f"{name} has shape {array.shape} but {last} has shape {shape}; give {name} as {axes} and "
                f"{last} as [B, Q], or both without B for one task"
            )
        kinds, what = _EXPECTED.get(name, _NUMBERS)
        if array.dtype.kind not in kinds:
            raise ValueError(f"{name} has dtype {array.dtype}; give {what}")
        results[name] = array = array[None] if single else array
        if name in ("truth", "predicted"):
            count = results["probabilities"].shape[-1] if ways is None else ways
            if array.size and not (array.min() >= UNKNOWN and array.max() < count):
                raise ValueError(
                    f"{name} runs from {array.min()} to {array.max()}; with {count} classes give 0 to {count - 1}, "
                    "and -1 for unknown"
                )
            results[name] = array.astype(np.intp, copy=False)  # unsigned labels would not survive arithmetic with -1
        elif np.isnan(array).any():
            where = np.argwhere(np.isnan(array))
            raise ValueError(
                f"{name} holds {len(where)} NaN, the first at task {where[0][0]}, query {where[0][1]}; "
                "a NaN has no rank, so find out why the method gave it"
            )
    return list(results.values()), single


def _result(values: Array, single: bool) -> Figure:
    return float(values[0]) if single else values

"""The labels that somebody gives to items: which are missing, of which kind they are, and how right a model is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from handful.core import metrics
from handful.core.checks import NONE_OF_THESE, UNKNOWN, UNKNOWN_NAME, fit_labels, is_no_class, is_no_label, label_array

SCORERS: dict[str, Callable[..., Any]] = {
    "balanced_accuracy": lambda p, called, scores, truth: metrics.open_set_balanced_accuracy(called, truth, p.shape[1]),
    "unknown_f1": lambda p, called, scores, truth: metrics.unknown_f1(called == UNKNOWN, truth == UNKNOWN),
    "auroc": lambda p, called, scores, truth: metrics.auroc(scores, truth == UNKNOWN),
    "aupr": lambda p, called, scores, truth: metrics.aupr(scores, truth == UNKNOWN),
    "oscr": lambda p, called, scores, truth: metrics.oscr(p, scores, truth),
}


def scorer(name: str) -> Callable[[Any, Any, Any], float]:
    """A scorer of the open-set decision, to be given as `scoring=` to `cross_val_score` or `GridSearchCV`.

    True unknowns are the items that `y` marks as of no class (-2; "unknown" among strings) and those of classes that
    the model does not have. Items without a label (-1; None or a blank among strings) are left out. Note that `fit`
    learns from the items of no class that are in a training part.

    Parameters
    ----------
    name : str
        "balanced_accuracy": the mean recall of the classes and of "unknown". "unknown_f1": F1 of the decision
        "unknown". "auroc", "aupr": how well the outlier scores rank the unknowns above the others. "oscr": the same,
        if items of a class also need the right label.

    Returns
    -------
    callable
        Called with a fitted estimator or pipeline, X and y, it returns a number; larger is better.

    Examples
    --------
    >>> from handful import KDO
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[k] for k in range(3)])
    >>> y = ["cat"] * 20 + ["dog"] * 20 + ["unknown"] * 20
    >>> model = KDO().fit(X, ["cat", *[None] * 19, "dog", *[None] * 39])
    >>> scorer("auroc")(model, X, y)
    1.0
    """
    if name not in SCORERS:
        raise ValueError(f"there is no scorer {name!r}; there are: {', '.join(SCORERS)}")
    return partial(_score, name)


def _score(name: str, model: Any, X: Any, y: Any) -> float:
    labels, of_no_class, is_missing = fit_labels(y)
    counts = of_no_class | ~is_missing
    codes = {label: code for code, label in enumerate(model.classes_.tolist())}
    truth, called = (
        np.array([codes.get(label, UNKNOWN) for label in values.tolist()])[counts]
        for values in (np.where(of_no_class, UNKNOWN_NAME, labels.astype(object)), model.predict(X))
    )
    if not (truth == UNKNOWN).any():
        raise ValueError(
            f'y has no true unknown, and the scorer {name!r} needs some: label them "unknown" among strings, -2 among '
            "numbers; -1 means that an item has no label"
        )
    return float(SCORERS[name](model.predict_proba(X)[counts], called, -model.score_samples(X)[counts], truth))


def same_kind(names: np.ndarray, classes: np.ndarray, source: str) -> np.ndarray:
    """The names of classes as an array of the type of `classes`; ValueError where one has texts, the other numbers."""
    if not len(names):
        return classes[:0]
    is_number, needs_number = (array.dtype.kind in "iuf" for array in (names, classes))
    if is_number != needs_number:
        kinds = "texts", "numbers"
        raise ValueError(
            f"{names.tolist()[0]!r} in {source} is no name for a class of this model, whose classes are "
            f"{kinds[needs_number]}, such as {classes.tolist()[0]!r}: give {kinds[needs_number]}"
        )
    if not is_number:
        return names.astype(str)
    if classes.dtype.kind in "iu" and (names != np.floor(names)).any():
        raise ValueError(f"{source} has labels that are no whole numbers, and those of this model are: give whole ones")
    return names.astype(classes.dtype)


def is_none_of_these(row: Any, label: Any) -> bool:
    """Whether an answer says that the item belongs to no class."""
    if is_no_label(label):
        raise ValueError(
            f"the answer for item {row} is {label!r}, which means that it has no label: give a class, or "
            f"handful.NONE_OF_THESE ({NONE_OF_THESE}) if it belongs to none"
        )
    return is_no_class(label)


def check_declared(classes: Any, fitted: Any, names: np.ndarray) -> None:
    """Raise unless these are classes with examples, and those of the new items, `names`, are among them."""
    declared, new = label_array(classes).tolist(), names.tolist()
    present = {*np.asarray(fitted).tolist(), *new}
    if absent := [name for name in declared if name not in present]:
        raise ValueError(f"classes names {absent[0]!r}, of which there is no example: give one of it, in y")
    if surplus := [name for name in new if name not in declared]:
        raise ValueError(f"y has the label {surplus[0]!r}, and classes does not name it: name all classes")

"""The scikit-learn estimator that all methods share.

`fit(X, y)` takes labelled and unlabelled items together, as scikit-learn's semi-supervised estimators do. `predict` and
its relatives score new items by what was learned: the answer for an item does not depend on the others of the call. A
fitted model grows by `partial_fit` (items) and `teach` (labels), which both fit again to all items; rows keep their
numbers.

>>> from sklearn.datasets import load_digits
>>> X, digit = load_digits(return_X_y=True)
>>> y = np.full(len(X), -1)
>>> y[:50] = np.where(digit[:50] < 5, digit[:50], -1)        # a few examples of 0 to 4; 5 to 9 are unknown
>>> from handful import KDO
>>> model = KDO().fit(X, y)
>>> bool(np.mean(model.unknown_[50:] == (digit[50:] >= 5)) > 0.8)
True
>>> row = model.groups_[0].representative                    # a person looks at this item
>>> model.teach({row: int(digit[row])}).classes_.tolist() == [0, 1, 2, 3, 4, int(digit[row])]
True
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cached_property
from html import escape
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from handful.core.answers import Answers, mark_unknown
from handful.core.arrays import to_numpy
from handful.core.base import Base, read_base
from handful.core.checks import NONE_OF_THESE, UNKNOWN, as_features, fit_labels
from handful.core.decide import shift_of
from handful.core.task import Task
from handful.estimators.given_labels import check_declared, is_none_of_these, same_kind
from handful.estimators.model_file import write_model
from handful.solving.groups import Groups, group_unknowns
from handful.solving.solve import solve
from handful.solving.solver import Solver, get_solver

if TYPE_CHECKING:
    from typing import Self

MAX_PILE_SCORES = 10_001  # outlier scores of the pile that are kept to rank new items in; of more, so many quantiles


class FewShotClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators of all methods share: `handful.EOL()`, or by name `handful.make_estimator("eol")`.

    The attributes exist after `fit`. n is the number of items, labelled ones included.

    Parameters
    ----------
    **parameters
        Those of the method, by name.

    Attributes
    ----------
    answers_ : Answers
        The answers for the items that the model was fitted to: labels, P(unknown), confidence and more.
    items_ : array [n, D]
        The items as they came.
    given_ : array [n] of int
        The column of the label that was given; -1 where there is none, -2 for an example of no class.
    base_ : Base
        What a method that needs base classes was given.
    min_confidence_ : float
        An item whose label is right with a lower probability is called unknown. 0 unless `handful label` was asked for
        a precision.
    shots_, shift_, pile_scores_ : float, float, array
        What P(unknown) and the confidence of new items need: examples per class on average and the shift of the
        calibration (both None where scores only rank, or are probabilities already); the outlier scores of the pile in
        order, or quantiles of them (None where the score is a probability).
    """

    _method = ""
    _defaults: Mapping[str, Any] = {}
    base_: Base
    parameters_: dict[str, Any]
    shots_: float | None  # None where scores are not corrected
    shift_: float | None
    pile_scores_: np.ndarray | None
    min_confidence_: float

    @property
    def _solver(self) -> Solver:
        return get_solver(self._method)

    def __init__(self, **parameters: Any) -> None:
        if strange := sorted(set(parameters) - set(self._defaults)):
            names = ", ".join(self._defaults)
            raise TypeError(f"{type(self).__name__} has no parameter {strange[0]!r}; it has: {names}")
        for name, default in self._defaults.items():
            setattr(self, name, parameters.get(name, default))

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from labelled items and the unlabelled pile together; without a pile, from the labelled items alone.

        Parameters
        ----------
        X : array [n, D]
            Features of all items, labelled or not. If it is a frame whose columns have strings as names, later frames
            need the same columns in the same order.
        y : array [n]
            The class of each item. -1, None and NaN mean that it has no label; among strings, a blank text, "-1" and
            "nan" mean the same. -2 marks an example that belongs to none of the classes; among strings, "unknown" and
            "-2" mean the same.
        """
        X, y, is_no_class, is_missing = self._check_both(X, y)
        is_example = ~(is_no_class | is_missing)
        if is_missing.all():
            raise ValueError("y is -1 (or None) everywhere: give every class at least one labelled example")
        if not is_example.any():
            raise ValueError("y has only examples of no class: give every class at least one labelled example")
        if is_example.all() and len(np.unique(y)) == 1:
            raise ValueError("y has only one class and no unlabelled item: add a pile (y of -1) to tell the class from")
        return self._fit_items(X, y, is_no_class, is_missing)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Take in more items, and fit again: as `fit` with all items so far, in the order in which they came.

        Parameters
        ----------
        X : array [n, D]
            The items. They get the rows after those that the model has.
        y : array [n], optional
            As in `fit`; None if no item has a label. A label of a new class adds this class.
        classes : array, optional
            The names of all classes, as scikit-learn has it. Each needs an example in the model or in y.
        """
        if not hasattr(self, "classes_"):
            if y is None:
                raise ValueError(f"{type(self).__name__} is not fitted yet: begin with labelled examples of each class")
            if classes is not None:
                check_declared(classes, (), _examples(*fit_labels(y)))
            return self.fit(X, y)
        self._need_items()
        y = np.full(np.shape(X)[:1], UNKNOWN) if y is None else y
        X, y, *masks = self._check_both(X, y, reset=False)
        names = same_kind(_examples(y, *masks), self.classes_, "y")
        if classes is not None:
            check_declared(classes, self.classes_, names)
        labels = np.array([*self._labels, *y], dtype=object)
        labels[len(self.items_) :][~np.logical_or(*masks)] = names
        return self._fit_items(np.concatenate([self.items_, X]), *fit_labels(labels))

    def teach(self, answers: Mapping[int, Any]) -> Self:
        """Give labels to items that are in the model, and fit again: as `fit` with all items and all labels.

        A wrong answer raises ValueError, as does a model that was read from a file without its items; the model stays
        as it was.

        Parameters
        ----------
        answers : mapping of int to label
            By the row of an item, as in `transduction_`: a class of the model, the name of a new class, or
            `handful.NONE_OF_THESE` or "unknown" for an example of no class. An item that has a label gets the new one;
            a class whose last example is taken away is no class of the model any more.
        """
        check_is_fitted(self)
        self._need_items()
        rows = [self._checked_row(row) for row in answers]
        if len(set(rows)) < len(rows):
            raise ValueError("two answers are for the same row, once counted from the end: give each row once")
        is_none = np.array([is_none_of_these(row, label) for row, label in answers.items()], bool)
        names = [label for label, none in zip(answers.values(), is_none, strict=True) if not none]
        if not rows:
            return self
        labels = self._labels
        labels[np.array(rows)[is_none]] = NONE_OF_THESE
        if names:
            labels[np.array(rows)[~is_none]] = same_kind(fit_labels(names)[0], self.classes_, "the answers")
        y, *masks = fit_labels(labels)
        left = _examples(y, *masks)
        if not len(left):
            raise ValueError("no example of a class would be left: give at least one item a class")
        if len(left) == len(y) and len(np.unique(left)) == 1:
            raise ValueError("all items would be of one class: nothing would be left to tell the class from")
        return self._fit_items(self.items_, y, *masks)

    @property
    def _labels(self) -> np.ndarray:
        """The y of all items so far."""
        labels = self.classes_.astype(object)[np.maximum(self.given_, 0)]
        labels[self.given_ < 0] = self.given_[self.given_ < 0]
        return labels

    def _fit_items(self, X: np.ndarray, y: np.ndarray, is_no_class: np.ndarray, is_missing: np.ndarray) -> Self:
        """Fit to items with their labels, and store what was learned and the answers for them."""
        is_example = ~(is_no_class | is_missing)
        support, names, unknown = X[is_example], y[is_example], X[is_no_class]
        if is_missing.any():
            task = Task(support, names, X[is_missing], unknown=unknown)
        else:
            task = Task.of_examples(support, names, unknown)
        result = solve(task, method=self._method, **self.get_params(deep=False))

        self.classes_, self.state_, self.parameters_ = result.classes, result.state, result.made_by["parameters"]
        if self._solver.info.needs == "base":
            self.base_ = read_base(self.base)
        interval, spread = result.outlier_share_interval, result.precision_spread
        self.outlier_share_ = float(np.ravel(result.outlier_share)[0])
        self.outlier_share_interval_ = None if interval is None else tuple(np.ravel(interval).tolist())
        self.precision_spread_ = None if spread is None else tuple(np.ravel(spread)[:2].tolist())
        self.n_iter_ = max(1, result.made_by["steps"])

        self.items_, self.given_ = X, np.where(is_no_class, NONE_OF_THESE, UNKNOWN)
        self.given_[is_example] = task.labels[0]
        self.outlier_scores_, self.label_distributions_ = np.empty(len(X)), np.empty((len(X), len(self.classes_)))
        self.outlier_scores_[is_missing] = result.outlier_scores
        self.label_distributions_[is_missing] = conditional(result.probabilities)
        of_examples, self.outlier_scores_[~is_missing] = self._score(X[~is_missing])
        self.label_distributions_[~is_missing] = conditional(of_examples)
        self.label_distributions_[is_example] = np.eye(len(self.classes_))[task.labels[0]]

        scores = self.outlier_scores_[is_missing]
        self.shots_, self.shift_, self.pile_scores_ = len(support) / len(self.classes_), None, None
        if result.is_calibrated:
            self.shots_ = None  # the scores are P(unknown) as they are
        elif self._is_probability:
            self.shift_ = float(shift_of(scores[None], self.outlier_share_, self.shots_)[0])
        else:
            ordered = np.sort(scores)
            rows = np.linspace(0, len(ordered) - 1, MAX_PILE_SCORES).round().astype(int)
            self.pile_scores_ = ordered if len(ordered) <= MAX_PILE_SCORES else ordered[rows]
        return self._decide(float(result.threshold), 0.0)

    def _decide(self, threshold: float, min_confidence: float) -> Self:
        """Decide what is unknown among the items that it was fitted to, and from now on among new ones."""
        self.threshold_, self.min_confidence_ = float(threshold), float(min_confidence)
        self.__dict__.pop("groups_", None)  # computed for the old decision
        answers = self.answers_
        self.unknown_ = (self.given_ < 0) & answers.unknown
        self.transduction_ = mark_unknown(answers.closest, self.unknown_)
        return self

    @property
    def _is_probability(self) -> bool:
        return self._solver.info.score == "probability"

    @property
    def answers_(self) -> Answers:
        """The answers for the items that the model was fitted to. A model from a file has them if it has its items."""
        check_is_fitted(self)
        if not hasattr(self, "given_"):
            raise AttributeError("this model was read from a file without its items: it has answers for new items only")
        own = {
            "labelled": self.given_ >= 0, "of_no_class": self.given_ == NONE_OF_THESE,
            "pile_scores": self.outlier_scores_[self.given_ == UNKNOWN],
        }  # fmt: skip
        return Answers(self.label_distributions_, self.outlier_scores_, **(self.answer_options | own))

    @cached_property
    def groups_(self) -> Groups:
        """The unknown items without a label as groups that look alike, the largest first: candidates for new classes.

        Items are numbered by their rows, as in `transduction_`, and the first of a group is the most central one. Of a
        method that opens classes itself, the groups are those classes.
        """
        unknown = to_numpy(self.answers_.likely_unknown)  # not labels that are too unsure
        rows, is_example = np.flatnonzero(self.given_ == UNKNOWN), self.given_ >= 0
        if not unknown[rows].any():
            return Groups()
        task = Task(self.items_[is_example], self.classes_[self.given_[is_example]], self.items_[rows])
        return Groups(group.at(rows) for group in group_unknowns(task, unknown[rows], state=self.state_))

    def answer(self, X: Any) -> Answers:
        """The answers for new items, each on its own; P(unknown) is calibrated to the pile of `fit`, ranks are in it.

        Parameters
        ----------
        X : array [m, D]
            Features of the new items.
        """
        probabilities, scores = self._score(self._check_new(X))
        return Answers(conditional(probabilities), scores.astype(np.float64), **self.answer_options)

    @property
    def answer_options(self) -> dict[str, Any]:
        """What `Answers` takes beside probabilities and outlier scores: classes, threshold, calibration."""
        return {
            "classes": self.classes_, "threshold": self.threshold_, "is_probability": self._is_probability,
            "outlier_share": self.outlier_share_, "shots": self.shots_, "shift": self.shift_,
            "pile_scores": np.empty(0) if self.pile_scores_ is None else self.pile_scores_,
            "min_confidence": self.min_confidence_, "precision_spread": self.precision_spread_,
        }  # fmt: skip

    def predict(self, X: Any) -> np.ndarray:
        """Labels of new items, [m]: -1 (or "unknown") where unknown.

        Parameters
        ----------
        X : array [m, D]
            Features of the new items.
        """
        return self.answer(X).labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class | known) of new items, [m, N]; whether they are known is for `score_samples` to say.

        Parameters
        ----------
        X : array [m, D]
            Features of the new items.
        """
        return conditional(self._score(self._check_new(X))[0])

    def score_samples(self, X: Any) -> np.ndarray:
        """How well new items fit the known classes, [m]: minus the outlier score, as in scikit-learn's detectors.

        Parameters
        ----------
        X : array [m, D]
            Features of the new items.
        """
        return -self._score(self._check_new(X))[1].astype(np.float64)

    def transform(self, X: Any) -> np.ndarray:
        """New items as a table, [m, N + 1]: p_<class>, P(class | known), for each class, and outlier_score.

        Parameters
        ----------
        X : array [m, D]
            Features of the new items.
        """
        X = self._check_new(X)
        probabilities, scores = self._score(X)
        return np.column_stack([conditional(probabilities), scores]).astype(X.dtype, copy=False)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns of `transform`.

        Parameters
        ----------
        input_features : ignored
            scikit-learn passes it.
        """
        check_is_fitted(self)
        return np.asarray([*(f"p_{name}" for name in self.classes_), "outlier_score"], dtype=object)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the items that have a label in `y`. A known item that is called unknown is an error.

        Parameters
        ----------
        X : array [m, D]
            Features of the items.
        y : array [m]
            Their classes; items without a label are left out.
        sample_weight : array [m], optional
            The weight of each item.
        """
        y, is_no_class, is_missing = fit_labels(y)
        labelled = ~(is_missing | is_no_class)
        weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(np.average((self.predict(X) == y)[labelled], weights=weight))

    def save(self, path: str | Path, items: bool = False) -> Path:
        """Write the fitted model as safetensors. `handful.load` reads it.

        Parameters
        ----------
        path : str or Path
            The file.
        items : bool
            Whether to write the items too, so that the model can grow by `partial_fit` after it is read.
        """
        check_is_fitted(self)
        return write_model(self, path, items)

    def _score(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities [m, N] and outlier scores [m] of new items, each on its own."""
        parameters = self.parameters_ | ({"base": self.base_} if hasattr(self, "base_") else {})
        probabilities, scores = self._solver.score(self.state_, X[None], self.dtype, parameters)
        return to_numpy(probabilities[0]), to_numpy(scores[0])

    def _need_items(self) -> None:
        """Raise if the model does not hold the items that it was fitted to."""
        if not hasattr(self, "items_"):
            raise ValueError(
                "this model was read from a file that does not hold the items it was fitted to, so it cannot grow: fit "
                "again with all items, or save models that shall grow with save(path, items=True)"
            )

    def _checked_row(self, row: Any) -> int:
        """A row of the model, counted from the front."""
        count = len(self.items_)
        try:
            number = index(row)
        except TypeError:
            advice = "give a whole number, as in teach({12: 'cat'})"
            raise ValueError(f"{row!r} is not the row of an item: {advice}") from None
        if not -count <= number < count:
            raise ValueError(f"there is no item {row!r}: the model has {count}, numbered from 0 to {count - 1}")
        return number % count

    def _check_both(self, X: Any, y: Any, reset: bool = True) -> tuple[np.ndarray, ...]:
        """X, y, where y marks an example of no class, and where it is no label."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = self._validated(X, reset)
        X, (y, is_no_class, is_missing) = as_features(X, "X"), fit_labels(y)
        if y.ndim == 2 and y.shape[1] == 1:
            message = "A column-vector y was passed when a 1d array was expected: it is read as y.ravel()"
            warnings.warn(message, DataConversionWarning, stacklevel=3)
            y, is_no_class, is_missing = y.ravel(), is_no_class.ravel(), is_missing.ravel()
        if y.shape != (len(X),):
            raise ValueError(f"X has {len(X)} items and y has shape {y.shape}: one label for each, -1 if unlabelled")
        if y.dtype.kind == "f":
            if np.isinf(y).any():
                raise ValueError("y contains infinity: labels are integers or strings")
            check_classification_targets(np.where(is_missing, UNKNOWN, y))
        return X, y, is_no_class, is_missing

    def _check_new(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        values: np.ndarray = as_features(self._validated(X, reset=False), "X")
        return values

    def _validated(self, X: Any, reset: bool) -> Any:
        """X, checked by scikit-learn, whose convention is to refuse a frame with columns in another order."""
        kinds = [np.float64, np.float32]
        try:
            return validate_data(self, X, reset=reset, accept_sparse=False, dtype=kinds, ensure_all_finite=False)
        except ValueError as error:
            if "feature names should match" not in str(error) or set(X.columns) != set(self.feature_names_in_):
                raise
            raise ValueError(f"{error}Give X[list(model.feature_names_in_)]: these columns in this order") from None

    def _html_repr(self) -> str:
        words = "not fitted yet"
        if hasattr(self, "classes_"):
            names = ", ".join(map(str, self.classes_[:8])) + (", …" if len(self.classes_) > 8 else "")
            words = f"fitted on {len(self.unknown_)} items: {self.unknown_.sum()} unknown; classes {names}"
        return f"<div>{escape(f'{self._solver.info.title}, {words}')}</div>{super()._html_repr()}"


def _examples(y: np.ndarray, of_no_class: np.ndarray, is_missing: np.ndarray) -> np.ndarray:
    """The labels of the examples of classes."""
    return np.asarray(y[~(of_no_class | is_missing)])


def conditional(probabilities: np.ndarray) -> np.ndarray:
    """P(class | known): rows that sum to 1, also where the method is certain of an unknown."""
    p = probabilities.astype(np.float64)
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])

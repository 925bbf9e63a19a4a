"""A fitted model and its pile as time goes on: items arrive, classes are added, a person gives labels.

`partial_fit` takes in items, also of new classes; `teach` takes labels of items that are in the model already;
`groups_` are the unknown items as groups, candidates for new classes. An item keeps its row: rows are numbered as the
items came.

>>> from handful import KDO
>>> rng = np.random.default_rng(0)
>>> cats, dogs, hens = (rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[k] for k in range(3))
>>> model = KDO().partial_fit(np.concatenate([cats[:5], dogs[:5]]), ["cat"] * 5 + ["dog"] * 5)
>>> model.partial_fit(np.concatenate([cats[5:], dogs[5:], hens]))              # the pile arrives, without labels
KDO()
>>> row = model.groups_[0].representative                                      # a person looks at this item
>>> model.teach({row: "hen"}).classes_.tolist()
['cat', 'dog', 'hen']
>>> bool(np.mean(model.transduction_[-20:] == "hen") > 0.8)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from handful.core.arrays import to_numpy
from handful.core.checks import NONE_OF_THESE, UNKNOWN, fit_labels, is_no_class, is_no_label, label_array
from handful.core.task import Task
from handful.estimators.given_labels import is_unlabelled, same_kind
from handful.solving.group_list import Groups
from handful.solving.groups import group_unknowns, joined_classes

if TYPE_CHECKING:
    from typing import Self

    from handful.core.answers import Answers


class GrowingPile:
    """`partial_fit`, `teach` and `groups_`, for the estimators, which define what is declared here."""

    classes_: np.ndarray
    items_: np.ndarray
    given_: np.ndarray
    state_: dict[str, Any]

    if TYPE_CHECKING:

        @property
        def answers_(self) -> Answers: ...  # noqa: D102
        def fit(self, X: Any, y: Any) -> Self: ...  # noqa: D102
        def _check_both(self, X: Any, y: Any, reset: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
        def _fit_whole(self, X: np.ndarray, names: np.ndarray, pile: np.ndarray, is_no_class: np.ndarray) -> Self: ...

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Take in more items, and fit again: the attributes of `fit` then speak of all items so far.

        The model is the one that `fit` makes of all items so far, in the order in which they came. On a model that is
        not fitted, this is `fit`.

        Parameters
        ----------
        X : array [n, D]
            The items. They get the rows after those that the model has.
        y : array [n], optional
            As in `fit`; None if no item has a label. A label of a new class adds this class.
        classes : array, optional
            The names of all classes, as scikit-learn has it. Each must be in the model or in y, because a class
            without an example cannot be learned; and it must name those of y.

        Returns
        -------
        FewShotClassifier
            The model itself.

        Examples
        --------
        >>> from handful import EOL
        >>> rng = np.random.default_rng(0)
        >>> cats, dogs, hens = (rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[k] for k in range(3))
        >>> model = EOL().fit(np.concatenate([cats, dogs]), ["cat", *[None] * 19, "dog", *[None] * 19])
        >>> model.partial_fit(hens, ["hen", *[None] * 19]).classes_.tolist()
        ['cat', 'dog', 'hen']
        """
        if not hasattr(self, "classes_"):
            if y is None:
                raise ValueError(f"{type(self).__name__} is not fitted yet: begin with labelled examples of each class")
            if classes is not None:
                labels, is_no_class = fit_labels(y)
                _check_declared(classes, (), labels[~is_unlabelled(labels) & ~is_no_class])
            return self.fit(X, y)
        self._need_items()
        y = np.full(np.shape(X)[:1], UNKNOWN) if y is None else y
        X, y, is_no_class = self._check_both(X, y, reset=False)
        is_example = ~is_unlabelled(y) & ~is_no_class
        names = same_kind(y[is_example], self.classes_, "y")
        if classes is not None:
            _check_declared(classes, self.classes_, names)

        n_before, known = len(self.items_), np.unique(np.concatenate([self.classes_, names]))
        X = np.concatenate([self.items_, X])
        codes = np.full(len(X), UNKNOWN)
        codes[:n_before] = self._codes_among(known)
        codes[n_before:][is_no_class] = NONE_OF_THESE
        codes[n_before:][is_example] = np.searchsorted(known, names)
        return self._fit_whole(X, known[codes[codes >= 0]], codes == UNKNOWN, codes == NONE_OF_THESE)

    def teach(self, answers: Mapping[int, Any]) -> Self:
        """Give labels to items that are in the model; it is fitted again, with these items as examples.

        The items keep their rows. The model is then the one that `fit` makes of all items with all labels.

        Parameters
        ----------
        answers : mapping of int to label
            By the row of an item, as in `transduction_`: a class of the model, the name of a new class, or
            `handful.NONE_OF_THESE` or "unknown" for an example of no class. An item that has a label gets the new one;
            a class whose last example is taken away is no class of the model any more.

        Returns
        -------
        FewShotClassifier
            The model itself.

        Raises
        ------
        ValueError
            If there is no such row, if a label is of another kind than the classes, or if the model was read from a
            file without its items. The model stays as it was.

        Examples
        --------
        >>> from handful.estimators import SimpleShot
        >>> model = SimpleShot().fit(np.eye(4)[[0, 1, 0, 1, 2]], [7, 3, -1, -1, -1])
        >>> model.teach({4: 5, 2: 7}).classes_.tolist()
        [3, 5, 7]
        >>> model.transduction_[[4, 2]].tolist()
        [5, 7]
        """
        check_is_fitted(self)
        self._need_items()
        rows = [self._checked_row(row) for row in answers]
        if len(set(rows)) < len(rows):
            raise ValueError("two answers are for the same row, once counted from the end: give each row once")
        is_none = np.array([_is_none_of_these(row, label) for row, label in answers.items()], bool)
        labels = [label for label, none in zip(answers.values(), is_none, strict=True) if not none]
        names = same_kind(fit_labels(labels)[0], self.classes_, "the answers") if labels else self.classes_[:0]
        if not rows:
            return self
        known = np.unique(np.concatenate([self.classes_, names]))
        codes, taught = self._codes_among(known), np.array(rows)
        codes[taught[is_none]] = NONE_OF_THESE
        codes[taught[~is_none]] = np.searchsorted(known, names)
        left = np.unique(codes[codes >= 0])
        if not len(left):
            raise ValueError("no example of a class would be left: give at least one item a class")
        if len(left) == 1 and (codes >= 0).all():
            raise ValueError("all items would be of one class: nothing would be left to tell the class from")
        return self._fit_whole(self.items_, known[codes[codes >= 0]], codes == UNKNOWN, codes == NONE_OF_THESE)

    @cached_property
    def groups_(self) -> Groups:
        """The unknown items as groups that look alike, the largest first: candidates for new classes.

        Items are numbered by their rows, as in `transduction_`, and the first of a group is the most central one. Of a
        method that opens classes itself, the groups are those classes. Items that have a label are in no group.

        Examples
        --------
        >>> from handful import KDO
        >>> rng = np.random.default_rng(0)
        >>> cats, dogs, hens = (rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[k] for k in range(3))
        >>> labels = ["cat"] * 5 + [None] * 15 + ["dog"] * 5 + [None] * 35
        >>> [group.size for group in KDO().fit(np.concatenate([cats, dogs, hens]), labels).groups_]
        [20]
        """
        unknown = to_numpy(self.answers_.likely_unknown)  # not labels that are too unsure
        rows, is_example = np.flatnonzero(self.given_ == UNKNOWN), self.given_ >= 0
        if not unknown[rows].any():
            return Groups()
        task = Task(self.items_[is_example], self.classes_[self.given_[is_example]], self.items_[rows])
        joined = joined_classes(self.state_, len(rows))
        return Groups(group.at(rows) for group in group_unknowns(task, unknown[rows], joined=joined))

    def _need_items(self) -> None:
        """Raise if the model does not hold the items that it was fitted to."""
        if not hasattr(self, "items_"):
            raise ValueError(
                "this model was read from a file that does not hold the items it was fitted to, so it cannot grow: fit "
                "again with all items, or save models that shall grow with save(path, items=True)"
            )

    def _codes_among(self, classes: np.ndarray) -> np.ndarray:
        """`given_` where the classes of the model are some of these."""
        column = np.searchsorted(classes, self.classes_)
        return np.where(self.given_ >= 0, column[self.given_], self.given_)

    def _checked_row(self, row: Any) -> int:
        """A row of the model, counted from the front."""
        count = len(self.items_)
        try:
            number = index(row)
        except TypeError:
            raise ValueError(
                f"{row!r} is not the row of an item: give a whole number, as in teach({{12: 'cat'}})"
            ) from None
        if not -count <= number < count:
            raise ValueError(f"there is no item {row!r}: the model has {count}, numbered from 0 to {count - 1}")
        return number % count


def _is_none_of_these(row: Any, label: Any) -> bool:
    """Whether an answer says that the item belongs to no class."""
    if is_no_label(label):
        raise ValueError(
            f"the answer for item {row} is {label!r}, which means that it has no label: give a class, or "
            f"handful.NONE_OF_THESE ({NONE_OF_THESE}) if it belongs to none"
        )
    return is_no_class(label)


def _check_declared(classes: Any, fitted: Any, names: np.ndarray) -> None:
    """Raise unless these are classes with examples, and those of the new items, `names`, are among them."""
    declared, new = label_array(classes).tolist(), names.tolist()
    present = {*np.asarray(fitted).tolist(), *new}
    if absent := [name for name in declared if name not in present]:
        raise ValueError(
            f"classes names {absent[0]!r}, of which there is no example: give it with an example of it, in y"
        )
    if surplus := [name for name in new if name not in declared]:
        raise ValueError(f"y has the label {surplus[0]!r}, and classes does not name it: name all classes")

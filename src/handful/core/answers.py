"""The answers for each item. All numbers are defined here; the commands, the workbench and the report show the same.

For an item i, with p_ij the method's probabilities of the known classes j and o_i its outlier score::

    class probability   p_ij / sum_j p_ij                           P(class j | known): a row sums to 1
    closest             argmax_j p_ij                               the best known class, whether or not it is known
    unknown             o_i > threshold                             the decision; also, where a precision was asked for,
                        or P(closest) < min_confidence              items whose label is too unsure: these are set aside
                        or an example of no class
    label               closest, or -1 / "unknown" where unknown
    P(unknown)          o_i calibrated (`handful.core.decide`)      only where o_i is a probability; else None
    confidence          of a known item    P(closest | known) (1 - P(unknown))
                        of an unknown one  P(unknown)
                        so that over all classes and "unknown" the numbers add up to 1
    P(closest)          P(closest | known) (1 - P(unknown))         how likely the label is right; else None
    expected precision  the mean of P(closest) over the labels      how many of the labels should be right

Some methods give outlier scores that only rank. They have no P(unknown): the confidence of a known item is then
P(closest | known), that of an unknown one is its rank, the share of the pile that does not score higher. Without
a pile (a model that was fitted to examples alone), it is P(closest | known) for both.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from handful.core.arrays import Array, as_like, to_numpy
from handful.core.checks import UNKNOWN, UNKNOWN_NAME
from handful.core.decide import at_precision, shift_of, shifted

Some = TypeVar("Some", bound="Answers")
MIN_EXPECTED = 0.005  # an expected precision is kept so far from 0 and 1 in log-odds
NEARLY_ALL = 0.975  # the high end of an expected precision above it is 1


class ExpectedLabels(NamedTuple):
    """How many labels a class got, and how many of them should be right.

    >>> ExpectedLabels(20, 17.0).precision
    0.85
    """

    labels: int
    right: float

    @property
    def precision(self) -> float:
        """The part of the labels that should be right; nan if there are none."""
        return self.right / self.labels if self.labels else float("nan")


class Answers:
    """The answers of one method for n items, or for a batch of B tasks with n items each.

    >>> answers = Answers(np.array([[0.6, 0.2], [0.1, 0.1]]), np.array([0.2, 0.8]), np.array(["cat", "hen"]), 0.5,
    ...                   is_probability=True)
    >>> answers.labels.tolist(), answers.confidence.round(2).tolist()
    (['cat', 'unknown'], [0.6, 0.8])
    """

    def __init__(
        self,
        probabilities: Array,  # [n, N] or [B, n, N], what the method gives for each class; rows need not sum to 1
        outlier_scores: Array,  # [n] or [B, n], high means more likely unknown
        classes: np.ndarray,  # [N] or [B, N], the names of the columns of `probabilities`
        threshold: Any,  # an item is called unknown where `doubts` are above it; a number or [B], as those below
        *,
        is_probability: bool,  # whether the outlier score is a probability; if not, it only ranks
        outlier_share: Any = None,  # the share of unknowns in the pile, to which P(unknown) is calibrated
        shots: Any = None,  # examples per class, on average; without it there is no calibration
        shift: Any = None,  # of the calibration where it is already known, as for a few items of a larger pile
        labelled: np.ndarray | None = None,  # [n] items whose class was given: no part of the pile, P(unknown) is 0
        of_no_class: np.ndarray | None = None,  # [n] items that were given as examples of no class: P(unknown) is 1
        pile_scores: np.ndarray | None = None,  # the scores of the pile, perhaps empty, that these items are a part of
        p_unknown: np.ndarray | None = None,  # [n] where it is already known, as for a run that was stored
        min_confidence: Any = 0.0,  # a label that is right with a lower probability is set aside: see `at_precision`
        precision_spread: Any = None,  # [2] or [B, 2], how far precision may be below and above, in log-odds
    ) -> None:
        self.probabilities, self.outlier_scores, self.classes = probabilities, outlier_scores, classes
        self.threshold, self.is_probability, self.outlier_share = threshold, is_probability, outlier_share
        self._shots, self._shift, self._labelled, self._pile_scores = shots, shift, labelled, pile_scores
        self._p_unknown, self.min_confidence, self._of_no_class = p_unknown, min_confidence, of_no_class
        self.precision_spread = precision_spread

    def __len__(self) -> int:
        return len(self.outlier_scores)

    def at(self: Some, threshold: float) -> Some:
        """The same answers, decided by another threshold alone: unknown where `doubts` are above it."""
        return self._decided(threshold, 0.0)

    def at_precision(self: Some, precision: float) -> Some:
        """Return the same answers with fewer labels, of which the fraction `precision` should be right.

        >>> answers = Answers(np.array([[0.9, 0.0], [0.3, 0.3]]), np.array([0.1, 0.2]), np.array(["cat", "hen"]), 0.5,
        ...                   is_probability=True)
        >>> round(answers.expected_precision, 2), answers.at_precision(0.8).labels.tolist()
        (0.65, ['cat', 'unknown'])
        """
        if self.p_closest is None:
            raise ValueError("the outlier scores only rank: a precision needs a method that gives probabilities")
        is_label = ~to_numpy(self.likely_unknown)
        if self._labelled is not None:
            is_label &= ~self._labelled  # they are right, and say nothing of the other labels
        return self._decided(self.threshold, at_precision(self.p_closest, precision, is_label))

    def _decided(self: Some, threshold: Any, min_confidence: Any) -> Some:
        other = copy(self)
        other.threshold, other.min_confidence = threshold, min_confidence
        for name in ("unknown", "groups"):  # computed for the old decision
            other.__dict__.pop(name, None)
        return other

    def take(self, rows: Any) -> Answers:
        """The answers for some items, by their places, calibrated and ranked among all of them."""
        return Answers(
            self.probabilities[rows], self.outlier_scores[rows], self.classes, self.threshold,
            is_probability=self.is_probability, outlier_share=self.outlier_share,
            pile_scores=self.outlier_scores if self._pile_scores is None else self._pile_scores,
            p_unknown=None if self.p_unknown is None else self.p_unknown[rows], min_confidence=self.min_confidence,
            of_no_class=None if self._of_no_class is None else self._of_no_class[rows],
        )  # fmt: skip

    @cached_property
    def unknown(self) -> Array:
        """Whether each item is called unknown: [n] or [B, n] bool."""
        if not np.any(self.min_confidence):
            return self.likely_unknown
        xp = array_namespace(self.outlier_scores)
        return self.likely_unknown | xp.asarray(self.set_aside, device=device(self.outlier_scores))

    @cached_property
    def doubts(self) -> Array:
        """P(unknown) / (P(unknown) + P(closest class)), compared with the threshold; or scores that only rank."""
        scores = self.outlier_scores
        if not self.is_probability:
            return scores
        xp = array_namespace(scores)
        closest = xp.max(self.class_probabilities, axis=-1) * (1 - scores)
        is_between = (scores > 0) & (scores < 1)  # beyond, a score says more than a probability can
        return xp.where(is_between, scores / xp.where(is_between, scores + closest, xp.ones_like(scores)), scores)

    @property
    def likely_unknown(self) -> Array:
        """Whether each item is unknown, whatever precision was asked for: by the threshold, or as it was given."""
        limit = self.threshold[..., None] if getattr(self.threshold, "ndim", 0) else self.threshold
        is_above = self.doubts > limit
        return is_above if self._of_no_class is None else is_above | self._of_no_class

    @property
    def set_aside(self) -> np.ndarray:
        """Items that are called unknown only because their label is too unsure for the precision asked for."""
        likely_unknown = to_numpy(self.likely_unknown)
        if self.p_closest is None or not np.any(self.min_confidence):
            return np.zeros(likely_unknown.shape, bool)
        is_set_aside: np.ndarray = (self.p_closest < np.asarray(self.min_confidence)[..., None]) & ~likely_unknown
        return is_set_aside

    @property
    def class_probabilities(self) -> Array:
        """P(class | known) [n, N] or [B, n, N]: rows sum to 1, also where the method is certain of an unknown."""
        xp = array_namespace(self.probabilities)
        total = xp.sum(self.probabilities, axis=-1, keepdims=True)
        even = 1.0 / self.probabilities.shape[-1]
        return xp.where(total > 0, self.probabilities / xp.where(total > 0, total, 1.0), even)

    @property
    def joint_probabilities(self) -> np.ndarray:
        """P(class) = P(class | known) (1 - P(unknown)): a row and P(unknown) sum to 1. P(class | known) without it."""
        given_known = to_numpy(self.class_probabilities).astype(np.float64)
        return given_known if self.p_unknown is None else given_known * (1 - self.p_unknown[..., None])

    @property
    def closest(self) -> np.ndarray:
        """The most probable known class of each item, also of those called unknown."""
        xp = array_namespace(self.probabilities)
        best = to_numpy(xp.argmax(self.probabilities, axis=-1))
        return self.classes[best] if best.ndim == 1 else np.take_along_axis(self.classes, best, axis=-1)

    @property
    def labels(self) -> np.ndarray:
        """The caller's own class names; -1 (or "unknown" among strings) where unknown."""
        return mark_unknown(self.closest, to_numpy(self.unknown))

    @cached_property
    def p_unknown(self) -> np.ndarray | None:
        """P(unknown), calibrated: among items with 0.8 about 80 % are unknown. None where scores only rank."""
        if not self.is_probability:
            return None
        if self._p_unknown is not None:
            return self._p_unknown
        scores = to_numpy(self.outlier_scores)
        if self._shots is None:
            p = scores.astype(np.float64)  # a copy
        else:
            rows = scores if scores.ndim == 2 else scores[None]
            pile = rows[:, ~self.is_given] if self.is_given.any() else rows
            shift = shift_of(pile, self.outlier_share, self._shots) if self._shift is None else self._shift
            p = shifted(rows, self._shots, shift)
            p = p if scores.ndim == 2 else p[0]
        if self._labelled is not None:
            p[self._labelled] = 0.0
        if self._of_no_class is not None:
            p[self._of_no_class] = 1.0
        return p

    @cached_property
    def p_closest(self) -> np.ndarray | None:
        """P(known and of the closest class): how likely a label is right. None where scores only rank."""
        if self.p_unknown is None:
            return None
        best = to_numpy(self.class_probabilities).max(axis=-1).astype(np.float64)
        p: np.ndarray = best * (1 - self.p_unknown)
        return p

    @property
    def expected_precision(self) -> Any:
        """The part of the labels that should be right, or [B]: nan without labels, None without probabilities."""
        if self.p_closest is None:
            return None
        is_label = self._is_own_label
        labels = is_label.sum(axis=-1)
        right = np.where(is_label, self.p_closest, 0.0).sum(axis=-1)
        mean = np.where(labels > 0, right / np.maximum(labels, 1), np.nan)
        return mean if mean.ndim else float(mean)

    @property
    def expected_precision_interval(self) -> np.ndarray | None:
        """The interval that should hold the precision of labels four times in five, [2] or [B, 2], or None."""
        if self.p_closest is None or self.precision_spread is None:
            return None
        mean = np.asarray(self.expected_precision, np.float64)
        p = np.clip(mean, MIN_EXPECTED, 1 - MIN_EXPECTED)
        odds = np.log(p / (1 - p))[..., None] + np.asarray(self.precision_spread, np.float64)
        ends = 1 / (1 + np.exp(-odds))
        low, high = np.minimum(ends[..., 0], mean), np.maximum(ends[..., 1], mean)
        return np.stack([low, np.where(high > NEARLY_ALL, 1.0, high)], axis=-1)

    @property
    def expected_precision_by_class(self) -> dict[Any, ExpectedLabels] | None:
        """For each class, how many items got its label and how many of these should be right. Of one task."""
        if np.ndim(self.outlier_scores) == 2:
            raise ValueError("the precision by class is of one task: take result[i] of a batch first")
        if self.p_closest is None:
            return None
        is_label = self._is_own_label
        code = to_numpy(array_namespace(self.probabilities).argmax(self.probabilities, axis=-1))[is_label]
        labels = np.bincount(code, minlength=len(self.classes))
        right = np.bincount(code, weights=self.p_closest[is_label], minlength=len(self.classes))
        rows = zip(self.classes.tolist(), labels.tolist(), right.tolist(), strict=True)
        return {name: ExpectedLabels(*numbers) for name, *numbers in rows}

    @property
    def is_given(self) -> np.ndarray:
        """Whether the class of each item was given, or that it has none: such items are no part of the pile."""
        is_given = np.zeros(np.shape(self.outlier_scores), bool)
        for mask in (self._labelled, self._of_no_class):
            if mask is not None:
                is_given |= mask
        return is_given

    @property
    def _is_own_label(self) -> np.ndarray:
        """Whether the method gave each item a label: not where it is unknown, nor where its class was given."""
        is_label: np.ndarray = ~to_numpy(self.unknown) & ~self.is_given
        return is_label

    @property
    def confidence(self) -> Array:
        """How sure the answer is: see the module's first lines for the definition. A torch tensor if scores are."""
        values = self._sureness(to_numpy(self.unknown))
        return as_like(values, self.outlier_scores) if is_torch_array(self.outlier_scores) else values

    @property
    def alternative_confidence(self) -> np.ndarray:
        """How sure the other answer would be: unknown for a known item, its closest class for an unknown one."""
        return self._sureness(~to_numpy(self.unknown))

    def _sureness(self, unknown: np.ndarray) -> np.ndarray:
        best: np.ndarray = to_numpy(self.class_probabilities).max(axis=-1).astype(np.float64)
        if self.p_unknown is not None:
            return np.where(unknown, self.p_unknown, best * (1 - self.p_unknown))
        if self._pile_scores is not None and not len(self._pile_scores):
            return best
        return np.where(unknown, self._ranks, best)

    @cached_property
    def _ranks(self) -> np.ndarray:
        """The share of the pile whose outlier score is not higher than that of each item."""
        scores = to_numpy(self.outlier_scores).astype(np.float64)
        if scores.ndim == 2:
            return np.stack([_rank(row, row) for row in scores])
        return _rank(scores, scores if self._pile_scores is None else self._pile_scores)


def mark_unknown(labels: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    """`labels` with -1 or "unknown" where unknown."""
    if labels.dtype.kind in "iuf":
        return np.where(unknown, UNKNOWN, labels)
    return np.where(unknown, UNKNOWN_NAME, labels)


def _rank(scores: np.ndarray, pile: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(pile), scores, side="right") / max(len(pile), 1)

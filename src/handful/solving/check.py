"""How many labels are right, by a check: a person looks at a few items, and the rest is inferred.

**What is asked.** Items are drawn at random within strata: the decided label (each class, and unknown), and in it the
surer and the less sure half. A stratum of N_h items gets a part of the answers that is proportional to
N_h (sd_h + 0.1), with sd_h^2 the mean of p (1 - p) and p the probability that the answer is right: fewer where
everything is clear, but some everywhere. Item j of a stratum, in random order, comes at the time
(j + u_h) / (N_h (sd_h + 0.1)), u_h uniform. So a person can stop after any answer, and a longer draw begins with the
shorter one.

**What is inferred.** The answers correct the method's own probabilities, and these say what the other items may be:
`handful.solving.possible_piles` draws 1,000 piles that fit the answers. Estimates are means over these piles, and
intervals go from their 5 % to their 95 % quantile. Once every item was looked at nothing is left to infer, and the
intervals have no width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import index
from typing import Any, Final, NamedTuple

import numpy as np

from handful.core.answers import Answers
from handful.core.arrays import to_numpy
from handful.core.checks import is_no_class
from handful.solving.possible_piles import Beliefs, Outcome, possible_piles
from handful.utils.shares_in_words import percent, span

QUANTILES = (0.05, 0.95)
MIN_STRATUM_SD = 0.1  # added to that of a stratum, so that none is left out
RANKED_SD = 0.4  # of a stratum where there are no probabilities
PRIOR_ANSWERS = 12  # the answers that the method's own probabilities are worth


class Verdict(Enum):
    """What a person may say of a label without naming a class."""

    WRONG = "wrong"


WRONG: Final = Verdict.WRONG


class Estimate(NamedTuple):
    """A part of some items, and the interval that should hold it nine times in ten."""

    value: float
    low: float
    high: float

    def in_words(self) -> str:
        """The part and its interval."""
        return percent(self.value) + span(self.value, (self.low, self.high))


@dataclass(frozen=True)
class Checked:
    """What a check says of the labels of a pile.

    Parameters
    ----------
    precision : Estimate
        The part of the labels that are right; 1 if there are none.
    share : Estimate
        The part of the items that are unknown: that belong to none of the classes.
    missed : Estimate
        The part of the labels that unknown items got.
    by_class : dict of Estimate
        The precision of each class that has labels.
    answers : int
        How many items were looked at.
    items : int
        How many there are; those whose class was given do not count.
    labels : int
        How many of them got a label.
    more_to_halve : int
        About how many further answers would make the interval of the precision half as wide.
    """

    precision: Estimate
    share: Estimate
    missed: Estimate
    by_class: dict[Any, Estimate]
    answers: int
    items: int
    labels: int
    more_to_halve: int

    @property
    def sentences(self) -> list[str]:
        """The same in words: the first sentence says how many labels are right."""
        if not self.labels:
            first = f"Checked {self.answers:,} of {self.items:,}: there are no labels."
        elif not self.answers:
            first = f"Nothing is checked yet: {self.precision.in_words()} of the labels should be right."
        else:
            part = percent(self.precision.value)
            interval = span(self.precision.value, self.precision[1:])
            first = f"Checked {self.answers:,} of {self.items:,}: {part} of the labels are right{interval}."
        lines = [first]
        if self.items:
            lines.append(f"Of the items {self.share.in_words()} are unknown.")
        if self.labels:
            lines.append(f"Of the labels {self.missed.in_words()} are on unknown items.")
        if self.more_to_halve:
            answers = "answer" if self.more_to_halve == 1 else "answers"
            lines.append(f"About {self.more_to_halve:,} more {answers} would halve the interval of the labels.")
        return lines

    def as_json(self) -> dict[str, Any]:
        """All of it for JSON."""
        parts = {name: getattr(self, name)._asdict() for name in ("precision", "share", "missed")}
        counts = {name: getattr(self, name) for name in ("answers", "items", "labels", "more_to_halve")}
        by_class = {str(name): estimate._asdict() for name, estimate in self.by_class.items()}
        return {**counts, **parts, "by_class": by_class, "sentences": self.sentences}


def draw_sample(answers: Answers, count: int, *, seed: int = 0, exclude: Sequence[int] = ()) -> np.ndarray:
    """The items that a person should look at, in the order in which to ask; not those whose class was given."""
    if index(count) < 0:
        raise ValueError(f"count is {count}: give the number of items to ask for")
    rows = _population(answers)
    rng = np.random.default_rng(seed)
    group = Beliefs.of(answers).group[rows]
    confidence = to_numpy(answers.confidence).astype(np.float64)[rows]
    times = np.empty(len(rows))
    for code in np.unique(group):
        members = np.flatnonzero(group == code)
        members = members[np.argsort(confidence[members], kind="stable")]
        for half in (members[: len(members) // 2], members[len(members) // 2 :]):
            p = confidence[half]
            sd = RANKED_SD if answers.p_unknown is None else np.sqrt((p * (1 - p)).mean()) if len(half) else 0.0
            order = rng.permutation(len(half)) + rng.random()
            times[half] = order / max(len(half) * (sd + MIN_STRATUM_SD), MIN_STRATUM_SD)
    order = rows[np.argsort(times, kind="stable")]
    return order[~np.isin(order, np.asarray(exclude, int))][:count]


def check_answers(answers: Answers, truth: Mapping[int, Any]) -> Checked:
    """How many labels are right, from what a person said; a class that `answers` does not know means unknown."""
    rows = _population(answers)
    beliefs = Beliefs.of(answers).take(rows)
    outcomes = _outcomes(answers, truth)[rows]
    asked, classes = int((outcomes != Outcome.NOT_ASKED).sum()), beliefs.classes
    right, unknown = possible_piles(beliefs, outcomes)
    sizes = np.bincount(beliefs.group, minlength=classes + 1)
    labels = int(sizes[:classes].sum())
    precision = _estimate(right[:, :classes].sum(axis=1), labels, 1.0)
    names = [(k, name) for k, name in enumerate(answers.classes.tolist()) if sizes[k]]
    return Checked(
        precision, _estimate(unknown.sum(axis=1), len(rows), 0.0),
        _estimate(unknown[:, :classes].sum(axis=1), labels, 0.0),
        {name: _estimate(right[:, k], int(sizes[k]), 1.0) for k, name in names},
        asked, len(rows), labels, _more_to_halve(asked, len(rows)) if precision.high > precision.low else 0,
    )  # fmt: skip


def _population(answers: Answers) -> np.ndarray:
    """The items whose class was not given."""
    if np.ndim(answers.outlier_scores) == 2:
        raise ValueError("a check is of one task: take result[i] of a batch first")
    return np.flatnonzero(~answers.is_given)


def _outcomes(answers: Answers, truth: Mapping[int, Any]) -> np.ndarray:
    """What was said of each item, [n]."""
    outcomes = np.full(len(answers), Outcome.NOT_ASKED)
    names, labels = {str(name) for name in answers.classes.tolist()}, answers.labels
    is_unknown = to_numpy(answers.unknown)
    for row, said in truth.items():
        if not 0 <= index(row) < len(answers):
            raise ValueError(f"there is no item {row}: there are {len(answers)}, counted from 0")
        is_known = said is not WRONG and not is_no_class(said) and str(said) in names
        if is_unknown[row]:
            outcomes[row] = Outcome.OTHER_CLASS if said is WRONG or is_known else Outcome.RIGHT
        elif said is WRONG:
            outcomes[row] = Outcome.WRONG
        elif not is_known:
            outcomes[row] = Outcome.IS_UNKNOWN
        else:
            outcomes[row] = Outcome.RIGHT if str(said) == str(labels[row]) else Outcome.OTHER_CLASS
    return outcomes


def _estimate(counts: np.ndarray, total: int, of_none: float) -> Estimate:
    """The part of `total` that counts [S] say; of_none: where there is nothing to count."""
    if not total:
        return Estimate(of_none, of_none, of_none)
    low, high = np.quantile(counts, QUANTILES, method="inverted_cdf")
    value = np.clip(counts.mean(), low, high)  # the mean of a few items may lie outside
    return Estimate(float(value / total), float(low / total), float(high / total))


def _more_to_halve(answers: int, items: int) -> int:
    """Further answers that halve an interval whose width^2 is as 1 / (answers + n0) - 1 / (items + n0)."""
    now, end = (1 / (count + PRIOR_ANSWERS) for count in (answers, items))
    return min(items - answers, int(np.ceil(1 / (now / 4 + 3 * end / 4) - PRIOR_ANSWERS)) - answers)

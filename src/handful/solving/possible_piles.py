"""What a pile may be, given the answers on some of its items: right labels and unknown items, counted in many draws.

The method gives u_i = P(unknown) and c_i = P(label right | known) for every item. Answers correct both
(`handful.solving.recalibration`): u by all answers, c by those on items that have a label and are known. Each draw of
the corrected probabilities then decides every item that was not looked at::

    unknown ~ Bernoulli(u_i),   right ~ Bernoulli(c_i) where it is known and has a label

An item of which only "the label is wrong" is known is unknown with the probability u_i / (u_i + (1 - u_i) (1 - c_i)).
Such items are completed by Gibbs sampling: what they are is drawn, u and c are corrected by it and drawn, and so on.

`benchmarks/check_priors.py` says which constants random piles of many feature sets would choose. They are the same
whichever feature set is left out. Those in use are wider, so that intervals hold the truth also where a method is much
too sure; `benchmarks/check.py` measures how often they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from handful.core.answers import Answers
from handful.core.arrays import sigmoid, to_numpy
from handful.solving.recalibration import Draws, Prior, Recalibration

DRAWS = 1000
MAX_ODDS = 6.0  # log odds of a probability that a method gives, at most
CHAINS, SWEEPS = 20, 6  # of Gibbs sampling; each chain begins anew
MAX_BINS = 4  # items of one label are alike in such bins of u, and in each of them of c
UNKNOWN_PRIOR = Prior(shift_scale=1.4, label_sd=1.4, slope=1.5, slope_sd=0.9, shift_df=2.0)
RIGHT_PRIOR = Prior(shift_scale=1.0, label_sd=1.4, slope=1.1, slope_sd=0.8)
RANKED_PRIOR = Prior(shift_scale=2.0, label_sd=1.5, shift_df=4.0)  # where a method's scores only rank
RANKED_UNKNOWN_ODDS = (-2.5, 1.0)  # there, for items that have a label, and for those that are called unknown
RANKED_RIGHT_ODDS = 3.0


class Outcome(IntEnum):
    """What the person who looked at an item said."""

    NOT_ASKED = 0
    RIGHT = 1  # of an item that is called unknown: it is
    OTHER_CLASS = 2  # it is of a known class, and that is not its label
    IS_UNKNOWN = 3  # it has a label, and is of no class
    WRONG = 4  # it has a label, and that is wrong


class PossiblePiles(NamedTuple):
    """Counts in each draw, by the decided label: each class, and last the unknown items."""

    right: np.ndarray  # [S, N + 1] how many items of a label have it rightly
    unknown: np.ndarray  # [S, N + 1] how many are of no class


class Beliefs(NamedTuple):
    """What a method says of the items before anybody has looked."""

    group: np.ndarray  # [n] the decided label: the number of the class, N for unknown
    unknown_odds: np.ndarray  # [n] log odds of u
    right_odds: np.ndarray  # [n] log odds of c
    priors: tuple[Prior, Prior]  # how wrong these may be
    classes: int  # N

    @classmethod
    def of(cls, answers: Answers) -> Beliefs:
        """The beliefs of the method that gave these answers."""
        classes = answers.probabilities.shape[-1]
        is_unknown = to_numpy(answers.unknown)
        group = np.where(is_unknown, classes, to_numpy(answers.probabilities).argmax(axis=-1))
        if answers.p_unknown is None:
            unknown_odds = np.where(is_unknown, RANKED_UNKNOWN_ODDS[1], RANKED_UNKNOWN_ODDS[0])
            right_odds = np.full(len(group), RANKED_RIGHT_ODDS)
            return cls(group, unknown_odds, right_odds, (RANKED_PRIOR, RANKED_PRIOR), classes)
        best = to_numpy(answers.class_probabilities).max(axis=-1)
        return cls(group, _odds(answers.p_unknown), _odds(best), (UNKNOWN_PRIOR, RIGHT_PRIOR), classes)

    def take(self, rows: np.ndarray) -> Beliefs:
        """The beliefs about some of the items."""
        return self._replace(
            group=self.group[rows], unknown_odds=self.unknown_odds[rows], right_odds=self.right_odds[rows]
        )


def possible_piles(beliefs: Beliefs, outcomes: np.ndarray, seed: int = 0, draws: int = DRAWS) -> PossiblePiles:
    """Draw what the pile may be, given what a person said: outcomes [n]. Items that were looked at are counted in it.

    >>> from handful.core.answers import Answers
    >>> answers = Answers(np.full((4, 1), 0.9), np.full(4, 0.1), np.array(["cat"]), 0.5, is_probability=True)
    >>> piles = possible_piles(Beliefs.of(answers), np.array([1, 1, 1, 3]))  # all are known: nothing is left to draw
    >>> piles.right.mean(axis=0).tolist(), piles.unknown.mean(axis=0).tolist()
    ([3.0, 0.0], [1.0, 0.0])
    """
    rng = np.random.default_rng(seed)
    if not (outcomes == Outcome.WRONG).any():
        return _piles(beliefs, outcomes, recalibrate(beliefs, outcomes), draws, rng)
    parts = [
        _piles(beliefs, completed, fitted, -(-draws // CHAINS), rng)
        for completed, fitted in _completions(beliefs, outcomes, rng)
    ]
    return PossiblePiles(*(np.concatenate(counts) for counts in zip(*parts, strict=True)))


def recalibrate(
    beliefs: Beliefs, outcomes: np.ndarray, start: tuple[Recalibration, Recalibration] | None = None
) -> tuple[Recalibration, Recalibration]:
    """What the answers say of u and of c, beside what is known at the start."""
    has_label = beliefs.group < beliefs.classes
    is_unknown = np.where(has_label, outcomes == Outcome.IS_UNKNOWN, outcomes == Outcome.RIGHT)
    asked = np.flatnonzero(outcomes != Outcome.NOT_ASKED)
    known = np.flatnonzero(has_label & ((outcomes == Outcome.RIGHT) | (outcomes == Outcome.OTHER_CLASS)))
    answers = (
        (beliefs.unknown_odds[asked], beliefs.group[asked], is_unknown[asked]),
        (beliefs.right_odds[known], beliefs.group[known], outcomes[known] == Outcome.RIGHT),
    )
    if start is None:
        of_unknown, of_right = (
            Recalibration.fit(prior, beliefs.classes + 1, *some)
            for prior, some in zip(beliefs.priors, answers, strict=True)
        )
        return of_unknown, of_right
    return start[0].updated(*answers[0]), start[1].updated(*answers[1])


def _completions(
    beliefs: Beliefs, outcomes: np.ndarray, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, tuple[Recalibration, Recalibration]]]:
    """Outcomes in which every item with a wrong label is of another class or unknown, and what they say of u and c."""
    rows = np.flatnonzero(outcomes == Outcome.WRONG)
    wrong, completed = beliefs.take(rows), outcomes.copy()
    completed[rows] = Outcome.NOT_ASKED
    start = recalibrate(beliefs, completed)
    for _ in range(CHAINS):
        fitted = start
        for _ in range(SWEEPS):
            u = fitted[0].draw(1, rng).probabilities(wrong.unknown_odds, wrong.group)[0]
            c = fitted[1].draw(1, rng).probabilities(wrong.right_odds, wrong.group)[0]
            is_unknown = rng.random(len(rows)) < u / (u + (1 - u) * (1 - c))
            some = np.where(is_unknown, Outcome.IS_UNKNOWN, Outcome.OTHER_CLASS)
            fitted = recalibrate(wrong, some, start)
        completed[rows] = some
        yield completed.copy(), fitted


def _piles(
    beliefs: Beliefs,
    outcomes: np.ndarray,
    fitted: tuple[Recalibration, Recalibration],
    draws: int,
    rng: np.random.Generator,
) -> PossiblePiles:
    """Draws of a pile in which no outcome is in doubt."""
    unknown, right = (recalibration.draw(draws, rng) for recalibration in fitted)
    counts = PossiblePiles(*np.zeros((2, draws, beliefs.classes + 1), int))
    for group in np.unique(beliefs.group).tolist():
        rows = np.flatnonzero(beliefs.group == group)
        given, has_label = outcomes[rows], group < beliefs.classes
        counts.right[:, group] = (given == Outcome.RIGHT).sum()
        counts.unknown[:, group] = (given == (Outcome.IS_UNKNOWN if has_label else Outcome.RIGHT)).sum()
        _add_drawn(counts, beliefs.take(rows[given == Outcome.NOT_ASKED]), group, unknown, right, rng)
    return counts


def _add_drawn(
    counts: PossiblePiles, rest: Beliefs, group: int, unknown: Draws, right: Draws, rng: np.random.Generator
) -> None:
    """Add the items that nobody looked at, all of one decided label."""
    if not len(rest.group):
        return
    sizes, unknown_odds, right_odds = _bins(rest.unknown_odds, rest.right_odds)
    drawn = rng.binomial(sizes, unknown.probabilities(unknown_odds, group))  # [S, bins]
    counts.unknown[:, group] += drawn.sum(axis=1)
    if group < rest.classes:
        drawn = rng.binomial(sizes - drawn, right.probabilities(right_odds, group))
    counts.right[:, group] += drawn.sum(axis=1)


def _bins(*odds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes of bins of items, and the log odds of both mean probabilities in each."""
    if len(odds[0]) <= MAX_BINS**2:
        return np.ones(len(odds[0]), int), odds[0], odds[1]
    order = np.argsort(odds[0], kind="stable")
    outer = np.repeat(np.arange(MAX_BINS), _parts(len(order)))  # [n], the bin of u of each place in the order
    order = order[np.lexsort((odds[1][order], outer))]
    sizes = np.concatenate([_parts(size) for size in _parts(len(order))])
    starts = np.cumsum(sizes) - sizes
    means = [_odds(np.add.reduceat(sigmoid(values[order]), starts) / sizes) for values in odds]
    return sizes, means[0], means[1]


def _parts(count: int) -> np.ndarray:
    """The sizes of `MAX_BINS` nearly equal parts."""
    return np.diff(np.arange(MAX_BINS + 1) * count // MAX_BINS)


def _odds(p: np.ndarray) -> np.ndarray:
    limit = float(sigmoid(np.array(MAX_ODDS)))
    p = np.clip(p.astype(np.float64), 1 - limit, limit)
    odds: np.ndarray = np.log(p / (1 - p))
    return odds

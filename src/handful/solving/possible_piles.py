"""What a pile may be, given the answers on some of its items: right labels and unknown items, counted in many draws.

**Probabilities are corrected** by a logistic regression with a prior, integrated on a grid. A method says that an event
(an item is unknown, a label is right) has probability p_i. It may be wrong in three ways, and so, for an item i with
the decided label g::

    logit P_i = a logit p_i + d + e_g,    log a ~ N(log slope, slope_sd^2)    too sure, or not sure enough
                                          d ~ t(0, shift_scale^2, shift_df)   wrong everywhere, at times by much
                                          e_g ~ N(0, label_sd^2)              wrong for one label

Given a and t_g = d + e_g, the items are independent. So the likelihood of the answers is a table over a and t_g for
each label. A product with the prior of e_g gives a table over a and d; the product of those over all labels, with the
prior of a and d, is the posterior. `draw` draws a, d and t_g from it.

**The pile is drawn.** The method gives u_i = P(unknown) and c_i = P(label right | known) for every item. u is corrected
by all answers, c by those on items that have a label and are known. Each draw of the corrected probabilities then
decides every item that was not looked at::

    unknown ~ Bernoulli(u_i),   right ~ Bernoulli(c_i) where it is known and has a label

An item of which only "the label is wrong" is known is unknown with the probability u_i / (u_i + (1 - u_i) (1 - c_i)).
Such items are completed by Gibbs sampling: what they are is drawn, u and c are corrected by it and drawn, and so on.

`benchmarks/check_priors.py` says which constants random piles of many feature sets would choose. They are the same
whichever feature set is left out. Those in use are wider, so that intervals hold the truth also where a method is much
too sure; `benchmarks/check.py` measures how often they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from handful.core.answers import Answers
from handful.core.arrays import sigmoid, to_numpy

STEP = 0.25  # of the grid of shifts, in units of a logit
LARGEST_SHIFT = 8.0
SLOPES = 7  # nodes of the prior of the slope


# ---- probabilities, corrected by answers


@dataclass(frozen=True)
class Prior:
    """How wrong a method's probabilities may be."""

    shift_scale: float  # of the common shift
    label_sd: float  # of the effect of a label
    slope: float = 1.0  # its median
    slope_sd: float = 0.0  # the standard deviation of its logarithm; 0 for a slope that is known
    shift_df: float = 30.0  # degrees of freedom of the common shift: large ones are likelier if there are few


class Draws(NamedTuple):
    """Draws from the posterior: the slope [S], and the shift of each label [S, G]."""

    slopes: np.ndarray
    shifts: np.ndarray

    def probabilities(self, odds: np.ndarray, groups: int | np.ndarray) -> np.ndarray:
        """P of items, [S, n], from the method's log odds [n] and their label, or labels [n]."""
        shifts = self.shifts[:, np.broadcast_to(groups, odds.shape)]
        return np.asarray(sigmoid(self.slopes[:, None] * odds + shifts))


@dataclass(frozen=True)
class Recalibration:
    """The posterior of slope and shifts."""

    prior: Prior
    likelihood: np.ndarray  # [G, A, T] log likelihood of the answers of each label, for each slope and each shift

    @classmethod
    def before(cls, prior: Prior, labels: int) -> Recalibration:
        """What is known before the first answer, for so many labels."""
        grid = _grid(prior)
        return cls(prior, np.zeros((labels, len(grid.slopes), len(grid.shifts))))

    def updated(self, odds: np.ndarray, groups: np.ndarray, yes: np.ndarray) -> Recalibration:
        """The posterior with more answers `yes` [n]; odds [n]: the method's log odds; groups [n]: the labels."""
        grid, likelihood = _grid(self.prior), self.likelihood.copy()
        sign = np.where(yes, -1.0, 1.0)
        logits = grid.slopes[:, None, None] * (sign * odds) + grid.shifts[:, None] * sign  # [A, T, n]
        np.subtract.at(likelihood, groups, np.moveaxis(np.logaddexp(0, logits), -1, 0))
        return Recalibration(self.prior, likelihood)

    @property
    def log_evidence(self) -> float:
        """The log probability of the answers."""
        joint = self._joint()
        top = joint.max()
        return float(top + np.log(np.exp(joint - top).sum()))

    def draw(self, count: int, rng: np.random.Generator) -> Draws:
        """Draw from the posterior."""
        grid = _grid(self.prior)
        joint = self._joint()
        weights = np.exp(joint - joint.max())
        cells = rng.choice(weights.size, count, p=weights.ravel() / weights.sum())
        slope, shift = np.unravel_index(cells, weights.shape)
        shifts = np.empty((count, len(self.likelihood)))
        for group, table in enumerate(self.likelihood):
            scaled = np.exp(table - table.max(axis=-1, keepdims=True))  # [A, T]
            places = _choose(scaled[slope] * grid.effects[shift], rng) + rng.uniform(-0.5, 0.5, count)
            shifts[:, group] = grid.shifts[0] + STEP * places  # between the values of the grid, too
        return Draws(grid.slopes[slope], shifts)

    def _joint(self) -> np.ndarray:
        """The log of prior and likelihood of each slope and common shift, [A, D]."""
        grid = _grid(self.prior)
        top = self.likelihood.max(axis=-1, keepdims=True)  # [G, A, 1]
        of_label = np.log(np.exp(self.likelihood - top) @ grid.effects.T + 1e-300) + top  # [G, A, D]
        return np.asarray(of_label.sum(axis=0) + grid.log_prior)


class _Grid(NamedTuple):
    """The values that are tried."""

    slopes: np.ndarray  # [A]
    shifts: np.ndarray  # [T], of a label; the common shift takes the same values
    effects: np.ndarray  # [D, T], P(shift of a label | common shift)
    log_prior: np.ndarray  # [A, D]


@lru_cache(maxsize=32)
def _grid(prior: Prior) -> _Grid:
    shifts = np.linspace(-LARGEST_SHIFT, LARGEST_SHIFT, round(2 * LARGEST_SHIFT / STEP) + 1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(SLOPES if prior.slope_sd else 1)
    slopes = prior.slope * np.exp(prior.slope_sd * nodes)
    effects = np.exp(-(((shifts - shifts[:, None]) / prior.label_sd) ** 2) / 2)
    common = (1 + (shifts / prior.shift_scale) ** 2 / prior.shift_df) ** (-(prior.shift_df + 1) / 2)
    log_prior = np.log(weights / weights.sum())[:, None] + np.log(common / common.sum())
    return _Grid(slopes, shifts, effects / effects.sum(axis=1, keepdims=True), log_prior)


def _choose(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column for each row of weights [S, K], drawn by its weight."""
    ends = np.cumsum(weights, axis=1)
    return np.asarray((ends < rng.random((len(ends), 1)) * ends[:, -1:]).sum(axis=1))


# ---- piles that fit the answers

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
    """Draw what the pile may be, given what a person said, outcomes [n]; items that were looked at count."""
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
    of_unknown, of_right = start or (Recalibration.before(prior, beliefs.classes + 1) for prior in beliefs.priors)
    return (
        of_unknown.updated(beliefs.unknown_odds[asked], beliefs.group[asked], is_unknown[asked]),
        of_right.updated(beliefs.right_odds[known], beliefs.group[known], outcomes[known] == Outcome.RIGHT),
    )


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
        rest = beliefs.take(rows[given == Outcome.NOT_ASKED])
        if not len(rest.group):
            continue
        sizes, unknown_odds, right_odds = _bins(rest.unknown_odds, rest.right_odds)
        drawn = rng.binomial(sizes, unknown.probabilities(unknown_odds, group))  # [S, bins]
        counts.unknown[:, group] += drawn.sum(axis=1)
        if has_label:
            drawn = rng.binomial(sizes - drawn, right.probabilities(right_odds, group))
        counts.right[:, group] += drawn.sum(axis=1)
    return counts


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

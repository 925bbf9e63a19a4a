"""Probabilities corrected by a few answers: a logistic regression with a prior, integrated on a grid.

A method says that an event (an item is unknown, a label is right) has probability p_i. It may be wrong in three ways,
and so, for an item i with the decided label g::

    logit P_i = a logit p_i + d + e_g,    log a ~ N(log slope, slope_sd^2)    too sure, or not sure enough
                                          d ~ t(0, shift_scale^2, shift_df)   wrong everywhere, at times by much
                                          e_g ~ N(0, label_sd^2)              wrong for one label

Given a and t_g = d + e_g, the items are independent. So the likelihood of the answers is a table over a and t_g for
each label. A product with the prior of e_g gives a table over a and d; the product of those over all labels, with the
prior of a and d, is the posterior. `draw` draws a, d and t_g from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from handful.core.arrays import sigmoid

STEP = 0.25  # of the grid of shifts, in units of a logit
LARGEST_SHIFT = 8.0
SLOPES = 7  # nodes of the prior of the slope


@dataclass(frozen=True)
class Prior:
    """How wrong a method's probabilities may be.

    Parameters
    ----------
    shift_scale : float
        The scale of the common shift.
    label_sd : float
        That of the effect of a label.
    slope : float
        The median of the slope.
    slope_sd : float
        The standard deviation of its logarithm; 0 for a slope that is known.
    shift_df : float
        Degrees of freedom of the common shift's distribution, Student's t: large shifts are likelier if there are few.
    """

    shift_scale: float
    label_sd: float
    slope: float = 1.0
    slope_sd: float = 0.0
    shift_df: float = 30.0


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
    def fit(cls, prior: Prior, count: int, odds: np.ndarray, groups: np.ndarray, yes: np.ndarray) -> Recalibration:
        """Learn from answers `yes` [n]; odds [n]: the method's log odds; groups [n]: the labels, `count` in all."""
        grid = _grid(prior)
        return cls(prior, np.zeros((count, len(grid.slopes), len(grid.shifts)))).updated(odds, groups, yes)

    def updated(self, odds: np.ndarray, groups: np.ndarray, yes: np.ndarray) -> Recalibration:
        """The posterior with more answers."""
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

"""The posterior of the outlier share, from the numbers that a task shows of it.

For each share g that was tried, the log-odds that the true share is above g are a weighted sum of those numbers::

    log-odds(share > g) = a + sum_f w_f (x_f(g) - mean_f) / scale_f

The coefficients are the same for all g, for any number of classes, examples and items. They were learned from random
piles of many feature sets (`benchmarks/learn_posterior.py`), so that the interval also holds for feature sets that were
not used for learning: docs/explanation/outlier-share.md shows it. They are data, in share_posterior.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

SHIPPED = Path(__file__).with_name("share_posterior.json")


@dataclass(frozen=True, eq=False)
class Posterior:
    """A logistic model of "the share is above g"."""

    names: tuple[str, ...]  # of the numbers, as `share_statistics.columns` or `verdict.share_columns` gives them
    constant: float  # the log-odds where every number is at its mean
    weights: np.ndarray  # of each number, [F]
    means: np.ndarray
    scales: np.ndarray

    def above(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """P(share > g) [B, G] at each share that was tried; it never rises with g."""
        odds = self.constant + sum(
            w / scale * (columns[name] - mean)
            for name, w, mean, scale in zip(self.names, self.weights, self.means, self.scales, strict=True)
        )
        p: np.ndarray = 1 / (1 + np.exp(-np.clip(odds, -30, 30)))
        return np.minimum.accumulate(p, axis=1)

    @classmethod
    def from_json(cls, text: str) -> Posterior:
        """Read a document such as share_posterior.json."""
        content = json.loads(text)
        numbers = content["weight, mean and scale of"]
        weights, means, scales = np.array(list(numbers.values()), float).reshape(-1, 3).T
        return cls(tuple(numbers), float(content["constant"]), weights, means, scales)


@cache
def shipped() -> Posterior:
    """The posterior that comes with handful."""
    return Posterior.from_json(SHIPPED.read_text("utf-8"))


_chosen: list[Posterior] = []


def current() -> Posterior:
    """The posterior in use: the shipped one, or that of `using`."""
    return _chosen[-1] if _chosen else shipped()


@contextmanager
def using(posterior: Posterior | None) -> Iterator[None]:
    """Use another posterior in this process for a while; None changes nothing."""
    if posterior is None:
        yield
        return
    _chosen.append(posterior)
    try:
        yield
    finally:
        _chosen.remove(posterior)

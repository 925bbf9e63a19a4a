"""The posterior of the outlier share, from the numbers that a task shows of it.

For each share g that was tried, the log-odds that the true share is above g are a weighted sum of those numbers::

    log-odds(share > g) = a + sum_f w_f (x_f(g) - mean_f) / scale_f

The coefficients are the same for all g, for any number of classes, examples and items. They were learned from random
piles of many feature sets (`benchmarks/learn_posterior.py`), so that a feature set which none of them came from is met
honestly: docs/explanation/outlier-share.md says how, and shows it. They are data, in posterior.json beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SHIPPED = Path(__file__).with_name("posterior.json")
STEPS, SMALL_STEP = 25, 1e-4  # of Newton's method
RIDGE = 50.0  # the penalty on squared weights


@dataclass(frozen=True, eq=False)
class Posterior:
    """A logistic model of "the share is above g".

    Parameters
    ----------
    names : tuple of str
        The numbers that it takes, as `handful.engines.share_statistics.columns` names them.
    constant : float
        The log-odds where every number is at its mean.
    weights, means, scales : array [F]
        For each number.
    """

    names: tuple[str, ...]
    constant: float
    weights: np.ndarray
    means: np.ndarray
    scales: np.ndarray

    @classmethod
    def learn(cls, columns: Mapping[str, np.ndarray], shares: np.ndarray, tried: np.ndarray) -> Posterior:
        """Fit the model to tasks whose shares are known, by Newton's method with a small penalty on the weights.

        Parameters
        ----------
        columns : mapping of str to array [B, G]
            The numbers of each task at each share that was tried.
        shares : array [B]
            The true shares.
        tried : array [G]
            The shares that were tried.

        Returns
        -------
        Posterior
            The fitted model.
        """
        names = tuple(columns)
        x = np.stack([np.broadcast_to(columns[name], (len(shares), len(tried))) for name in names], axis=-1)
        x = x.reshape(-1, len(names))
        means, scales = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
        z = np.concatenate([np.ones((len(x), 1)), (x - means) / scales], axis=1)
        truth = (shares[:, None] > tried).astype(float).ravel()
        step_sizes = np.gradient(tried)
        importance = np.tile(step_sizes / step_sizes.mean(), len(shares))  # of a task alike at every share
        penalty = np.diag([0.0, *[RIDGE] * len(names)])
        w = np.zeros(z.shape[1])
        for _ in range(STEPS):
            p = 1 / (1 + np.exp(-np.clip(z @ w, -30, 30)))
            curvature = importance * np.maximum(p * (1 - p), 1e-4)
            step = np.linalg.solve(
                (z * curvature[:, None]).T @ z + penalty, z.T @ (importance * (truth - p)) - penalty @ w
            )
            w += step
            if np.abs(step).max() < SMALL_STEP:
                break
        return cls(names, float(w[0]), w[1:], means, scales)

    def above(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """P(share > g) [B, G] at each share that was tried; it never rises with g."""
        odds = self.constant + sum(
            w / scale * (columns[name] - mean)
            for name, w, mean, scale in zip(self.names, self.weights, self.means, self.scales, strict=True)
        )
        p: np.ndarray = 1 / (1 + np.exp(-np.clip(odds, -30, 30)))
        return np.minimum.accumulate(p, axis=1)

    def as_json(self, about: Mapping[str, Any]) -> str:
        """The model as a document, with a line for each number."""
        numbers = {
            name: [float(f"{value:.6g}") for value in values]
            for name, *values in zip(self.names, self.weights, self.means, self.scales, strict=True)
        }
        lines = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(values)}" for name, values in numbers.items())
        head = json.dumps({**about, "constant": float(f"{self.constant:.6g}")}, indent=1, ensure_ascii=True)
        return head.rstrip("}\n") + f',\n "weight, mean and scale of": {{\n  {lines}\n }}\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Posterior:
        """Read what `as_json` writes."""
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

"""The methods that learn from a large pile in passes: what each asks of a pass, and what it learns.

A learner is a generator `learner(support, labels, count, view, **parameters)`: see `handful.streaming.passes`. It gives
the state that the method of the same name would have learned in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from handful.core.arrays import Array, class_count, class_means, one_hot, sigmoid, unit
from handful.methods import eol, oslo, ostim, tim_gd
from handful.streaming.descent import descend_in_passes, prototypes_in_passes
from handful.streaming.passes import Learned, Pass, Passes, Rows, View

Learner = Callable[..., Passes[Learned]]
LEARNERS: dict[str, Learner] = {}


def register_learner(name: str) -> Callable[[Learner], Learner]:
    """Register the decorated generator as the way in which the method `name` learns from a large pile."""

    def decorate(learner: Learner) -> Learner:
        LEARNERS[name] = learner
        return learner

    return decorate


@register_learner("eol")
def learn_eol(
    support: Array, labels: Array, count: int, view: View, *, outlier_share: Any, b: Any, marginal_weight: str,
    lambda_ce: float, lambda_co: float, lambda_ma: float, temperature: float, steps: int, learning_rate: float,
    learn: tuple[str, ...], backend: str, **_: Any,
) -> Passes[Learned]:  # fmt: skip
    """EOL: the descent in passes, and one pass for the refined prototypes."""
    weights = marginal_weight, lambda_ce, lambda_co, lambda_ma
    head, balance = eol.loss_head(labels, class_count(labels), outlier_share, b, *weights)
    end = yield from descend_in_passes(
        support, labels, count, view, head,
        temperature=temperature, steps=steps, learning_rate=learning_rate, learn=learn, refine=True, backend=backend,
    )  # fmt: skip
    return Learned(eol.state_of(end, balance), outlier_share if b is None else eol.share_of(b), steps)


@register_learner("ostim")
def learn_ostim(
    support: Array, labels: Array, count: int, view: View, *, lambda_co: float, lambda_ma: float, **parameters: Any
) -> Passes[Learned]:
    """OSTIM: the descent of its prototypes in passes."""
    head = ostim.loss_head(class_count(labels), lambda_co, lambda_ma)
    return prototypes_in_passes(support, labels, count, view, head, **parameters)


@register_learner("tim_gd")
def learn_tim_gd(
    support: Array, labels: Array, count: int, view: View, *, lambda_co: float, lambda_ma: float, **parameters: Any
) -> Passes[Learned]:
    """TIM-GD: the descent of its prototypes in passes."""
    head = tim_gd.loss_head(class_count(labels), lambda_co, lambda_ma)
    return prototypes_in_passes(support, labels, count, view, head, **parameters)


@register_learner("oslo")
def learn_oslo(
    support: Array, labels: Array, count: int, view: View, *, rounds: int, lambda_xi: float, lambda_z: float
) -> Passes[Learned]:
    """OSLO: a pass for each round, which repeats the earlier rounds, as assignments are not kept."""
    onehot = one_hot(labels, class_count(labels), like=support)
    of_support, shots = onehot[0].T @ support[0], onehot[0].sum(axis=0)
    path = [class_means(support, onehot)[0]]
    for k in range(rounds):
        arrays = {"directions": unit(np.stack(path)), "lambda_xi": lambda_xi, "lambda_z": lambda_z}
        sums = yield Pass(_oslo_sums, arrays, view, rounds - 1 - k)
        c = (of_support + sums["pull"]) / (shots + sums["weight"])[:, None]
        path.append(c.astype(support.dtype))
    return Learned({"rounds": np.stack(path)[None]}, n_iter=rounds)


def _oslo_sums(rows: Rows, directions: np.ndarray, lambda_xi: float, lambda_z: float) -> dict[str, np.ndarray]:
    """The last of the rounds so far, directions [rounds, N, D], for some rows of the pile."""
    z: Any = 1 / directions.shape[1]
    for prototypes in directions:
        logit, z = oslo.assign(rows.cosines(prototypes).T, z, lambda_xi, lambda_z)
    weight = sigmoid(logit) * z.T  # [N, n]
    return {"pull": rows.sums(weight), "weight": weight.sum(axis=1)}

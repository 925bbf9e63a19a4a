"""PROSER: a dummy class as a placeholder for the unknown. Inductive, open-set.

Trains a linear classifier on the examples with one output more than there are classes, a dummy that learns to come
second to the true class; the dummy's logit is the outlier score. The paper trains a whole network in this way; here
only the head is trained, from a random start, for a few `steps`. With a thousand features that is enough for accuracy
close to the nearest mean. With tens of features it is not: classes stay near the random start. More steps mend the
classes but harm the score, because the dummy's own logit then grows on known items too. Use it for comparison rather
than in practice.

Zhou, Ye, Zhan: "Learning Placeholders for Open-Set Recognition", 2021. A linear head with N outputs and one dummy,
from a random start::

    loss = CE(l, y) + 0.1 CE(l with the true class masked out, dummy)       minimised by Adam on the support

so that the dummy comes second to the true class everywhere. Class output: softmax over the N logits. Outlier score: the
logit of the dummy. The random start is uniform in +-1/sqrt(D).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import Array, as_like, class_count, one_hot, products, softmax
from handful.core.parameters import NotNegative, Positive, Whole
from handful.engines.descent import Adam
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="proser",
    estimator="PROSER",
    title="PROSER",
    authors="Zhou, Ye, Zhan",
    year=2021,
    paper="Learning Placeholders for Open-Set Recognition (CVPR 2021)",
    summary="A linear head with a dummy class that is trained to come second everywhere.",
    new_items="by the trained head",
    state={"weight": "1 M D", "bias": "1 M"},
)


def score_new(state: dict[str, Array], items: Array, **_: Any) -> tuple[Array, Array]:
    """Score new items by the trained head."""
    logits = products(items, state["weight"]) + state["bias"][:, None, :]
    return softmax(logits[..., :-1]), logits[..., -1]


@register(INFO, score_new=score_new, chunk_factor=4)
def proser(
    support: Array,
    labels: Array,
    query: Array,
    *,
    steps: Whole = 50,
    learning_rate: Positive = 1e-3,
    lambda_dummy: NotNegative = 0.1,
    random_state: Whole = 0,
) -> Solution:
    """Solve tasks by a linear head with a dummy class, trained on the examples.

    Parameters
    ----------
    steps : int, default 50
        Number of steps of Adam.
    learning_rate : float, default 0.001
        Step size of Adam.
    lambda_dummy : float, default 0.1
        Weight lambda of the dummy's term in the loss.
    random_state : int, default 0
        Seed of the head's random start, which is the same for every task.
    """
    xp = array_namespace(support)
    batch, n_support, dimension = support.shape
    ways = class_count(labels)
    onehot = one_hot(labels, ways + 1, like=support)  # [B, S, N + 1], never the dummy
    dummy = as_like(np.eye(ways + 1)[ways], support)
    rng = np.random.default_rng(random_state)
    bound = dimension**-0.5
    start_w, start_b = rng.uniform(-bound, bound, (ways + 1, dimension)), rng.uniform(-bound, bound, ways + 1)
    weight = as_like(np.tile(start_w, (batch, 1, 1)), support)
    bias = as_like(np.tile(start_b, (batch, 1)), support)
    move_weight, move_bias = Adam(weight, learning_rate), Adam(bias, learning_rate)
    for _ in range(steps):
        logits = products(support, weight) + bias[:, None, :]
        masked = softmax(logits - 1e9 * onehot)  # without the true class
        slope = (softmax(logits) - onehot + lambda_dummy * (masked - dummy)) / n_support
        move_weight.move(weight, xp.matrix_transpose(slope) @ support)
        move_bias.move(bias, xp.sum(slope, axis=1))
    state = {"weight": weight, "bias": bias}
    return Solution(*score_new(state, query), state, n_iter=steps)

"""TIM-GD: transductive information maximisation by gradient descent. Transductive, closed-set.

Moves the prototypes by gradient descent so that each item of the pile is decided clearly and the pile as a whole uses
all classes evenly, while the examples keep their labels. Where the pile holds known classes only, in similar numbers,
this improves accuracy, most of all with one example per class. It has no output for the unknown: outliers are decided
clearly too, and its only score is doubt. The small default `learning_rate` keeps that harm small. For an open pile
prefer OSTIM, its open-set relative, or take its classes only, as in `tim_gd+knn`.

Boudiaf, Masud, Rony, Dolz, Piantanida, Ben Ayed: "Transductive Information Maximization for Few-Shot Learning",
2020. With prototypes c_j starting at the class means and p_i = softmax_j(tau cos(z_i, c_j))::

    loss = CE(support) - H(mean_Q p_i) + 0.1 mean_Q H(p_i)          minimised by Adam over c

Outlier score: minus the largest class probability.
"""

from __future__ import annotations

from typing import Any

from handful.core.arrays import Array, cosine_to, softmax
from handful.core.parameters import NotNegative, Positive, Whole
from handful.engines.descent import descend
from handful.engines.loss import InfoMax
from handful.methods.registry import Backend, Info, Solution, maxprob, register

INFO = Info(
    name="tim_gd",
    estimator="TIMGD",
    title="TIM-GD",
    authors="Boudiaf, Masud, Rony, Dolz, Piantanida, Ben Ayed",
    year=2020,
    paper="Transductive Information Maximization for Few-Shot Learning (NeurIPS 2020)",
    paradigm="transductive",
    setting="closed-set",
    preparation=("task", "l2"),
    summary="Gradient descent on the support's cross-entropy and the mutual information of queries and classes.",
    new_items="by the learned prototypes",
    state={"prototypes": "1 N D"},
)


def score_new(state: dict[str, Array], items: Array, *, temperature: float = 10.0, **_: Any) -> tuple[Array, Array]:
    """Score new items by the learned prototypes."""
    p = softmax(temperature * cosine_to(items, state["prototypes"]))
    return p, maxprob(p)


@register(INFO, score_new=score_new)
def tim_gd(
    support: Array,
    labels: Array,
    query: Array,
    *,
    temperature: Positive = 10.0,
    steps: Whole = 50,
    learning_rate: Positive = 1e-4,
    lambda_co: NotNegative = 0.1,
    lambda_ma: NotNegative = 1.0,
    backend: Backend = "auto",
) -> Solution:
    """Solve tasks by maximising the information between queries and classes.

    Parameters
    ----------
    temperature : float, default 10.0
        The temperature tau: cosines are multiplied by it before the softmax.
    steps : int, default 50
        Number of steps of Adam.
    learning_rate : float, default 0.0001
        Step size of Adam.
    lambda_co : float, default 0.1
        Weight of the entropy of each decision.
    lambda_ma : float, default 1.0
        Weight of the spread over the outputs.
    backend : {"auto", "array"}, default "auto"
        How to compute: "auto" uses the kernels in C where they are there, "array" NumPy or torch alone.
    """
    end = descend(
        support, labels, query, InfoMax(co=[lambda_co], ma=[lambda_ma], w=[1.0]),
        temperature=temperature, steps=steps, learning_rate=learning_rate, learn=("prototypes",), backend=backend,
    )  # fmt: skip
    p = softmax(end.query_logits)
    return Solution(p, maxprob(p), {"prototypes": end.prototypes}, n_iter=steps)

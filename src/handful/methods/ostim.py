"""OSTIM: open-set transductive information maximisation. Transductive, open-set.

Moves the prototypes by gradient descent so that each item of the pile is decided clearly while the pile as a whole
spreads evenly over the classes and one more output, the unknown. That output's logit is minus the mean of the class
logits, so an item that is unlike the classes on average gets it. It ranks unknowns nearly as well as EOL and does not
need their share for that. As a probability its score is too low: few items pass 0.5, however many are unknown. So only
its order is used. The share that you expect, or your own `threshold`, decides how many are called unknown. An unknown
that resembles one class closely is missed.

Boudiaf, Bennequin, Tami, Hudelot, Toubhans, Piantanida, Ben Ayed: "Model-Agnostic Few-Shot Open-Set Recognition",
2022. With mu the task mean and prototypes c_j starting at the class means::

    g_ij     = cos(z_i - mu, c_j - mu),   g_i,N+1 = -mean_j g_ij,   p_i = softmax(tau g_i) over N + 1
    loss     = CE(support) + 0.1 mean_Q H(p_i) + sum_k m_k log m_k,   m = mean_Q p_i       minimised by Adam over c
    class j  : softmax over the first N logits,    outlier score o_i = p_i,N+1

The features are centred on the task mean first, so the parameter is c_j - mu. The descent is the same.
"""

from __future__ import annotations

from typing import Any

from handful.core.arrays import Array, class_count, cosine_to, softmax, with_unknown
from handful.core.parameters import NotNegative, Positive, Whole
from handful.engines.descent import descend
from handful.engines.loss import InfoMax
from handful.methods.registry import BY_SHOTS, Backend, Info, Solution, register

INFO = Info(
    name="ostim",
    estimator="OSTIM",
    title="OSTIM",
    authors="Boudiaf, Bennequin, Tami, Hudelot, Toubhans, Piantanida, Ben Ayed",
    year=2022,
    paper="Model-Agnostic Few-Shot Open-Set Recognition (arXiv 2206.09236)",
    paradigm="transductive",
    preparation=("task",),
    summary=(
        "Information maximisation over N + 1 outputs, the outlier logit being minus the mean of the class logits."
    ),
    new_items="by the learned prototypes",
    by_shots={"steps": {"1": 200, "5": 50}},
    state={"prototypes": "1 N D"},
)


def score_new(state: dict[str, Array], items: Array, *, temperature: float = 10.0, **_: Any) -> tuple[Array, Array]:
    """Score new items by the learned prototypes."""
    logits = temperature * cosine_to(items, state["prototypes"])
    return softmax(logits), InfoMax([0.0], [0.0], [1.0], outlier="mean").probabilities(logits)[..., -1]


@register(INFO, score_new=score_new)
def ostim(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    *,
    temperature: Positive = 10.0,
    steps: Whole = BY_SHOTS,
    learning_rate: Positive = 0.001,
    lambda_co: NotNegative = 0.1,
    lambda_ma: NotNegative = 1.0,
    backend: Backend = "auto",
) -> Solution:
    """Solve tasks by maximising information over N + 1 outputs.

    Parameters
    ----------
    unknown : array [B, U, D], optional
        Prepared features of examples of no class. CE takes them as examples of output N + 1.
    temperature : float, default 10.0
        The temperature tau: cosines are multiplied by it before the softmax.
    steps : int, default 200 (1 shot) or 50 (5 shots)
        Number of steps of Adam.
    learning_rate : float, default 0.001
        Step size of Adam.
    lambda_co : float, default 0.1
        Weight of the entropy of each decision.
    lambda_ma : float, default 1.0
        Weight of the spread over the outputs.
    backend : {"auto", "array"}, default "auto"
        How to compute: "auto" uses the kernels in C where they are there, "array" NumPy or torch alone.
    """
    head = InfoMax(co=[lambda_co], ma=[lambda_ma], w=[1.0], outlier="mean")
    end = descend(
        *with_unknown(support, labels, unknown), query, head, ways=class_count(labels), temperature=temperature,
        steps=steps, learning_rate=learning_rate, learn=("prototypes",), backend=backend,
    )  # fmt: skip
    p, scores = softmax(end.query_logits), end.query_probabilities[..., -1]
    return Solution(p, scores, {"prototypes": end.prototypes}, n_iter=steps)

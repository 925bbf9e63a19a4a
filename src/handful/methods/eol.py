"""EOL: Enhanced Outlier Logits. Transductive, open-set.

Starts from the mean of each class's examples and moves these prototypes, with a scale and a shift for each class, until
three things hold: the examples get their own labels, every item of the pile is decided clearly, and the unknown part of
the pile has the share given as `outlier_share`. If that share is roughly right, it finds unknowns better than all other
methods here, also with one example per class or where most of the pile is unknown. It relies on the share: if the share
is far off, it still calls about that share unknown, and ranks unknowns worse than kNN. With few unknowns in the pile
its advantage is small or gone.

Ochal, Patacchiola, Boudiaf, Wang: "EOL: Transductive Few-Shot Open-Set Recognition by Enhancing
Outlier Logits", 2024. Prototypes c_j start at the class means, scale eta_j and shift delta_j at 0::

    l_ij  = tau (exp(eta_j) cos(z_i, c_j) + delta_j)
    pi_i  = sigmoid(logsumexp_j l_ij - log N + log b)               P(known | i)
    p_ij  = pi_i softmax_j(l_ij)                                    P(class j and known | i)
    CE    = -mean_S log p_iy                                        for an example of no class, log(1 - pi_i)
    CO    = -mean_Q sum_j p_ij log p_ij
    MA    = (1/N) sum_j m_j log m_j + m_out log m_out               m_j = w_j mean_Q p_ij, w_j = N / (1 - b)
                                                                    m_out = mean_Q (1 - pi_i) / b
    loss  = lambda_ce CE + (lambda_co / N) CO + lambda_ma MA        minimised by Adam

    c'_j  = sum_{S and Q} p_ij z_i / sum p_ij                       one refinement at the end
    p_ij  = pi_i softmax_j(l_ij with c'),   outlier score o_i = 1 - pi_i

pi_i times the softmax is one softmax over N + 1 logits, the last of them the constant log(N / b).

Where the paper and its published code differ, this file follows the code, because the code produced the tables. The
exception is w_j: the code has shots / (1 - b), which agrees with the ways of the paper only in 5-way 5-shot tasks and
costs up to 30 points of AUROC elsewhere. `marginal_weight="shots"` gives the version of the code.

What b means: MA alone is smallest where the mean predicted outlier share is

    share(b) = b exp(lambda b - 1),     (1-b) exp(lambda (1-b) - 1) + b exp(lambda b - 1) = 1

so the parameter is the share itself, `outlier_share`. Its b is the inverse of this function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import exp, log
from typing import Annotated, Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import Array, as_like, class_count, softmax, with_unknown
from handful.core.parameters import Flag, NotNegative, Number, OneOf, OutlierShare, Positive, SomeOf, Whole, inner_share
from handful.engines.descent import descend_all, logits_to
from handful.engines.loss import PARAMETERS, InfoMax
from handful.methods.registry import Backend, Info, Solution, register

INFO = Info(
    name="eol",
    estimator="EOL",
    title="EOL: Enhanced Outlier Logits",
    authors="Ochal, Patacchiola, Boudiaf, Wang",
    year=2024,
    paper="EOL: Transductive Few-Shot Open-Set Recognition by Enhancing Outlier Logits (arXiv 2408.02052)",
    paradigm="transductive",
    score="probability",
    summary=(
        "Moves prototypes, scales and shifts by gradient descent so that the pile is decided clearly and "
        "its unknown part has the wanted share."
    ),
    new_items="by the learned prototypes, scales and shifts",
    state={"prototypes": "1 N D", "eta": "1 N", "delta": "1 N", "refined": "1 N D", "b": "1"},
)


def score_new(state: dict[str, Array], items: Array, *, temperature: float = 10.0, **_: Any) -> tuple[Array, Array]:
    """Score each new item alone, by the learned prototypes."""
    xp = array_namespace(items)
    ways = state["eta"].shape[-1]
    head = InfoMax(co=0, ma=0, w=0, outlier=xp.log(ways / state["b"]))
    affine = state["eta"], state["delta"], temperature
    p = head.probabilities(logits_to(items, state["prototypes"], *affine))  # [B, M, N + 1]
    refined = softmax(logits_to(items, state["refined"], *affine))
    return xp.sum(p[..., :ways], axis=-1, keepdims=True) * refined, p[..., ways]


@register(INFO, score_new=score_new)
def eol(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    *,
    outlier_share: OutlierShare = "auto",
    b: Annotated[Any, Number(0, 1, each_task=True)] | None = None,
    marginal_weight: Annotated[str, OneOf(("ways", "shots"))] = "ways",
    learn: Annotated[tuple[str, ...], SomeOf(PARAMETERS)] = PARAMETERS,
    temperature: Positive = 10.0,
    steps: Whole = 50,
    learning_rate: Positive = 0.01,
    lambda_ce: NotNegative = 1.0,
    lambda_co: NotNegative = 1.0,
    lambda_ma: NotNegative = 1.0,
    history: Flag = False,
    backend: Backend = "auto",
) -> Solution:
    """Solve tasks by moving prototypes, scales and shifts until the unknown part of the pile has its share.

    Parameters
    ----------
    unknown : array [B, U, D], optional
        Prepared features of examples of no class. CE has a term -log(1 - pi_i) for each of them; together they weigh no
        more than the examples of one class.
    outlier_share : float, array [B] or "auto", default "auto"
        How much of the pile is unknown, or one share for each task. It determines the b of the equations. "auto"
        estimates it from the examples and the pile.
    b : float or array [B], optional
        The balance b of the paper, in place of the share.
    marginal_weight : {"ways", "shots"}, default "ways"
        Weight of the mean class prediction: "ways" is N / (1 - b), as in the paper; "shots" has the examples of a class
        in place of N, as in the published code.
    learn : tuple of str, default ("prototypes", "eta", "delta")
        Which parameters move: prototypes c, scales eta, shifts delta.
    temperature : float, default 10.0
        The temperature tau: cosines are multiplied by it before the softmax.
    steps : int, default 50
        Number of steps of Adam.
    learning_rate : float, default 0.01
        Step size of Adam.
    lambda_ce : float, default 1.0
        Weight lambda_ce of the cross-entropy of the examples.
    lambda_co : float, default 1.0
        Weight lambda_co of the entropy of each decision.
    lambda_ma : float, default 1.0
        Weight lambda_ma of the spread over the outputs.
    history : bool, default False
        Whether to keep the loss of every step.
    backend : {"auto", "array"}, default "auto"
        How to compute: "auto" uses the kernels in C where they are there, "array" NumPy or torch alone.
    """
    share = outlier_share if b is None else share_of(b)
    (solution,) = eol_at_shares(
        support, labels, query, unknown, [share], [b], (marginal_weight, lambda_ce, lambda_co, lambda_ma),
        temperature=temperature, steps=steps, learning_rate=learning_rate, learn=learn, history=history,
        backend=backend,
    )  # fmt: skip
    return solution


def eol_at_shares(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    shares: Sequence[Any] = (),
    balances: Sequence[Any] | None = None,
    weights: tuple[str, float, float, float] = ("ways", 1.0, 1.0, 1.0),
    *,
    steps: int = 50,
    **descent: Any,
) -> list[Solution]:
    """Solve the same tasks as `eol` does for several shares of unknowns (none "auto") at once; other options alike."""
    xp = array_namespace(support)
    ways = class_count(labels)
    runs = zip(shares, balances or [None] * len(shares), strict=True)
    heads, balanced = zip(*(loss_head(labels, ways, share, b, *weights) for share, b in runs), strict=True)
    examples = with_unknown(support, labels, unknown)
    ends = descend_all(*examples, query, heads, ways=ways, steps=steps, refine=True, **descent)
    solutions = []
    for end, share, b in zip(ends, shares, balanced, strict=True):
        p = end.query_probabilities  # [B, Q, N + 1]
        known = xp.sum(p[..., :ways], axis=-1, keepdims=True)  # not 1 - outlier, which may round to 0
        state = {"prototypes": end.prototypes, "eta": end.eta, "delta": end.delta, "refined": end.refined}
        state["b"] = as_like(b, end.eta)
        solutions.append(Solution(known * softmax(end.refined_logits), p[..., ways], state, share, steps, end.history))
    return solutions


def loss_head(
    labels: Array, ways: int, share: Any, b: Any, marginal_weight: str, ce: float, co: float, ma: float
) -> tuple[InfoMax, np.ndarray]:
    """The head of the descent, which computes the loss, and b [B]."""
    batch = len(labels)
    balanced = np.broadcast_to(balance(inner_share(share)) if b is None else b, (batch,))[:, None]
    per_class = ways if marginal_weight == "ways" else np.asarray(labels[..., None] == np.arange(ways)).sum(axis=1)
    head = InfoMax(
        ce=ce,
        co=np.r_[np.full(ways, co / ways), 0.0],
        ma=np.r_[np.full(ways, ma / ways), ma],
        w=np.concatenate([np.broadcast_to(per_class / (1 - balanced), (batch, ways)), 1 / balanced], axis=1),
        outlier=np.log(ways / balanced[:, 0]),
    )
    return head, balanced[:, 0]


def balance(share: Any) -> Any:
    """The b that pulls the mean predicted outlier share to `share`.

    Dividing the two conditions on lambda leaves one equation in b with one root in (0, 1):
    (1 - b) (1 + log(share / b)) = b (1 + log((1 - share) / (1 - b))).

    >>> balance(np.array([0.2, 0.5, 0.8])).round(3)
    array([0.317, 0.5  , 0.683])
    """
    return np.vectorize(_balance, otypes=[float])(share)[()]


@lru_cache(1 << 16)
def _balance(share: float) -> float:
    def excess(b: float) -> float:
        return (1 - b) * (1 + log(share / b)) - b * (1 + log((1 - share) / (1 - b)))

    return _bisect(excess, 0.0, 1.0)


def share_of(b: Any) -> Any:
    """The share of a balance b: the inverse of `balance`.

    >>> share_of(np.array([0.1, 0.3, 0.5])).round(3)
    array([0.041, 0.181, 0.5  ])
    """
    return np.vectorize(_share_of, otypes=[float])(b)[()]


@lru_cache(1 << 16)
def _share_of(b: float) -> float:
    def excess(x: float) -> float:
        return 1 - (1 - b) * exp(x * (1 - b) - 1) - b * exp(x * b - 1)

    return b * exp(_bisect(excess, 0.0, 4.0) * b - 1)  # lambda is at most 2, where b = 1/2


def _bisect(falling: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2

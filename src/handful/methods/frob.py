"""FROB: boundary samples around the classes, and a rejection that is trained against them. Inductive, open-set.

Places samples around each class and trains one more output, rejection, on these samples and on your examples of no
class, if there are any. Where the samples lie and how large the `steps` are was learned on tasks of base classes; it
needs a `base` with that head. The samples come to lie far out, along directions in which classes spread. With a
backbone it ranks unknowns about a point better than kNN, and classes come out as by SimpleShot or a little better; on a
table of 16 features the ranking got worse. It gives a probability of unknown, learned from tasks that are unknown by
half. The paper trains networks on pictures.

Dionelis, Yaghoobi, Tsaftaris: "FROB: Few-shot ROBust Model for Classification and Out-of-Distribution Detection", 2021.
Samples are generated at the boundary of each class and serve as outliers, beside the few real ones (u) that a user may
have. With c_j the class means of the examples z_i, of length 1::

    x_jm = L2( L2(c_j) + rho / sqrt(D) g_m ),    m = 1 .. M         boundary samples of class j
    l_ij = tau cos(z_i, w_j),    l_i0 = r + tau <v, z_i>            classes and rejection; P = softmax(l) over N + 1
    loss = -mean_S log P(y_i | z_i) - lambda_b mean_jm log P(0 | x_jm) - lambda_e mean_u log P(0 | u)

A few gradient steps minimise the loss. The start, with s examples per class, is SimpleShot with a constant rejection::

    w_j = c_j,    v = 0,    r = tau theta kappa / sqrt(kappa + (1 - kappa) / s) + log N

If two items of a class have the cosine kappa, the fraction is the cosine of an item to the mean of s others. With A_ij
the slope of the loss by l_ij, and ^ for L2-normalised, the gradients over all items are::

    dL/dw_j = tau sum_i A_ij (z_i - cos(z_i, w_j) ^w_j) / |w_j|,    dL/dv = tau sum_i A_i0 z_i,    dL/dr = sum_i A_i0

All of them are sums of items, and so are w and v: the steps move their coefficients, and take inner products from one
Gram matrix. In the end p_ij = P(j | q_i) and the outlier score is o_i = P(0 | q_i).

g, rho, tau, lambda_b, theta, kappa and the three step sizes are learned on tasks of base classes with unknowns, through
the steps. Simplified: the paper works on pictures and trains networks; here features are fixed, and the generator is a
set of offsets. The form of the losses and the linear rejection <v, z> are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, class_means, norms, one_hot, products, softmax, unit
from handful.core.parameters import NotNegative, Whole
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="frob",
    estimator="FROB",
    title="FROB",
    authors="Dionelis, Yaghoobi, Tsaftaris",
    year=2021,
    paper="FROB: Few-shot ROBust Model for Classification and Out-of-Distribution Detection (arXiv 2111.15487)",
    score="probability",
    summary=(
        "Learned boundary samples around each class, and a rejection that is trained against them and against "
        "examples of no class."
    ),
    new_items="by the trained prototypes and the rejection",
    state={"prototypes": "1 N D", "rejection": "1 1 D", "bias": "1 1"},
    base_part="frob",
)

STEPS = 10


class Items(NamedTuple):
    """What the rejection is trained on: examples, boundary samples and examples of no class."""

    features: Array  # [B, n, D], of length 1
    targets: Array  # [B, n, N + 1], the weight of an item in the column of what it is, else 0

    def products(self) -> Callable[[Array], Array]:
        """The function that takes coefficients a [B, k, n] to <sum_i a_i x_i, x_l> [B, k, n]."""
        xp = array_namespace(self.features)
        transposed = xp.matrix_transpose(self.features)
        if self.features.shape[1] > self.features.shape[2]:
            return lambda a: (a @ self.features) @ transposed
        gram = self.features @ transposed  # so that a step does not cost D
        return lambda a: a @ gram


def boundary(means: Array, base: Mapping[str, Array]) -> Array:
    """The boundary samples of the classes: [B, N, D] to [B, N M, D]."""
    xp = array_namespace(means)
    offsets = xp.exp(base["log_radius"]) / means.shape[-1] ** 0.5 * base["offsets"]  # [M, D]
    samples = unit(unit(means)[:, :, None, :] + offsets)
    return xp.reshape(samples, (means.shape[0], -1, means.shape[-1]))


def items_of(
    support: Array, onehot: Array, unknown: Array | None, base: Mapping[str, Array], weights: tuple[Any, float]
) -> Items:
    """The items of tasks; weights: lambda_b and lambda_e."""
    xp = array_namespace(support)
    outside = [boundary(class_means(support, onehot), base)]
    if unknown is not None and unknown.shape[1]:
        outside.append(unit(unknown))
    shares = [xp.ones_like(x[..., :1]) * (weight / x.shape[1]) for x, weight in zip(outside, weights, strict=False)]
    rejected = xp.concat(shares, axis=1)
    known = xp.concat([onehot / support.shape[1], xp.zeros_like(onehot[..., :1])], axis=-1)
    rejected = xp.concat([xp.zeros_like(rejected * onehot[:, :1]), rejected], axis=-1)
    return Items(xp.concat([support, *outside], axis=1), xp.concat([known, rejected], axis=1))


def bias_start(examples: int, ways: int, base: Mapping[str, Array]) -> Array:
    """r before the first step, [1]."""
    xp = array_namespace(base["threshold"])
    kappa, shots = xp.exp(base["log_cosine"]), examples / ways
    expected_cosine = kappa / xp.sqrt(kappa + (1 - kappa) / shots)  # of an item to the mean of its class's examples
    return xp.exp(base["log_tau"]) * base["threshold"] * expected_cosine + log(ways)


def slopes(
    state: Mapping[str, Array], products_of: Callable[[Array], Array], targets: Array, base: Mapping[str, Array]
) -> dict[str, Array]:
    """The gradient of the loss by w [B, N, n] and v [B, 1, n], as coefficients of the items, and by r [B, 1]."""
    xp = array_namespace(targets)
    w, tau = state["prototypes"], xp.exp(base["log_tau"])
    inner = products_of(w)  # <w_j, x_i>
    lengths = xp.sqrt(at_least(xp.sum(inner * w, axis=-1, keepdims=True), FLOOR))
    cosines = inner / lengths
    rejection = tau * products_of(state["rejection"]) + state["bias"][..., None]
    p = softmax(xp.matrix_transpose(xp.concat([tau * cosines, rejection], axis=1)))
    a = xp.matrix_transpose(xp.sum(targets, axis=-1, keepdims=True) * p - targets)  # dL/dl, [B, N + 1, n]
    along = xp.sum(a[:, :-1] * cosines, axis=-1, keepdims=True)
    return {
        "prototypes": tau * (a[:, :-1] - along * w / lengths) / lengths,
        "rejection": tau * a[:, -1:],
        "bias": xp.sum(a[:, -1:], axis=-1),
    }


def train(
    support: Array,
    labels: Array,
    unknown: Array | None,
    base: Mapping[str, Array],
    *,
    steps: int = STEPS,
    lambda_boundary: float | None = None,
    lambda_exposure: float = 1.0,
) -> dict[str, Array]:
    """The prototypes and the rejection after the steps."""
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    weight = xp.exp(base["log_lambda"]) if lambda_boundary is None else lambda_boundary
    items = items_of(unit(support), onehot, unknown, base, (weight, lambda_exposure))
    start = xp.matrix_transpose(onehot / xp.sum(onehot, axis=1, keepdims=True))  # of the class means, [B, N, S]
    zeros = xp.zeros_like(start[:, :, :1] * items.targets[:, None, support.shape[1] :, 0])
    w = xp.concat([start, zeros], axis=-1)
    state = {
        "prototypes": w, "rejection": xp.zeros_like(w[:, :1]),
        "bias": xp.zeros_like(w[:, :1, 0]) + bias_start(support.shape[1], onehot.shape[-1], base),
    }  # fmt: skip
    rates = {name: xp.exp(base[f"log_rate_{name}"]) for name in state}
    products_of = items.products()
    for _ in range(steps):
        gradient = slopes(state, products_of, items.targets, base)
        state = {name: value - rates[name] * gradient[name] for name, value in state.items()}
    return state | {name: state[name] @ items.features for name in ("prototypes", "rejection")}


def logits(state: Mapping[str, Array], items: Array, base: Mapping[str, Array]) -> Array:
    """Logits of the classes and, last, of the rejection: [B, n, D] to [B, n, N + 1]."""
    xp = array_namespace(items)
    weights = xp.concat([unit(state["prototypes"]), state["rejection"]], axis=1)
    cosines = products(items, weights) / at_least(norms(items), FLOOR)
    l = xp.exp(base["log_tau"]) * cosines
    return xp.concat([l[..., :-1], l[..., -1:] + state["bias"][..., None]], axis=-1)


def score_new(state: dict[str, Array], items: Array, *, base: Any = None, **_: Any) -> tuple[Array, Array]:
    """Score new items by the prototypes and the rejection."""
    p = softmax(logits(state, items, base))
    return p[..., :-1], p[..., -1]


@register(INFO, score_new=score_new)
def frob(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    *,
    base: Any = None,
    steps: Whole = STEPS,
    lambda_boundary: NotNegative | None = None,
    lambda_exposure: NotNegative = 1.0,
) -> Solution:
    """Solve tasks by a rejection that is trained against boundary samples.

    Parameters
    ----------
    unknown : array [B, U, D], optional
        Prepared features of examples of no class, which are rejected too.
    base : handful.methods.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    steps : int, default 10
        Number of gradient steps. The head is learned for 10 steps.
    lambda_boundary : float, optional
        Weight lambda_b of the boundary samples, in place of the learned one.
    lambda_exposure : float, default 1.0
        Weight lambda_e of the examples of no class.
    """
    state = train(
        support, labels, unknown, base, steps=steps, lambda_boundary=lambda_boundary, lambda_exposure=lambda_exposure
    )
    return Solution(*score_new(state, query, base=base), state, n_iter=steps)

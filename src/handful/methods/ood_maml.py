"""OOD-MAML: a detector for each class, adapted from a meta-learned start with fake outliers. Inductive, open-set.

Gives each class a linear detector, adapted to the examples of that class alone by a few gradient `steps`. They have no
outliers to learn from, so the method brings fake ones: learned once, then moved towards the class by
`adversarial_steps`, where they are hardest to tell. Start, fakes and step sizes were learned on tasks of base classes
through the adaptation itself. It needs a `base` with that head. With weak features it gains several points over the
nearest mean; with a strong backbone it is on a par with kNN, inside the noise. The paper adapts a network and fakes
pictures; here only a last layer is left to adapt.

Jeong, Kim: "OOD-MAML: Meta-Learning for Few-Shot Out-of-Distribution Detection and Classification", 2020. Each class j
has a detector of its own, s_j(x) = <w_j, x> + b_j, p_j(x) = sigmoid(s_j(x)), which sees the examples of class j only.
The start (w, b), M fake outliers f_m, their step sizes beta_m and the rates alpha are learned on tasks of base classes.
A task adapts them in three parts, where CE(X, in) is -mean log p_j and CE(F, out) is -mean log(1 - p_j)::

    (w'_j, b'_j) = (w, b) - alpha grad [ CE(examples of j, in) + CE(f, out) ]                 one step
    f'_jm <- unit( f'_jm - beta_m g / |g| ),  g = grad_f' CE(f', in) at (w'_j, b'_j)          `adversarial_steps` times
    (w_j, b_j) <- (w_j, b_j) - alpha grad [ CE(examples of j, in) + CE(f and f'_j, out) ]     `steps` times, from (w, b)

    outlier score o_i = 1 - max_j sigmoid(s_j(q_i) - r),    class probabilities softmax_j(s_j(q_i))

The gradients are written out, so that autograd through `adapt` gives the exact gradient of second-order MAML. The loss
is the binary cross-entropy of all pairs of a query and a detector, members and others weighted alike, plus that of o_i,
which sets r (see `meta_bce`).

Simplified: x is a fixed feature after a learned projection of low rank, scaled to length 1; only the last layer, the
detector, is adapted. The paper adapts a network, its fakes are pictures, and it moves them by the sign of the gradient.
Here fakes are features of length 1, and move along the gradient. alpha is learned. Training and use have equally many
steps. With w = 0 and fakes of no weight, one step gives the inner product with the class mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, one_hot, products, sigmoid, softmax, unit
from handful.core.parameters import Whole
from handful.methods.meta_bce import project, rejection
from handful.methods.registry import Info, Solution, register

STEPS, ADVERSARIAL_STEPS = 5, 3  # what the head is learned with

INFO = Info(
    name="ood_maml",
    estimator="OODMAML",
    title="OOD-MAML",
    authors="Jeong, Kim",
    year=2020,
    paper="OOD-MAML: Meta-Learning for Few-Shot Out-of-Distribution Detection and Classification (NeurIPS 2020)",
    score="probability",
    summary=(
        "A detector for each class, adapted by a few gradient steps from a start that was learned on base classes, "
        "with learned fake outliers."
    ),
    new_items="by the adapted detectors",
    state={"weights": "1 N D", "biases": "1 N"},
    base_part="ood_maml",
)


def features(x: Array, base: Mapping[str, Array]) -> Array:
    """What the detectors see of prepared features [..., D]."""
    return unit(project(x, base))


def descend(examples: Array, shares: Array, fakes: Array, base: Mapping[str, Array], steps: int) -> tuple[Array, Array]:
    """Adapt the detectors of the classes from the initial one: weights [B, N, D] and biases [B, N].

    `shares` [B, S, N] are the weights of the examples [B, S, D] in the loss of each class: 1 / n_j for its own, 0 for
    others. `fakes` [B, N, F, D] are the outliers of each class.
    """
    xp = array_namespace(examples)
    zeros = xp.zeros_like(fakes[:, :, 0])
    w, b = zeros + base["weight"], zeros[..., 0] + base["bias"]
    rates = xp.exp(base["log_rates"])
    for _ in range(steps):
        pull = shares * sigmoid(-products(examples, w) - b[:, None])  # [B, S, N], minus the slope of CE(examples, in)
        push = sigmoid((fakes @ w[..., None])[..., 0] + b[..., None]) / fakes.shape[2]  # [B, N, F], of CE(fakes, out)
        slope_w = (push[..., None, :] @ fakes)[..., 0, :] - xp.matrix_transpose(pull) @ examples
        slope_b = xp.sum(push, axis=-1) - xp.sum(pull, axis=1)
        w, b = w - rates[0] * slope_w, b - rates[1] * slope_b
    return w, b


def adapt(
    support: Array,
    labels: Array,
    base: Mapping[str, Array],
    steps: int = STEPS,
    adversarial_steps: int = ADVERSARIAL_STEPS,
) -> dict[str, Array]:
    """The adapted detectors: weights [B, N, D] and biases [B, N]."""
    xp = array_namespace(support)
    examples = features(support, base)
    onehot = one_hot(labels, like=support)
    shares = onehot / xp.sum(onehot, axis=1, keepdims=True)
    fakes = unit(base["fakes"]) + xp.zeros_like(examples[:, :1])[:, None] + xp.zeros_like(onehot[:, 0])[..., None, None]
    outliers = fakes
    if adversarial_steps:
        w, _ = descend(examples, shares, fakes, base, 1)
        direction = -unit(w)[:, :, None]  # of the gradient: that of a linear detector is -(1 - p) w everywhere
        for _ in range(adversarial_steps):
            fakes = unit(fakes - xp.exp(base["log_fake_steps"])[:, None] * direction)
        outliers = xp.concat([outliers, fakes], axis=2)
    weights, biases = descend(examples, shares, outliers, base, steps)
    return {"weights": weights, "biases": biases}


def logits(state: Mapping[str, Array], items: Array, base: Mapping[str, Array]) -> Array:
    """The logits s of the detectors: [B, n, D] to [B, n, N]."""
    return products(features(items, base), state["weights"]) + state["biases"][:, None]


def score_new(state: dict[str, Array], items: Array, *, base: Any = None, **_: Any) -> tuple[Array, Array]:
    """Score new items by the adapted detectors."""
    s = logits(state, items, base)
    return softmax(s), rejection(s, base)


@register(INFO, score_new=score_new)
def ood_maml(
    support: Array,
    labels: Array,
    query: Array,
    *,
    base: Any = None,
    steps: Whole = STEPS,
    adversarial_steps: Whole = ADVERSARIAL_STEPS,
) -> Solution:
    """Solve tasks by a detector for each class, adapted from a learned start with learned fake outliers.

    Parameters
    ----------
    base : handful.methods.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    steps : int, default 5
        Number of gradient steps that adapt a detector. The base is learned with the default.
    adversarial_steps : int, default 3
        Number of steps that move the fake outliers towards a class; 0 leaves the moved fakes out.
    """
    state = adapt(support, labels, base, steps, adversarial_steps)
    return Solution(*score_new(state, query, base=base), state, n_iter=steps)

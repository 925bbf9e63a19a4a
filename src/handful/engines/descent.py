"""Prototypes moved by gradient descent: the engine that EOL, OSTIM, TIM-GD and Finetune share.

Items z_i, prototypes c_j, an optional scale eta_j and shift delta_j per class, all starting
from c_j = class means of the support, eta_j = delta_j = 0::

    l_ij = tau (exp(eta_j) cos(z_i, c_j) + delta_j)

A method supplies only its loss head: the loss and its slopes dL/dl. With A_ij = tau exp(eta_j) dL/dl_ij the gradients
follow in closed form, where ^ means L2-normalised::

    dL/d eta_j   = sum_i A_ij cos_ij
    dL/d delta_j = tau sum_i dL/dl_ij
    dL/d c_j     = (sum_i A_ij ^z_i  -  dL/d eta_j ^c_j) / |c_j|

so the gradient of the scale is the projection term that the gradient of the cosine needs as well. Adam takes the steps.

The code runs on NumPy arrays and on torch tensors (array API), batched over tasks. For NumPy arrays and an `InfoMax`
head a kernel in C does the same arithmetic, one task at a time (`handful.engines.kernels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, class_count, class_means, cosine_to, norms, one_hot, unit
from handful.engines.kernels import call, can_use, joined
from handful.engines.loss import ADAM_EPSILON, BETA1, BETA2, PARAMETERS, Descent, Head, InfoMax

NO_OUTLIER, CONSTANT, MINUS_MEAN = 0, 1, 2  # kinds of outlier logit, as descent.c numbers them


def descend(
    support: Array,
    labels: Array,
    query: Array,
    head: Head,
    *,
    ways: int | None = None,
    temperature: float = 10.0,
    steps: int = 50,
    learning_rate: float = 0.01,
    learn: tuple[str, ...] = PARAMETERS,
    refine: bool = False,
    history: bool = False,
    backend: str = "auto",
) -> Descent:
    """Minimise a loss over prototypes, scales and shifts, starting from the class means of the support.

    Labels are 0 to N - 1, and N for an example of no class. `refine` adds a step at the end, with an `InfoMax` head:
    prototypes c'_j = sum p_ij z_i / sum p_ij over all items. `history` keeps the loss before each step and at the end.
    """
    return descend_all(
        support, labels, query, [head], ways=ways, temperature=temperature, steps=steps, learning_rate=learning_rate,
        learn=learn, refine=refine, history=history, backend=backend,
    )[0]  # fmt: skip


def descend_all(
    support: Array,
    labels: Array,
    query: Array,
    heads: Sequence[Head],
    *,
    ways: int | None = None,
    temperature: float = 10.0,
    steps: int = 50,
    learning_rate: float = 0.01,
    learn: tuple[str, ...] = PARAMETERS,
    refine: bool = False,
    history: bool = False,
    backend: str = "auto",
) -> list[Descent]:
    """Minimise several losses over the same tasks, each as `descend` does: in the kernel side by side, which is faster.

    Their outlier logits are all constants, all "mean" or all None.
    """
    ways = class_count(labels) if ways is None else ways
    fused = [head for head in heads if isinstance(head, InfoMax)]
    if len(fused) == len(heads) and not history and can_use(backend, support, query):
        return _descend_in_c(support, labels, query, fused, ways, temperature, steps, learning_rate, learn, refine)
    onehot = one_hot(labels, ways, like=support)
    ends = [_descend(support, onehot, query, head, temperature, steps, learning_rate, learn, history) for head in heads]
    for head, end in zip(heads, ends, strict=True):
        if isinstance(head, InfoMax):
            end.query_probabilities = head.probabilities(end.query_logits)
            if refine:
                _refine(end, head, support, query, temperature)
    return ends


def _descend_in_c(
    support: Array, labels: Array, query: Array, heads: Sequence[InfoMax], ways: int, temperature: float, steps: int,
    learning_rate: float, learn: tuple[str, ...], refine: bool,
) -> list[Descent]:  # fmt: skip
    items = joined(support, query)
    labels = np.ascontiguousarray(labels, dtype=np.int64)
    if labels.size and not 0 <= labels.min() <= labels.max() <= ways:
        raise ValueError(f"labels are numbers from 0 to {ways}, got {labels.min()} to {labels.max()}")
    (batch, n_support, dimension), n_query, dtype = support.shape, query.shape[1], support.dtype
    outlier = heads[0].outlier
    kind = NO_OUTLIER if outlier is None else MINUS_MEAN if isinstance(outlier, str) else CONSTANT
    outputs = ways + (kind != NO_OUTLIER)

    def rows(values: list[Any], *shape: int) -> np.ndarray:
        each = [np.broadcast_to(np.asarray(value, dtype), (batch, *shape)) for value in values]
        return np.ascontiguousarray(np.stack(each))  # np.stack keeps the strides of broadcast rows

    losses = (
        rows([head.outlier if kind == CONSTANT else 0.0 for head in heads]), np.array([h.ce for h in heads], dtype),
        rows([h.co for h in heads], outputs), rows([h.ma for h in heads], outputs), rows([h.w for h in heads], outputs),
    )  # fmt: skip
    shapes = [
        (ways, dimension), (ways,), (ways,), (n_support, ways), (n_query, ways), (n_query, outputs),
        *([(ways, dimension), (n_query, ways)] if refine else [(0,), (0,)]),
    ]  # fmt: skip
    ends = [np.empty((len(heads), batch, *shape), dtype) for shape in shapes]
    learned = sum(1 << bit for bit, name in enumerate(PARAMETERS) if name in learn)
    sizes = [batch, n_support, n_query, dimension, ways, len(heads), steps, kind, learned, refine]
    numbers = [temperature, learning_rate, BETA1, BETA2, ADAM_EPSILON, FLOOR]
    call("descend", dtype, np.array(sizes, np.int64), np.array(numbers), items, labels, *losses, *ends)
    return [
        Descent(*(end[r] for end in ends[:6]), *((end[r] if refine else None) for end in ends[6:]))
        for r in range(len(heads))
    ]


def _descend(
    support: Array, onehot: Array, query: Array, head: Head, temperature: float, steps: int, learning_rate: float,
    learn: tuple[str, ...], history: bool,
) -> Descent:  # fmt: skip
    xp = array_namespace(support)
    n_support = support.shape[-2]
    items = unit(xp.concat([support, query], axis=-2))  # [B, M, D]
    c = class_means(support, onehot)  # [B, N, D]
    parameters = {"prototypes": c, "eta": xp.zeros_like(c[..., 0]), "delta": xp.zeros_like(c[..., 0])}
    learn = tuple(name for name in PARAMETERS if name in learn)
    adam = {name: Adam(parameters[name], learning_rate) for name in learn}
    losses = []
    for _ in range(steps):
        loss, gradients = loss_and_gradients(parameters, items, onehot, head, temperature, learn)
        losses.append(loss)
        for name in learn:
            adam[name].move(parameters[name], gradients[name])
    logits = forward(parameters, items, temperature)[-1]
    of_support, of_query = logits[..., :n_support, :], logits[..., n_support:, :]
    if history:
        losses.append(head(of_support, onehot, of_query)[0])
    return Descent(**parameters, support_logits=of_support, query_logits=of_query,
                   history=xp.stack(losses, axis=-1) if history else None)  # fmt: skip


def _refine(end: Descent, head: InfoMax, support: Array, query: Array, temperature: float) -> None:
    xp = array_namespace(support)
    ways = end.eta.shape[-1]
    p_support, p_query = head.probabilities(end.support_logits)[..., :ways], end.query_probabilities[..., :ways]
    pull = xp.matrix_transpose(p_support) @ support + xp.matrix_transpose(p_query) @ query
    end.refined = pull / (xp.sum(p_support, axis=-2) + xp.sum(p_query, axis=-2))[..., None]
    end.refined_logits = logits_to(query, end.refined, end.eta, end.delta, temperature)


def logits_to(items: Array, prototypes: Array, eta: Array, delta: Array, temperature: float) -> Array:
    """tau (exp(eta_j) cos(z_i, c_j) + delta_j): [B, M, D] and [B, N, D] to [B, M, N]."""
    scale = array_namespace(items).exp(eta)[..., None, :]
    return temperature * (scale * cosine_to(items, prototypes) + delta[..., None, :])


def loss_and_gradients(
    parameters: dict[str, Array],
    items: Array,
    onehot: Array,
    head: Head,
    temperature: float,
    learn: tuple[str, ...] = PARAMETERS,
) -> tuple[Array, dict[str, Array]]:
    """The loss [B] and its gradients for the parameters; items have unit length, the support first."""
    xp = array_namespace(items)
    norm, direction, cosine, scale, logits = forward(parameters, items, temperature)
    n_support = onehot.shape[-2]
    loss, of_support, of_query = head(logits[..., :n_support, :], onehot, logits[..., n_support:, :])
    slope = xp.concat([of_support, of_query], axis=-2)  # dL/dl [B, M, N]
    a = scale * slope
    gradients = {"eta": xp.sum(a * cosine, axis=-2), "delta": temperature * xp.sum(slope, axis=-2)}
    if "prototypes" in learn:
        pull = xp.matrix_transpose(a) @ items
        gradients["prototypes"] = (pull - gradients["eta"][..., None] * direction) / norm
    return loss, gradients


def forward(parameters: dict[str, Array], items: Array, temperature: float) -> tuple[Array, ...]:
    """Return the norms, directions, cosines, scales and logits of items at these parameters."""
    xp = array_namespace(items)
    norm = at_least(norms(parameters["prototypes"]), FLOOR)
    direction = parameters["prototypes"] / norm
    cosine = xp.matrix_transpose(direction @ xp.matrix_transpose(items))  # [B, M, N]; the BLAS gets long rows
    scale = temperature * xp.exp(parameters["eta"])[..., None, :]
    return norm, direction, cosine, scale, scale * cosine + temperature * parameters["delta"][..., None, :]


@dataclass
class Adam:
    """Adam (Kingma and Ba 2015), with full batches.

    m and v are stored without the factors 1 - beta of the paper, which are part of the step and its epsilon here. This
    saves passes over the arrays.
    """

    like: Array
    learning_rate: float
    t: int = 0
    m: Array = field(init=False)
    v: Array = field(init=False)

    def __post_init__(self) -> None:
        xp = array_namespace(self.like)
        self.m, self.v = xp.zeros_like(self.like), xp.zeros_like(self.like)

    def move(self, parameter: Array, gradient: Array) -> None:
        """Take one step. The parameter changes in place, and the gradient is overwritten."""
        xp = array_namespace(parameter)
        self.t += 1
        self.m *= BETA1
        self.m += gradient
        self.v *= BETA2
        gradient *= gradient
        self.v += gradient
        root = ((1 - BETA2) / (1 - BETA2**self.t)) ** 0.5
        below = xp.sqrt(self.v)
        below += ADAM_EPSILON / root
        move = self.m / below
        move *= self.learning_rate * (1 - BETA1) / (1 - BETA1**self.t) / root
        parameter -= move

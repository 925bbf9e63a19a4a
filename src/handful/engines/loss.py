"""The loss that a descent minimises, and its result: plain data that the array code and the kernel both read.

A method supplies its loss as a `Head`, which computes the loss and its slopes. `InfoMax` is the head of EOL, OSTIM,
TIM-GD and Finetune.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, as_like, at_least, softmax

PARAMETERS = ("prototypes", "eta", "delta")
BACKENDS = ("auto", "array")
BETA1, BETA2, ADAM_EPSILON = 0.9, 0.999, 1e-8


class Head(Protocol):
    """The loss of each task and its slopes for the logits, which a method supplies."""

    def __call__(self, support: Array, onehot: Array, query: Array) -> tuple[Array, Array, Array]:
        """Take logits [B, S, N] and [B, Q, N]; return the loss [B] and both slopes, of the same shapes."""
        ...  # pragma: no cover


@dataclass(frozen=True)
class InfoMax:
    """Cross-entropy on the support, conditional and marginal entropy on the queries.

    Over K = N outputs, or N + 1 when there is an outlier logit::

        p    = softmax over the K logits
        m_k  = w_k mean_Q p_ik
        loss = ce * -mean_S log(p_iy + e) - sum_k co_k mean_Q p_ik log(p_ik + e) + sum_k ma_k m_k log(m_k + e)

    where an example of no class has the outlier output as its y. U of them weigh no more than the S / N examples of
    one class: each has the weight min(1, S / (N U)) in the mean. Many would pull the loss away from the classes.

    It is plain data, so that the array code and the kernel read the same description.
    """

    co: Array  # the weights in the loss: [K], or [B, K] if tasks differ
    ma: Array
    w: Array
    ce: float = 1.0
    outlier: float | Array | Literal["mean"] | None = None  # a constant, one for each task, minus the mean, or none

    def probabilities(self, logits: Array) -> Array:
        """[..., M, N] class logits to [..., M, K] probabilities."""
        return softmax(self.extend(logits))

    def extend(self, logits: Array) -> Array:
        """Return the logits with the column of the outlier logit, if there is one."""
        if self.outlier is None:
            return logits
        xp = array_namespace(logits)
        if isinstance(self.outlier, str):
            column = -xp.mean(logits, axis=-1, keepdims=True)
        else:
            constant = as_like(self.outlier, logits)
            column = xp.zeros_like(logits[..., :1]) + (constant[:, None, None] if constant.ndim else constant)
        return xp.concat([logits, column], axis=-1)

    def __call__(self, support: Array, onehot: Array, query: Array) -> tuple[Array, Array, Array]:
        """Return the loss of each task, and its slopes for the logits of support and query."""
        xp = array_namespace(support)
        co, ma, w = (_row(as_like(x, support)) for x in (self.co, self.ma, self.w))  # [B or 1, 1, K]

        p = self.probabilities(support)  # [B, S, K]
        ways, count = support.shape[-1], support.shape[-2]
        target, weight = onehot, xp.ones_like(p[..., :1]) / count
        if self.outlier is not None:
            no_class = 1 - xp.sum(onehot, axis=-1, keepdims=True)  # [B, S, 1]; such an example has a row of zeros
            target = xp.concat([onehot, no_class], axis=-1)
            weight = example_weights(no_class, ways)
        of_true = xp.sum(p * target, axis=-1, keepdims=True)  # [B, S, 1]
        loss = -self.ce * xp.sum(weight * xp.log(of_true + FLOOR), axis=(-2, -1))
        pull = self.ce * weight * of_true / (of_true + FLOOR)
        slope_support = pull * (p - target)

        if query.shape[-2]:
            p = self.probabilities(query)  # [B, Q, K]
            count = query.shape[-2]
            log_p, mean = xp.log(p + FLOOR), xp.mean(p, axis=-2, keepdims=True)
            m = w * mean  # [B, 1, K]
            loss = loss - xp.sum(co * xp.mean(p * log_p, axis=-2, keepdims=True), axis=(-2, -1))
            loss = loss + xp.sum(ma * m * xp.log(m + FLOOR), axis=(-2, -1))
            slope_query = self.slope(p, log_p, self.marginal_term(mean)) / count
        else:
            slope_query = self.extend(query)
        return loss, self.fold(slope_support, ways), self.fold(slope_query, ways)

    def marginal_term(self, mean: Array) -> Array:
        """The part of Q dL/dp that depends on the mean prediction [B, 1, K] alone: the same for every query."""
        xp = array_namespace(mean)
        ma, w = (_row(as_like(x, mean)) for x in (self.ma, self.w))
        m = w * mean
        return ma * w * (xp.log(m + FLOOR) + m / (m + FLOOR))

    def slope(self, p: Array, log_p: Array, marginal_term: Array | float) -> Array:
        """Q dL/d(K logits) of queries with probabilities p [B, Q, K]."""
        xp = array_namespace(p)
        a = marginal_term - _row(as_like(self.co, p)) * (log_p + p / (p + FLOOR))  # Q dL/dp
        return p * (a - xp.sum(p * a, axis=-1, keepdims=True))

    def fold(self, slope: Array, ways: int) -> Array:
        """The slopes for the N class logits, from the slopes for the K logits."""
        if isinstance(self.outlier, str):  # the outlier logit is minus their mean
            return slope[..., :ways] - slope[..., ways:] / ways
        return slope[..., :ways]


def example_weights(no_class: Array, ways: int) -> Array:
    """The weight of each example in the cross-entropy, [B, S, 1], from 1 for those of no class and 0 for the others."""
    xp = array_namespace(no_class)
    unknown = xp.sum(no_class, axis=-2, keepdims=True)
    shots = (no_class.shape[-2] - unknown) / ways
    limit = xp.minimum(xp.ones_like(shots), shots / at_least(unknown, 1.0))
    weight = 1 - no_class + limit * no_class
    return weight / xp.sum(weight, axis=-2, keepdims=True)


@dataclass
class Descent:
    """The final parameters of a descent, and the logits."""

    prototypes: Array  # [B, N, D]
    eta: Array  # [B, N]
    delta: Array  # [B, N]
    support_logits: Array  # [B, S, N]
    query_logits: Array  # [B, Q, N]
    query_probabilities: Any = None  # [B, Q, K], if the head is an `InfoMax`
    refined: Any = None  # [B, N, D] and
    refined_logits: Any = None  # [B, Q, N], if asked for
    history: Array | None = None  # [B, steps + 1] loss before each step and after the last


def _row(x: Array) -> Array:
    """[K] or [B, K] to a shape that broadcasts over [B, M, K]."""
    return x[None, None, :] if x.ndim == 1 else x[:, None, :]

"""What the descent minimises and where it ends: plain data that the array engine and the fused kernel both read.

A method brings its loss as a `Head`: how the loss bends with the logits. `InfoMax` is the head of EOL, OSTIM, TIM-GD
and Finetune.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, as_like, softmax

PARAMETERS = ("prototypes", "eta", "delta")
BACKENDS = ("auto", "array", "fast")
BETA1, BETA2, ADAM_EPSILON = 0.9, 0.999, 1e-8


class Head(Protocol):
    """What a method supplies: the loss of each task and its slope with respect to the logits."""

    def __call__(self, support: Array, onehot: Array, query: Array) -> tuple[Array, Array, Array]:
        """Logits [B, S, N] and [B, Q, N] in; loss [B] and both slopes, of the same shapes, out."""
        ...  # pragma: no cover


@dataclass(frozen=True)
class InfoMax:
    """Cross-entropy on the support, conditional and marginal entropy on the queries.

    Over K = N outputs, or N + 1 when there is an outlier logit::

        p    = softmax over the K logits
        m_k  = w_k mean_Q p_ik
        loss = ce * -mean_S log(p_iy + e) - sum_k co_k mean_Q p_ik log(p_ik + e) + sum_k ma_k m_k log(m_k + e)

    It is plain data, so that the array engine and the fused kernel read the same description.
    `co`, `ma` and `w` are [K] or, where tasks differ, [B, K]; `outlier` is the outlier logit: a
    constant, [B] constants, "mean" for minus the mean of the class logits, or None for no such output.
    """

    co: Array
    ma: Array
    w: Array
    ce: float = 1.0
    outlier: float | Array | Literal["mean"] | None = None

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
        """Return the loss of each task, and its gradients for the logits of support and query."""
        xp = array_namespace(support)
        co, ma, w = (_row(as_like(x, support)) for x in (self.co, self.ma, self.w))  # [B or 1, 1, K]

        p = self.probabilities(support)  # [B, S, K]
        ways, count = support.shape[-1], support.shape[-2]
        of_true = xp.sum(p[..., :ways] * onehot, axis=-1, keepdims=True)  # [B, S, 1]
        loss = -self.ce * xp.mean(xp.log(of_true + FLOOR), axis=(-2, -1))
        pull = (self.ce / count) * of_true / (of_true + FLOOR)
        target = onehot if self.outlier is None else xp.concat([onehot, xp.zeros_like(of_true)], axis=-1)
        slope_support = pull * (p - target)

        if query.shape[-2]:
            p = self.probabilities(query)  # [B, Q, K]
            count = query.shape[-2]
            log_p, mean = xp.log(p + FLOOR), xp.mean(p, axis=-2, keepdims=True)
            m = w * mean  # [B, 1, K]
            loss = loss - xp.sum(co * xp.mean(p * log_p, axis=-2, keepdims=True), axis=(-2, -1))
            loss = loss + xp.sum(ma * m * xp.log(m + FLOOR), axis=(-2, -1))
            slope_query = self.bend(p, log_p, self.of_marginal(mean)) / count
        else:
            slope_query = self.extend(query)
        return loss, self.fold(slope_support, ways), self.fold(slope_query, ways)

    def of_marginal(self, mean: Array) -> Array:
        """What the mean prediction [B, 1, K] adds to Q dL/dp of every query."""
        xp = array_namespace(mean)
        ma, w = (_row(as_like(x, mean)) for x in (self.ma, self.w))
        m = w * mean
        return ma * w * (xp.log(m + FLOOR) + m / (m + FLOOR))

    def bend(self, p: Array, log_p: Array, of_marginal: Array | float) -> Array:
        """Q dL/d(K logits) of queries with probabilities p [B, Q, K]."""
        xp = array_namespace(p)
        a = of_marginal - _row(as_like(self.co, p)) * (log_p + p / (p + FLOOR))  # Q dL/dp
        return p * (a - xp.sum(p * a, axis=-1, keepdims=True))

    def fold(self, slope: Array, ways: int) -> Array:
        """dL/d(K logits) to dL/d(N class logits)."""
        if isinstance(self.outlier, str):  # the outlier logit is minus their mean
            return slope[..., :ways] - slope[..., ways:] / ways
        return slope[..., :ways]


class DescentEnd(Protocol):
    """Where a descent ended, in memory or over a large pile."""

    prototypes: Array  # [B, N, D]
    eta: Array  # [B, N]
    delta: Array  # [B, N]
    refined: Any  # [B, N, D], if asked for


@dataclass
class Descent:
    """Where the descent ended, and the logits there."""

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

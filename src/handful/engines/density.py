"""Kernel densities on smoothed similarities: the engine of KDO, and of the estimate of the outlier share.

With y the smoothed items of a task (`handful.engines.neighbours`, the support first)::

    H = y y^T                                                            smoothed similarities
    beta = 12 sqrt(0.18 / standard deviation of H over pairs of queries)
    E_ij = exp(beta (H_ij - 1)), i a query, j any item, E_ii = 0;  e0 = mean E over pairs of queries
    P_support = one-hot (2 + 4 / shots of that class), fixed;  P_query = 0 at first
                (an example of no class has its weight, 2 + 4 / their number, on the outliers)

and then, in each pass, for the known classes k and the outliers::

    l_ik  = 1/2 [beta cos(i, sum_j P_jk y_j) + log sum_j E_ij P_jk]
    l_out = log(sum_j E_ij P_j,out + 5 e0)
    bias += log target - log mean_i softmax(l + bias),   target = ((1 - share)/N, ..., (1 - share)/N, share)
    P_query = softmax(l + bias)

where each bias_k stays within 0.4 of their mean. With few examples, classes need a pull towards equal sizes. They are
not forced to them, because the classes of a pile seldom have equal sizes. The density keeps prototypes from drifting
onto clusters of outliers; the floor 5 e0 is a constant outlier logit where outliers are few.

**The pressure** that holds the outliers at a share g is bias_out - logsumexp_k bias_k. At the true share it makes up
for the sizes of the two densities, by Bayes. The density of the outliers is about (g Q + 5) e0, with Q queries. The
density of a known class enters by its root and is about m e10, with its members m = (1 - g) Q / N + 2 shots + 4 and the
mean kernel e10 of a query to its ten nearest. So ::

    law(g) = log(g / (1 - g)) + 1/2 log(m e10) - log((g Q + 5) e0) + 5.2 g (1 - g) - 1/2

where only the last two terms were fitted.

A small pile cannot show its shares. With Q below 10 (N + 1) the bias is drawn towards bias_k = -log N,
bias_out = law(share), in proportion to the missing queries.

Several shares are computed at once: arrays of logits are [B, G, N + 1, Q] for G shares, with items innermost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, logsumexp, one_hot
from handful.engines.neighbours import Neighbours

USUAL_BETA, USUAL_SPREAD = 12.0, 0.18  # the sharpness of the kernel where similarities have this spread
MIN_SPREAD = 0.02  # of similarities
OUTLIER_FLOOR = 5.0  # times e0
MIN_QUERIES_PER_CLASS = 10  # with fewer, outliers counted as a class, the pile does not determine the bias alone
NEAREST_QUERIES = 10  # the queries that e10 is the mean over
SHARE_WITHOUT_PILE = 0.2  # the share of unknowns that is assumed among new items where there is no pile
MAX_CLASS_WEIGHT = exp(0.4)  # relative to the mean over classes; the smallest weight is 1 / MAX_CLASS_WEIGHT
MAX_OUTLIER_WEIGHT = 1e15  # relative to the mean over classes; the smallest weight is 1 / MAX_OUTLIER_WEIGHT
DENSITY_FLOOR = 1e-30  # inside logarithms of densities


@dataclass
class Kernels:
    """The kernels of a batch of tasks: everything that the passes need, at any share."""

    h: Array  # [B, n, n]
    e: Array  # [B, Q, n]
    beta: Array  # [B]
    e0: Array  # [B], the mean kernel of two queries
    nearest: Array  # [B, Q, Q - 1] similarities of queries to each other, ascending; of all items if Q < 2
    support_weights: Array  # P_support as [B, N + 1, S]
    shots: float  # mean number of examples per class

    @property
    def ways(self) -> int:
        """N, the number of known classes."""
        return int(self.support_weights.shape[1]) - 1

    @property
    def queries(self) -> int:
        """Q, the number of queries of a task."""
        return int(self.e.shape[1])

    def law(self, share: Array) -> Array:
        """The pressure that the true share would have, [B, G] or [1, G] to [B, G]."""
        xp = array_namespace(self.h)
        e10 = xp.mean(xp.exp(self.beta[:, None, None] * (self.nearest[..., -NEAREST_QUERIES:] - 1)), axis=(-2, -1))
        members = (1 - share) * self.queries / self.ways + 2 * self.shots + 4
        known = xp.log(members * at_least(e10, DENSITY_FLOOR)[:, None]) / 2
        outliers = xp.log((share * self.queries + OUTLIER_FLOOR) * self.e0[:, None])
        return xp.log(share / (1 - share)) + known - outliers + 5.2 * share * (1 - share) - 0.5


def kernels(neighbours: Neighbours, labels: Array, ways: int) -> Kernels:
    """Compute H, E and the quantities that are measured on them."""
    y, n_support = neighbours.smooth, labels.shape[1]
    xp = array_namespace(y)
    h = y @ xp.matrix_transpose(y)
    n_query = h.shape[1] - n_support
    among = (h if n_query < 2 else h[:, n_support:, n_support:]) + 0  # a copy
    item = xp.arange(among.shape[1])
    among[:, item, item] = -xp.inf
    nearest = xp.sort(among, axis=-1, stable=False)[..., 1:]
    beta = USUAL_BETA * xp.sqrt(USUAL_SPREAD / at_least(xp.std(nearest, axis=(1, 2)), MIN_SPREAD))
    e = xp.exp(beta[:, None, None] * (h[:, n_support:] - 1))  # [B, Q, n]
    query = xp.arange(n_query)
    e[:, query, n_support + query] = 0
    onehot = one_hot(labels, ways + 1, like=y)  # [B, S, N + 1], examples of no class in the last column
    shots = at_least(xp.sum(onehot, axis=1, keepdims=True), 1.0)
    n_examples = int((labels[0] < ways).sum())  # of the classes; every task of a batch has as many
    support_weights = xp.matrix_transpose(onehot * (2 + 4 / shots))
    return Kernels(h, e, beta, _usual_kernel(h, e, beta, n_support), nearest, support_weights, n_examples / ways)


def _usual_kernel(h: Array, e: Array, beta: Array, n_support: int) -> Array:
    """e0 [B]: the mean over pairs of queries. With fewer than two queries, pairs with examples are used."""
    xp = array_namespace(h)
    n_query = h.shape[1] - n_support
    if n_query > 1:
        total, pairs = xp.sum(e[:, :, n_support:], axis=(1, 2)), n_query * (n_query - 1)
    elif n_query == 1:
        total, pairs = xp.sum(e, axis=(1, 2)), n_support
    else:
        every = xp.exp(beta[:, None, None] * (h - 1))
        total, pairs = xp.sum(every, axis=(1, 2)) - n_support, n_support * (n_support - 1)
    return at_least(total / max(1, pairs), DENSITY_FLOOR)


@dataclass
class Densities:
    """The result of the passes for every share: probabilities, and what scores new items."""

    bias: Array  # [B, G, N + 1]
    assignments: Array  # P that the logits were computed from, [B, G, N + 1, n]
    floor: Array  # 5 e0, [B]
    beta: Array  # [B]
    probabilities: Array = field(repr=False)  # softmax(l + bias) of the queries, [B, G, N + 1, Q]
    h: Array | None = field(default=None, repr=False)  # H between all items, [B, n, n]

    @property
    def pressure(self) -> Array:
        """The log-odds that hold the outliers at their share, [B, G]."""
        return self.bias[..., -1] - logsumexp(self.bias[..., :-1], axis=-1)[..., 0]


def densities(kernel: Kernels, share: Array, passes: int = 11, min_queries: int | None = None) -> Densities:
    """Run the passes with outlier shares as the target."""
    xp = array_namespace(kernel.h)
    batch, ways, n_query = kernel.h.shape[0], kernel.ways, kernel.queries
    share = xp.broadcast_to(share, (batch, share.shape[1]))
    n_shares, n_support = share.shape[1], kernel.support_weights.shape[-1]
    floor = OUTLIER_FLOOR * kernel.e0
    p_support = xp.broadcast_to(kernel.support_weights[:, None], (batch, n_shares, ways + 1, n_support))
    class_shares = xp.broadcast_to((1 - share)[..., None] / ways, (batch, n_shares, ways))
    target = xp.concat([class_shares, share[..., None]], axis=-1)  # [B, G, N + 1]
    usual_bias = xp.concat([xp.zeros_like(class_shares) - log(ways), kernel.law(share)[..., None]], axis=-1)
    trust = min(1.0, n_query / (min_queries or MIN_QUERIES_PER_CLASS * (ways + 1)))

    p = xp.concat([p_support, xp.zeros((batch, n_shares, ways + 1, n_query), dtype=kernel.h.dtype)], axis=-1)
    if not n_query:  # only the examples are there, and new items will be scored by them
        usual_bias[..., -1] = kernel.law(xp.zeros_like(share) + SHARE_WITHOUT_PILE)
        return Densities(usual_bias, p, floor, kernel.beta, p[..., :0], kernel.h)
    weight = xp.zeros_like(target) + 1  # exp(bias)
    bias = usual_bias
    for i in range(passes):
        flat = xp.reshape(p, (batch, n_shares * (ways + 1), -1))
        toward = xp.reshape(flat @ kernel.h, p.shape)
        density = xp.reshape(flat @ xp.matrix_transpose(kernel.e), (*p.shape[:-1], n_query))
        length = xp.sqrt(at_least(xp.vecdot(p, toward), FLOOR))[..., None]
        logits = _logits(kernel.beta[:, None, None, None] * toward[..., n_support:] / length, density, floor)
        odds = xp.exp(logits - xp.max(logits, axis=2, keepdims=True))
        weight = xp.zeros_like(target) + 1 if i < 2 else weight
        for _ in range(10 if i < 2 or i == passes - 1 else 1):
            weight = limited(weight * target / at_least(xp.mean(posteriors(odds, weight), axis=-1), FLOOR))
        if trust < 1:
            bias = xp.log(weight)
            bias = bias - logsumexp(bias[..., :-1], axis=-1)  # so that it can be compared with the usual bias
            bias = usual_bias + trust * (bias - usual_bias)
            weight = xp.exp(bias)
        last_p = p
        p = xp.concat([p_support, posteriors(odds, weight)], axis=-1)
    return Densities(xp.log(weight), last_p, floor, kernel.beta, p[..., n_support:], kernel.h)


def limited(weight: Array) -> Array:
    """Weights exp(bias) relative to the geometric mean over classes, within their limits; only ratios matter."""
    xp = array_namespace(weight)
    weight = weight / xp.exp(xp.mean(xp.log(weight[..., :-1]), axis=-1, keepdims=True))
    classes = at_least(weight[..., :-1], 1 / MAX_CLASS_WEIGHT)
    classes = xp.minimum(classes, xp.full_like(weight[..., :-1], MAX_CLASS_WEIGHT))
    outliers = at_least(-at_least(-weight[..., -1:], -MAX_OUTLIER_WEIGHT), 1 / MAX_OUTLIER_WEIGHT)
    return xp.concat([classes, outliers], axis=-1)


def score_items(neighbours: Neighbours, end: Densities, items: Array) -> Array:
    """Logits l + bias [B, G, N + 1, M] of new prepared items [B, M, D], by the densities of every share."""
    xp = array_namespace(items)
    y_new, p = neighbours.of_new(items), end.assignments  # [B, G, N + 1, n]
    flat = xp.reshape(p, (p.shape[0], -1, p.shape[-1]))
    h = neighbours.smooth @ xp.matrix_transpose(y_new)  # [B, n, M]
    beta = end.beta[:, None, None]
    prototypes = flat @ neighbours.smooth
    length = xp.sqrt(xp.vecdot(prototypes, prototypes))[..., None]
    cosine = beta * (prototypes @ xp.matrix_transpose(y_new)) / at_least(length, FLOOR)
    density = flat @ xp.exp(beta * (h - 1))
    shape = (*p.shape[:-1], y_new.shape[1])
    return _logits(xp.reshape(cosine, shape), xp.reshape(density, shape), end.floor) + end.bias[..., None]


def _logits(cosine: Array, density: Array, floor: Array) -> Array:
    """l [B, ..., N + 1, M] from beta times cosines to prototypes and from densities; outliers have no prototype."""
    xp = array_namespace(cosine)
    classes = (cosine[..., :-1, :] + xp.log(density[..., :-1, :] + DENSITY_FLOOR)) / 2
    floor = xp.reshape(floor, (-1,) + (1,) * (density.ndim - 1))
    return xp.concat([classes, xp.log(density[..., -1:, :] + floor)], axis=-2)


def posteriors(odds: Array, weight: Array) -> Array:
    """softmax(l + bias) from exp(l) and exp(bias)."""
    xp = array_namespace(odds)
    weighted = odds * weight[..., None]
    return weighted / xp.sum(weighted, axis=-2, keepdims=True)

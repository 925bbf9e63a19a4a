"""The fused kernel of `handful.engines.descent`: one task at a time, with its features in the cache (extra `fast`).

It does the same arithmetic as `descent`, in the same order of steps, compiled by numba and cached on disk. It is fast
for three reasons. The features of a task are copied once into a padded, normalised block that fits the second-level
cache, and each step reads them only twice (cosines, gradient). Logits are stored as [class, item], so that the softmax
and its slopes run over items in vectors. Nothing is allocated inside the loop.

The caller distributes tasks over plain Python threads (the compiled code releases the GIL). The threading layer of
numba is never started, because it would reset the number of threads of torch.
"""

from __future__ import annotations

import math

import numpy as np

from handful.core.arrays import FLOOR
from handful.engines._compiled import entry, helper
from handful.engines._tiles import COLS, ROWS, VECTOR_BYTES, dot_tile, exp, log, sum_tile, tile_ways
from handful.engines.infomax import ADAM_EPSILON, BETA1, BETA2, PARAMETERS, Descent, InfoMax

NO_OUTLIER, CONSTANT, MINUS_MEAN = 0, 1, 2  # kinds of outlier logit


def descend(
    support, labels, query, head: InfoMax, *, ways, temperature, steps, learning_rate, learn, refine
) -> Descent:
    """Do what `handful.engines.descent.descend` does, for NumPy arrays and an `InfoMax` head."""
    support, query = np.ascontiguousarray(support), np.ascontiguousarray(query)
    labels = np.ascontiguousarray(labels, dtype=np.int64)
    batch, n_support, dimension = support.shape
    dtype = support.dtype
    kind = NO_OUTLIER if head.outlier is None else MINUS_MEAN if isinstance(head.outlier, str) else CONSTANT
    outputs = ways + (kind != NO_OUTLIER)

    def rows(x, *shape):
        # numba compiles once more for a view, and for columns first, which np.array makes of a broadcast row
        return np.array(np.broadcast_to(np.asarray(x, dtype), (batch, *shape)), order="C")

    def out(*shape):
        return np.empty((batch, *shape), dtype)

    n_query = query.shape[1]
    end = Descent(
        out(ways, dimension), out(ways), out(ways), out(n_support, ways), out(n_query, ways), out(n_query, outputs),
        out(ways, dimension) if refine else out(0, 0), out(n_query, ways) if refine else out(0, 0),
    )  # fmt: skip
    _descend(
        support, labels, query, (0,) * tile_ways(ways), ways,
        float(temperature), steps, float(learning_rate), tuple(name in learn for name in PARAMETERS),
        kind, rows(head.outlier if kind == CONSTANT else 0.0), float(head.ce),
        rows(head.co, outputs), rows(head.ma, outputs), rows(head.w, outputs),
        end.prototypes, end.eta, end.delta, end.support_logits, end.query_logits,
        end.query_probabilities, end.refined, end.refined_logits,
    )  # fmt: skip
    if not refine:
        end.refined = end.refined_logits = None
    return end


def warm(ways: int, dtype: str) -> None:
    """Compile the kernel for so many classes, or load it from the cache: by a tiny task."""
    items = np.eye(ways, dtype=dtype)[None]
    head = InfoMax(co=np.zeros(ways + 1), ma=np.zeros(ways + 1), w=np.ones(ways + 1), outlier=1.0)
    options = {"temperature": 1.0, "steps": 1, "learning_rate": 0.1, "learn": PARAMETERS, "refine": True}
    descend(items, np.arange(ways)[None], items, head, ways=ways, **options)


@entry
def _descend(
    support, labels, query, tile, ways, temperature, steps, learning_rate, learn,
    kind, constant, ce, co, ma, w,
    out_c, out_eta, out_delta, out_support, out_query, out_p, out_refined, out_refined_logits,
):  # fmt: skip
    dtype, real = support.dtype, support.dtype.type
    n_support, dimension = support.shape[1], support.shape[2]
    n_query = query.shape[1]
    n_items = n_support + n_query
    width = COLS * (VECTOR_BYTES // support.itemsize)  # features in a tile
    lanes = VECTOR_BYTES // support.itemsize
    padded_items = (n_items + lanes - 1) // lanes * lanes
    padded_d = (dimension + width - 1) // width * width
    padded_ways = (ways + len(tile) - 1) // len(tile) * len(tile)
    outputs = ways if kind == NO_OUTLIER else ways + 1

    x = _aligned(padded_items, padded_d, dtype)  # unit items
    c = _aligned(padded_ways, padded_d, dtype)
    pull = _aligned(padded_ways, padded_d, dtype)
    c_m, c_v = _aligned(padded_ways, padded_d, dtype), _aligned(padded_ways, padded_d, dtype)
    cosine = _aligned(padded_ways, padded_items, dtype)
    a = _aligned(padded_ways, padded_items, dtype)
    logits = _aligned(outputs, padded_items, dtype)
    p = _aligned(outputs, padded_items, dtype)
    scratch = _aligned(2, padded_items, dtype)
    norm = np.empty(padded_items, dtype)
    small = np.empty((10, outputs), dtype)
    inverse_norm, scale, eta, delta, grad_eta, grad_delta = small[0], small[1], small[2], small[3], small[4], small[5]
    small_adam = small[6:10]
    tau = real(temperature)

    for b in range(support.shape[0]):
        _gather(support[b], labels[b], query[b], x, norm, c, ways)
        c_m[:] = 0
        c_v[:] = 0
        small[:] = 0
        for step in range(steps + 1):
            _cosines(x, c, cosine, tile)
            for j in range(ways):
                inverse_norm[j] = _inverse_norm(c[j])
                scale[j] = tau * real(math.exp(eta[j]))
                _affine(cosine[j], inverse_norm[j], scale[j], tau * delta[j], logits[j])
            _outlier_logit(logits, n_items, ways, kind, constant[b])
            if step == steps:
                break
            _softmax(logits, p, scratch, n_items)
            weights = real(ce), co[b], ma[b], w[b]
            _slopes(logits, p, scratch[0], labels[b], n_support, n_items, ways, kind, weights)
            for j in range(ways):
                grad_eta[j], grad_delta[j] = _chain(logits[j], cosine[j], scale[j], a[j], n_items)
                grad_delta[j] *= tau
            rate = real(learning_rate / (1 - BETA1 ** (step + 1)))
            unbias = real((1 - BETA2 ** (step + 1)) ** -0.5)
            if learn[0]:
                _weighted_sums(a, x, pull, tile)
                for j in range(ways):
                    _through_cosine(pull[j], c[j], grad_eta[j], inverse_norm[j])
                    _adam(c[j], pull[j], c_m[j], c_v[j], rate, unbias)
            if learn[1]:
                _adam(eta[:ways], grad_eta, small_adam[0], small_adam[1], rate, unbias)
            if learn[2]:
                _adam(delta[:ways], grad_delta, small_adam[2], small_adam[3], rate, unbias)
        for j in range(ways):
            out_eta[b, j] = eta[j]
            out_delta[b, j] = delta[j]
            out_c[b, j] = c[j, :dimension]
            out_support[b, :, j] = logits[j, :n_support]
            out_query[b, :, j] = logits[j, n_support:n_items]
        _softmax(logits, p, scratch, n_items)
        for k in range(outputs):
            out_p[b, :, k] = p[k, n_support:n_items]
        if out_refined.shape[1]:  # c' = sum p z / sum p, while the items are still in cache
            total = grad_eta
            for j in range(ways):
                total[j] = _weigh(p[j], norm, a[j], n_items)
            _weighted_sums(a, x, pull, tile)
            for j in range(ways):
                for d in range(padded_d):
                    pull[j, d] /= total[j]
                out_refined[b, j] = pull[j, :dimension]
            _cosines(x, pull, cosine, tile)
            for j in range(ways):
                _affine(cosine[j], _inverse_norm(pull[j]), scale[j], tau * delta[j], logits[j])
                out_refined_logits[b, :, j] = logits[j, n_support:n_items]


@helper
def _cosines(x, c, cosine, tile):
    """Products of all items with all prototypes, [N, M]."""
    for i in range(0, len(x), ROWS):
        for j in range(0, len(c), len(tile)):
            dot_tile(x, i, c, j, cosine, tile)


@helper
def _weighted_sums(a, x, pull, tile):
    """Items summed with the weights a, [N, D]."""
    for d in range(0, x.shape[1], COLS * (VECTOR_BYTES // x.itemsize)):
        for j in range(0, len(a), len(tile)):
            sum_tile(a, j, x, d, pull, tile)


@helper
def _weigh(p, norm, a, n_items):
    """a = p |z|, because items are kept at unit length; returns sum p."""
    total = p.dtype.type(0)
    for i in range(n_items):
        a[i] = p[i] * norm[i]
        total += p[i]
    return total


@helper
def _aligned(rows, columns, dtype):
    """Zeros that begin on a vector's boundary: a load across two cache lines costs two."""
    lanes = VECTOR_BYTES // np.zeros(1, dtype).itemsize
    whole = np.zeros(rows * columns + lanes, dtype)
    skip = -(whole.ctypes.data // whole.itemsize) % lanes
    return whole[skip : skip + rows * columns].reshape(rows, columns)


@helper
def _gather(support, labels, query, x, norm, c, ways):
    """Unit items into x, their lengths into norm, class means of the support into c."""
    dimension = support.shape[1]
    c[:] = 0
    for i in range(len(support)):
        if labels[i] < ways:  # else it is an example of no class
            for d in range(dimension):
                c[labels[i], d] += support[i, d]
        norm[i] = _normalise(support[i], x[i])
    for i in range(len(query)):
        norm[len(support) + i] = _normalise(query[i], x[len(support) + i])
    for j in range(ways):
        shots = 0
        for i in range(len(labels)):
            shots += labels[i] == j
        c[j] /= c.dtype.type(shots)


@helper
def _normalise(source, target):
    inverse = _inverse_norm(source)
    for d in range(len(source)):
        target[d] = source[d] * inverse
    return source.dtype.type(1) / inverse


@helper
def _inverse_norm(v):
    real = v.dtype.type
    squares = real(0)
    for d in range(len(v)):
        squares += v[d] * v[d]
    return real(1) / max(real(math.sqrt(squares)), real(FLOOR))


@helper
def _affine(cosine, inverse_norm, scale, shift, logits):
    for i in range(len(cosine)):
        cosine[i] *= inverse_norm
        logits[i] = scale * cosine[i] + shift


@helper
def _outlier_logit(l, n_items, ways, kind, constant):
    """Write the outlier logit, if there is one."""
    if kind == CONSTANT:
        l[ways] = constant
    elif kind == MINUS_MEAN:
        share = l.dtype.type(-1 / ways)
        l[ways] = 0
        for j in range(ways):
            for i in range(n_items):
                l[ways, i] += share * l[j, i]


@helper
def _softmax(l, p, scratch, n_items):
    """Logits [K, M] to probabilities p; log p takes the logits' place."""
    real = l.dtype.type
    top, total = scratch[0], scratch[1]
    top[:] = l[0]
    for k in range(1, len(l)):
        for i in range(n_items):
            top[i] = max(top[i], l[k, i])
    total[:] = 0
    for k in range(len(l)):
        for i in range(n_items):
            l[k, i] -= top[i]
            p[k, i] = exp(l[k, i])
            total[i] += p[k, i]
    for i in range(n_items):
        top[i] = log(total[i])
        total[i] = real(1) / total[i]
    for k in range(len(l)):
        for i in range(n_items):
            l[k, i] -= top[i]
            p[k, i] *= total[i]


@helper
def _slopes(l, p, mixed, labels, n_support, n_items, ways, kind, weights):
    """`InfoMax`: log p [K, M] in, dL/dlogits out in their place."""
    real = l.dtype.type
    ce, co, ma, w = weights
    floor, one, n_query, outputs = real(FLOOR), real(1), real(max(1, n_items - n_support)), len(l)
    for k in range(outputs):
        share = real(0)
        for i in range(n_support, n_items):
            share += p[k, i]
        m = w[k] * share / n_query
        of_marginal = ma[k] * w[k] * (real(math.log(m + floor)) + m / (m + floor))
        for i in range(n_support, n_items):
            l[k, i] = (of_marginal - co[k] * (l[k, i] + one)) / n_query  # dL/dp
    mixed[:] = 0  # sum_k p_k dL/dp_k
    for k in range(outputs):
        for i in range(n_support, n_items):
            mixed[i] += p[k, i] * l[k, i]
    for k in range(outputs):
        for i in range(n_support, n_items):
            l[k, i] = p[k, i] * (l[k, i] - mixed[i])
    examples = 0  # of the classes; those of no class weigh as `infomax.example_weights` says
    for i in range(n_support):
        examples += labels[i] < ways
    of_no_class = min(one, real(examples) / real(ways * max(1, n_support - examples)))
    total = real(examples) + of_no_class * real(n_support - examples)
    for i in range(n_support):
        of_true = p[labels[i], i]
        strength = ce / total * of_true / (of_true + floor)
        if labels[i] == ways:
            strength *= of_no_class
        for k in range(outputs):
            l[k, i] = strength * p[k, i]
        l[labels[i], i] -= strength
    if kind == MINUS_MEAN:
        for j in range(ways):
            for i in range(n_items):
                l[j, i] -= l[ways, i] / real(ways)


@helper
def _chain(slope, cosine, scale, a, n_items):
    """a = scale * slope; returns sum a cos (dL/d eta) and sum slope."""
    real = slope.dtype.type
    along, total = real(0), real(0)
    for i in range(n_items):
        a[i] = scale * slope[i]
        along += a[i] * cosine[i]
        total += slope[i]
    return along, total


@helper
def _through_cosine(pull, c, grad_eta, inverse_norm):
    for d in range(len(c)):
        pull[d] = (pull[d] - grad_eta * inverse_norm * c[d]) * inverse_norm


@helper
def _adam(parameter, gradient, m, v, rate, unbias):
    real = parameter.dtype.type
    beta1, beta2, epsilon, one = real(BETA1), real(BETA2), real(ADAM_EPSILON), real(1)
    for d in range(len(parameter)):
        g = gradient[d]
        m[d] = beta1 * m[d] + (one - beta1) * g
        v[d] = beta2 * v[d] + (one - beta2) * g * g
        parameter[d] -= rate * m[d] / (real(math.sqrt(v[d])) * unbias + epsilon)

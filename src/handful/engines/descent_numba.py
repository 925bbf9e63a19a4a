"""The fused kernel of `handful.engines.descent`: one task at a time, with its features in the cache (extra `fast`).

It does the same arithmetic as `descent`, in the same order of steps, compiled by numba and cached on disk. It is fast
for four reasons. The features of a task are copied once into a padded, normalised block that fits the second-level
cache, and each step reads them only twice (cosines, gradient). Logits are stored as [class, item], so that the softmax
and its slopes run over items in vectors. Nothing is allocated inside the loop. Descents of the same tasks under several
losses run side by side: the features are read once for all of them.

The caller distributes tasks over plain Python threads (the compiled code releases the GIL). The threading layer of
numba is never started, because it would reset the number of threads of torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from handful.core.arrays import FLOOR
from handful.engines._compiled import entry, helper
from handful.engines._tiles import COLS, ROWS, VECTOR_BYTES, dot_tile, sum_tile, tile_ways
from handful.engines._vectors import exp, fill, load, log, root, store, total
from handful.engines.infomax import ADAM_EPSILON, BETA1, BETA2, PARAMETERS, Descent, InfoMax

NO_OUTLIER, CONSTANT, MINUS_MEAN = 0, 1, 2  # kinds of outlier logit


TRANSPOSED_BYTES = 128 << 10  # items up to this size are kept twice, as rows and as columns
FROM_QUERIES, FROM_EXAMPLE = 0, 1  # rows of `weight`


def descend(
    support, labels, query, heads: Sequence[InfoMax], *, ways, temperature, steps, learning_rate, learn, refine
) -> list[Descent]:
    """Do what `handful.engines.descent.descend_all` does, for NumPy arrays and `InfoMax` heads of one kind."""
    support, query = np.ascontiguousarray(support), np.ascontiguousarray(query)
    labels = np.ascontiguousarray(labels, dtype=np.int64)
    batch, n_support, dimension = support.shape
    runs, n_query = len(heads), query.shape[1]
    dtype = support.dtype
    kind = _kind(heads[0])
    outputs = ways + (kind != NO_OUTLIER)

    def rows(values, *shape):
        # numba compiles once more for a view, and for columns first, which np.stack makes of broadcast rows
        return np.ascontiguousarray(np.stack([np.broadcast_to(np.asarray(x, dtype), (batch, *shape)) for x in values]))

    def out(*shape):
        return np.empty((runs, batch, *shape), dtype)

    ends = (
        out(ways, dimension), out(ways), out(ways), out(n_support, ways), out(n_query, ways), out(n_query, outputs),
        out(ways, dimension) if refine else out(0, 0), out(n_query, ways) if refine else out(0, 0),
    )  # fmt: skip
    _descend(
        support, labels, query, (0,) * tile_ways(ways), ways,
        float(temperature), steps, float(learning_rate), tuple(name in learn for name in PARAMETERS), refine,
        kind, rows([h.outlier if kind == CONSTANT else 0.0 for h in heads]), np.array([h.ce for h in heads], dtype),
        rows([h.co for h in heads], outputs), rows([h.ma for h in heads], outputs), rows([h.w for h in heads], outputs),
        *ends,
    )  # fmt: skip
    found = ends if refine else (*ends[:-2], [None] * runs, [None] * runs)
    return [Descent(*of_run) for of_run in zip(*found, strict=True)]


def _kind(head: InfoMax) -> int:
    return NO_OUTLIER if head.outlier is None else MINUS_MEAN if isinstance(head.outlier, str) else CONSTANT


def warm(ways: int, dtype: str) -> None:
    """Compile the kernel for this number of classes, or load it from the cache."""
    support, query = np.ones((1, ways, 1), dtype), np.ones((1, 1, 1), dtype)
    head = InfoMax(np.zeros(ways), np.zeros(ways), np.ones(ways))
    options = {"ways": ways, "temperature": 1.0, "steps": 0, "learning_rate": 0.0, "learn": (), "refine": False}
    descend(support, np.arange(ways)[None], query, [head], **options)


@entry
def _descend(
    support, labels, query, tile, ways, temperature, steps, learning_rate, learn, refine,
    kind, constant, ce, co, ma, w,
    out_c, out_eta, out_delta, out_support, out_query, out_p, out_refined, out_refined_logits,
):  # fmt: skip
    dtype, real = support.dtype, support.dtype.type
    n_support, dimension = support.shape[1], support.shape[2]
    n_query = query.shape[1]
    n_items, runs = n_support + n_query, len(out_c)
    lanes = VECTOR_BYTES // support.itemsize
    width = COLS * lanes  # features in a tile, and in a slab
    slabs = (dimension + width - 1) // width
    transposed = n_items * slabs * width * support.itemsize <= TRANSPOSED_BYTES
    multiple = width if transposed else max(lanes, ROWS)
    padded_items = (n_items + multiple - 1) // multiple * multiple
    padded_ways = (ways + len(tile) - 1) // len(tile) * len(tile)
    outputs = ways if kind == NO_OUTLIER else ways + 1

    # The prototypes of run r are the rows from r * padded_ways on. Few arrays are made: each takes long to compile.
    rows = runs * padded_ways
    x = _aligned(slabs * padded_items, width, dtype)  # unit items
    columns = _aligned(slabs * width if transposed else 0, padded_items, dtype)
    by_feature = _aligned(4 * rows + 1, slabs * width, dtype)
    c, pull, c_m, c_v = (
        by_feature[:rows],
        by_feature[rows : 2 * rows],
        by_feature[2 * rows : 3 * rows],
        by_feature[3 * rows : 4 * rows],
    )
    row_of_item = by_feature[4 * rows :]
    by_item = _aligned(2 * rows + 3 * outputs + 4, padded_items, dtype)
    product, a = by_item[:rows], by_item[rows : 2 * rows]  # of items and prototypes; the weights of items
    rest = by_item[2 * rows :]
    logits, p, target = rest[:outputs], rest[outputs : 2 * outputs], rest[2 * outputs : 3 * outputs]
    weight, scratch = rest[3 * outputs : 3 * outputs + 2], rest[3 * outputs + 2 :]
    norm = np.empty(padded_items, dtype)
    small = np.empty((10, runs * padded_ways), dtype)
    inverse_norm, scale, eta, delta, grad_eta, grad_delta = small[0], small[1], small[2], small[3], small[4], small[5]
    marginal = np.empty(outputs, dtype)
    tau = real(temperature)

    for b in range(support.shape[0]):
        _gather(support[b], labels[b], query[b], x, norm, c, ways, row_of_item)
        if transposed:
            _transpose(x, columns)
        _weights(labels[b], target, weight, n_items, ways)
        _clear(c_m)
        _clear(c_v)
        _clear(small)
        for r in range(runs):
            for j in range(r * padded_ways, r * padded_ways + ways):
                _copy(c[j - r * padded_ways], c[j])
                inverse_norm[j] = _inverse_norm(c[j])
        for step in range(steps + 2):
            if transposed:
                _cosines_by_columns(columns, c, product, tile)
            else:
                _cosines(x, c, product, tile)
            for r in range(runs):
                first = r * padded_ways
                for j in range(ways):
                    row = first + j
                    scale[row] = tau * real(math.exp(eta[row]))
                    _affine(product, row, scale[row] * inverse_norm[row], tau * delta[row], logits, j)
                if step > steps:
                    for j in range(ways):
                        _copy(logits[j, n_support:], out_refined_logits[r, b, :, j])
                    continue
                if step == steps:
                    for j in range(ways):
                        out_eta[r, b, j] = eta[first + j]
                        out_delta[r, b, j] = delta[first + j]
                        _copy(c[first + j], out_c[r, b, j])
                        _copy(logits[j], out_support[r, b, :, j])
                        _copy(logits[j, n_support:], out_query[r, b, :, j])
                _outlier_logit(logits, padded_items, ways, kind, constant[r, b])
                _softmax(logits, p, scratch, padded_items)
                if step < steps:
                    of_loss = ce[r], co[r, b], ma[r, b], w[r, b]
                    _marginal_terms(p, weight, of_loss, marginal)
                    _slopes(logits, p, target, weight, marginal, of_loss, n_support, ways, kind)
                    for j in range(ways):
                        row = first + j
                        along, total_slope = _chain(logits, j, product, row, scale[row], a)
                        grad_eta[row], grad_delta[row] = along * inverse_norm[row], tau * total_slope
                    continue
                for k in range(outputs):
                    _copy(p[k, n_support:], out_p[r, b, :, k])
                for j in range(ways):  # c' = sum p z / sum p, while the items are still in cache
                    grad_eta[first + j] = _weigh(p[j], norm, a[first + j], n_items)
            if step > steps or (step == steps and not refine):
                break
            if step == steps:
                _weighted_sums(a, x, c, tile)
                for r in range(runs):
                    for j in range(ways):
                        row = r * padded_ways + j
                        for d in range(c.shape[1]):
                            c[row, d] /= grad_eta[row]
                        inverse_norm[row] = _inverse_norm(c[row])
                        _copy(c[row], out_refined[r, b, j])
                continue
            rate = real(learning_rate / (1 - BETA1 ** (step + 1)))
            unbias = real((1 - BETA2 ** (step + 1)) ** -0.5)
            if learn[0]:
                _weighted_sums(a, x, pull, tile)
                for row in range(len(c)):
                    inverse_norm[row] = _move(c, pull, c_m, c_v, row, grad_eta[row], inverse_norm[row], rate, unbias)
            if learn[1]:
                _adam(eta, grad_eta, small[6], small[7], rate, unbias)
            if learn[2]:
                _adam(delta, grad_delta, small[8], small[9], rate, unbias)


@helper
def _cosines(x, c, product, tile):
    """Products of all items with all prototypes, [N, M]; x may be stored in slabs."""
    for i in range(0, product.shape[1], ROWS):
        for j in range(0, len(c), len(tile)):
            dot_tile(x, i, c, j, product, tile)


@helper
def _cosines_by_columns(columns, c, product, tile):
    """As `_cosines`, of items stored as columns [D, M]: sums need not be taken across a vector."""
    for i in range(0, product.shape[1], COLS * (VECTOR_BYTES // columns.itemsize)):
        for j in range(0, len(c), len(tile)):
            sum_tile(c, j, columns, 0, i, product, i, tile)


@helper
def _weighted_sums(a, x, pull, tile):
    """Items summed with the weights a, [N, D]; x may be stored in slabs."""
    for row in range(0, len(x), a.shape[1]):
        for d in range(0, x.shape[1], COLS * (VECTOR_BYTES // x.itemsize)):
            for j in range(0, len(a), len(tile)):
                sum_tile(a, j, x, row, d, pull, row // a.shape[1] * x.shape[1] + d, tile)


@helper
def _weigh(p, norm, a, n_items):
    """a = p |z|, because items are kept at unit length; returns sum p."""
    total = p.dtype.type(0)
    for i in range(n_items):
        a[i] = p[i] * norm[i]
        total += p[i]
    for i in range(n_items, len(a)):
        a[i] = 0
    return total


@helper
def _aligned(rows, columns, dtype):
    """Zeros that begin on a vector's boundary: a load across two cache lines costs two."""
    lanes = VECTOR_BYTES // np.zeros(1, dtype).itemsize
    whole = np.zeros(rows * columns + lanes, dtype)
    skip = -(whole.ctypes.data // whole.itemsize) % lanes
    return whole[skip : skip + rows * columns].reshape(rows, columns)


@helper
def _clear(x):
    for i in range(x.shape[0]):
        for d in range(x.shape[1]):
            x[i, d] = 0


@helper
def _copy(source, target):
    """The first elements; an assignment of slices takes much longer to compile."""
    for i in range(len(target)):
        target[i] = source[i]


@helper
def _gather(support, labels, query, x, norm, c, ways, row):
    """Unit items into the slabs x, their lengths into norm, class means of the support into c."""
    dimension, lanes = support.shape[1], VECTOR_BYTES // x.itemsize
    _clear(c)
    for i in range(len(support)):
        for d in range(dimension):
            row[0, d] = support[i, d]
        norm[i] = _normalise(row, x, i, len(norm))
        if labels[i] < ways:  # else it is an example of no class
            for d in range(0, row.shape[1], lanes):
                store(c, labels[i], d, load(c, labels[i], d) + load(row, 0, d))
    for i in range(len(query)):
        for d in range(dimension):
            row[0, d] = query[i, d]
        norm[len(support) + i] = _normalise(row, x, len(support) + i, len(norm))
    for j in range(ways):
        shots = 0
        for i in range(len(labels)):
            shots += labels[i] == j
        c[j] /= c.dtype.type(shots)


@helper
def _normalise(row, x, i, n_items):
    """One item at unit length into its places in the slabs; returns its length."""
    real, width, lanes = x.dtype.type, x.shape[1], VECTOR_BYTES // x.itemsize
    squares = fill(row, 0)
    for d in range(0, row.shape[1], lanes):
        squares = squares + load(row, 0, d) * load(row, 0, d)
    length = max(real(math.sqrt(total(squares))), real(FLOOR))
    inverse = real(1) / length
    for slab in range(row.shape[1] // width):
        for d in range(0, width, lanes):
            store(x, slab * n_items + i, d, load(row, 0, slab * width + d) * inverse)
    return length


@helper
def _transpose(x, columns):
    n_items, width = columns.shape[1], x.shape[1]
    for d in range(len(columns)):
        first = d // width * n_items
        for i in range(n_items):
            columns[d, i] = x[first + i, d % width]


@helper
def _weights(labels, target, weight, n_items, ways):
    """What the slopes need to know of each item: its class, its part in the means over queries and over examples."""
    real = weight.dtype.type
    n_support = len(labels)
    _clear(target)
    _clear(weight)
    examples = 0  # of the classes; those of no class weigh as `infomax.example_weights` says
    for i in range(n_support):
        examples += labels[i] < ways
    of_no_class = min(real(1), real(examples) / real(ways * max(1, n_support - examples)))
    whole = real(examples) + of_no_class * real(n_support - examples)
    for i in range(n_support):
        target[labels[i], i] = 1
        weight[FROM_EXAMPLE, i] = (of_no_class if labels[i] == ways else real(1)) / whole
    for i in range(n_support, n_items):
        weight[FROM_QUERIES, i] = real(1) / real(n_items - n_support)


@helper
def _inverse_norm(v):
    real = v.dtype.type
    squares = real(0)
    for d in range(len(v)):
        squares += v[d] * v[d]
    return real(1) / max(real(math.sqrt(squares)), real(FLOOR))


@helper
def _affine(product, row, factor, shift, logits, j):
    for i in range(0, product.shape[1], VECTOR_BYTES // product.itemsize):
        store(logits, j, i, load(product, row, i) * factor + shift)


@helper
def _outlier_logit(l, n_items, ways, kind, constant):
    """Write the outlier logit, if there is one."""
    if kind == CONSTANT:
        l[ways] = constant
    elif kind == MINUS_MEAN:
        share = l.dtype.type(-1 / ways)
        for i in range(0, n_items, VECTOR_BYTES // l.itemsize):
            mean = load(l, 0, i) * share
            for j in range(1, ways):
                mean = mean + load(l, j, i) * share
            store(l, ways, i, mean)


@helper
def _softmax(l, p, scratch, n_items):
    """Logits [K, M] to probabilities p; log p takes the logits' place. Rows are padded to whole vectors.

    Several short loops, in each of which the processor can work on many vectors at once, are faster than one long loop.
    """
    lanes = VECTOR_BYTES // l.itemsize
    for i in range(0, n_items, lanes):
        top = load(l, 0, i)
        for k in range(1, len(l)):
            top = max(top, load(l, k, i))
        store(scratch, 0, i, top)
    for k in range(len(l)):
        for i in range(0, n_items, lanes):
            store(p, k, i, exp(load(l, k, i) - load(scratch, 0, i)))
    for i in range(0, n_items, lanes):
        whole = load(p, 0, i)
        for k in range(1, len(l)):
            whole = whole + load(p, k, i)
        store(scratch, 0, i, load(scratch, 0, i) + log(whole))
        store(scratch, 1, i, fill(l, 1) / whole)
    for k in range(len(l)):
        for i in range(0, n_items, lanes):
            store(p, k, i, load(p, k, i) * load(scratch, 1, i))
            store(l, k, i, load(l, k, i) - load(scratch, 0, i))


@helper
def _marginal_terms(p, weight, of_loss, marginal):
    """What the marginal entropy adds to dL/dp of each query."""
    real = p.dtype.type
    _, _, ma, w = of_loss
    floor = real(FLOOR)
    for k in range(len(p)):
        mean = fill(p, 0)
        for i in range(0, p.shape[1], VECTOR_BYTES // p.itemsize):
            mean = mean + load(p, k, i) * load(weight, FROM_QUERIES, i)
        m = w[k] * total(mean)
        marginal[k] = ma[k] * w[k] * (log(m + floor) + m / (m + floor))


@helper
def _slopes(l, p, target, weight, marginal, of_loss, n_support, ways, kind):
    """`InfoMax`: log p [K, M] in, dL/dlogits out in their place. Padding has no weight, so its slopes are 0."""
    real = l.dtype.type
    ce, co, _, _ = of_loss
    for i in range(0, l.shape[1], VECTOR_BYTES // l.itemsize):
        mixed = fill(l, 0)  # sum_k p_k dL/dp_k
        for k in range(len(l)):
            slope = marginal[k] - co[k] - load(l, k, i) * co[k]  # dL/dp times the number of queries
            store(l, k, i, slope)
            mixed = mixed + load(p, k, i) * slope
        from_queries = load(weight, FROM_QUERIES, i)
        for k in range(len(l)):
            store(l, k, i, from_queries * load(p, k, i) * (load(l, k, i) - mixed))
        if i < n_support:
            of_true = fill(l, 0)
            for k in range(len(l)):
                of_true = of_true + load(p, k, i) * load(target, k, i)
            strength = load(weight, FROM_EXAMPLE, i) * ce * of_true / (of_true + real(FLOOR))
            for k in range(len(l)):
                store(l, k, i, load(l, k, i) + strength * (load(p, k, i) - load(target, k, i)))
        if kind == MINUS_MEAN:
            shared = load(l, ways, i) * real(1 / ways)
            for j in range(ways):
                store(l, j, i, load(l, j, i) - shared)


@helper
def _chain(slope, j, product, row, scale, a):
    """a = scale * slope; returns sum a product (dL/d eta times the prototype's length) and sum slope."""
    along, whole = fill(a, 0), fill(a, 0)
    for i in range(0, a.shape[1], VECTOR_BYTES // a.itemsize):
        of_item = load(slope, j, i)
        whole = whole + of_item
        of_item = of_item * scale
        store(a, row, i, of_item)
        along = along + of_item * load(product, row, i)
    return total(along), total(whole)


@helper
def _move(c, pull, m, v, row, grad_eta, inverse_norm, rate, unbias):
    """One step of Adam for a prototype, its gradient taken through the cosine; returns one over its new length."""
    real = c.dtype.type
    beta1, beta2, epsilon, one = real(BETA1), real(BETA2), real(ADAM_EPSILON), real(1)
    squares = fill(c, 0)
    along = grad_eta * inverse_norm
    for d in range(0, c.shape[1], VECTOR_BYTES // c.itemsize):
        prototype = load(c, row, d)
        g = (load(pull, row, d) - prototype * along) * inverse_norm
        first = load(m, row, d) * beta1 + g * (one - beta1)
        second = load(v, row, d) * beta2 + g * g * (one - beta2)
        prototype = prototype - first * rate / (root(second) * unbias + epsilon)
        store(m, row, d, first)
        store(v, row, d, second)
        store(c, row, d, prototype)
        squares = squares + prototype * prototype
    return one / max(real(math.sqrt(total(squares))), real(FLOOR))


@helper
def _adam(parameter, gradient, m, v, rate, unbias):
    real = parameter.dtype.type
    beta1, beta2, epsilon, one = real(BETA1), real(BETA2), real(ADAM_EPSILON), real(1)
    for d in range(len(parameter)):
        g = gradient[d]
        m[d] = beta1 * m[d] + (one - beta1) * g
        v[d] = beta2 * v[d] + (one - beta2) * g * g
        parameter[d] -= rate * m[d] / (real(math.sqrt(v[d])) * unbias + epsilon)

"""Small arithmetic that every room shares, for NumPy arrays and torch tensors alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

Array = Any  # a NumPy array or a torch tensor

FLOOR = 1e-12  # under norms and inside logarithms, as in the published code
USUAL_SCALE = 2.0**-20, 2.0**40  # sizes of the largest feature at which neither FLOOR nor float32 spoils a result


def unit(x: Array) -> Array:
    """L2-normalised over the last axis, the norm floored at 1e-12.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    return x / at_least(norms(x), FLOOR)


def norms(x: Array) -> Array:
    """[..., D] to [..., 1]. One fused pass: `vector_norm` writes |x|^2 out first."""
    xp = array_namespace(x)
    return xp.sqrt(xp.vecdot(x, x))[..., None]


def scale_to_one(x: Array) -> Array | None:
    """The factors [..., 1, 1] that bring the largest feature of each [..., n, D] to about 1; None if all are 1.

    A factor is 1 for features of a usual size. Others are powers of two, so that no digit of a feature changes.

    >>> float(scale_to_one(np.array([[3e-20, 0.0]]))[0, 0]) == 2.0**65
    True
    """
    xp = array_namespace(x)
    largest = to_numpy(xp.max(xp.abs(x), axis=(-2, -1), keepdims=True)).astype(np.float64)
    low, high = USUAL_SCALE
    is_usual = (largest == 0) | ((low <= largest) & (largest <= high))
    if is_usual.all():
        return None
    bits = 126 if x.dtype == xp.float32 else 1022  # a larger factor would be infinite
    exponents = np.clip(1 - np.frexp(largest)[1], -bits, bits)
    return as_like(np.where(is_usual, 1.0, np.ldexp(1.0, exponents)), x)


def at_usual_scale(x: Array) -> Array:
    """Features [..., n, D], multiplied by a power of two if they are extremely large or small."""
    factors = scale_to_one(x)
    return x if factors is None else x * factors


def at_least(x: Array, least: float) -> Array:
    """max(x, least). array-api-compat's `clip` goes by way of masks, slower, and loses the layout of x."""
    xp = array_namespace(x)
    return xp.maximum(x, xp.asarray(least, dtype=x.dtype, device=device(x)))


def softmax(x: Array) -> Array:
    """Over the last axis."""
    xp = array_namespace(x)
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), small values kept small; beyond +-80 it stays, where exp would overflow float32."""
    xp = array_namespace(x)
    return 1 / (1 + xp.exp(at_least(-at_least(x, -80.0), -80.0)))


def one_hot(labels: Array, ways: int | None = None, *, like: Array) -> Array:
    """Codes [B, S] to [B, S, N], of the kind, dtype and device of `like`; laid out as `products` are."""
    ways = class_count(labels) if ways is None else ways
    is_class = to_numpy(labels)[..., None, :] == np.arange(ways)[:, None]
    return array_namespace(like).matrix_transpose(as_like(is_class, like))


def with_unknown(support: Array, labels: Array, unknown: Array | None) -> tuple[Array, Array]:
    """The examples of the classes, followed by those of no class, whose code is N: [B, S + U, D] and [B, S + U].

    >>> support, labels, unknown = np.zeros((1, 2, 3)), np.array([[0, 1]]), np.ones((1, 1, 3))
    >>> with_unknown(support, labels, unknown)[1].tolist()
    [[0, 1, 2]]
    """
    if unknown is None or not unknown.shape[1]:
        return support, labels
    codes = np.full(unknown.shape[:2], class_count(labels))
    return array_namespace(support).concat([support, unknown], axis=1), np.concatenate([labels, codes], axis=1)


def class_means(support: Array, onehot: Array) -> Array:
    """Mean feature of each class: [B, S, D] and [B, S, N] to [B, N, D]."""
    xp = array_namespace(support)
    return (xp.matrix_transpose(onehot) @ support) / xp.sum(onehot, axis=-2)[..., None]


def class_prototypes(support: Array, labels: Array) -> Array:
    """The mean of the examples of each class: [B, S, D] and codes [B, S] to [B, N, D]."""
    return class_means(support, one_hot(labels, like=support))


def as_like(value: Any, like: Array) -> Array:
    """`value` as an array of the kind, dtype and device of `like`."""
    xp = array_namespace(like)
    value = value if is_torch_array(value) else np.array(value)  # torch warns of arrays that it may not write to
    return xp.asarray(value, dtype=like.dtype, device=device(like))


def to_numpy(x: Any) -> np.ndarray:
    """A NumPy array of an array, a list or a torch tensor."""
    return x.detach().cpu().numpy() if is_torch_array(x) else np.asarray(x)


def class_count(labels: Array) -> int:
    """N, from codes 0 .. N-1."""
    return int(labels.max()) + 1


def products(a: Array, b: Array) -> Array:
    """Inner products [B, M, D], [B, K, D] to [B, M, K]; in memory the longer of M and K is inner, six times as fast."""
    xp = array_namespace(a)
    if b.shape[-2] < a.shape[-2]:
        return xp.matrix_transpose(b @ xp.matrix_transpose(a))
    return a @ xp.matrix_transpose(b)


def cosine_to(items: Array, prototypes: Array) -> Array:
    """Cosine of each item to each prototype: [B, M, D] and [B, N, D] to [B, M, N]; items are not copied."""
    return products(items, unit(prototypes)) / at_least(norms(items), FLOOR)


def squared_distances(a: Array, b: Array, a_squares: Array | None = None) -> Array:
    """Squared Euclidean distances [B, M, D] and [B, K, D] to [B, M, K], never below 0; `a_squares` is |a|^2 [B, M]."""
    xp = array_namespace(a)
    if a_squares is None:
        a_squares = xp.vecdot(a, a)
    d = products(a, b)  # new, and laid out well: the rest happens in place
    d *= -2
    d += a_squares[..., :, None]
    d += xp.vecdot(b, b)[..., None, :]
    return at_least(d, 0.0)


def logsumexp(x: Array, axis: int) -> Array:
    """Over one axis, which stays as 1."""
    xp = array_namespace(x)
    top = xp.max(x, axis=axis, keepdims=True)
    return top + xp.log(xp.sum(xp.exp(x - top), axis=axis, keepdims=True))

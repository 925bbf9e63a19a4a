"""Small arithmetic that every room shares, for NumPy arrays and torch tensors alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

Array = Any  # a NumPy array or a torch tensor

FLOOR = 1e-12  # under norms and inside logarithms, as in the published code


def unit(x: Array) -> Array:
    """L2-normalised over the last axis, the norm floored at 1e-12.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    xp = array_namespace(x)
    return x / xp.clip(norms(x), FLOOR, None)


def norms(x: Array) -> Array:
    """[..., D] to [..., 1]. One fused pass: `vector_norm` writes |x|^2 out first."""
    xp = array_namespace(x)
    return xp.sqrt(xp.vecdot(x, x))[..., None]


def softmax(x: Array) -> Array:
    """Over the last axis."""
    xp = array_namespace(x)
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), small values kept small; beyond +-80 it stays, where exp would overflow float32."""
    xp = array_namespace(x)
    return 1 / (1 + xp.exp(xp.clip(-x, -80.0, 80.0)))


def one_hot(labels: Array, ways: int, like: Array) -> Array:
    """Codes [B, S] to [B, S, N], of the kind, dtype and device of `like`."""
    return as_like(np.eye(ways)[to_numpy(labels)], like)


def class_means(support: Array, onehot: Array) -> Array:
    """Mean feature of each class: [B, S, D] and [B, S, N] to [B, N, D]."""
    xp = array_namespace(support)
    return (xp.matrix_transpose(onehot) @ support) / xp.sum(onehot, axis=-2)[..., None]


def as_like(value: Any, like: Array) -> Array:
    """`value` as an array of the kind, dtype and device of `like`."""
    xp = array_namespace(like)
    value = value if is_torch_array(value) else np.array(value)  # torch warns of arrays that it may not write to
    return xp.asarray(value, dtype=like.dtype, device=device(like))


def to_numpy(x: Any) -> np.ndarray:
    return x.detach().cpu().numpy() if is_torch_array(x) else np.asarray(x)


def class_count(labels: Array) -> int:
    """N, from codes 0 .. N-1."""
    return int(labels.max()) + 1


def cosine_to(items: Array, prototypes: Array) -> Array:
    """Cosine of each item to each prototype: [B, M, D] and [B, N, D] to [B, M, N]; items are not copied."""
    xp = array_namespace(items)
    return (items @ xp.matrix_transpose(unit(prototypes))) / xp.clip(norms(items), FLOOR, None)


def squared_distances(a: Array, b: Array) -> Array:
    """Squared Euclidean distances [B, M, D] and [B, K, D] to [B, M, K], through one product; never below 0."""
    xp = array_namespace(a)
    squares = xp.vecdot(a, a)[..., :, None] + xp.vecdot(b, b)[..., None, :]
    return xp.clip(squares - 2 * (a @ xp.matrix_transpose(b)), 0.0, None)


def logsumexp(x: Array, axis: int) -> Array:
    """Over one axis, which stays as 1."""
    xp = array_namespace(x)
    top = xp.max(x, axis=axis, keepdims=True)
    return top + xp.log(xp.sum(xp.exp(x - top), axis=axis, keepdims=True))

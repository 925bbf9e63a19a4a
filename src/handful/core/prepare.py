"""Feature preparation: what is done to a task's features before a method sees them.

    task    subtract the mean over the task's own support and query features
    base    subtract a given mean, that of the backbone's training set (no mean given: as `task`)
    none    leave them where they are
    l2      divide by the L2 norm, floored at 1e-12
    power   (max(z, 0) + 1e-6)^beta, beta = 0.5 unless written as "power(0.6)"
    signed  sign(z) |z|^beta, beta = 0.5 unless written as "signed(0.6)"
    qr      R^T of the QR decomposition of the task's features: an exact rotation to at most S + Q dimensions

Features of an extreme size (the largest of the support is under 1e-6 or above 1e12) are first brought to about 1:

    scale   multiply by a power of two, learned from the support; a base mean that is given is multiplied too

Else the floor under the norm would flatten small ones, and the squares of large ones would overflow float32.
Steps are applied in the order given; what they learn from the task is kept, so that new items can
be prepared the same way without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, as_like, at_least, norms, scale_to_one, unit

STEPS = ("task", "base", "none", "l2", "power", "signed", "qr")
MANY = 500  # items; sums of more lose digits in float32, and a mean that is off moves an item near it far
POWERS = ("power", "signed")  # may be written with an exponent
SCALE = "scale"
LINEAR = (SCALE, "task", "base", "none")  # steps after which a base mean still has the scale of the features


@dataclass
class Prepared:
    """Prepared features, and the steps with what each learned, an array [B, ...]: the mean, the basis, the exponent."""

    support: Array
    query: Array
    steps: tuple[tuple[str, Array], ...]

    def replay(self, x: Array) -> Array:
        """Prepare new items [B, n, D] as the task's own were."""
        return replay(self.state(), x)

    def state(self) -> dict[str, Array]:
        """What `replay` needs, as plain arrays with names: prepare.0.task, prepare.1.l2, ..."""
        return {f"prepare.{i}.{kind}": value for i, (kind, value) in enumerate(self.steps)}


def prepare(
    support: Array, query: Array, steps: Sequence[str] | str, base_mean: Any = None, scale: bool | None = None
) -> Prepared:
    """Apply `steps` to support [B, S, D] and query [B, Q, D].

    >>> s, q = np.array([[[1.0, 2.0]]]), np.array([[[3.0, 2.0]]])
    >>> prepare(s, q, "task, l2").query
    array([[[1., 0.]]])
    """
    learned = []
    own = False  # whether support and query are ours to change in place, no longer the caller's
    factors = None
    for kind, argument in all_steps(steps, is_extreme(support) if scale is None else scale):
        if kind == "base" and base_mean is None:
            kind = "task"
        value = learn(kind, argument, support, query, base_mean, factors)
        factors = value if kind == SCALE else factors if kind in LINEAR else None
        learned.append((kind, value))
        support, query = apply(kind, value, support, own), apply(kind, value, query, own)
        own = own or kind != "none"
    return Prepared(support, query, tuple(learned))


def is_extreme(support: Array) -> bool:
    """Whether some task of support [B, S, D] has features so large or so small that they are scaled first."""
    return scale_to_one(support) is not None


def all_steps(steps: Sequence[str] | str, scale: bool) -> list[tuple[str, float | None]]:
    """Kinds of steps with their arguments, checked; `scale` puts that step before them."""
    return [(SCALE, None)] * scale + [split(name) for name in parse(steps)]


def parse(steps: Sequence[str] | str) -> tuple[str, ...]:
    """Step names from "task, l2" or ("task", "l2"), checked."""
    names = steps.split(",") if isinstance(steps, str) else steps
    if not isinstance(names, list | tuple) or not all(isinstance(s, str) for s in names):
        raise ValueError(f'preparation must be names of steps, as "task, l2" or ("task", "l2"), got {steps!r}')
    names = tuple(s.strip().lower() for s in names)
    for name in names:
        kind, argument = split(name)
        if kind not in STEPS or (argument is not None and kind not in POWERS):
            raise ValueError(f"preparation {name!r} is not known: use any of {', '.join(STEPS)}, or power(0.6)")
    return names


def replay(state: Mapping[str, Array], x: Array) -> Array:
    """Prepare items [B, n, D] by what `Prepared.state` holds; other entries of `state` are passed over."""
    names = [name for name in state if name.startswith("prepare.")]
    for name in sorted(names, key=lambda name: int(name.split(".")[1])):
        x = apply(name.split(".")[2], state[name], x, own=False)
    return x


def check_squares(x: Array, what: str = "some items have features") -> Array:
    """Return x. Raise ValueError if squares of its rows overflow: norms and distances would be infinite."""
    xp = array_namespace(x)
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = bool(xp.isfinite(xp.sum(xp.vecdot(x, x))))
    if not is_finite:
        raise ValueError(
            f"{what} so much larger than the features of the examples that {x.dtype} cannot hold both: "
            "give all of them at one scale"
        )
    return x


def as_dtype(x: Array, dtype: str) -> Array:
    """Prepared items in the precision that is computed in, which must hold their squares."""
    xp = array_namespace(x)
    wanted = getattr(xp, dtype)
    if x.dtype == wanted:
        return x
    with np.errstate(over="ignore"):
        return check_squares(xp.astype(x, wanted))


def split(name: str) -> tuple[str, float | None]:
    """The name of a step and its argument, as in "power(0.6)"."""
    match = re.fullmatch(r"(\w+)\((\d+\.?\d*|\.\d+)\)", name)
    return (match[1], float(match[2])) if match else (name, None)


def learn(
    kind: str, argument: float | None, support: Array, query: Array, base_mean: Any, factors: Array | None = None
) -> Array:
    """What a step learns; factors: what features were multiplied by, and a base mean has to be."""
    xp = array_namespace(support)
    if kind == SCALE:
        factors = scale_to_one(support)
        return xp.ones_like(support[:, :1, :1]) if factors is None else factors
    if kind == "task":
        count = support.shape[1] + query.shape[1]
        wide = xp.float64 if count > MANY else support.dtype
        total = sum(xp.sum(x, axis=1, keepdims=True, dtype=wide) for x in (support, query))
        return xp.astype(total / count, support.dtype, copy=False)
    if kind == "base":
        try:
            mean = as_like(base_mean, support)
        except (TypeError, ValueError) as error:
            raise ValueError(f"base_mean is not a row of numbers: {error}") from None
        if tuple(mean.shape) != (support.shape[-1],):
            raise ValueError(
                f"base_mean has shape {tuple(mean.shape)} but items have {support.shape[-1]} features: "
                "give the mean feature of the same backbone's training set"
            )
        if not bool(xp.all(xp.isfinite(mean))):
            raise ValueError("base_mean contains NaN or infinity")
        mean = xp.broadcast_to(mean[None, None, :], (support.shape[0], 1, mean.shape[0]))
        if factors is None:
            return mean
        with np.errstate(over="ignore"):
            return check_squares(mean * factors, "the base mean has values")
    if kind == "qr":
        both = xp.concat([support, query], axis=1)
        return xp.linalg.qr(xp.matrix_transpose(both)).Q  # [B, D, R]
    if kind in POWERS:
        return as_like(np.full((support.shape[0], 1, 1), 0.5 if argument is None else argument), support)
    return support[:, 0, :0]  # nothing to learn: [B, 0]


def apply(kind: str, value: Array, x: Array, own: bool) -> Array:
    """One step of preparation applied to items; own: the array may be changed in place."""
    if kind in ("task", "base"):
        if own:
            x -= value
            return x
        return x - value
    if kind == "l2":
        if own:
            x /= at_least(norms(x), FLOOR)
            return x
        return unit(x)
    if kind == "power":
        x = at_least(x, 0.0)
        x += 1e-6
        return array_namespace(x).sqrt(x) if bool((value == 0.5).all()) else x**value  # a power costs four roots
    if kind == "signed":
        xp = array_namespace(x)
        return xp.sign(x) * xp.abs(x) ** value
    if kind == "qr":
        return x @ value
    if kind == SCALE:
        return check_squares(x * value)
    if kind != "none":
        raise ValueError(f"preparation {kind!r} is not known: the model is of a newer handful, upgrade this one")
    return x

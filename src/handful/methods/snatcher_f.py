"""SnaTCHer-F: an unknown moves the set of prototypes that it is put into. Inductive, open-set.

Jeong, Choi, Kim: "Few-shot Open-set Recognition by Transformation Consistency", 2021. Classes as FEAT says them. With
P the set of class means, T(P) the set that FEAT's attention adapts it to, and P_i the set in which the mean of the
class that item i is taken for, argmax_j p_ij, is replaced by the item itself::

    outlier score  o_i = |T(P) - T(P_i)|^2        Frobenius

An item of that class stands for it as well as its mean does; another disturbs the whole set. The head is FEAT's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, one_hot, softmax, to_numpy
from handful.core.parameters import Number
from handful.methods.contract import Info, Solution
from handful.methods.feat import adapt, class_prototypes, layer_norm, logits
from handful.methods.registry import register

INFO = Info(
    name="snatcher_f",
    estimator="SnaTCHerF",
    title="SnaTCHer-F",
    authors="Jeong, Choi, Kim",
    year=2021,
    paper="Few-shot Open-set Recognition by Transformation Consistency (CVPR 2021)",
    paradigm="inductive",
    setting="open-set",
    preparation=("base", "l2"),
    score="rank",
    summary=(
        "FEAT's classes; an item is unknown if the adapted prototypes move far when it takes the place of its class's."
    ),
    new_items="by the prototypes and how far each item moves them",
    needs="base",
    state={"prototypes": "1 N D"},
    base_part="feat",
)

SLAB = 1 << 20  # numbers of adapted sets that are held at a time, one set for each item


def score_new(
    state: dict[str, Array], items: Array, *, base: Any = None, temperature: float | None = None
) -> tuple[Array, Array]:
    """New items by the adapted prototypes, and by how far each moves them."""
    xp = array_namespace(items)
    prototypes = state["prototypes"]
    adapted = adapt(prototypes, base)
    p = softmax(logits(items, adapted, base, temperature))
    scale = prototypes.shape[-1] ** 0.5
    asked = [scale * (x @ base["attention"]) for x in (prototypes, items)]
    changes = [x @ base["output"] for x in (prototypes, items)]
    norm = {name: base[name] for name in ("gain", "shift")}
    step = max(1, SLAB // math.prod(prototypes.shape))

    def some(rows: slice) -> Array:
        of_items = items[:, rows], asked[1][:, rows], changes[1][:, rows]
        moved = put_in((prototypes, asked[0], changes[0]), of_items, p[:, rows], norm) - adapted[:, None]
        return xp.sum(moved * moved, axis=(-2, -1))

    parts = [some(slice(i, i + step)) for i in range(0, items.shape[1], step)]
    return p, xp.concat(parts, axis=1) if parts else p[..., 0]


def put_in(of_prototypes: Sequence[Array], of_items: Sequence[Array], p: Array, norm: Mapping[str, Array]) -> Array:
    """The adapted sets [B, n, N, D], each item in the place of its class's prototype.

    Of both: themselves, what they ask, sqrt(D) x M, and what they bring, x V. These are linear: the same in every set.
    """
    xp = array_namespace(p)
    taken = one_hot(to_numpy(p).argmax(axis=-1), p.shape[-1], like=p)[..., None]  # [B, n, N, 1]
    sets, asked, changes = (
        old[:, None] * (1 - taken) + new[:, :, None] * taken for old, new in zip(of_prototypes, of_items, strict=True)
    )
    return layer_norm(sets + softmax(asked @ xp.matrix_transpose(sets)) @ changes, norm)


@register(INFO, score_new=score_new, rules={"temperature": Number(0, optional=True)})
def snatcher_f(
    support: Array, labels: Array, query: Array, *, base: Any = None, temperature: float | None = None
) -> Solution:
    """base: what base classes have taught, a `handful.Base` or its file. temperature: T, other than the one learned."""
    state = {"prototypes": class_prototypes(support, labels)}
    return Solution(*score_new(state, query, base=base, temperature=temperature), state)

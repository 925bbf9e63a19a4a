"""SnaTCHer-F: an unknown item changes the set of prototypes that it becomes part of. Inductive, open-set.

Takes classes from FEAT and tests each item: the item replaces the prototype of its class, the set of prototypes is
adapted again, and the outlier score is how far the whole set has moved. An item of the class is as good a prototype as
any other, while an unknown changes all of them. It needs a `base` with FEAT's head. It ranks unknowns better than
FEAT's own doubt and better than kNN, also where the head has learned little, since even then it measures the way from
item to prototype. Each item takes two products with a matrix as wide as the features, so it is slower than other
inductive methods.

Jeong, Choi, Kim: "Few-shot Open-set Recognition by Transformation Consistency", 2021. Classes come from FEAT. P is the
set of class means, and T(P) is the set that FEAT's attention makes of it. In P_i the item i replaces the mean of its
most probable class, argmax_j p_ij::

    outlier score  o_i = |T(P) - T(P_i)|^2        Frobenius

An item of that class represents it as well as the mean does; any other item changes the whole set. The head is FEAT's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, class_prototypes, one_hot, softmax, to_numpy
from handful.core.parameters import Positive
from handful.methods.feat import adapt, layer_norm, logits
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="snatcher_f",
    estimator="SnaTCHerF",
    title="SnaTCHer-F",
    authors="Jeong, Choi, Kim",
    year=2021,
    paper="Few-shot Open-set Recognition by Transformation Consistency (CVPR 2021)",
    summary=(
        "FEAT's classes; an item is unknown if the adapted prototypes move far when it takes the place of its class's."
    ),
    new_items="by the prototypes and how far each item moves them",
    state={"prototypes": "1 N D"},
    base_part="feat",
)

MAX_BLOCK_NUMBERS = 1 << 20  # in the adapted sets of a block of items, one set for each item


def score_new(
    state: dict[str, Array], items: Array, *, base: Any = None, temperature: float | None = None
) -> tuple[Array, Array]:
    """Score new items by the adapted prototypes, and by how far each item moves them."""
    xp = array_namespace(items)
    prototypes = state["prototypes"]
    adapted = adapt(prototypes, base)
    p = softmax(logits(items, adapted, base, temperature))
    scale = prototypes.shape[-1] ** 0.5
    projections = [scale * (x @ base["attention"]) for x in (prototypes, items)]
    values = [x @ base["output"] for x in (prototypes, items)]
    norm = {name: base[name] for name in ("gain", "shift")}
    step = max(1, MAX_BLOCK_NUMBERS // math.prod(prototypes.shape))

    def block_scores(rows: slice) -> Array:
        of_items = items[:, rows], projections[1][:, rows], values[1][:, rows]
        sets = adapted_sets((prototypes, projections[0], values[0]), of_items, p[:, rows], norm)
        change = sets - adapted[:, None]
        return xp.sum(change * change, axis=(-2, -1))

    blocks = [block_scores(slice(i, i + step)) for i in range(0, items.shape[1], step)]
    return p, xp.concat(blocks, axis=1) if blocks else p[..., 0]


def adapted_sets(
    of_prototypes: Sequence[Array], of_items: Sequence[Array], p: Array, norm: Mapping[str, Array]
) -> Array:
    """The adapted sets [B, n, N, D], an item in each in place of a prototype; all with projections and values."""
    xp = array_namespace(p)
    is_replaced = one_hot(to_numpy(p).argmax(axis=-1), p.shape[-1], like=p)[..., None]  # [B, n, N, 1]
    sets, projections, values = (
        old[:, None] * (1 - is_replaced) + new[:, :, None] * is_replaced
        for old, new in zip(of_prototypes, of_items, strict=True)
    )
    return layer_norm(sets + softmax(projections @ xp.matrix_transpose(sets)) @ values, norm)


@register(INFO, score_new=score_new)
def snatcher_f(
    support: Array, labels: Array, query: Array, *, base: Any = None, temperature: Positive | None = None
) -> Solution:
    """Solve tasks by the classes of FEAT and by how far each item moves the adapted prototypes.

    Parameters
    ----------
    base : handful.methods.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    temperature : float, optional
        The temperature T of FEAT, in place of the learned one.
    """
    state = {"prototypes": class_prototypes(support, labels)}
    return Solution(*score_new(state, query, base=base, temperature=temperature), state)

"""Examples of no class, for a method that does not take them itself: a margin to the nearest of them.

With z the prepared features of an item, u the examples of no class and s those of the classes, by cosines::

    m_i  = max_u cos(z_i, u) - max_s cos(z_i, s)
    o'_i = o_i + scale m_i,      scale = standard deviation of o / standard deviation of m, over the pile

So the margin counts as much as the method's own outlier score, whose unit nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, products, unit

STATE = {"margin.support": "1 T D", "margin.unknown": "1 U D", "margin.scale": "1"}  # arrays and their axes


def margin_state(scores: Array, support: Array, unknown: Array, query: Array) -> dict[str, Array]:
    """What `add_margin` needs, by outlier scores [B, Q] and prepared features; without a pile the scale is 1."""
    xp = array_namespace(query)
    state = {"margin.support": unit(support), "margin.unknown": unit(unknown)}
    scale = xp.ones_like(support[:, 0, 0])
    if query.shape[1] > 1:
        scale = xp.std(scores, axis=-1) / at_least(
            xp.std(margins(query, unit(support), unit(unknown)), axis=-1), FLOOR**0.5
        )
    return state | {"margin.scale": scale}


def add_margin(state: Mapping[str, Array], scores: Array, items: Array) -> Array:
    """Outlier scores [B, n] of prepared items [B, n, D] with the margin; unchanged if the state has none."""
    if "margin.scale" not in state:
        return scores
    return scores + state["margin.scale"][:, None] * margins(items, state["margin.support"], state["margin.unknown"])


def margins(items: Array, support: Array, unknown: Array) -> Array:
    """How much nearer [B, n] items are to an example of no class than to one of a class; examples of length 1."""
    xp, items = array_namespace(items), unit(items)
    return xp.max(products(items, unknown), axis=-1) - xp.max(products(items, support), axis=-1)

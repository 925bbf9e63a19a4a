"""Measurements of each item in its pile, from which its P(unknown) is computed (`handful.engines.verdict`).

With H the smoothed similarities of all items (`handful.engines.density`, examples first), m and s the mean and the
standard deviation of H over pairs of queries, and W the symmetric graph of each item's ten nearest by H, of rows that
sum to 1::

    log-odds     of P(unknown) by the mean of EOL and KDO
    rank         of that among the pile, as log-odds
    walk         log of the largest mass of a class: twelve steps M <- 0.9 W M from the examples of each class, held
    neighbours   mean log-odds in W; an example of a class counts -4, one of no class 4
    link         the smallest step on the best path through H to an example of the item's class, as (. - m) / s
    link, own    the same, less how similar the examples of that class are to the nearest other one
    surplus      (similarity to the best example - mean similarity to the 20 nearest of the pile) / s
    density      (mean similarity to the 5 nearest of the pile - m) / s
    ridge        rank among the pile by kernel ridge regression of the classes' examples on H

and numbers of the pile as a whole, which move the level. All arrays are NumPy's, and tasks are computed together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handful.core.arrays import FLOOR
from handful.engines.density import MIN_SPREAD
from handful.engines.hidden import Hidden
from handful.engines.kernels import call, can_use
from handful.engines.share_statistics import percentiles

ITEM = ("log-odds", "rank", "walk", "neighbours", "link", "link, own", "surplus", "density", "ridge")
PILE = (
    "log shots", "nothing hidden", "log items", "log classes", "estimate", "low end", "high end", "mean", "spread",
    "certainty", "hidden: rank", "hidden: rank at 70 %", "hidden: log-odds",
)  # fmt: skip
NEAREST, WALK_STEPS, WALK_FACTOR, EXAMPLE_ODDS = 10, 12, 0.9, 4.0
MANY_NEAREST, FEW_NEAREST, RIDGE_STEPS = 20, 5, 8
MIN_MASS = 1e-6
NO_OTHER = 2.0  # above every similarity
LEAST = 1e-4  # probabilities are kept so far from 0 and 1


@dataclass
class Evidence:
    """What is seen of a batch of piles."""

    items: np.ndarray  # the numbers `ITEM` of each query, [B, Q, F]
    carried: dict[str, np.ndarray]  # what new items are compared with


def log_odds(p: np.ndarray, least: float = LEAST) -> np.ndarray:
    """The log-odds of probabilities that are kept away from 0 and 1."""
    q = np.clip(np.asarray(p, np.float64), least, 1 - least)
    odds: np.ndarray = np.log(q / (1 - q))
    return odds


def look(
    h: np.ndarray, codes: np.ndarray, ways: int, p_unknown: np.ndarray, classes: np.ndarray, backend: str = "auto"
) -> Evidence:
    """See what the items of piles show, the examples first in h [B, n, n]; `describe` has the numbers of the pile."""
    n_support, n_query = codes.shape[1], p_unknown.shape[1]
    odds, of_examples = log_odds(p_unknown), np.where(codes < ways, -EXAMPLE_ODDS, EXAMPLE_ODDS)
    all_odds = np.concatenate([of_examples, odds], axis=1).astype(h.dtype)
    see = _see_in_c if n_query > 1 and can_use(backend, h) else _see
    seen, carried = see(h, codes, ways, all_odds)
    carried |= {
        "odds": all_odds, "within": _within(h[:, :n_support, :n_support], codes, ways),
        "sorted_odds": np.sort(odds, axis=1), "sorted_ridge": np.sort(seen["ridge"], axis=1),
    }  # fmt: skip
    own = classes.argmax(axis=-1)[..., None]
    seen["link"] = np.take_along_axis(carried["links"][:, n_support:], own, axis=-1)[..., 0]
    return Evidence(_columns(h[:, n_support:, :n_support], seen, odds, classes, codes, carried), carried)


def _see_in_c(
    h: np.ndarray, codes: np.ndarray, ways: int, odds: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    (batch, n_items, _), n_support, kind = h.shape, codes.shape[1], h.dtype
    n_query = n_items - n_support
    mass, links, ridge = (np.empty((batch, n_items, ways), kind) for _ in range(3))
    items, mean, spread = np.empty((batch, 5, n_query), kind), np.empty(batch), np.empty(batch)
    nearest, many, few = min(NEAREST, n_items - 1), min(MANY_NEAREST, n_query - 1), min(FEW_NEAREST, n_query - 1)
    sizes = np.array([batch, n_support, n_query, ways, nearest, few, many, WALK_STEPS, RIDGE_STEPS], np.int64)
    numbers, of_codes = np.array([WALK_FACTOR, MIN_SPREAD, FLOOR]), np.ascontiguousarray(codes, np.int64)
    call("look", kind, sizes, numbers, np.ascontiguousarray(h), of_codes, odds, mass, links, ridge, items, mean, spread)
    seen = dict(zip(("walk", "neighbours", "few", "many", "ridge"), items.swapaxes(0, 1), strict=True))
    return seen, {"mass": mass, "links": links, "ridge": ridge, "mean": mean, "spread": spread}


def _see(
    h: np.ndarray, codes: np.ndarray, ways: int, odds: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What is read from whole matrices: of each query [B, Q], and what new items are compared with as well."""
    (batch, n_items, _), n_support = h.shape, codes.shape[1]
    n_query = n_items - n_support
    onehot = (codes[..., None] == np.arange(ways)).astype(h.dtype)  # [B, S, N]
    seeds = onehot / np.maximum(onehot.sum(axis=1, keepdims=True), 1)
    others, item = h.copy(), np.arange(n_items)
    others[:, item, item] = -np.inf
    graph = _graph(others, min(NEAREST, n_items - 1))
    pairs = others[:, n_support:, n_support:]
    finite = np.where(np.isfinite(pairs), pairs, 0)
    count = max(n_query * (n_query - 1), 1)
    mean = finite.sum(axis=(1, 2), dtype=np.float64) / count
    square = np.square(finite).sum(axis=(1, 2), dtype=np.float64) / count
    spread = np.maximum(np.sqrt(np.maximum(square - mean**2, 0)), MIN_SPREAD)
    mass = np.zeros((batch, n_items, ways), h.dtype)
    mass[:, :n_support] = seeds
    for _ in range(WALK_STEPS):
        mass = WALK_FACTOR * (graph @ mass)
        mass[:, :n_support] = seeds
    links, ridge = bottlenecks(others, onehot > 0).astype(h.dtype), _ridge(h, seeds)
    carried = {"mass": mass, "links": links, "ridge": ridge, "mean": mean, "spread": spread}
    near = _largest(pairs, min(MANY_NEAREST, max(n_query - 1, 0)))
    return _of_items(h[:, n_support:], graph[:, n_support:], near, odds, carried), carried


def _of_items(
    h: np.ndarray, graph: np.ndarray, near: np.ndarray, odds: np.ndarray, carried: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What items show by h and W, their similarities and links to the pile [B, M, n], and by the nearest of it."""
    seen = {
        "walk": (WALK_FACTOR * (graph @ carried["mass"])).max(axis=-1),
        "neighbours": (graph @ odds[..., None])[..., 0], "ridge": (h @ carried["ridge"]).max(axis=-1),
    }  # fmt: skip
    if near.shape[-1]:
        near = -np.sort(-near, axis=-1)
        seen["many"] = near.mean(axis=-1, dtype=np.float64)
        seen["few"] = near[..., :FEW_NEAREST].mean(axis=-1, dtype=np.float64)
    return seen


def _columns(
    h: np.ndarray, seen: dict[str, np.ndarray], odds: np.ndarray, classes: np.ndarray, codes: np.ndarray,
    carried: dict[str, np.ndarray],
) -> np.ndarray:  # fmt: skip
    """The numbers `ITEM` of items [B, M, F], by their similarities to the examples [B, M, S] and what else was seen."""
    ways = classes.shape[-1]
    mean, spread = (carried[name][:, None].astype(np.float64) for name in ("mean", "spread"))
    best = np.where(codes[:, None] < ways, h, -np.inf).max(axis=-1).astype(np.float64)
    own = classes.argmax(axis=-1)
    within = np.take_along_axis(carried["within"], own, axis=-1)
    columns = {
        "log-odds": odds,
        "rank": log_odds(_ranks(odds, carried["sorted_odds"]), 1e-3),
        "walk": np.log(seen["walk"].astype(np.float64) + MIN_MASS),
        "neighbours": seen["neighbours"],
        "link": (seen["link"] - mean) / spread,
        "link, own": np.where(within < NO_OTHER, (seen["link"] - within) / spread, 0.0),
        "surplus": (best - seen.get("many", best)) / spread,
        "density": (seen.get("few", best) - mean) / spread,
        "ridge": _ranks(seen["ridge"], carried["sorted_ridge"]),
    }
    return np.stack([columns[name] for name in ITEM], axis=-1, dtype=np.float64)


def describe(
    evidence: Evidence,
    codes: np.ndarray,
    classes: np.ndarray,
    p_unknown: np.ndarray,
    share: np.ndarray,
    interval: np.ndarray,
    hidden: Hidden,
) -> np.ndarray:
    """The numbers `PILE` of each task, [B, P]."""
    batch, n_query, ways = classes.shape
    if not n_query:
        return np.zeros((batch, len(PILE)))
    shots = np.maximum((codes < ways).sum(axis=1) / ways, 1)
    is_seen = np.isfinite(hidden.rank)
    count = is_seen.sum(axis=1)
    rank, odds = (
        np.where(is_seen, values, 0).sum(axis=1) / np.maximum(count, 1)
        for values in (hidden.rank, log_odds(np.nan_to_num(hidden.p_unknown, nan=0.5)))
    )
    values = {
        "log shots": np.log(shots),
        "nothing hidden": (count == 0).astype(np.float64),
        "log items": np.full(batch, np.log(max(n_query, 8))),
        "log classes": np.full(batch, np.log(ways)),
        "estimate": np.asarray(share, np.float64),
        "low end": log_odds(interval[:, 0], 0.01),
        "high end": log_odds(interval[:, 1], 0.01),
        "mean": p_unknown.mean(axis=1),
        "spread": evidence.items[..., ITEM.index("log-odds")].std(axis=1),
        "certainty": log_odds(classes.max(axis=-1), 1e-3).mean(axis=1),
        "hidden: rank": rank,
        "hidden: rank at 70 %": percentiles(np.sort(hidden.rank, axis=1), count, (70,))[0],
        "hidden: log-odds": odds,
    }
    return np.stack([values[name] for name in PILE], axis=-1)


def look_at_new(
    h: np.ndarray, codes: np.ndarray, p_unknown: np.ndarray, classes: np.ndarray, carried: dict[str, np.ndarray]
) -> np.ndarray:
    """The numbers `ITEM` of new items [B, M, F], by their similarities [B, M, n] to the items of the pile."""
    n_items, n_support = h.shape[-1], codes.shape[1]
    limit = _largest(h, min(NEAREST, n_items)).min(axis=-1, keepdims=True)
    weights = np.where(h >= limit, np.maximum(h, 0), 0)
    graph = weights / np.maximum(weights.sum(axis=-1, keepdims=True), FLOOR)
    near = _largest(h[..., n_support:], min(MANY_NEAREST, n_items - n_support))
    seen = _of_items(h, graph, near, carried["odds"], carried)
    seen["link"] = _path(h, carried["links"], classes.argmax(axis=-1))
    return _columns(h[..., :n_support], seen, log_odds(p_unknown), classes, codes, carried)


def _graph(others: np.ndarray, k: int) -> np.ndarray:
    """W: the symmetric graph of each item's k nearest others, with rows that sum to 1."""
    if k < 1:
        return np.zeros_like(others)
    limit = np.partition(others, -k, axis=-1)[..., -k, None]
    weights = np.where(others >= limit, np.maximum(others, 0), 0)
    weights += weights.swapaxes(1, 2)
    weights /= np.maximum(weights.sum(axis=-1, keepdims=True), FLOOR)
    return np.asarray(weights)


def _largest(values: np.ndarray, k: int) -> np.ndarray:
    """The k largest values of each row, in any order."""
    return np.partition(values, -k, axis=-1)[..., -k:] if k else values[..., :0]


def _ranks(values: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    """The part of the pile that is below each value, those that are equal counting half."""
    rows = zip(values, ascending, strict=True)
    places = [np.searchsorted(row, v, "left") + np.searchsorted(row, v, "right") for v, row in rows]
    return np.asarray(np.stack(places) / (2 * max(ascending.shape[1], 1)))


def _ridge(h: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """(H + c I)^-1 applied to the classes' examples [B, n, N], by conjugate gradients; c = 1, the mean eigenvalue."""
    batch, n_items, _ = h.shape
    right = np.zeros((batch, n_items, seeds.shape[-1]), h.dtype)
    right[:, : seeds.shape[1]] = seeds
    x, r = np.zeros_like(right), right
    direction, square = r, np.square(r).sum(axis=1, keepdims=True)
    for _ in range(RIDGE_STEPS):
        image = h @ direction + direction
        step = square / np.maximum((direction * image).sum(axis=1, keepdims=True), FLOOR)
        x, r = x + step * direction, r - step * image
        before, square = square, np.square(r).sum(axis=1, keepdims=True)
        direction = r + square / np.maximum(before, FLOOR) * direction
    return x


def _within(examples: np.ndarray, codes: np.ndarray, ways: int) -> np.ndarray:
    """How similar an example of each class is to the nearest other one, on average [B, N]; else of all classes.

    `NO_OTHER` where no class has two examples.
    """
    same = (codes[:, :, None] == codes[:, None]) & ~np.eye(codes.shape[1], dtype=bool)
    nearest = np.where(same, examples, -np.inf).max(axis=2)
    usable = np.isfinite(nearest) & (codes < ways)
    onehot = (codes[..., None] == np.arange(ways)) & usable[..., None]
    count = onehot.sum(axis=1)
    total = np.where(onehot, nearest[..., None], 0).sum(axis=1)
    pairs = count.sum(axis=1, keepdims=True)
    whole = np.where(pairs > 0, total.sum(axis=1, keepdims=True) / np.maximum(pairs, 1), NO_OTHER)
    return np.where(count > 0, total / np.maximum(count, 1), whole)


def bottlenecks(others: np.ndarray, is_seed: np.ndarray) -> np.ndarray:
    """For each item and class, the smallest similarity on the best path to an example of the class: [B, n, N].

    The best paths run along the largest spanning tree (Prim), so they are found by one way up and one way down.
    """
    batch, n_items, _ = others.shape
    task = np.arange(batch)
    order, edge = np.zeros((n_items, batch), np.intp), np.zeros((n_items, batch), others.dtype)
    parent = np.zeros((batch, n_items), np.intp)
    near, is_out = others[:, 0].copy(), np.ones((batch, n_items), bool)
    is_out[:, 0] = False
    for t in range(1, n_items):
        order[t] = new = near.argmax(axis=1)
        edge[t] = near[task, new]
        is_out[task, new] = False
        row = others[task, new]
        closer = (row > near) & is_out
        np.copyto(near, row, where=closer)
        np.copyto(parent, new[:, None], where=closer)
        near[task, new] = -np.inf
    widest = np.full((batch, n_items, is_seed.shape[-1]), -1.0, others.dtype)
    widest[:, : is_seed.shape[1]] = np.where(is_seed, 1.0, -1.0)
    above = [parent[task, new] for new in order]
    for t in range(n_items - 1, 0, -1):
        step = np.minimum(edge[t][:, None], widest[task, order[t]])
        widest[task, above[t]] = np.maximum(widest[task, above[t]], step)
    for t in range(1, n_items):
        step = np.minimum(edge[t][:, None], widest[task, above[t]])
        widest[task, order[t]] = np.maximum(widest[task, order[t]], step)
    return widest


def _path(h: np.ndarray, links: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The best path of each item [B, M] to its class, over any item of the pile."""
    best = np.empty(own.shape, h.dtype)
    for b in range(len(h)):
        for k in np.unique(own[b]):
            mine = own[b] == k
            best[b, mine] = np.minimum(h[b, mine], links[b, :, k]).max(axis=-1)
    return best

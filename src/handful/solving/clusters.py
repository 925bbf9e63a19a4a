"""Items of a pile as clusters, their number found and not given.

Items are prepared as for KDO, together with the rest of their task, and smoothed over their nearest, so that y are of
unit length. Then

1. HDBSCAN (Campello, Moulavi and Sander 2013) on 1 - y y^T finds dense cores, rather too many (its leaves). Every item
   goes to the nearest core's mean, in a few rounds.
2. Groups whose means point the same way are joined, the most alike first. The mean product of pairs of different
   items estimates the product of two groups' true means without the noise of their items::

       cosine(A, B) = s(A, B) / sqrt(s(A, A) s(B, B)),   s(A, B) = mean of y_i . y_j, i in A, j in B, i != j

   Halves of one class have about 0.5 to 0.6 and two classes 0.2 or less, for the median pair, in features of
   pictures and in digits alike: a threshold that needs no scale. `detail` moves it.
3. Who is far from their group's mean leaves it; a group that is small or loose is none.

The thresholds were chosen on the validation and base classes of tiny ImageNet, and with the digits in sight.

Exemplars span a cluster: one after the other, the item is taken that brings the members nearest to what is taken,
the largest sum_i max_c y_i . y_c (k-medoids, chosen greedily).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from handful.core.arrays import FLOOR, unit
from handful.core.prepare import prepare
from handful.engines.neighbours import smooth

PREPARATION = ("signed(0.6)", "l2", "task", "l2")
CORE = 5  # items of a dense core, in all but the smallest piles
SAME = 0.45  # cosine of means from which two groups are one
SAME_STEP = 0.1  # how far one step of detail moves it
MAX_DETAIL = 2.0  # steps, to either side
ALONE = 0.3  # of the cosine to the mean that half of the group have: an item below it leaves
LOOSE = 0.15  # mean product of a group's pairs, below which it is none
LEAST = 3  # items of a group
MOST, BESIDE = 3000, 1000  # items that are clustered, and others beside them; past that, samples of them
ROUNDS = 3
SAME_KIND = 0.7  # cosine of means below which two parts of a group look like two kinds
MIN_MIXED = 8  # items of a group that may be several kinds
MIN_KIND = 0.1  # of a group, to be a kind of its own
MAX_SPANNED = 1000  # members of a group among which exemplars are chosen: all pairs of them are compared
MAX_EXEMPLARS = 100


class Clusters(NamedTuple):
    """A group for each item, and how well the items fit."""

    codes: np.ndarray  # [n], -1 for items in no group
    central: np.ndarray  # [n], the cosine to the mean of the group
    cohesion: np.ndarray  # [groups]
    smooth: np.ndarray  # [n, D], the items as they were compared


def find_clusters(features: Any, context: Any = None, detail: float = 0.0) -> Clusters:
    """The clusters of the rows of features [n, D], the largest first.

    context: features [m, D] of what else is in the task. It is not grouped; it tells what all items have in common.
    detail: from -2 (few, coarse groups) to 2 (many, fine groups).
    """
    check_detail(detail)
    x = np.asarray(features, np.float64)
    if len(x) < LEAST:
        return _numbered(x, np.full(len(x), -1))
    y, sample = _smoothed(x, context)
    if (x == x[0]).all():
        return _numbered(y, np.zeros(len(x), int))
    codes = _join(y[sample], _nearest_mean(y[sample], _cores(y[sample])), SAME + SAME_STEP * detail)
    codes = _nearest_mean(y[sample], codes)
    if len(sample) < len(x):
        all_codes = (y @ unit(_means(y[sample], codes)).T).argmax(axis=1)
        all_codes[sample] = codes
        codes = all_codes
    return _settled(y, codes)


def clusters_of(features: Any, codes: np.ndarray, context: Any = None) -> Clusters:
    """The clusters that somebody else has found, codes [n] from 0 and -1 for none: no row leaves its cluster."""
    x = np.asarray(features, np.float64)
    return _numbered(_smoothed(x, context)[0] if (codes >= 0).any() else x, codes)


def check_detail(detail: Any) -> None:
    """Raise ValueError if it is no number from -2 to 2."""
    is_number = isinstance(detail, int | float | np.number) and not isinstance(detail, bool)
    if not is_number or not -MAX_DETAIL <= detail <= MAX_DETAIL:
        raise ValueError(
            f"detail is {detail!r}: give a number from -{MAX_DETAIL:g} (few, coarse groups) to {MAX_DETAIL:g} (many, "
            "fine groups)"
        )


def spanning(y: np.ndarray, count: int) -> np.ndarray:
    """The rows of y [n, D] that span it, at most `count` and the most useful first."""
    n = len(y)
    rows = np.arange(n)
    if n > MAX_SPANNED:
        rows = np.sort(np.random.default_rng(0).choice(n, MAX_SPANNED, replace=False))
    alike = y[rows] @ y[rows].T
    nearest = np.full(len(rows), -1.0)
    chosen: list[int] = []
    for _ in range(min(count, len(rows), MAX_EXEMPLARS)):
        gain = np.maximum(alike, nearest).sum(axis=1)
        gain[chosen] = -np.inf
        chosen.append(int(gain.argmax()))
        nearest = np.maximum(nearest, alike[chosen[-1]])
    return rows[chosen]


def _cores(y: np.ndarray) -> np.ndarray:
    """Codes of dense cores, -1 between them; all are one where there is none, which `LOOSE` judges."""
    from sklearn.cluster import HDBSCAN

    distance = np.maximum(1 - y @ y.T, 0)
    np.fill_diagonal(distance, 0)
    core = min(CORE, max(LEAST, len(y) // 4))
    codes = HDBSCAN(
        min_cluster_size=core, min_samples=2, metric="precomputed", cluster_selection_method="leaf", copy=False
    ).fit_predict(distance)
    return codes if (codes >= 0).any() else np.zeros(len(y), int)


def _means(y: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Sum of each group's items, [groups, D]; codes are 0, 1, ... and -1."""
    sums = np.zeros((codes.max() + 1, y.shape[1]))
    np.add.at(sums, codes[codes >= 0], y[codes >= 0])
    return sums


def _nearest_mean(y: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Every item to the group whose mean is the nearest, a few times over; a group may lose all."""
    for _ in range(ROUNDS):
        codes = np.unique((y @ unit(_means(y, codes)).T).argmax(axis=1), return_inverse=True)[1]
    return codes


def _join(y: np.ndarray, codes: np.ndarray, same: float) -> np.ndarray:
    """Join the two groups whose means are most alike, until no two are alike enough."""
    size = np.bincount(codes).astype(float)
    sums = _means(y, codes)
    products = sums @ sums.T  # between groups, all pairs
    own = np.bincount(codes, np.vecdot(y, y))  # an item with itself
    group = np.arange(len(size))  # which each has become
    while True:
        within = (np.diag(products) - own) / np.maximum(size * (size - 1), 1)
        usual = within[size > 1].mean() if (size > 1).any() else 1.0
        scale = np.sqrt(np.maximum(np.where(size > 1, within, usual), 1e-3))
        cosine = products / np.maximum(np.outer(size * scale, size * scale), FLOOR)
        np.fill_diagonal(cosine, -np.inf)
        cosine[size == 0] = cosine[:, size == 0] = -np.inf
        a, b = sorted(np.unravel_index(cosine.argmax(), cosine.shape))
        if a == b or cosine[a, b] < same:
            return np.unique(group[codes], return_inverse=True)[1]
        products[a] += products[b]
        products[:, a] += products[:, b]
        for total in (size, own):
            total[a] += total[b]
            total[b] = 0
        group[group == b] = a


def _smoothed(x: np.ndarray, context: Any) -> tuple[np.ndarray, np.ndarray]:
    """The items prepared and smoothed, [n, D], and the rows among which neighbours are: of many items a sample."""
    beside = x[:0] if context is None else np.asarray(context, np.float64)
    if (x == x[0]).all():  # without a context nothing of them would be left
        return unit(np.ones_like(x)), np.arange(len(x))
    rng = np.random.default_rng(0)
    sample = np.sort(rng.choice(len(x), MOST, replace=False)) if len(x) > MOST else np.arange(len(x))
    if len(beside) > BESIDE:
        beside = beside[np.sort(rng.choice(len(beside), BESIDE, replace=False))]
    prepared = prepare(x[None, sample], beside[None], PREPARATION)
    near = smooth(prepared.support, prepared.query)
    y = np.empty(x.shape)
    y[sample] = near.smooth[0, : len(sample)]
    others = np.setdiff1d(np.arange(len(x)), sample)
    for part in np.array_split(others, -(-len(others) // MOST)) if len(others) else ():
        y[part] = near.of_new(prepared.replay(x[None, part]))[0]
    return y, sample


def _settled(y: np.ndarray, codes: np.ndarray) -> Clusters:
    """Without loners, small groups and loose ones; numbered by size."""
    rest = _means(y, codes)[codes] - y  # the group without the item itself
    cosine = np.vecdot(unit(rest), y)
    usual = np.array([np.median(cosine[codes == k]) for k in range(codes.max() + 1)])
    codes = np.where(cosine < ALONE * usual[codes], -1, codes)
    if codes.max() >= 0:
        size = np.bincount(codes[codes >= 0])
        leaves = np.flatnonzero((size < LEAST) | (_cohesion(y, codes) < LOOSE))
        codes = np.where(np.isin(codes, leaves), -1, codes)
    return _numbered(y, codes)


def _numbered(y: np.ndarray, codes: np.ndarray) -> Clusters:
    """These clusters, numbered by size: every item keeps its own."""
    if codes.max(initial=-1) < 0:
        return Clusters(codes, np.zeros(len(y)), np.zeros(0), y)
    size = np.bincount(codes[codes >= 0])
    stays = np.flatnonzero(size)
    first = np.array([np.flatnonzero(codes == k)[0] for k in stays], int)
    stays = stays[np.lexsort((first, -size[stays]))]
    number = np.full(len(size) + 1, -1)  # the last is for -1
    number[stays] = np.arange(len(stays))
    codes = number[codes]
    central = np.vecdot(unit(_means(y, codes))[codes], y)
    return Clusters(codes, np.where(codes >= 0, central, 0.0), np.minimum(_cohesion(y, codes), 1.0), y)


def _cohesion(y: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The mean product of the pairs of different items of each cluster; 1 for an item alone."""
    sums, size = _means(y, codes), np.bincount(codes[codes >= 0])
    own = np.bincount(codes[codes >= 0], np.vecdot(y, y)[codes >= 0])
    return np.where(size == 1, 1.0, (np.vecdot(sums, sums) - own) / np.maximum(size * (size - 1), 1))


def kinds_in(y: np.ndarray) -> np.ndarray:
    """The kind of each member of one group [n, D], 0 for the largest: 0 for all where it looks like one kind.

    The same steps as for the pile, with a higher threshold. At `SAME_KIND` about three of four mixed groups are told
    from one kind, and about one of six groups of one class is called several (random piles of caltech101, banking77,
    esc50, dbpedia14, clothing and the validation classes of tiny ImageNet).
    """
    one = np.zeros(len(y), int)
    if len(y) < MIN_MIXED or len(y) > MOST:
        return one
    codes = _nearest_mean(y, _join(y, _nearest_mean(y, _cores(y)), SAME_KIND))
    size = np.bincount(codes)
    large = np.flatnonzero(size >= max(LEAST, MIN_KIND * len(y)))
    if len(large) < 2:
        return one
    large = large[np.argsort(-size[large], kind="stable")]
    return np.asarray((y @ unit(_means(y, codes)[large]).T).argmax(axis=1))  # small kinds go to the nearest large one

"""The unknown items of a pile as groups: candidates for new classes, their number found and not given.

Items are prepared as for KDO, together with the rest of their task, and smoothed over their nearest, so that y are of
unit length. Then

1. HDBSCAN (Campello, Moulavi and Sander 2013) on 1 - y y^T finds dense cores, rather too many (its leaves). Every item
   goes to the nearest core's mean, in a few rounds.
2. Groups whose means point the same way are joined, the most alike first. The mean product of pairs of different
   items estimates the product of two groups' true means without the noise of their items::

       cosine(A, B) = s(A, B) / sqrt(s(A, A) s(B, B)),   s(A, B) = mean of y_i . y_j, i in A, j in B, i != j

   Halves of one class have about 0.5 to 0.6 and two classes 0.2 or less, for the median pair, in features of
   pictures and in digits alike: a threshold that needs no scale.
3. Who is far from their group's mean leaves it; a group that is small or loose is none.

The thresholds were chosen on the validation and base classes of tiny ImageNet, and with the digits in sight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from handful.core.arrays import FLOOR, as_like, to_numpy, unit
from handful.core.checks import UNKNOWN, UNKNOWN_NAME, as_features
from handful.core.parameters import AUTO
from handful.core.prepare import Prepared, prepare
from handful.core.task import Task
from handful.engines.neighbours import Neighbours, smooth

PREPARATION = ("signed(0.6)", "l2", "task", "l2")
CORE = 5  # items of a dense core, in all but the smallest piles
SAME = 0.45  # cosine of means from which two groups are one
ALONE = 0.3  # of the cosine to the mean that half of the group have: an item below it leaves
LOOSE = 0.15  # mean product of a group's pairs, below which it is none
LEAST = 3  # items of a group
MOST, BESIDE = 3000, 1000  # items that are clustered, and others beside them; past that, samples of them
ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Group:
    """Items that belong together, `items` by their place in the pile and the most central first."""

    number: int  # 1 is the largest
    items: np.ndarray
    cohesion: float  # mean similarity of its pairs, at most 1

    @property
    def name(self) -> str:
        """What the group is called."""
        return f"group {self.number}"

    @property
    def size(self) -> int:
        """How many items it has."""
        return len(self.items)

    @property
    def representative(self) -> int:
        """The most central item."""
        return int(self.items[0])

    def __repr__(self) -> str:
        return f"<Group {self.number}: {self.size} items, item {self.representative} the most central>"


class Promoted(NamedTuple):
    """A task with groups for classes; `rest`: where the items of its pile were in the old one, [Q']."""

    task: Task
    rest: np.ndarray
    outlier_share: float | str  # what was set before, less the groups that are classes now; or "auto" again


def find_groups(features: Any, context: Any = None) -> np.ndarray:
    """A group number for each item of [n, D], from 0 for the largest; -1 for items in no group.

    context: features [m, D] of what else is in the task. It is not grouped; it tells what all items have in common.

    >>> rng = np.random.default_rng(0)
    >>> hens, owls = (rng.normal(scale=0.3, size=(n, 8)) + 2 * np.eye(8)[k] for k, n in enumerate((20, 10)))
    >>> np.bincount(find_groups(np.concatenate([hens, owls]), rng.normal(size=(30, 8))))
    array([20, 10])
    """
    return _find(features, context).codes


def make_groups(features: Any, items: np.ndarray, context: Any = None) -> list[Group]:
    """The same as `Group`s, the largest first; items: the place of each row in the pile."""
    clusters = _find(features, context)
    members = [np.flatnonzero(clusters.codes == k) for k in range(len(clusters.cohesion))]
    order = [rows[np.argsort(-clusters.central[rows], kind="stable")] for rows in members]
    return [Group(k + 1, items[rows], float(clusters.cohesion[k])) for k, rows in enumerate(order)]


def group_unknowns(task: Task, unknown: np.ndarray) -> list[Group]:
    """The groups of the unknown queries of one task; unknown: [Q] bool."""
    query = to_numpy(task.query[0])
    context = np.concatenate([to_numpy(task.support[0]), query[~unknown]])
    return make_groups(query[unknown], np.flatnonzero(unknown), context)


def promote(
    task: Task,
    groups: list[Group],
    unknown: np.ndarray,
    names: dict[int, Any],
    examples: int = 5,
    outlier_share: float | None = None,
) -> Promoted:
    """See `Result.promote`; outlier_share: what the share was set to, None if it was estimated."""
    by_number = {group.number: group for group in groups}
    if isinstance(examples, bool) or not isinstance(examples, int) or examples < 1:
        raise ValueError(f"examples is {examples!r}: give how many items of a group become examples, at least 1")
    check_names(names, by_number, task.classes.tolist())
    picked = {number: by_number[number].items[:examples] for number in names}
    taken = np.concatenate(list(picked.values()))
    rest = np.setdiff1d(np.arange(len(unknown)), taken)
    if not len(rest):
        raise ValueError("nothing of the pile is left to solve: make fewer of its items examples")
    query = to_numpy(task.query[0])
    labels = [*task.classes[task.labels[0]].tolist()]
    labels += [names[number] for number, rows in picked.items() for _ in rows]
    support = np.concatenate([to_numpy(task.support[0]), query[taken]])
    part = sum(by_number[number].size for number in names) / int(unknown.sum())
    share: float | str = AUTO if outlier_share is None else lower_share(outlier_share, part, len(rest) / len(unknown))
    examples_now, pile = as_like(support, task.support), as_like(query[rest], task.query)  # torch in, torch out
    return Promoted(Task(examples_now, labels, pile), rest, share)


def lower_share(share: float, part: float, kept: float) -> float:
    """An outlier share without this part of the unknowns, of a pile of which so much is left; never 0 or 1."""
    return min(0.99, max(0.01, share * (1 - part) / kept))


def check_names(names: dict[int, Any], groups: dict[int, Any], classes: list[Any]) -> None:
    """Refuse groups that are not there, and names that no class can have or that one has."""
    if not names:
        raise ValueError("no group is named: give the number of one and a name for its class, as {1: 'wheel'}")
    numbers = isinstance(classes[0], int | float)
    for number, name in names.items():
        if number not in groups:
            there = f"they are numbered 1 to {len(groups)}" if groups else "there are none"
            raise ValueError(f"there is no group {number}: {there}")
        if isinstance(name, bool) or not isinstance(name, (int | float | np.number) if numbers else str):
            kind = "numbers" if numbers else "text"
            raise TypeError(f"group {number} is to be called {name!r}, but the classes are {kind}: name it by {kind}")
        if name in (UNKNOWN, UNKNOWN_NAME, "") or name != name:
            raise ValueError(f"group {number} cannot be called {name!r}, which means unknown or unlabelled")
        if name in classes:
            raise ValueError(f"there is a class {name!r} already: give group {number} another name")


class Clusters(NamedTuple):
    """A group for each item, and how well the items fit."""

    codes: np.ndarray  # [n]
    central: np.ndarray  # [n], the cosine to the mean of the group
    cohesion: np.ndarray  # [groups]


def _find(features: Any, context: Any) -> Clusters:
    if np.ndim(features) == 2 and not len(features):
        return _none(0)
    x = to_numpy(as_features(features, "features")).astype(np.float64)
    beside = x[:0] if context is None or not len(context) else to_numpy(as_features(context, "context"))
    if x.ndim != 2 or beside.ndim != 2 or beside.shape[1] != x.shape[1]:
        raise ValueError(f"features have shape {x.shape} and context {beside.shape}: give [n, D] and [m, D]")
    if len(x) < LEAST:
        return _none(len(x))
    if (x == x[0]).all():  # without a context nothing of them would be left
        return Clusters(np.zeros(len(x), int), np.ones(len(x)), np.ones(1))
    rng = np.random.default_rng(0)
    sample = np.sort(rng.choice(len(x), MOST, replace=False)) if len(x) > MOST else np.arange(len(x))
    if len(beside) > BESIDE:
        beside = beside[np.sort(rng.choice(len(beside), BESIDE, replace=False))]
    prepared = prepare(x[None, sample], beside[None].astype(np.float64), PREPARATION)
    near = smooth(prepared.support, prepared.query)
    y = near.smooth[0, : len(sample)]
    codes = _join(y, _nearest_mean(y, _cores(y)))
    codes = _nearest_mean(y, codes)
    if len(sample) < len(x):
        y, codes = _all_items(x, sample, y, codes, prepared, near)
    return _settled(y, codes)


def _none(n: int) -> Clusters:
    return Clusters(np.full(n, -1), np.zeros(n), np.zeros(0))


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


def _join(y: np.ndarray, codes: np.ndarray) -> np.ndarray:
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
        if a == b or cosine[a, b] < SAME:
            return np.unique(group[codes], return_inverse=True)[1]
        products[a] += products[b]
        products[:, a] += products[:, b]
        for total in (size, own):
            total[a] += total[b]
            total[b] = 0
        group[group == b] = a


def _all_items(
    x: np.ndarray, sample: np.ndarray, y: np.ndarray, codes: np.ndarray, prepared: Prepared, near: Neighbours
) -> tuple[np.ndarray, np.ndarray]:
    """y and codes of all items, by the groups of a sample."""
    means = unit(_means(y, codes))
    every, everyone = np.empty_like(x), np.empty(len(x), int)
    every[sample], everyone[sample] = y, codes
    others = np.setdiff1d(np.arange(len(x)), sample)
    for part in np.array_split(others, -(-len(others) // MOST)):
        every[part] = near.of_new(prepared.replay(x[None, part]))[0]
        everyone[part] = (every[part] @ means.T).argmax(axis=1)
    return every, everyone


def _settled(y: np.ndarray, codes: np.ndarray) -> Clusters:
    """Without loners, small groups and loose ones; numbered by size."""
    rest = _means(y, codes)[codes] - y  # the group without the item itself
    cosine = np.vecdot(unit(rest), y)
    usual = np.array([np.median(cosine[codes == k]) for k in range(codes.max() + 1)])
    codes = np.where(cosine < ALONE * usual[codes], -1, codes)
    if codes.max() < 0:
        return _none(len(y))
    size = np.bincount(codes[codes >= 0])
    sums = _means(y, codes)
    own = np.bincount(codes[codes >= 0], np.vecdot(y, y)[codes >= 0])
    cohesion = (np.vecdot(sums, sums) - own) / np.maximum(size * (size - 1), 1)
    stays = np.flatnonzero((size >= LEAST) & (cohesion >= LOOSE))
    first = np.array([np.flatnonzero(codes == k)[0] for k in stays], int)
    stays = stays[np.lexsort((first, -size[stays]))]
    if not len(stays):
        return _none(len(y))
    number = np.full(len(size) + 1, -1)  # the last is for -1
    number[stays] = np.arange(len(stays))
    codes = number[codes]
    central = np.vecdot(unit(sums[stays])[codes], y)
    return Clusters(codes, np.where(codes >= 0, central, 0.0), np.minimum(cohesion[stays], 1.0))

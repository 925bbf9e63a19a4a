"""The unknown items of a pile as groups: candidates for new classes. `handful.solving.clusters` finds them.

A method may open classes itself: its state then has an array `joined` [1, Q], the number of the class that each query
joined. Numbers from N (the number of known classes) are classes that it opened, and these are the groups.

A person may split a group that looks like several kinds, join two groups, and make a class of a group
(`handful.solving.promotion`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.task import Task
from handful.solving.clusters import MAX_EXEMPLARS, Clusters, clusters_of, find_clusters, kinds_in, spanning
from handful.solving.group_list import Groups

MIN_EXAMPLES = 5  # of a class made of a group
WORDS_IN_NAME = 3
ALL_KINDS = 3  # kinds in a group from which all of its items become examples; of one kind a third


@dataclass(frozen=True, eq=False)
class Group:
    """Items that belong together, `items` by their place in the pile and the most central first.

    Parameters
    ----------
    number : int
        1 is the largest.
    items : array [n]
        Their places in the pile.
    cohesion : float
        The mean similarity of its pairs, at most 1.
    span : array, optional
        Some of the items, which together stand for all: the most useful first.
    parts : sequence of arrays
        If it looks like several kinds: the items of each kind.
    part_spans : sequence of arrays
        For each kind the items that stand for it.
    words : sequence of str
        Where items are texts: the words that speak for it, the most telling first.
    part_words : sequence of sequences of str
        For each kind the words that tell it from the other kinds of the group.
    """

    number: int
    items: np.ndarray
    cohesion: float
    span: np.ndarray | None = None
    parts: Sequence[np.ndarray] = ()
    part_spans: Sequence[np.ndarray] = ()
    words: Sequence[str] = ()
    part_words: Sequence[Sequence[str]] = ()

    @property
    def name(self) -> str:
        """What the group is called: by its number, and where items are texts by its telling words."""
        words = ", ".join(self.words[:WORDS_IN_NAME])
        return f"group {self.number}: {words}" if words else f"group {self.number}"

    @property
    def size(self) -> int:
        """How many items it has."""
        return len(self.items)

    @property
    def kinds(self) -> int:
        """How many kinds of items it seems to hold."""
        return max(1, len(self.parts))

    @property
    def representative(self) -> int:
        """The most central item."""
        return int(self.items[0])

    def exemplars(self, count: int | None = None) -> np.ndarray:
        """The items that stand best for all of the group, the most useful first.

        Parameters
        ----------
        count : int, optional
            How many, at most. By default a third of the group, at least 5 and at most 100; if it looks like two kinds
            two thirds, if like more all.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> hens = rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[0]
        >>> group = make_groups(hens, np.arange(20), rng.normal(size=(30, 8)))[0]
        >>> len(group.exemplars(3)), len(group.exemplars(100))
        (3, 20)
        """
        span = self.items[:0] if self.span is None else self.span
        rest = self.items[~np.isin(self.items, span)]
        return np.concatenate([span, rest])[: example_count(self.size, self.kinds) if count is None else count]

    def at(self, rows: np.ndarray) -> Group:
        """The same group where the item in place i is called rows[i].

        >>> Group(1, np.array([2, 0]), 0.5).at(np.array([10, 11, 12])).items
        array([12, 10])
        """
        span = None if self.span is None else rows[self.span]
        parts, part_spans = ([rows[items] for items in lists] for lists in (self.parts, self.part_spans))
        return replace(self, items=rows[self.items], span=span, parts=parts, part_spans=part_spans)

    def split(self) -> list[Group]:
        """Its kinds as groups of their own, the largest first; only itself if it looks like one kind."""
        if self.kinds == 1:
            return [self]
        spans = [*self.part_spans, *[None] * (self.kinds - len(self.part_spans))]
        words = [*self.part_words, *[()] * (self.kinds - len(self.part_words))]
        kinds = zip(self.parts, spans, words, strict=True)
        return [
            Group(k, items, self.cohesion, span, words=own_words) for k, (items, span, own_words) in enumerate(kinds, 1)
        ]

    def __repr__(self) -> str:
        kinds = f", looks like {self.kinds} kinds" if self.kinds > 1 else ""
        return f"<Group {self.number}: {self.size} items, item {self.representative} the most central{kinds}>"


def example_count(size: int, kinds: int = 1) -> int:
    """How many items of a group become examples, unless somebody says how many.

    Of one kind a third: fewer find less of the group again, and with more the new class outweighs those of five
    examples. A class of several kinds is found only where its examples are: of two kinds two thirds, of more all.
    """
    return min(size, MAX_EXEMPLARS * kinds, max(MIN_EXAMPLES, -(-size * min(kinds, ALL_KINDS) // ALL_KINDS)))


def find_groups(features: Any, context: Any = None, detail: float = 0.0) -> np.ndarray:
    """A group number for each item of [n, D], from 0 for the largest; -1 for items in no group.

    context: features [m, D] of what else is in the task. It is not grouped; it tells what all items have in common.
    detail: from -2 (few, coarse groups) to 2 (many, fine groups).

    >>> rng = np.random.default_rng(0)
    >>> hens, owls = (rng.normal(scale=0.3, size=(n, 8)) + 2 * np.eye(8)[k] for k, n in enumerate((20, 10)))
    >>> np.bincount(find_groups(np.concatenate([hens, owls]), rng.normal(size=(30, 8))))
    array([20, 10])
    """
    return find_clusters(features, context, detail).codes


def make_groups(features: Any, items: np.ndarray, context: Any = None, detail: float = 0.0) -> Groups:
    """The same as `Group`s, the largest first; items: the place of each row in the pile."""
    return _as_groups(find_clusters(features, context, detail), items)


def group_unknowns(task: Task, unknown: np.ndarray, detail: float = 0.0, joined: np.ndarray | None = None) -> Groups:
    """The groups of the unknown queries of one task.

    Parameters
    ----------
    task : Task
        One task.
    unknown : array [Q] of bool
        Which queries are unknown.
    detail : float
        From -2 (few, coarse groups) to 2 (many, fine groups).
    joined : array [Q] of int, optional
        The number of the class that each query joined. With it, and with detail 0, the groups are the classes from
        number N on, which the method opened; any other detail looks for groups anew.

    Examples
    --------
    >>> task = Task(np.eye(4)[:2], ["cat", "dog"], np.eye(4)[[2, 0, 3, 2, 3, 3]])
    >>> unknown, joined = np.array([True, False, True, True, True, True]), np.array([2, 0, 5, 2, 5, 5])
    >>> [group.items.tolist() for group in group_unknowns(task, unknown, joined=joined)]
    [[2, 4, 5], [0, 3]]
    """
    query, rows = to_numpy(task.query[0]), np.flatnonzero(unknown)
    context = np.concatenate([to_numpy(task.support[0]), query[~unknown]])
    if joined is None or detail:
        return make_groups(query[unknown], rows, context, detail)
    codes = np.where(joined >= task.ways, joined, -1)[unknown]
    return _as_groups(clusters_of(query[unknown], codes, context), rows)


def joined_classes(state: Mapping[str, Any], queries: int) -> np.ndarray | None:
    """`joined` [Q] of a method's state, also where the method is part of a pair; None if it opens no classes.

    queries: how many the pile has. Of a sample of them the classes do not speak for the pile: None.

    Examples
    --------
    >>> joined_classes({"joined": np.array([[0, 3]])}, 2)
    array([0, 3])
    """
    for name, array in state.items():
        if name.rpartition("/")[2] == "joined" and array.shape[1] == queries:
            return to_numpy(array[0]).astype(int)
    return None


def _as_groups(clusters: Clusters, items: np.ndarray) -> Groups:
    """Clusters as `Group`s; items: the place of each row in the pile."""
    groups = Groups()
    for k, cohesion in enumerate(clusters.cohesion.tolist()):
        rows = np.flatnonzero(clusters.codes == k)
        rows = rows[np.argsort(-clusters.central[rows], kind="stable")]
        kinds = kinds_in(clusters.smooth[rows])
        parts = [rows[kinds == kind] for kind in range(kinds.max() + 1)] if kinds.any() else []
        spans = [part[spanning(clusters.smooth[part], len(part))] for part in (rows, *parts)]
        own = [items[part] for part in parts]
        groups.append(Group(k + 1, items[rows], cohesion, items[spans[0]], own, [items[span] for span in spans[1:]]))
    return groups


def split_group(groups: Sequence[Group], number: int) -> Groups:
    """The groups with one of them split into its kinds, numbered anew: the largest is 1.

    Examples
    --------
    >>> mixed = Group(1, np.arange(6), 0.5, parts=[np.arange(4), np.arange(4, 6)])
    >>> [group.size for group in split_group([mixed], 1)]
    [4, 2]
    """
    group = _find_group(groups, number)
    if group.kinds == 1:
        raise ValueError(f"group {number} looks like one kind: there is nothing to split")
    return renumbered([*(other for other in groups if other is not group), *group.split()])


def join_groups(groups: Sequence[Group], numbers: Sequence[int]) -> Groups:
    """The groups with some of them joined into one, numbered anew: the largest is 1.

    Examples
    --------
    >>> groups = [Group(1, np.arange(4), 0.5), Group(2, np.arange(4, 7), 0.6)]
    >>> [group.size for group in join_groups(groups, [1, 2])]
    [7]
    """
    members = [_find_group(groups, number) for number in dict.fromkeys(numbers)]
    if len(members) < 2:
        raise ValueError("one group alone cannot be joined: name two or more")
    parts, spans = [group.items for group in members], [group.exemplars() for group in members]
    cohesion = float(np.average([group.cohesion for group in members], weights=[group.size for group in members]))
    joined = Group(1, interleaved(parts), cohesion, interleaved(spans), parts, spans)
    return renumbered([joined, *(other for other in groups if other not in members)])


def interleaved(lists: Sequence[Any]) -> np.ndarray:
    """The first of each, the second of each, and so on: so that a beginning stands for all."""
    places = np.concatenate([np.arange(len(one)) for one in lists])
    return np.concatenate([np.asarray(one) for one in lists])[np.argsort(places, kind="stable")]


def renumbered(groups: Sequence[Group]) -> Groups:
    """The groups by size, numbered 1, 2, ..."""
    order = sorted(groups, key=lambda group: (-group.size, group.items.min()))
    return Groups(replace(group, number=k) for k, group in enumerate(order, 1))


def _find_group(groups: Sequence[Group], number: int) -> Group:
    for group in groups:
        if group.number == number:
            return group
    there = f"they are numbered 1 to {len(groups)}" if groups else "there are none"
    raise ValueError(f"there is no group {number}: {there}")

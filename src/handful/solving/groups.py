"""The unknown items of a pile as groups: candidates for new classes. `handful.solving.clusters` finds them.

A method may open classes itself: its state then has an array `joined` [1, Q], the number of the class that each query
joined. Numbers from N (the number of known classes) are classes that it opened, and these are the groups.

A person may split a group that looks like several kinds, join two groups, and make a class of a group. Of texts, a
group has a name made of its telling words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import is_no_class, is_no_label
from handful.core.task import Task
from handful.solving.clusters import MAX_EXEMPLARS, Clusters, clusters_of, find_clusters, kinds_in, spanning
from handful.solving.telling_words import telling_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_EXAMPLES = 5  # of a class made of a group
MAX_WORDS = 12  # that speak for a group
WORDS_IN_NAME = 3
ALL_KINDS = 3  # kinds in a group from which all of its items become examples; of one kind a third


@dataclass(frozen=True, eq=False)
class Group:
    """Items that belong together, candidates for a class."""

    number: int  # 1 is the largest
    items: np.ndarray  # [n] their places in the pile, the most central first
    cohesion: float  # the mean similarity of its pairs, at most 1
    span: np.ndarray | None = None  # some of the items, which together stand for all: the most useful first
    parts: Sequence[Group] = ()  # if it looks like several kinds, these
    words: Sequence[str] = ()  # of texts: the most telling first; of a kind, those that tell it from the other kinds

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
        """The items that stand best for all of the group, the most useful first: `count` at most.

        By default a third of the group, at least 5 and at most 100; if it looks like two kinds two thirds, if like more
        all.
        """
        span = self.items[:0] if self.span is None else self.span
        rest = self.items[~np.isin(self.items, span)]
        return np.concatenate([span, rest])[: example_count(self.size, self.kinds) if count is None else count]

    def at(self, rows: np.ndarray) -> Group:
        """The same group where the item in place i is called rows[i]."""
        span = None if self.span is None else rows[self.span]
        return replace(self, items=rows[self.items], span=span, parts=[part.at(rows) for part in self.parts])

    def split(self) -> list[Group]:
        """Its kinds as groups of their own, the largest first; only itself if it looks like one kind."""
        return [*self.parts] or [self]

    def __repr__(self) -> str:
        kinds = f", looks like {self.kinds} kinds" if self.kinds > 1 else ""
        return f"<Group {self.number}: {self.size} items, item {self.representative} the most central{kinds}>"


class Groups(list[Group]):
    """The groups of unknowns, the largest first: a list of `Group` that a notebook shows as a table."""

    def plot(self, pictures: Any = None) -> Figure:
        """Draw the sizes of the groups with matplotlib (extra `plots`), beside typical ones of the pile's `pictures`.

        `pictures` are those of the whole pile, as for `handful.Result.plot`. Returns the figure.
        """
        from handful.report.plots import draw_groups

        highest = max((int(group.items.max()) + 1 for group in self), default=0)
        count = len(pictures) if hasattr(pictures, "__len__") and not isinstance(pictures, str) else highest
        if count < highest:
            raise ValueError(
                f"the groups hold item {highest - 1:,} and there are {count:,} pictures: give those of the whole pile, "
                "one for each item"
            )
        return draw_groups(self, pictures, count)

    def _repr_html_(self) -> str:
        from handful.report.table import groups_table

        return groups_table(self)


def example_count(size: int, kinds: int = 1) -> int:
    """How many items of a group become examples, unless somebody says how many.

    Of one kind a third: fewer find less of the group again, and with more the new class outweighs those of five
    examples. A class of several kinds is found only where its examples are: of two kinds two thirds, of more all.
    """
    return min(size, MAX_EXEMPLARS * kinds, max(MIN_EXAMPLES, -(-size * min(kinds, ALL_KINDS) // ALL_KINDS)))


# ---- finding them


def make_groups(features: Any, items: np.ndarray, context: Any = None, detail: float = 0.0) -> Groups:
    """The groups of items by their features [n, D], see `find_clusters`; items: the place of each in the pile."""
    return _as_groups(find_clusters(features, context, detail), items)


def group_unknowns(
    task: Task, unknown: np.ndarray, detail: float = 0.0, state: Mapping[str, Any] | None = None
) -> Groups:
    """The groups of the unknown [Q] queries of one task; with detail 0, the classes that the method opened."""
    query, rows = to_numpy(task.query[0]), np.flatnonzero(unknown)
    context = np.concatenate([to_numpy(task.support[0]), query[~unknown]])
    # the arrays of a pair have a prefix; classes of a sample of the pile do not speak for all of it
    joined = [x for name, x in (state or {}).items() if name.split("/")[-1] == "joined" and x.shape[1] == len(unknown)]
    if not joined or detail:
        return make_groups(query[unknown], rows, context, detail)
    numbers = to_numpy(joined[0][0]).astype(int)
    codes = np.where(numbers >= task.ways, numbers, -1)[unknown]
    return _as_groups(clusters_of(query[unknown], codes, context), rows)


def _as_groups(clusters: Clusters, items: np.ndarray) -> Groups:
    """Clusters as `Group`s; items: the place of each row in the pile."""

    def group(number: int, rows: np.ndarray, cohesion: float, parts: Sequence[Group] = ()) -> Group:
        span = rows[spanning(clusters.smooth[rows], len(rows))]
        return Group(number, items[rows], cohesion, items[span], parts)

    groups = Groups()
    for k, cohesion in enumerate(clusters.cohesion.tolist()):
        rows = np.flatnonzero(clusters.codes == k)
        rows = rows[np.argsort(-clusters.central[rows], kind="stable")]
        kinds = kinds_in(clusters.smooth[rows])
        parts = [group(kind + 1, rows[kinds == kind], cohesion) for kind in range(kinds.max() + 1)]
        groups.append(group(k + 1, rows, cohesion, parts if len(parts) > 1 else ()))
    return groups


def with_words(groups: Sequence[Group], texts: Sequence[str]) -> Groups:
    """The groups with the words that speak for each against all other texts of the pile, and for each of its kinds."""
    every = [one for group in groups for one in (group, *group.parts)]
    words = dict(zip(map(id, every), telling_words(texts, [one.items for one in every], MAX_WORDS), strict=True))

    def named(group: Group) -> Group:
        counts = Counter(word for part in group.parts for word in words[id(part)])
        own = [[word for word in words[id(part)] if counts[word] == 1] for part in group.parts]
        parts = [replace(part, words=few) for part, few in zip(group.parts, own, strict=True)]
        return replace(group, words=words[id(group)], parts=parts)

    return Groups(map(named, groups))


# ---- changing them


def split_group(groups: Sequence[Group], number: int) -> Groups:
    """The groups with one of them split into its kinds, numbered anew: the largest is 1."""
    group = _find_group(groups, number)
    if group.kinds == 1:
        raise ValueError(f"group {number} looks like one kind: there is nothing to split")
    return _renumbered([*(other for other in groups if other is not group), *group.split()])


def join_groups(groups: Sequence[Group], numbers: Sequence[int]) -> Groups:
    """The groups with some of them joined into one, numbered anew: the largest is 1."""
    members = [_find_group(groups, number) for number in dict.fromkeys(numbers)]
    if len(members) < 2:
        raise ValueError("one group alone cannot be joined: name two or more")
    parts = [Group(k, group.items, group.cohesion, group.exemplars()) for k, group in enumerate(members, 1)]
    items, span = interleaved([part.items for part in parts]), interleaved([part.span for part in parts])
    cohesion = float(np.average([group.cohesion for group in members], weights=[group.size for group in members]))
    joined = Group(1, items, cohesion, span, parts)
    return _renumbered([joined, *(other for other in groups if other not in members)])


def interleaved(lists: Sequence[Any]) -> np.ndarray:
    """The first of each, the second of each, and so on: so that a beginning stands for all."""
    places = np.concatenate([np.arange(len(one)) for one in lists])
    return np.concatenate([np.asarray(one) for one in lists])[np.argsort(places, kind="stable")]


def _renumbered(groups: Sequence[Group]) -> Groups:
    order = sorted(groups, key=lambda group: (-group.size, group.items.min()))
    return Groups(replace(group, number=k) for k, group in enumerate(order, 1))


def _find_group(groups: Sequence[Group], number: Any) -> Group:
    for group in groups:
        if group.number == number:
            return group
    raise _no_group(number, len(groups))


def _no_group(number: Any, count: int) -> ValueError:
    there = f"they are numbered 1 to {count}" if count else "there are none"
    return ValueError(f"there is no group {number}: {there}")


# ---- making classes of them


class Promoted(NamedTuple):
    """A task with groups for classes; `rest`: where the items of its pile were in the old one, [Q']."""

    task: Task
    rest: np.ndarray
    outlier_share: float  # the share of before, less the groups that are classes now


def lower_share(share: float, part: float, kept: float) -> float:
    """An outlier share without this part of the unknowns, of a pile of which so much is left; never 0 or 1."""
    return min(0.99, max(0.01, share * (1 - part) / kept))


def check_examples(examples: int | None) -> None:
    """Raise ValueError unless it is None or a whole number from 1."""
    if examples is not None and (isinstance(examples, bool) or not isinstance(examples, int) or examples < 1):
        raise ValueError(f"examples is {examples!r}: give how many items of a group become examples, at least 1")


def check_names(
    names: Mapping[Any, Any], groups: Mapping[Any, Any], classes: Sequence[Any], join: bool = False
) -> None:
    """Refuse groups that are not there, and names that no class can have or that, without `join`, one has."""
    if not names:
        raise ValueError("no group is named: give the number of one and a name for its class, as {1: 'wheel'}")
    numbers = isinstance(classes[0], int | float)
    for number, name in names.items():
        if number not in groups:
            raise _no_group(number, sum(isinstance(key, int) for key in groups))
        if isinstance(name, bool) or not isinstance(name, (int | float | np.number) if numbers else str):
            kind = "numbers" if numbers else "text"
            raise TypeError(f"group {number} is to be called {name!r}, but the classes are {kind}: name it by {kind}")
        if is_no_class(name) or is_no_label(name):
            raise ValueError(f"group {number} cannot be called {name!r}, which means unknown or unlabelled")
        if name in classes and not join:
            raise ValueError(
                f"there is a class {name!r} already: give group {number} another name, or say that it joins this class "
                "(in Python join=True, on the command line --join)"
            )

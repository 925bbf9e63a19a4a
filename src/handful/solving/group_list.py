"""Groups of unknowns as a list that can be looked at, and the words that speak for groups of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from handful.solving.telling_words import telling_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from handful.solving.groups import Group

MAX_WORDS = 12  # that speak for a group


class Groups(list["Group"]):
    """The groups of unknowns, the largest first: a list of `Group` that a notebook shows as a table.

    Examples
    --------
    >>> import numpy as np
    >>> from handful.solving.groups import Group
    >>> groups = Groups([Group(1, np.arange(4), 0.5), Group(2, np.arange(4, 7), 0.6)])
    >>> len(groups), groups[0].size, "4 items" in groups._repr_html_()
    (2, 4, True)
    """

    def plot(self, pictures: Any = None) -> Figure:
        """Draw the sizes of the groups with matplotlib; needs the extra `plots`.

        Parameters
        ----------
        pictures : sequence or array, optional
            The pictures of the whole pile, for a row of typical items beside each group: see `handful.Result.plot`.

        Returns
        -------
        matplotlib.figure.Figure
            Save it with `savefig`, or change it.
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


def with_words(groups: Sequence[Group], texts: Sequence[str]) -> Groups:
    """The groups with the words that speak for each against all other texts, and for each of its kinds.

    texts: those of the whole pile.

    Examples
    --------
    >>> import numpy as np
    >>> from handful.solving.groups import Group
    >>> texts = ["pesos in dollars", "how many dollars is it", "hi there", "how is it", "dollars to pesos"]
    >>> with_words([Group(1, np.array([0, 1, 4]), 0.5)], texts)[0].name
    'group 1: dollars, pesos'
    """
    words = iter(telling_words(texts, [rows for group in groups for rows in (group.items, *group.parts)], MAX_WORDS))
    return Groups(
        replace(group, words=next(words), part_words=_of_one_list([next(words) for _ in group.parts]))
        for group in groups
    )


def _of_one_list(lists: Sequence[Sequence[str]]) -> list[list[str]]:
    """The words of each list that no other list has."""
    counts = Counter(word for words in lists for word in words)
    return [[word for word in words if counts[word] == 1] for words in lists]

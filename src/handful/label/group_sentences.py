"""The groups of unknowns in words."""

from __future__ import annotations

from collections.abc import Sequence

from handful.solving.groups import WORDS_IN_NAME, Group

MAX_LISTED_GROUPS = 12  # groups whose sizes a sentence lists one by one
MAX_NAMED_GROUPS = 6  # groups whose words a sentence lists
MAX_MIXED_GROUPS = 4  # groups of several kinds that have a sentence of their own


def groups_in_words(groups: Sequence[Group], unknown: int) -> list[str]:
    r"""How many groups there are, what they speak of where items are texts, and which look like several kinds.

    Parameters
    ----------
    groups : sequence of Group
        The largest first.
    unknown : int
        How many items are unknown, also those in no group.

    Examples
    --------
    >>> import numpy as np
    >>> groups = [Group(1, np.arange(4), 0.5, words=["dollars", "pesos"]), Group(2, np.arange(4, 7), 0.5)]
    >>> print(*groups_in_words(groups, 8), sep="\n")
    The 8 unknowns fall into about 2 groups of 4 and 3; 1 belongs to none.
    By their words: group 1 (dollars, pesos).
    """
    if not groups:
        return []
    lines = [_sizes_in_words([group.size for group in groups], unknown)]
    if named := [group for group in groups if group.words]:
        listed = [f"group {g.number} ({', '.join(g.words[:WORDS_IN_NAME])})" for g in named[:MAX_NAMED_GROUPS]]
        more = len(named) - len(listed)
        lines.append(f"By their words: {', '.join(listed)}{f' and {more} more' if more else ''}.")
    mixed = [group for group in groups if group.kinds > 1]
    lines += [
        f"Group {group.number} looks like {group.kinds} kinds, of {_listed(list(map(_kind_in_words, group.split())))}."
        for group in mixed[:MAX_MIXED_GROUPS]
    ]
    if more := len(mixed[MAX_MIXED_GROUPS:]):
        lines.append(f"{more} more group{'s look' if more > 1 else ' looks'} like several kinds.")
    return lines


def _sizes_in_words(sizes: Sequence[int], unknown: int) -> str:
    listed = _listed(sizes) if len(sizes) <= MAX_LISTED_GROUPS else f"{sizes[-1]} to {sizes[0]}"
    groups = f"about {len(sizes)} groups of {listed}" if len(sizes) > 1 else f"one group of {listed}"
    outside_groups = unknown - sum(sizes)
    alone = f"; {outside_groups} belong{'s' * (outside_groups == 1)} to none" if outside_groups else ""
    return f"The {unknown} unknowns fall into {groups}{alone}."


def _kind_in_words(kind: Group) -> str:
    return f"{kind.size} ({', '.join(kind.words[:WORDS_IN_NAME])})" if kind.words else str(kind.size)


def _listed(sizes: Sequence[object]) -> str:
    """Numbers as in "12, 8 and 3"."""
    return " and ".join(filter(None, (", ".join(map(str, sizes[:-1])), str(sizes[-1]))))

"""A pile before and after groups became classes: what has changed, and whether that is more than was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME
from handful.utils.shares_in_words import percent

MAX_SHARE_SWING = 0.10  # of the pile: more or fewer unknowns than the promoted groups explain
MAX_CHANGED = 0.05  # of the pile: items in none of the groups that have another label now
MIN_FOUND = 0.5  # of a group: its items that have the name of its class now


@dataclass(frozen=True)
class Comparison:
    """What a promotion has changed.

    Parameters
    ----------
    items : int
        The items of the pile.
    unknown_before, unknown_after : int
        How many of them were called unknown, and are now.
    changed : int
        Items in none of the promoted groups that have another label now, without unknowns that are of a new class now.
    found : mapping of str to (int, int)
        For each new class, how many items of its groups have its name now, and how many there are.
    """

    items: int
    unknown_before: int
    unknown_after: int
    changed: int
    found: Mapping[str, tuple[int, int]]

    @property
    def warnings(self) -> list[str]:
        """What has changed more than the promotion explains, in words; empty if nothing has."""
        lines = []
        for name, (count, size) in self.found.items():
            if count < MIN_FOUND * size:
                lines.append(f"Only {count} of the {size} items that should be {name} were labelled so.")
        expected = self.unknown_before - sum(size for _, size in self.found.values())
        if abs(self.unknown_after - expected) > MAX_SHARE_SWING * self.items:
            lines.append(
                f"{self.unknown_after} items are unknown now; about {max(0, expected)} were expected, which is "
                f"{self.unknown_before} less the groups that are classes now."
            )
        if self.changed > MAX_CHANGED * self.items:
            part = percent(self.changed / self.items)
            lines.append(
                f"{self.changed} items that are in none of these groups have another label now ({part} of the pile)."
            )
        return lines

    def entries(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "unknown_before": self.unknown_before, "unknown_after": self.unknown_after, "changed": self.changed,
            "found": {name: {"found": count, "size": size} for name, (count, size) in self.found.items()},
            "warnings": self.warnings,
        }  # fmt: skip


def compare(before: Sequence[str], after: Sequence[str], groups: Mapping[str, Sequence[int]]) -> Comparison:
    """Compare the labels of a pile before and after a promotion.

    Parameters
    ----------
    before, after : sequence of str
        The label of each item; "unknown" for unknown ones.
    groups : mapping of str to rows
        The items of the promoted groups, by the name of their class.

    Returns
    -------
    Comparison
        What has changed.

    Examples
    --------
    >>> before = ["cat"] * 6 + ["unknown"] * 4
    >>> compare(before, ["cat"] * 6 + ["hen"] * 4, {"hen": range(6, 10)}).warnings
    []
    >>> compare(before, ["cat"] * 6 + ["hen", "unknown", "unknown", "unknown"], {"hen": range(6, 10)}).warnings[0]
    'Only 1 of the 4 items that should be hen were labelled so.'
    """
    old, new = np.asarray(before, dtype=object), np.asarray(after, dtype=object)
    rows = {name: np.asarray(list(items), int) for name, items in groups.items()}
    is_member = np.zeros(len(old), bool)
    for members in rows.values():
        is_member[members] = True
    is_asked_for = is_member | ((old == UNKNOWN_NAME) & np.isin(new.astype(str), list(rows)))
    moved = (new != old) & ~is_asked_for
    return Comparison(
        len(old),
        int((old == UNKNOWN_NAME).sum()),
        int((new == UNKNOWN_NAME).sum()),
        int(moved.sum()),
        {name: (int((new[members] == name).sum()), len(members)) for name, members in rows.items()},
    )

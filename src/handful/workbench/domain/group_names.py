"""Names of the groups of unknowns: the words that tell the texts of a group from all others."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from handful.workbench.domain.runs import RowAnswers

if TYPE_CHECKING:
    from handful.workbench.domain.state import State

MAX_COMPARED_TEXTS = 10_000  # of all groups, and of other texts: more take seconds and give the same words
MIN_GROUP_TEXTS = 20
# They are found once for the answers of a run at a threshold, and stay the same while a person labels
_names: WeakKeyDictionary[RowAnswers, dict[int, str]] = WeakKeyDictionary()


def group_names(state: State) -> dict[int, str]:
    """The names of groups by number; a group whose texts share no telling words has none, nor has one of pictures."""
    pile, answers = state.pile, state.row_answers
    if pile.texts is None or not answers.groups:
        return {}
    if (names := _names.get(answers)) is None:
        from handful.solving.telling_words import telling_words

        most = max(MIN_GROUP_TEXTS, MAX_COMPARED_TEXTS // len(answers.groups))
        members = [group[pile.usable[group]][:most] for group in answers.groups.values()]  # the most central first
        usable = np.flatnonzero(pile.usable)
        others = usable[:: 1 + len(usable) // MAX_COMPARED_TEXTS]
        rows = np.unique(np.concatenate([others, *members]))
        groups = [np.searchsorted(rows, group) for group in members]
        words = telling_words([pile.texts[i] for i in rows.tolist()], groups)
        names = {number: ", ".join(some) for number, some in zip(answers.groups, words, strict=True) if some}
        _names[answers] = names
    return names

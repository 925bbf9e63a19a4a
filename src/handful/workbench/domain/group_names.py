"""Names of the groups of unknowns: the words that tell the texts of a group from all others."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from handful.workbench.domain.runs import RowAnswers

if TYPE_CHECKING:
    from handful.workbench.domain.state import State

# They are found once for the answers of a run at a threshold, and stay the same while a person labels
_names: WeakKeyDictionary[RowAnswers, dict[int, str]] = WeakKeyDictionary()


def group_names(state: State) -> dict[int, str]:
    """The names of groups by number; a group whose texts share no telling words has none, nor has one of pictures."""
    pile, answers = state.pile, state.row_answers
    if pile.texts is None or not answers.groups:
        return {}
    if (names := _names.get(answers)) is None:
        from handful.solving.telling_words import telling_words

        rows = np.flatnonzero(pile.usable)
        place = np.full(len(pile), -1)
        place[rows] = np.arange(len(rows))
        groups = [place[group[pile.usable[group]]] for group in answers.groups.values()]
        words = telling_words([pile.texts[i] for i in rows.tolist()], groups)
        names = {number: ", ".join(some) for number, some in zip(answers.groups, words, strict=True) if some}
        _names[answers] = names
    return names

"""The items whose label would help the next run most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from handful.workbench.domain.runs import NONE

if TYPE_CHECKING:
    from handful.workbench.domain.state import State

MAX_ASKED_ITEMS = 100


def rows_worth_asking(state: State) -> np.ndarray:
    """The rows that are most worth a label by a person, the best first; none before the first run."""
    from handful.solving.ask import belief, worth_asking

    run, pile, answers = state.run, state.pile, state.row_answers
    rows = np.flatnonzero(pile.ready & pile.usable & (state.labels == NONE) & (answers.place != NONE))
    if run is None or not len(rows):
        return np.zeros(0, int)
    place = {row: k for k, row in enumerate(rows.tolist())}
    groups = [[place[row] for row in group.tolist() if row in place] for group in answers.groups.values()]
    probabilities = belief(run.answers)[answers.place[rows]]  # [n, N + 1]
    order = worth_asking(pile.features[rows], probabilities, min(MAX_ASKED_ITEMS, len(rows)), groups=groups)
    return np.asarray(rows[order])

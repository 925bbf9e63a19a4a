"""The items whose label would help the next run most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from handful.workbench.domain.runs import NONE

if TYPE_CHECKING:
    from handful.workbench.domain.state import State

MAX_ASKED_ITEMS = 100


def rows_worth_asking(state: State) -> np.ndarray:
    """The rows that are most worth a label by a person, the best first; none before the first run."""
    run, pile, answers = state.run, state.pile, state.row_answers
    rows = np.flatnonzero(pile.ready & pile.usable & (state.labels == NONE) & (answers.place != NONE))
    if run is None or not len(rows):
        return np.zeros(0, int)
    taken = run.answers.take(answers.place[rows])
    if taken.p_unknown is None:  # scores only rank: certain that it is unknown, or not
        unknown = np.where(taken.unknown, taken.confidence, 0.0)
        known = taken.joint_probabilities * (1 - unknown[:, None])
    else:
        unknown, known = taken.p_unknown, taken.joint_probabilities
    place = {row: k for k, row in enumerate(rows.tolist())}
    groups = [[place[row] for row in group.tolist() if row in place] for group in answers.groups.values()]
    probabilities = np.column_stack([known, unknown])  # [n, N + 1]
    order = _worth_asking(pile.features[rows], probabilities, min(MAX_ASKED_ITEMS, len(rows)), groups=groups)
    return np.asarray(rows[order])


def _worth_asking(
    features: np.ndarray, probabilities: np.ndarray, count: int, *, groups: Sequence[Sequence[int]] = ()
) -> np.ndarray:
    """The items with the smallest gap between their two most probable answers."""
    best = np.sort(probabilities, axis=1)[:, -2:]
    return np.argsort(best[:, 1] - best[:, 0], kind="stable")[:count]

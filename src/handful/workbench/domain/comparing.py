"""Two runs compared: which items moved from which class to which. An item that had a label counts with its label."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from handful.workbench.domain.pile import Pile
from handful.workbench.domain.refusal import Refusal
from handful.workbench.domain.runs import NONE, Run
from handful.workbench.domain.state import State
from handful.workbench.domain.undoable import Undoable

MOVED = re.compile(r"moved:([0-9]{1,15}):([0-9]{1,15})(?::([0-9]{1,15}):([0-9]{1,15}))?")


def describe_runs(project: Undoable) -> list[dict[str, Any]]:
    """The runs that are stored, for JSON."""
    shown = project.state.run
    return [
        {"id": number, "made": made, "is_shown": shown is not None and shown.id == number}
        for number, made, _, _ in project.store.runs()
    ]


def compare(project: Undoable, first: int, second: int) -> dict[str, Any]:
    """How many items moved from each class to each other one, the largest number first."""
    state = project.state
    before, after = (_codes(project.stored_run(number), state.pile) for number in (first, second))
    is_in_both = (before != NONE) & (after != NONE) & state.pile.usable
    is_moved = is_in_both & (before != after)
    pairs, counts = np.unique(np.column_stack([before, after])[is_moved], axis=0, return_counts=True)
    moves = [
        {"from": int(start), "to": int(end), "count": int(count)}
        for (start, end), count in zip(pairs.tolist(), counts.tolist(), strict=True)
    ]
    moves.sort(key=lambda move: -move["count"])
    same = int(is_in_both.sum() - is_moved.sum())
    return {"first": first, "second": second, "same": same, "moved": int(is_moved.sum()), "moves": moves}


def moved_rows(project: Undoable, state: State, view: str) -> np.ndarray:
    """The rows of the view `moved:RUN:RUN`, or of one move in it, in the order of names."""
    match = MOVED.fullmatch(view)
    if match is None:
        raise Refusal("there is no such view: use moved:RUN:RUN or moved:RUN:RUN:FROM:TO", 400)
    before, after = (_codes(project.stored_run(int(match[k])), state.pile) for k in (1, 2))
    is_moved = (before != NONE) & (after != NONE) & (before != after) & state.pile.usable
    if match[3] is not None:
        is_moved &= (before == int(match[3])) & (after == int(match[4]))
    rows = np.argsort(state.pile.rank)
    return np.asarray(rows[is_moved[rows]])


def _codes(run: Run, pile: Pile) -> np.ndarray:
    """[n] the label or the decision of each item at a run; NONE where it had none."""
    codes = np.full(len(pile), NONE)
    for ids, values in ((run.ids, run.decisions), (run.given_ids, run.given)):
        for item, code in zip(ids.tolist(), values.tolist(), strict=True):
            if item in pile.row:
                codes[pile.row[item]] = code
    return codes

"""What a run says of the groups that became classes before it."""

from __future__ import annotations

from collections.abc import Sequence

from handful.core.checks import UNKNOWN_NAME
from handful.workbench.domain.edits import Promotion
from handful.workbench.domain.runs import UNKNOWN, Run
from handful.workbench.domain.state import State


def notice_of(state: State, run: Run, promotions: Sequence[Promotion]) -> str:
    """A warning if more has changed since the run before than the promoted groups explain; empty if not."""
    from handful.label.comparison import compare

    before, pile = state.run, state.pile
    here = [
        (k, pile.row[item]) for k, item in enumerate([] if before is None else before.ids.tolist()) if item in pile.row
    ]
    if before is None:
        return ""
    made = [  # a promotion may have been undone
        (one.number, one.items)
        for one in promotions
        if one.run == before.id
        and one.number in state.classes
        and one.example in pile.row
        and state.labels[pile.row[one.example]] == one.number
    ]
    if not made or not here:
        return ""
    names = {UNKNOWN: UNKNOWN_NAME} | {number: name for number, (name, _) in state.classes.items()}
    now = dict(zip(run.ids.tolist(), run.decisions.tolist(), strict=True))
    old: list[str] = []
    new: list[str] = []
    place: dict[int, int] = {}
    for k, row in here:
        item = int(before.ids[k])
        code = int(state.labels[row]) if state.labels[row] >= UNKNOWN else now.get(item, UNKNOWN)
        place[item] = len(old)
        old.append(names.get(int(before.decisions[k]), UNKNOWN_NAME))
        new.append(names[code])
    groups: dict[str, list[int]] = {}
    for number, items in made:
        groups.setdefault(names[number], []).extend(place[item] for item in items if item in place)
    return " ".join(compare(old, new, groups).warnings)

"""The groups of unknowns of a run, which are facts of it: split, joined, or found anew, coarser or finer."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.workbench.domain.refusal import Refusal
from handful.workbench.domain.runs import NONE, UNKNOWN, GroupFacts, facts_of
from handful.workbench.domain.state import State


def split(facts: GroupFacts, number: int) -> GroupFacts:
    """The groups with one of them split into the kinds that it looks like."""
    place = _place(facts, number)
    parts = facts["parts"][place]
    if len(parts) < 2:
        raise Refusal(f"group {number} looks like one kind: there is nothing to split", 409)
    kept = [k for k in range(len(facts["groups"])) if k != place]
    return _sorted(
        [*(facts["groups"][k] for k in kept), *parts],
        [*(facts["exemplars"][k] for k in kept), *parts],  # a part begins with those that stand for it
        [*(facts["parts"][k] for k in kept), *([] for _ in parts)],
    )


def join(facts: GroupFacts, number: int, other: int) -> GroupFacts:
    """The groups with two of them joined; the joined group can be split again."""
    from handful.solving.groups import interleaved

    if number == other:
        raise Refusal("a group cannot be joined with itself: choose another one", 409)
    pair = [_place(facts, number), _place(facts, other)]
    kept = [k for k in range(len(facts["groups"])) if k not in pair]
    orders = [
        [*facts["exemplars"][k], *(i for i in facts["groups"][k] if i not in set(facts["exemplars"][k]))] for k in pair
    ]
    joined = [interleaved([facts[name][k] for k in pair]).tolist() for name in ("groups", "exemplars")]
    return _sorted(
        [joined[0], *(facts["groups"][k] for k in kept)],
        [joined[1], *(facts["exemplars"][k] for k in kept)],
        [orders, *(facts["parts"][k] for k in kept)],
    )


def find_anew(state: State, detail: float) -> GroupFacts:
    """The groups of the items that are unknown at this threshold, coarser (-2) or finer (2)."""
    from handful.solving.groups import make_groups

    pile, answers = state.pile, state.row_answers
    here = pile.ready & pile.usable
    rows = np.flatnonzero(here & (state.labels == NONE) & (answers.decision == UNKNOWN))
    others = np.flatnonzero(here & ((state.labels != NONE) | (answers.decision > UNKNOWN)))
    return facts_of(make_groups(pile.features[rows], pile.ids[rows], pile.features[others], detail))


def _place(facts: GroupFacts, number: int) -> int:
    if not 1 <= number <= len(facts["groups"]):
        raise Refusal(f"there is no group {number} now: the last run, or its threshold, has changed them", 404)
    return number - 1


def _sorted(groups: list[Any], exemplars: list[Any], parts: list[Any]) -> GroupFacts:
    order = sorted(range(len(groups)), key=lambda k: -len(groups[k]))
    lists = {"groups": groups, "exemplars": exemplars, "parts": parts}
    return {name: [entries[k] for k in order] for name, entries in lists.items()}

"""Which items are looked at, and in what order."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from handful.workbench.domain.refusal import Refusal
from handful.workbench.domain.runs import NONE, UNKNOWN
from handful.workbench.domain.state import State

VIEWS = "all, unlabelled, examples, class:ID, unknown, unsure, changed or group:N"
NEAREST_EXAMPLES = 5  # that are named beside an item


def rows_of(state: State, view: str = "all", search: str = "", similar: int | None = None) -> np.ndarray:
    """The rows of a view, in its order."""
    rows = _view(state, view)
    if search:
        wanted = search.casefold()
        rows = rows[[wanted in state.pile.folded[i] for i in rows.tolist()]]
    if similar is not None:
        row = row_of(state, similar)
        if not state.pile.ready[row]:
            raise Refusal("this picture has not been looked at by the backbone yet: wait for the bar to finish", 409)
        likeness = state.pile.similarity(row)
        likeness[row] = np.inf  # itself first
        rows = rows[state.pile.ready[rows]]
        rows = rows[np.argsort(-likeness[rows], kind="stable")]
    return rows


def _view(state: State, view: str) -> np.ndarray:
    pile, given, answers = state.pile, state.given, state.row_answers
    by_name = np.argsort(pile.rank)
    by_name = by_name[pile.there[by_name]]
    free = given[by_name] == NONE
    if view == "all":
        return by_name
    if view == "unlabelled":
        return by_name[free]
    if view == "examples":
        return by_name[~free]
    if view == "unknown":
        return _given_first(
            by_name, given == UNKNOWN, free, answers.decision == UNKNOWN, answers.confidence, answers.score
        )
    if view == "unsure":
        rows = by_name[free & (answers.decision[by_name] != NONE)]
        return rows[np.argsort(answers.confidence[rows], kind="stable")]
    if view == "changed":
        rows = by_name[free & answers.changed[by_name]]
        return rows[np.argsort(answers.confidence[rows], kind="stable")]
    if (match := re.fullmatch(r"(class|group):([0-9]{1,15})", view)) is None:
        raise Refusal(f"there is no such view: use {VIEWS}", 400)
    number = int(match[2])
    if match[1] == "group":
        if number not in answers.groups:
            raise Refusal(f"there is no group {number} now: the last run, or its threshold, has changed them", 404)
        rows = answers.groups[number]
        return rows[pile.there[rows]]
    if number not in state.classes:
        raise Refusal(f"there is no class {number}: it may have been deleted", 404)
    return _given_first(by_name, given == number, free, answers.decision == number, answers.confidence, -answers.score)


def _given_first(
    rows: np.ndarray, given: np.ndarray, free: np.ndarray, decided: np.ndarray, confidence: np.ndarray, tie: np.ndarray
) -> np.ndarray:
    """The items that a person labelled, then those that the run decided, the surest first."""
    rest = rows[free & decided[rows]]
    return np.concatenate([rows[given[rows]], rest[np.lexsort((-tie[rest], -confidence[rest]))]])


def row_of(state: State, item: int) -> int:
    row = state.pile.row.get(item)
    if row is None or not state.pile.there[row]:
        raise Refusal(f"there is no picture with the number {item}", 404)
    return row


def describe(state: State, rows: np.ndarray) -> list[dict[str, Any]]:
    """ITEMs, as JSON takes them."""
    answers, pile = state.row_answers, state.pile
    columns = zip(
        pile.ids[rows].tolist(), [pile.names[i] for i in rows.tolist()], state.given[rows].tolist(),
        answers.decision[rows].tolist(), answers.confidence[rows].tolist(), answers.p_unknown[rows].tolist(),
        answers.score[rows].tolist(), answers.group[rows].tolist(), answers.changed[rows].tolist(),
        strict=True,
    )  # fmt: skip
    return [
        {
            "id": item, "name": name, "class": _or_none(given), "decision": _or_none(decision),
            "confidence": _number(sure), "p_unknown": _number(p), "score": _number(score), "group": group or None,
            "changed": changed and given == NONE,
        }
        for item, name, given, decision, sure, p, score, group, changed in columns
    ]  # fmt: skip


def nearest_examples(state: State, row: int) -> list[int]:
    """The most similar items that a person gave a class."""
    pile = state.pile
    shown = np.flatnonzero((state.given > UNKNOWN) & pile.ready & pile.there)
    shown = shown[shown != row]
    if not pile.ready[row] or not len(shown):
        return []
    likeness = pile.similarity(row)[shown]
    return pile.ids[shown[np.argsort(-likeness, kind="stable")[:NEAREST_EXAMPLES]]].tolist()


def probabilities(state: State, row: int) -> dict[int, float]:
    """P(class) by the last run, which with P(unknown) add up to 1; P(class | known) where scores only rank."""
    run, place = state.run, int(state.row_answers.place[row])
    if run is None or place < 0:
        return {}
    (values,) = run.answers.take([place]).joint_probabilities.tolist()
    return {code: p for code, p in zip(run.answers.classes.tolist(), values, strict=True) if code in state.classes}


def _or_none(code: int) -> int | None:
    return None if code == NONE else code


def _number(value: float) -> float | None:
    return None if value != value else value


def rows_that_are_there(state: State, items: list[int]) -> np.ndarray:
    rows = [state.pile.row[item] for item in items if item in state.pile.row]
    return np.array([row for row in rows if state.pile.there[row]], int)


def places(state: State) -> dict[str, Any]:
    """The map of the last run, without what is gone."""
    run = state.run
    if run is None:
        return {"ids": [], "x": [], "y": []}
    here = [k for k, item in enumerate(run.map_ids.tolist()) if item in state.pile.row]
    x, y = run.flat[here].astype(float).round(5).T.tolist() if here else ([], [])
    return {"ids": run.map_ids[here].tolist(), "x": x, "y": y}


def groups(state: State) -> list[dict[str, Any]]:
    """The groups of unknowns that are there at this threshold; who got a label since is in none."""
    found = []
    for number, rows in state.row_answers.groups.items():
        free = rows[(state.given[rows] == NONE) & state.pile.there[rows]]
        ids = state.pile.ids[free].tolist()
        if ids:
            own = {"number": number, "name": f"group {number}", "size": len(ids)}
            found.append(own | {"representative": ids[0], "items": ids})
    return found

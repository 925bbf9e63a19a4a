"""Views: which items the page shows, and in which order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from handful.features.labels import NDArray
from handful.workbench.domain.group_names import group_names
from handful.workbench.domain.pile import folded
from handful.workbench.domain.refusal import Refusal
from handful.workbench.domain.runs import NONE, UNKNOWN
from handful.workbench.domain.state import State

VIEWS = "all, unlabelled, examples, class:ID, unknown, unsure, ask, changed, group:N or moved:RUN:RUN[:FROM:TO]"
NEAREST_EXAMPLES = 5  # that the page shows beside an item
MAX_LISTED_CHARACTERS, MAX_SHOWN_CHARACTERS = 500, 100_000  # of a text in a list, and of one that is shown alone
MAX_SHOWN_COLUMNS = 30


def rows_of(
    state: State, view: str = "all", search: str = "", similar: int | None = None, rows: NDArray | None = None
) -> NDArray:
    """The rows of a view, in its order; rows: those of a view that needs more than the state."""
    rows = _view(state, view) if rows is None else rows
    if search:
        search_text = search.casefold() if state.pile.texts is None else folded(search)
        rows = rows[[search_text in state.pile.folded[i] for i in rows.tolist()]]
    if similar is not None:
        row = row_of(state, similar)
        if not state.pile.ready[row]:
            raise Refusal(f"this {state.pile.noun} has no features yet: wait until the progress bar is full", 409)
        likeness = state.pile.similarity(row)
        likeness[row] = np.inf  # itself first
        rows = rows[state.pile.ready[rows]]
        rows = rows[np.argsort(-likeness[rows], kind="stable")]
    return rows


def _view(state: State, view: str) -> NDArray:
    pile, labels, answers = state.pile, state.labels, state.row_answers
    by_name = np.argsort(pile.rank)
    by_name = by_name[pile.usable[by_name]]
    free = labels[by_name] == NONE
    if view == "all":
        return by_name
    if view == "unlabelled":
        return np.asarray(by_name[free])
    if view == "examples":
        return np.asarray(by_name[~free])
    if view == "unknown":
        return _labelled_first(
            by_name, labels == UNKNOWN, free, answers.decision == UNKNOWN, answers.confidence, answers.score
        )
    if view == "unsure":
        return _least_sure_first(by_name[free & (answers.decision[by_name] != NONE)], answers.confidence)
    if view == "ask":
        return state.worth_asking
    if view == "changed":
        return _least_sure_first(by_name[free & answers.changed[by_name]], answers.confidence)
    if (match := re.fullmatch(r"(class|group):([0-9]{1,15})", view)) is None:
        raise Refusal(f"there is no such view: use {VIEWS}", 400)
    number = int(match[2])
    if match[1] == "group":
        if number not in answers.groups:
            raise Refusal(f"there is no group {number} now: the last run, or its threshold, has changed them", 404)
        group = answers.groups[number]
        return np.asarray(group[pile.usable[group]])
    if number not in state.classes:
        raise Refusal(f"there is no class {number}: it may have been deleted", 404)
    is_decided = answers.decision == number
    return _labelled_first(by_name, labels == number, free, is_decided, answers.confidence, -answers.score)


def _least_sure_first(rows: NDArray, confidence: NDArray) -> NDArray:
    return np.asarray(rows[np.argsort(confidence[rows], kind="stable")])


def _labelled_first(
    rows: NDArray, is_labelled: NDArray, free: NDArray, decided: NDArray, confidence: NDArray, tie: NDArray
) -> NDArray:
    """The items that a person labelled, then those that the run decided, the most confident first."""
    rest = rows[free & decided[rows]]
    return np.concatenate([rows[is_labelled[rows]], rest[np.lexsort((-tie[rest], -confidence[rest]))]])


def row_of(state: State, item: int) -> int:
    """The row of an item; Refusal if there is no such item."""
    row = state.pile.row.get(item)
    if row is None or not state.pile.usable[row]:
        raise Refusal(f"there is no {state.pile.noun} with the number {item}", 404)
    return row


def describe(state: State, rows: NDArray) -> list[dict[str, Any]]:
    """Items for JSON."""
    answers, pile = state.row_answers, state.pile
    columns = zip(
        pile.ids[rows].tolist(), [pile.names[i] for i in rows.tolist()], state.labels[rows].tolist(),
        answers.decision[rows].tolist(), answers.confidence[rows].tolist(), answers.p_unknown[rows].tolist(),
        answers.score[rows].tolist(), answers.group[rows].tolist(), answers.changed[rows].tolist(),
        strict=True,
    )  # fmt: skip
    described = [
        {
            "id": item, "name": name, "class": _or_none(label), "decision": _or_none(decision),
            "confidence": _number(sure), "p_unknown": _number(p), "score": _number(score), "group": group or None,
            "changed": changed and label == NONE,
        }
        for item, name, label, decision, sure, p, score, group, changed in columns
    ]  # fmt: skip
    if pile.texts is None:
        return described
    return [one | beginning(pile.texts[i]) for one, i in zip(described, rows.tolist(), strict=True)]


def beginning(text: str, max_characters: int = MAX_LISTED_CHARACTERS) -> dict[str, Any]:
    """The beginning of a text for JSON, and whether it is cut."""
    start = text[:max_characters].encode("utf-8", "replace").decode()  # a lone surrogate has no UTF-8
    return {"text": start, "is_cut": len(text) > max_characters}


def text_in_full(text: str, columns: Mapping[str, str]) -> dict[str, Any]:
    """What the details of a text show: the text, and the other columns of its row in short."""
    shown = list(columns.items())[:MAX_SHOWN_COLUMNS]
    cells = {beginning(name)["text"]: beginning(cell)["text"] for name, cell in shown}
    return beginning(text, MAX_SHOWN_CHARACTERS) | {"columns": cells}


def nearest_examples(state: State, row: int) -> list[int]:
    """The most similar items that a person labelled."""
    pile = state.pile
    example_rows = np.flatnonzero((state.labels != NONE) & pile.ready & pile.usable)
    example_rows = example_rows[example_rows != row]
    if not pile.ready[row] or not len(example_rows):
        return []
    likeness = pile.similarity(row)[example_rows]
    nearest: list[int] = pile.ids[example_rows[np.argsort(-likeness, kind="stable")[:NEAREST_EXAMPLES]]].tolist()
    return nearest


def probabilities(state: State, row: int) -> dict[int, float]:
    """P(class) by the last run, which add up to 1 with P(unknown); P(class | known) if scores only rank."""
    run, place = state.run, int(state.row_answers.place[row])
    if run is None or place < 0:
        return {}
    (values,) = run.answers.take([place]).joint_probabilities.tolist()
    return {code: p for code, p in zip(run.answers.classes.tolist(), values, strict=True) if code in state.classes}


def _or_none(code: int) -> int | None:
    return None if code == NONE else code


def _number(value: float) -> float | None:
    return None if value != value else value


def usable_rows(state: State, items: list[int]) -> NDArray:
    """The rows of those items that exist and can be opened."""
    rows = [state.pile.row[item] for item in items if item in state.pile.row]
    return np.array([row for row in rows if state.pile.usable[row]], int)


def places(state: State) -> dict[str, Any]:
    """The map of the last run, without items that are gone."""
    run = state.run
    if run is None:
        return {"ids": [], "x": [], "y": []}
    here = [k for k, item in enumerate(run.map_ids.tolist()) if item in state.pile.row]
    x, y = run.flat[here].astype(float).round(5).T.tolist() if here else ([], [])
    return {"ids": run.map_ids[here].tolist(), "x": x, "y": y}


def groups(state: State) -> list[dict[str, Any]]:
    """The groups of unknowns at this threshold, without items that have got a label."""
    from handful.solving.groups import example_count

    descriptions, names = [], group_names(state)
    for number, rows in state.row_answers.groups.items():
        free = rows[(state.labels[rows] == NONE) & state.pile.usable[rows]]
        ids = state.pile.ids[free].tolist()
        if ids:
            kinds = max(1, len(state.run.facts["parts"][number - 1])) if state.run is not None else 1
            own = {"number": number, "name": names.get(number, f"group {number}"), "size": len(ids), "kinds": kinds}
            own |= {"examples": example_count(len(ids), kinds)}
            descriptions.append(own | {"representative": ids[0], "items": ids})
    return descriptions

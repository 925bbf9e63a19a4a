"""What the page of the workbench shows: items of a view in their order, groups, the map, runs, checks, as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.features.labels import NDArray
from handful.project.pile import Pile, folded
from handful.project.refusal import Refusal
from handful.project.runs import NONE, UNKNOWN, check_order
from handful.project.state import RowAnswers, State, codes_by_row
from handful.solving.groups import example_count

if TYPE_CHECKING:
    from handful.project.live import LiveProject

VIEWS = "all, unlabelled, examples, class:ID, unknown, unsure, ask, changed, group:N or moved:RUN:RUN[:FROM:TO]"
NUMBERED = re.compile(r"(class|group):\d{1,15}|moved(:\d{1,15}:\d{1,15}){1,2}", re.ASCII)
NEAREST_EXAMPLES = 5  # that the page shows beside an item
MAX_LISTED_CHARACTERS, MAX_SHOWN_CHARACTERS = 500, 100_000  # of a text in a list, and of one that is shown alone
MAX_SHOWN_COLUMNS = 30
MAX_COMPARED_TEXTS = 10_000  # of all groups, and of other texts: more take seconds and give the same words
MIN_GROUP_TEXTS = 20


def rows_of(
    project: LiveProject, state: State, view: str = "all", search: str = "", similar: int | None = None
) -> NDArray:
    """The rows of a view, in its order."""
    rows = _view(project, state, view)
    if search:
        search_text = search.casefold() if state.pile.texts is None else folded(search)
        rows = rows[[search_text in state.pile.folded[i] for i in rows.tolist()]]
    if similar is not None:
        row = state.row_of(similar)
        if not state.pile.ready[row]:
            raise Refusal(f"this {state.pile.noun} has no features yet: wait until the progress bar is full", 409)
        likeness = state.pile.similarity(row)
        likeness[row] = np.inf  # itself first
        rows = rows[state.pile.ready[rows]]
        rows = rows[np.argsort(-likeness[rows], kind="stable")]
    return rows


def _view(project: LiveProject, state: State, view: str) -> NDArray:
    pile, labels, answers = state.pile, state.labels, state.row_answers
    rows = np.argsort(pile.rank)
    rows = rows[pile.usable[rows]]  # by name
    free = labels[rows] == NONE
    if view in ("all", "unlabelled", "examples"):
        return np.asarray(rows if view == "all" else rows[free] if view == "unlabelled" else rows[~free])
    if view in ("unsure", "changed"):
        is_shown = answers.changed if view == "changed" else answers.decision != NONE
        rows = rows[free & is_shown[rows]]
        return np.asarray(rows[np.argsort(answers.confidence[rows], kind="stable")])
    if view == "ask":
        return state.worth_asking
    if view != "unknown" and NUMBERED.fullmatch(view) is None:
        raise Refusal(f"there is no such view: use {VIEWS}", 400)
    kind, *numbers = view.split(":")
    codes = [int(number) for number in numbers] or [UNKNOWN]
    if kind == "moved":
        before, after = (codes_by_row(pile, project.store.stored_run(number).codes) for number in codes[:2])
        is_moved = (before != NONE) & (after != NONE) & (before != after)
        if codes[2:]:
            is_moved &= (before == codes[2]) & (after == codes[3])
        return np.asarray(rows[is_moved[rows]])
    code = codes[0]
    if kind == "group":
        if code not in answers.groups:
            raise Refusal(f"there is no group {code} now: the last run, or its threshold, has changed them", 404)
        group = answers.groups[code]
        return np.asarray(group[pile.usable[group]])
    if kind == "class" and code not in state.classes:
        raise Refusal(f"there is no class {code}: it may have been deleted", 404)
    # The items that a person labelled, then those that the run decided, the most confident first
    rest = rows[free & (answers.decision[rows] == code)]
    score = answers.score[rest] if code == UNKNOWN else -answers.score[rest]
    return np.concatenate([rows[labels[rows] == code], rest[np.lexsort((-score, -answers.confidence[rest]))]])


def describe(state: State, rows: NDArray) -> list[dict[str, Any]]:
    """Items for JSON."""
    answers, pile, labels = state.row_answers, state.pile, state.labels[rows]
    columns: dict[str, list[Any]] = {
        "id": pile.ids[rows].tolist(),
        "name": [pile.names[i] for i in rows.tolist()],
        "class": [_or_none(code) for code in labels.tolist()],
        "decision": [_or_none(code) for code in answers.decision[rows].tolist()],
        "confidence": _numbers(answers.confidence[rows]),
        "p_unknown": _numbers(answers.p_unknown[rows]),
        "score": _numbers(answers.score[rows]),
        "group": [number or None for number in answers.group[rows].tolist()],
        "changed": (answers.changed[rows] & (labels == NONE)).tolist(),
    }
    described = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if pile.texts is None:
        return described
    return [one | beginning(pile.texts[i]) for one, i in zip(described, rows.tolist(), strict=True)]


def _or_none(code: int) -> int | None:
    return None if code == NONE else code


def _numbers(values: NDArray) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


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


def places(state: State) -> dict[str, Any]:
    """The map of the last run, without items that are gone."""
    run = state.run
    if run is None:
        return {"ids": [], "x": [], "y": []}
    here = [k for k, item in enumerate(run.map_ids.tolist()) if item in state.pile.row]
    x, y = run.flat[here].astype(float).round(5).T.tolist() if here else ([], [])
    return {"ids": run.map_ids[here].tolist(), "x": x, "y": y}


@lru_cache(maxsize=2)  # they stay the same while a person labels
def group_names(pile: Pile, answers: RowAnswers) -> dict[int, str]:
    """The names of groups by number; a group whose texts share no telling words has none, nor has one of pictures."""
    if pile.texts is None or not answers.groups:
        return {}
    from handful.solving.telling_words import telling_words

    most = max(MIN_GROUP_TEXTS, MAX_COMPARED_TEXTS // len(answers.groups))
    members = [group[pile.usable[group]][:most] for group in answers.groups.values()]  # the most central first
    usable = np.flatnonzero(pile.usable)
    others = usable[:: 1 + len(usable) // MAX_COMPARED_TEXTS]
    rows = np.unique(np.concatenate([others, *members]))
    words = telling_words([pile.texts[i] for i in rows.tolist()], [np.searchsorted(rows, group) for group in members])
    return {number: ", ".join(some) for number, some in zip(answers.groups, words, strict=True) if some}


def groups(state: State) -> list[dict[str, Any]]:
    """The groups of unknowns at this threshold, without items that have got a label."""
    descriptions, names = list[dict[str, Any]](), group_names(state.pile, state.row_answers)
    for number, rows in state.row_answers.groups.items():
        ids = state.pile.ids[rows[(state.labels[rows] == NONE) & state.pile.usable[rows]]].tolist()
        if ids:
            kinds = max(1, len(state.last_run().facts["parts"][number - 1]))
            descriptions.append({
                "number": number, "name": names.get(number, f"group {number}"), "size": len(ids), "kinds": kinds,
                "examples": example_count(len(ids), kinds), "representative": ids[0], "items": ids,
            })  # fmt: skip
    return descriptions


def describe_state(state: State) -> dict[str, Any]:
    """The part of GET /project that follows from the state."""
    usable, labels, said = state.pile.usable, state.labels, state.said
    settled = np.where(labels != NONE, labels, state.row_answers.decision)
    examples, counts = _count_classes(labels[usable]), _count_classes(settled[usable])
    return {
        "items": int(usable.sum()), "ready": int((state.pile.ready & usable).sum()), "skipped": len(state.skipped),
        "classes": [
            {"id": i, "name": name, "key": key, "examples": examples.get(i, 0), "count": counts.get(i, 0)}
            for i, (name, key) in state.classes.items()
        ],
        "unknown_examples": examples.get(UNKNOWN, 0),
        "run": None if state.run is None else describe_run(state),
        "undo": said.steps[-1].text if said.steps else None, "redo": said.undone[0].text if said.undone else None,
    }  # fmt: skip


def _count_classes(codes: NDArray) -> dict[int, int]:
    """The number of items of each class, and of UNKNOWN."""
    numbers, counts = np.unique(codes[codes >= UNKNOWN], return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def describe_run(state: State) -> dict[str, Any]:
    """Return the facts of the run that is shown, for JSON."""
    run = state.last_run()
    precision, expected = run.answers.expected_precision, run.expected
    return {
        "id": run.id, "made": run.made, "sentence": run.sentence(), "threshold": run.threshold,
        "group_detail": run.facts["detail"], "notice": run.facts["notice"],
        "can_take_back": bool(run.facts["notice"]) and state.said.can_take_back(), "outdated": outdated(state),
        "expected_precision": None if precision is None or np.isnan(precision) else precision,
        "expected": [{"class": n, **expected[n]._asdict()} for n in state.classes if n in expected],
        **{name: run.facts[name] for name in ("method", "share", "share_low", "share_high", "share_told")},
        "counts": run.counts(), "trust": _trust(state),
    }  # fmt: skip


def _trust(state: State) -> dict[str, Any]:
    """How many labels should be right, or are right by the check."""
    checked = state.checked
    if checked is None:
        return {"sentence": state.last_run().expected_in_words(), "is_measured": False, "checked": 0, "details": [],
                "more_to_halve": 0, "classes": []}  # fmt: skip
    return {
        "sentence": checked.sentences[0], "is_measured": True, "checked": checked.answers,
        "details": checked.sentences[1:], "more_to_halve": checked.more_to_halve,
        "classes": [{"class": int(number), **one._asdict()} for number, one in checked.by_class.items()],
    }  # fmt: skip


def outdated(state: State) -> str:
    """What has changed since the run, in words; "" if a new run would start from the same.

    A class without examples changes nothing, and neither does another name.
    """
    if state.run is None:
        return ""
    given, now, usable = state.row_answers.given, state.labels, state.pile.usable
    is_changed = usable & (now != given)
    is_new = usable & (state.row_answers.place == NONE) & (given == NONE) & (now == NONE)
    labels, new = int(is_changed.sum()), int(is_new.sum())
    parts = [f"{labels:,} label{' has' if labels == 1 else 's have'} changed"] * bool(labels)
    parts += [f"{new:,} {state.pile.noun}{' is' if new == 1 else 's are'} new"] * bool(new)
    return f"{' and '.join(parts)} since this run." if parts else ""


def describe_check(project: LiveProject, count: int) -> dict[str, Any]:
    """The first `count` items of the run that a person should look at, and the answers so far, for JSON."""
    state = project.state
    run, pile = state.last_run(), state.pile
    order = [item for item in check_order(run) if item in pile.row and pile.usable[pile.row[item]]][:count]
    answers = [{"item": item, "answer": answer} for item, answer in state.said.checks.get(run.id, {}).items()]
    return {"run": run.id, "order": order, "answers": answers, "usable": len(state.usable_checks(project.store))}


def describe_runs(project: LiveProject) -> list[dict[str, Any]]:
    """The runs that are stored, for JSON."""
    shown = project.state.said.run
    return [{"id": number, "made": made, "is_shown": number == shown} for number, made in project.store.runs()]


def compare(project: LiveProject, first: int, second: int) -> dict[str, Any]:
    """How many items moved from each class to each other one, the largest number first."""
    state = project.state
    before, after = (codes_by_row(state.pile, project.store.stored_run(number).codes) for number in (first, second))
    is_in_both = (before != NONE) & (after != NONE) & state.pile.usable
    is_moved = is_in_both & (before != after)
    pairs, counts = np.unique(np.column_stack([before, after])[is_moved], axis=0, return_counts=True)
    moves = [
        {"from": int(start), "to": int(end), "count": int(count)}
        for (start, end), count in zip(pairs.tolist(), counts.tolist(), strict=True)
    ]
    moves.sort(key=lambda move: -move["count"])
    moved = int(is_moved.sum())
    return {"first": first, "second": second, "same": int(is_in_both.sum()) - moved, "moved": moved, "moves": moves}

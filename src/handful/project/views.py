"""What the page of the workbench shows: items of a view in their order, groups, the map, runs, checks, as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from handful.features.labels import NDArray
from handful.project.pile import Pile, folded
from handful.project.refusal import Refusal
from handful.project.runs import NONE, UNKNOWN, RowAnswers, Run
from handful.project.state import State

if TYPE_CHECKING:
    from handful.project.live import LiveProject

VIEWS = "all, unlabelled, examples, class:ID, unknown, unsure, ask, changed, group:N or moved:RUN:RUN[:FROM:TO]"
NEAREST_EXAMPLES = 5  # that the page shows beside an item
MAX_LISTED_CHARACTERS, MAX_SHOWN_CHARACTERS = 500, 100_000  # of a text in a list, and of one that is shown alone
MAX_SHOWN_COLUMNS = 30
MOVED = re.compile(r"moved:([0-9]{1,15}):([0-9]{1,15})(?::([0-9]{1,15}):([0-9]{1,15}))?")
MAX_COMPARED_TEXTS = 10_000  # of all groups, and of other texts: more take seconds and give the same words
MIN_GROUP_TEXTS = 20
# They are found once for the answers of a run at a threshold, and stay the same while a person labels
_names: WeakKeyDictionary[RowAnswers, dict[int, str]] = WeakKeyDictionary()


def rows_of(
    project: LiveProject, state: State, view: str = "all", search: str = "", similar: int | None = None
) -> NDArray:
    """The rows of a view, in its order."""
    rows = _moved_rows(project, state, view) if view.startswith("moved:") else _view(state, view)
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


def places(state: State) -> dict[str, Any]:
    """The map of the last run, without items that are gone."""
    run = state.run
    if run is None:
        return {"ids": [], "x": [], "y": []}
    here = [k for k, item in enumerate(run.map_ids.tolist()) if item in state.pile.row]
    x, y = run.flat[here].astype(float).round(5).T.tolist() if here else ([], [])
    return {"ids": run.map_ids[here].tolist(), "x": x, "y": y}


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


def describe_state(state: State) -> dict[str, Any]:
    """The part of GET /project that follows from the state."""
    usable, labels, said = state.pile.usable, state.labels, state.said
    examples, counts = _count_classes(labels[usable]), _count_classes(_settled(state)[usable])
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


def describe_run(state: State) -> dict[str, Any]:
    """Return the facts of the run that is shown, for JSON."""
    run = state.run
    assert run is not None
    facts = {name: run.facts[name] for name in ("method", "share", "share_low", "share_high", "share_told")}
    own = {"id": run.id, "made": run.made, "sentence": run.sentence(), "threshold": run.threshold}
    own |= {"group_detail": run.facts["detail"], "notice": run.facts["notice"]}
    own |= {"can_take_back": bool(run.facts["notice"]) and state.said.can_take_back(), "outdated": outdated(state)}
    precision, expected = run.answers.expected_precision, run.expected
    own |= {
        "expected_precision": None if precision is None or np.isnan(precision) else precision,
        "expected": [{"class": n, **expected[n]._asdict()} for n in state.classes if n in expected],
    }
    assert state.checks is not None
    return own | facts | {"counts": run.counts(), "trust": state.checks.trust()}


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


def _count_classes(codes: np.ndarray) -> dict[int, int]:
    """The number of items of each class, and of UNKNOWN."""
    numbers, counts = np.unique(codes[codes >= UNKNOWN], return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _settled(state: State) -> np.ndarray:
    """The class of each item: its label, or the decision of the run."""
    return np.where(state.labels != NONE, state.labels, state.row_answers.decision)


def describe_check(project: LiveProject, count: int) -> dict[str, Any]:
    """The first `count` items of the run that a person should look at, and the answers so far, for JSON."""
    state = project.state
    run, pile, checks = state.last_run(), state.pile, state.checks
    assert checks is not None
    order = [item for item in checks.order if item in pile.row and pile.usable[pile.row[item]]][:count]
    answers = [{"item": item, "answer": answer} for item, answer in checks.answers.items()]
    return {"run": run.id, "order": order, "answers": answers, "usable": len(state.usable_checks(project.store))}


def describe_runs(project: LiveProject) -> list[dict[str, Any]]:
    """The runs that are stored, for JSON."""
    shown = project.state.run
    return [
        {"id": number, "made": made, "is_shown": shown is not None and shown.id == number}
        for number, made in project.store.runs()
    ]


def compare(project: LiveProject, first: int, second: int) -> dict[str, Any]:
    """How many items moved from each class to each other one, the largest number first."""
    state = project.state
    before, after = (_codes(project.store.stored_run(number), state.pile) for number in (first, second))
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


def _moved_rows(project: LiveProject, state: State, view: str) -> np.ndarray:
    """The rows of the view `moved:RUN:RUN`, or of one move in it, in the order of names."""
    match = MOVED.fullmatch(view)
    if match is None:
        raise Refusal("there is no such view: use moved:RUN:RUN or moved:RUN:RUN:FROM:TO", 400)
    before, after = (_codes(project.store.stored_run(int(match[k])), state.pile) for k in (1, 2))
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

"""What a person does on the page of the workbench. Each function takes the store, the state and what is asked for.

`LiveProject.change` calls them: a change is on the disk before it is shown. Refusal says what cannot be done.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from handful.core.checks import is_no_class, is_no_label
from handful.project import promotion
from handful.project.events import Class, Store
from handful.project.pile import MAX_NAME_CHARACTERS
from handful.project.refusal import Refusal
from handful.project.runs import NONE, UNKNOWN, WRONG, Run, facts_of, groups_of
from handful.project.state import State
from handful.solving import groups as grouping


def undo(store: Store, _: State) -> str:
    """Undo the last step; return what it was."""
    return store.undo()


def redo(store: Store, _: State) -> str:
    """Do the step again that was undone last; return what it was."""
    return store.redo()


def take_back(store: Store, state: State) -> str:
    """Undo the last run and the promotion before it, in one; return what the promotion was."""
    if not state.said.can_take_back():
        raise Refusal("the last step is no run after a promotion: use undo", 409)
    return store.undo_last_said()


# ---- labels and classes


def label(store: Store, state: State, items: Sequence[int], code: int | None) -> int:
    """Give items a class, `UNKNOWN`, or with None no label; return how many have changed."""
    for item in items:
        state.row_of(item)
    done = "without a label" if code is None else f"labelled {_name_of(state, code)}"
    return store.label(dict.fromkeys(items, code), done)


def accept(store: Store, state: State, items: Sequence[int]) -> int:
    """Make the decisions of the run on these items labels; return how many have changed."""
    codes = {item: int(state.row_answers.decision[state.row_of(item)]) for item in items}
    new = {item: code for item, code in codes.items() if code != NONE and item not in state.said.labels}
    return store.label(new, "accepted")


def add_class(store: Store, state: State, name: str) -> int:
    """Add a class with the next free key; return its number."""
    name = _new_name(state, name)
    codes, classes = store.codes_of([name])
    store.add(f"class {name} added", {"classes": classes})
    return codes[name]


def change_class(
    store: Store, state: State, number: int, name: str | None = None, key: int | None = None, keyed: bool = False
) -> None:
    """Rename a class; with `keyed` change its key, or with None remove it. The class that had the key loses it."""
    old = _class(state, number)
    new = old[0] if name is None else _new_name(state, name, number), key if keyed else old[1]
    entries = [[number, *new]] * (new != old)
    for other, (other_name, other_key) in state.classes.items():
        if keyed and key is not None and other != number and other_key == key:
            entries.append([other, other_name, None])
    text = f"class {old[0]} renamed {new[0]}" if new[0] != old[0] else f"key of class {old[0]} changed"
    store.add(text, {"classes": entries})


def delete_class(store: Store, state: State, number: int) -> int:
    """Delete a class and its labels; return how many labels."""
    name, _ = _class(state, number)
    store.add(f"class {name} deleted", {"classes": [[number, None, None]]})
    return list(state.said.labels.values()).count(number)


def _class(state: State, number: int) -> Class:
    if number not in state.classes:
        raise Refusal(f"there is no class {number}: it may have been deleted", 404)
    return state.classes[number]


def _name_of(state: State, code: int) -> str:
    return state.said.names()[code] if code == UNKNOWN else _class(state, code)[0]


def _new_name(state: State, name: str, number: int | None = None) -> str:
    name = unicodedata.normalize("NFC", name).strip()
    if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise Refusal(f"a class's name is one line of 1 to {MAX_NAME_CHARACTERS} characters: give another name")
    if is_no_class(name) or is_no_label(name):
        what = "of items of no class" if is_no_class(name) else "for items without a label"
        raise Refusal(f'"{name}" is the name {what}: give the class another name')
    if name.casefold() in {old.casefold() for other, (old, _) in state.classes.items() if other != number}:
        raise Refusal(f"there is a class {name} already: give another name, or add the items to that class", 409)
    return name


# ---- the threshold and checks of the run


def set_threshold(store: Store, state: State, threshold: float) -> None:
    """Change the doubt (`Answers.doubts`) above which an item is unknown."""
    run = state.last_run()
    if threshold != run.threshold:
        text = f"threshold {run.threshold:.3g} changed to {threshold:.3g}"
        store.add(text, {"threshold": [[run.id, float(threshold)]]})


def answer(store: Store, state: State, run: int, item: int, value: int | str | None) -> None:
    """Store what a person says of an item of the run: a class, 0, "right", "wrong", or None to remove the answer."""
    shown = state.last_run()
    if run != shown.id:
        raise Refusal("this answer belongs to another run: the check begins again", 409)
    row = state.row_of(item)
    place = int(state.row_answers.place[row])
    if place == NONE:
        raise Refusal(f"this {state.pile.noun} is an example of the run: there is nothing to check", 409)
    if isinstance(value, str):
        value = WRONG if value == "wrong" else int(shown.decisions[place])
    if value not in (None, WRONG):
        _name_of(state, value)  # raises Refusal if there is no such class
    store.answer(run, item, value, state.pile.names[row])


def use_answers(store: Store, state: State) -> int:
    """Make labels of the answers that name a class or say that none fits; return how many."""
    return store.label(state.usable_checks(store), "labelled by the check")


# ---- groups: changing them is no step that can be undone, because they are no labels


def promote(
    store: Store,
    state: State,
    group: int,
    name: str | None = None,
    examples: int | None = None,
    into: int | None = None,
) -> int:
    """Make a class of a group, or add the group to the class `into`; return the number of the class."""
    run = _run_with_groups(state, group)
    if (name is None) == (into is None):
        raise Refusal("give a name for a new class, or a class that the group is added to")
    name = _class(state, into)[0] if into is not None else _new_name(state, name or "")
    promotion.promote(store, run, {group: name}, examples, into is not None)
    codes, _ = store.codes_of([name])
    return codes[name]


def split_group(store: Store, state: State, number: int) -> None:
    """Split a group into the kinds that it looks like."""
    _regroup(store, _run_with_groups(state, number), lambda groups: grouping.split_group(groups, number))


def join_groups(store: Store, state: State, number: int, other: int) -> None:
    """Join two groups."""
    run = _run_with_groups(state, number, other)
    _regroup(store, run, lambda groups: grouping.join_groups(groups, [number, other]))


def find_groups(store: Store, state: State, detail: float) -> None:
    """Find the groups anew, coarser (-2) or finer (2). The next runs have this detail too."""
    pile, decision = state.pile, state.row_answers.decision
    here, free = pile.ready & pile.usable, state.labels == NONE
    rows = np.flatnonzero(here & free & (decision == UNKNOWN))
    others = np.flatnonzero(here & (~free | (decision > UNKNOWN)))
    x = pile.features
    _regroup(
        store, state.last_run(), lambda _: grouping.make_groups(x[rows], pile.ids[rows], x[others], detail),
        detail=detail,
    )  # fmt: skip


def _regroup(
    store: Store, run: Run, find: Callable[[list[grouping.Group]], Sequence[grouping.Group]], **facts: float
) -> None:
    try:
        groups = facts_of(find(groups_of(run.facts)))
    except ValueError as error:
        raise Refusal(str(error), 409) from None
    store.set_facts(run.grouped(groups, **facts))


def _run_with_groups(state: State, *numbers: int) -> Run:
    """The run; Refusal if it has no such groups."""
    run = state.last_run()
    for number in numbers:
        if number not in state.row_answers.groups:
            raise Refusal(f"there is no group {number} now: the last run, or its threshold, has changed them", 404)
    return run

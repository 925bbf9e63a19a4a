"""Changes by a person: labels, classes and the threshold. Each is stored before it is shown, and can be undone."""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from handful.core.checks import UNKNOWN_NAME, is_no_class, is_no_label
from handful.project.pile import MAX_NAME_CHARACTERS
from handful.project.refusal import Refusal
from handful.project.runs import NONE, UNKNOWN, WRONG, GroupFacts, RowAnswers, facts_of
from handful.project.said import Change, Store, next_class
from handful.project.state import FIRST_SAMPLE, Class, State
from handful.project.steps import PROMOTED, Undoable
from handful.project.views import row_of


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


KEYS = range(1, 10)


class Promotion(NamedTuple):
    """A group of a run that became a class, or was added to one."""

    run: int
    number: int  # of the class
    items: list[int]  # of the group
    example: int  # one of those that became examples


class Edits(Undoable):
    """The part of a `Project` that people change."""

    def __init__(self, store: Store, state: State) -> None:
        super().__init__(store, state)
        self._promotions: list[Promotion] = []

    def label(self, items: Sequence[int], code: int | None) -> int:
        """Give items a class, `UNKNOWN`, or no label.

        Parameters
        ----------
        items : sequence of int
            The items.
        code : int or None
            The number of the class; 0 is unknown, None no label.

        Returns
        -------
        int
            How many items have changed.
        """
        with self._lock:
            state = self._state
            if code not in (None, UNKNOWN, *state.classes):
                raise Refusal(f"there is no class {code}: it may have been deleted", 404)
            name = {None: "", UNKNOWN: UNKNOWN_NAME}.get(code) or state.classes[code][0] if code is not None else ""
            text = f"labelled {name}" if code is not None else "without a label"
            return self._relabel([(row_of(state, item), code) for item in dict.fromkeys(items)], text)

    def accept(self, items: Sequence[int]) -> int:
        """Make the decisions of the run on these items labels.

        Parameters
        ----------
        items : sequence of int
            The items.

        Returns
        -------
        int
            How many items have changed.
        """
        with self._lock:
            state = self._state
            rows = [row_of(state, item) for item in dict.fromkeys(items)]
            free = [i for i in rows if state.labels[i] == NONE and state.row_answers.decision[i] != NONE]
            return self._relabel([(i, int(state.row_answers.decision[i])) for i in free], "accepted")

    def _relabel(self, new_labels: list[tuple[int, int | None]], text: str) -> int:
        state = self._state
        steps = tuple(_label_steps(state, new_labels))
        self._do(lambda tx: Change(f"{len(steps):,} {'item' if len(steps) == 1 else 'items'} {text}", steps))
        return len(steps)

    def add_class(self, name: str) -> int:
        """Add a class.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        int
            Its number.
        """
        with self._lock:
            name = self._check_name(name)
            change = self._do(lambda tx: Change(f"class {name} added", (), ((next_class(tx), None, self._new(name)),)))
            return change.classes[0][0]

    def change_class(
        self, number: int, name: str | None = None, key: int | None = None, *, keyed: bool = False
    ) -> None:
        """Rename a class. With `keyed`, change its key or remove it; the class that had the key loses it.

        Parameters
        ----------
        number : int
            The class.
        name : str, optional
            The new name.
        key : int, optional
            The new key, 1 to 9; None removes it.
        keyed : bool
            Whether `key` counts.
        """
        with self._lock:
            old = self._class(number)
            new = (self._check_name(name, number) if name is not None else old[0], key if keyed else old[1])
            steps: list[tuple[int, Class | None, Class | None]] = [(number, old, new)] if new != old else []
            for other, old_class in self._state.classes.items():
                if keyed and key is not None and other != number and old_class[1] == key:
                    steps.append((other, old_class, (old_class[0], None)))
            text = f"class {old[0]} renamed {new[0]}" if new[0] != old[0] else f"key of class {old[0]} changed"
            self._do(lambda tx: Change(text, (), tuple(steps)))

    def delete_class(self, number: int) -> int:
        """Delete a class and its labels.

        Parameters
        ----------
        number : int
            The class.

        Returns
        -------
        int
            How many labels were deleted.
        """
        with self._lock:
            old = self._class(number)

            def make(tx: sqlite3.Connection) -> Change:
                items = tx.execute("SELECT item FROM labels WHERE class = ?", (number,)).fetchall()
                labels = tuple((item, number, None) for (item,) in items)
                return Change(f"class {old[0]} deleted", labels, ((number, old, None),))

            return len(self._do(make).labels)

    def promote(self, group: int, name: str | None = None, examples: int | None = None, into: int | None = None) -> int:
        """Make a class of a group of unknowns, or add the group to a class.

        Items that stand for all of the group become examples.

        Parameters
        ----------
        group : int
            The number of the group.
        name : str, optional
            The name of a new class.
        examples : int, optional
            How many items become examples; by default as many as the size of the group needs.
        into : int, optional
            The class that the group is added to, in place of a new one.

        Returns
        -------
        int
            The number of the class.
        """
        from handful.solving.groups import example_count

        with self._lock:
            state = self._state
            if group not in state.row_answers.groups:
                raise Refusal(f"there is no group {group} now: the last run, or its threshold, has changed them", 404)
            if (name is None) == (into is None):
                raise Refusal("give a name for a new class, or a class that the group is added to")
            name = self._class(into)[0] if into is not None else self._check_name(name or "")
            members = state.row_answers.groups[group]
            members = members[(state.labels[members] == NONE) & state.pile.usable[members]]
            if not len(members):
                raise Refusal(
                    f"all {state.pile.noun}s of group {group} have a label already: run again to see new groups", 409
                )
            kinds = max(1, len(self.last_run().facts["parts"][group - 1]))
            count = example_count(len(members), kinds) if examples is None else examples
            rows = _examples_of(members, state.row_answers.exemplars[group], count)

            def make(tx: sqlite3.Connection) -> Change:
                number = next_class(tx) if into is None else into
                labels = tuple(_label_steps(state, [(int(i), number) for i in rows]))
                if into is not None:
                    return Change(f"{PROMOTED}{group} added to class {name}", labels)
                return Change(f"{PROMOTED}{group} made class {name}", labels, ((number, None, self._new(name)),))

            change = self._do(make)
            number = into if into is not None else change.classes[0][0]
            items, example = state.pile.ids[members].tolist(), int(state.pile.ids[rows[0]])
            self._promotions.append(Promotion(self.last_run().id, number, items, example))
            return number

    def split_group(self, number: int) -> None:
        """Split a group of the last run into the kinds that it looks like. `join_groups` joins them again.

        Parameters
        ----------
        number : int
            The group.
        """
        self._regroup(lambda state: split(self.last_run().facts, number))

    def join_groups(self, number: int, other: int) -> None:
        """Join two groups of the last run. `split_group` splits them again.

        Parameters
        ----------
        number, other : int
            The groups.
        """
        self._regroup(lambda state: join(self.last_run().facts, number, other))

    def find_groups(self, detail: float) -> None:
        """Find the groups of unknowns anew, coarser (-2) or finer (2). The next runs have this detail too.

        Parameters
        ----------
        detail : float
            From -2 to 2.
        """
        self._regroup(lambda state: find_anew(state, detail), detail=detail)

    def _regroup(self, find: Callable[[State], GroupFacts], **facts: Any) -> None:
        """Groups are no labels: changing them is not a step that can be undone."""
        with self._lock:
            self.last_run()  # raises Refusal if there is none
            run = self.last_run().grouped(find(self._state), **facts)
            self.store.set_facts(run.id, run.facts)
            state = self._state
            self._state = replace(state, run=run, row_answers=RowAnswers.of(run, state.pile, state.classes))
            self.tell()

    def set_threshold(self, threshold: float) -> None:
        """Change the threshold of the last run.

        Parameters
        ----------
        threshold : float
            The doubt (`Answers.doubts`) above which an item is unknown.
        """
        with self._lock:
            run = self.last_run()
            if threshold != run.threshold:
                step = (run.id, run.threshold, float(threshold))
                self._do(lambda tx: Change(f"threshold {run.threshold:.3g} changed to {threshold:.3g}", threshold=step))

    def _class(self, number: int) -> Class:
        if number not in self._state.classes:
            raise Refusal(f"there is no class {number}: it may have been deleted", 404)
        return self._state.classes[number]

    def _new(self, name: str) -> Class:
        used_keys = {key for _, key in self._state.classes.values()}
        return name, next((key for key in KEYS if key not in used_keys), None)

    def _check_name(self, name: str, number: int | None = None) -> str:
        name = unicodedata.normalize("NFC", name).strip()
        if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
            raise Refusal(f"a class's name is one line of 1 to {MAX_NAME_CHARACTERS} characters: give another name")
        if is_no_class(name) or is_no_label(name):
            what = "of items of no class" if is_no_class(name) else "for items without a label"
            raise Refusal(f'"{name}" is the name {what}: give the class another name')
        used_names = {old_class[0].casefold() for other, old_class in self._state.classes.items() if other != number}
        if name.casefold() in used_names:
            raise Refusal(f"there is a class {name} already: give another name, or add the items to that class", 409)
        return name


def _label_steps(
    state: State, new_labels: list[tuple[int, int | None]]
) -> Iterator[tuple[int, int | None, int | None]]:
    for row, code in new_labels:
        before = int(state.labels[row])
        if before != (NONE if code is None else code):
            yield int(state.pile.ids[row]), None if before == NONE else before, code


def _examples_of(members: np.ndarray, exemplars: np.ndarray, count: int) -> np.ndarray:
    """The rows of a group that become examples: those that stand for it first."""
    first = exemplars[np.isin(exemplars, members)]
    order = np.concatenate([first, members[~np.isin(members, first)]])
    return order[:count]


class Checking(Edits):
    """The part of a `Project` that checks a run."""

    def check(self, count: int = FIRST_SAMPLE) -> dict[str, Any]:
        """The body of GET /check: the first `count` items that a person should look at, and the answers so far.

        Parameters
        ----------
        count : int
            How many items.
        """
        self.last_run()
        state = self.state
        assert state.checks is not None
        pile = state.pile
        order = [item for item in state.checks.order if item in pile.row and pile.usable[pile.row[item]]][:count]
        answers = [{"item": item, "answer": answer} for item, answer in state.checks.answers.items()]
        usable = sum(self._use(item, answer) is not None for item, answer in state.checks.answers.items())
        return {"run": state.checks.run.id, "order": order, "answers": answers, "usable": usable}

    def answer(self, run: int, item: int, answer: int | str | None) -> None:
        """Store what a person says of an item.

        Parameters
        ----------
        run : int
            The number of the run that is checked.
        item : int
            The item.
        answer : int, str or None
            A class, 0 for unknown, "right", "wrong", or None to remove the answer.
        """
        with self._lock:
            state, shown = self._state, self.last_run()
            if run != shown.id:
                raise Refusal("this answer belongs to another run: the check begins again", 409)
            row = row_of(state, item)
            place = int(state.row_answers.place[row])
            if place == NONE:
                raise Refusal(f"this {state.pile.noun} is an example of the run: there is nothing to check", 409)
            code = int(shown.decisions[place]) if answer == "right" else WRONG if answer == "wrong" else answer
            if isinstance(code, str) or code not in (None, WRONG, UNKNOWN, *state.classes):
                raise Refusal(f"there is no class {answer}: it may have been deleted", 404)
            assert state.checks is not None
            before = state.checks.answers.get(item)
            name = state.pile.names[row]
            if code is None:
                text = f"check of {name} removed"
            elif code == WRONG:
                text = f"check: the label of {name} is wrong"
            else:
                text = f"check: {name} is {UNKNOWN_NAME if code == UNKNOWN else state.classes[code][0]}"
            if before != code:
                self._do(lambda tx: Change(text, checks=(((run, item), before, code),)))

    def use_answers(self) -> int:
        """Make labels of the answers that name a class or say that none fits; return how many."""
        with self._lock:
            self.last_run()
            checks = self._state.checks
            assert checks is not None
            new: list[tuple[int, int | None]] = [
                (self._state.pile.row[item], code)
                for item, code in checks.answers.items()
                if self._use(item, code) is not None
            ]
            return self._relabel(new, "labelled by the check")

    def _use(self, item: int, answer: int) -> int | None:
        """The label that an answer can become; None if it names none, or if the item has a label."""
        state = self._state
        row = state.pile.row.get(item)
        if row is None or not state.pile.usable[row] or state.labels[row] != NONE:
            return None
        return answer if answer == UNKNOWN or answer in state.classes else None

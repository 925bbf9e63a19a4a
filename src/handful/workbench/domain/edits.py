"""What a person changes: labels, classes, the threshold; each step kept before it is shown, and each can be undone."""

from __future__ import annotations

import sqlite3
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from handful.core.checks import UNKNOWN_NAME
from handful.workbench.domain.changes import Change
from handful.workbench.domain.refusal import Refusal
from handful.workbench.domain.runs import NONE, UNKNOWN, RowAnswers, Run
from handful.workbench.domain.state import Class, State
from handful.workbench.domain.store import Store, next_class
from handful.workbench.domain.views import row_of

LONGEST = 200  # characters of a class's name
KEYS = range(1, 10)


class Edits:
    """The part of a `Project` that people change.

    What is known is held as a `State` that is never changed, only replaced: whoever reads takes it once and sees one
    moment. Whoever changes something holds the lock and writes to the store first.
    """

    def __init__(self, store: Store, state: State) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._state = self._kept = state  # as it is being made, and as it is on the disk
        self._together = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def state(self) -> State:
        """The state as it is on the disk."""
        return self._kept

    def listen(self, told: Callable[[], None]) -> Callable[[], None]:
        """Be called, from any thread, when something changed; gives what ends it."""
        self._listeners.append(told)
        return lambda: self._listeners.remove(told)

    def tell(self) -> None:
        """Call every listener."""
        for told in tuple(self._listeners):
            told()

    def together(self, works: Sequence[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
        """Several changes in one transaction, as bringing it to the disk is what takes long: results or errors.

        One that fails changes nothing; the others are kept. If the disk fails, none is.
        """
        with self._lock:
            before, results = self._state, list[tuple[Any, Exception | None]]()
            self._together = True
            try:
                with self.store.write():
                    for work in works:
                        try:
                            results.append((work(), None))
                        except Exception as error:
                            results.append((None, error))
            except BaseException:
                self._state = before
                raise
            finally:
                self._together = False
                self._publish()
        return results

    def _publish(self) -> None:
        if not self._together:
            self._kept = self._state
            self.tell()

    def label(self, items: Sequence[int], code: int | None) -> int:
        """Give items a class, `UNKNOWN`, or take their label away; gives how many have changed."""
        with self._lock:
            state = self._state
            if code not in (None, UNKNOWN, *state.classes):
                raise Refusal(f"there is no class {code}: it may have been deleted", 404)
            name = {None: "", UNKNOWN: UNKNOWN_NAME}.get(code) or state.classes[code][0] if code is not None else ""
            said = f"labelled {name}" if code is not None else "without their label"
            return self._relabel([(row_of(state, item), code) for item in dict.fromkeys(items)], said)

    def accept(self, items: Sequence[int]) -> int:
        """What was decided of these becomes what was said."""
        with self._lock:
            state = self._state
            rows = [row_of(state, item) for item in dict.fromkeys(items)]
            free = [i for i in rows if state.given[i] == NONE and state.row_answers.decision[i] != NONE]
            return self._relabel([(i, int(state.row_answers.decision[i])) for i in free], "accepted")

    def _relabel(self, wanted: list[tuple[int, int | None]], said: str) -> int:
        state = self._state
        steps = tuple(_label_steps(state, wanted))
        self._do(lambda tx: Change(f"{len(steps):,} {'item' if len(steps) == 1 else 'items'} {said}", steps))
        return len(steps)

    def add_class(self, name: str) -> int:
        """Add a class; return its number."""
        with self._lock:
            name = self._check_name(name)
            change = self._do(lambda tx: Change(f"class {name} added", (), ((next_class(tx), None, self._new(name)),)))
            return change.classes[0][0]

    def change_class(
        self, number: int, name: str | None = None, key: int | None = None, *, keyed: bool = False
    ) -> None:
        """Rename a class, or with `keyed` give it another key, or none; the class that had the key loses it."""
        with self._lock:
            old = self._class(number)
            new = (self._check_name(name, number) if name is not None else old[0], key if keyed else old[1])
            steps: list[tuple[int, Class | None, Class | None]] = [(number, old, new)] if new != old else []
            for other, had in self._state.classes.items():
                if keyed and key is not None and other != number and had[1] == key:
                    steps.append((other, had, (had[0], None)))
            said = f"class {old[0]} renamed {new[0]}" if new[0] != old[0] else f"key of class {old[0]} changed"
            self._do(lambda tx: Change(said, (), tuple(steps)))

    def delete_class(self, number: int) -> int:
        """Its labels go with it; gives how many."""
        with self._lock:
            old = self._class(number)

            def make(tx: sqlite3.Connection) -> Change:
                items = tx.execute("SELECT item FROM labels WHERE class = ?", (number,)).fetchall()
                labels = tuple((item, number, None) for (item,) in items)
                return Change(f"class {old[0]} deleted", labels, ((number, old, None),))

            return len(self._do(make).labels)

    def promote(self, group: int, name: str, examples: int) -> int:
        """A class of a group of unknowns: its most central items become examples."""
        with self._lock:
            state = self._state
            if group not in state.row_answers.groups:
                raise Refusal(f"there is no group {group} now: the last run, or its threshold, has changed them", 404)
            name = self._check_name(name)
            rows = state.row_answers.groups[group]
            rows = rows[(state.given[rows] == NONE) & state.pile.there[rows]][:examples]
            if not len(rows):
                raise Refusal(f"all pictures of group {group} have a label already: run again to see new groups", 409)

            def make(tx: sqlite3.Connection) -> Change:
                number = next_class(tx)
                labels = tuple(_label_steps(state, [(int(i), number) for i in rows]))
                return Change(f"group {group} made class {name}", labels, ((number, None, self._new(name)),))

            return self._do(make).classes[0][0]

    def set_threshold(self, threshold: float) -> None:
        """Change the threshold of the last run."""
        with self._lock:
            run = self.last_run()
            if threshold != run.threshold:
                step = (run.id, run.threshold, float(threshold))
                self._do(lambda tx: Change(f"threshold {run.threshold:.3g} changed to {threshold:.3g}", threshold=step))

    def undo(self) -> str:
        """Undo the last step; return what it was."""
        return self._turn(self.store.undo, "there is nothing to undo")

    def redo(self) -> str:
        """Do the last undone step again; return what it was."""
        return self._turn(self.store.redo, "there is nothing to do again")

    def _turn(self, step: Callable[[], Change | None], otherwise: str) -> str:
        with self._lock:
            change = step()
            if change is None:
                raise Refusal(otherwise, 409)
            self._mirror(change, *self.store.steps())
        return change.text

    def _do(self, make: Callable[[sqlite3.Connection], Change]) -> Change:
        """Store first, then mirror: what is shown was kept."""
        change = self.store.change(make)
        if change:
            self._mirror(change, change.text, None)
        return change

    def _mirror(self, change: Change, undo: str | None, redo: str | None) -> None:
        state = self._state
        given, classes, run, row_answers = state.given.copy(), dict(state.classes), state.run, state.row_answers
        for item, _, code in change.labels:
            if item in state.pile.row:  # else it is gone, and its label kept
                given[state.pile.row[item]] = NONE if code is None else code
        for number, _, after in change.classes:
            if after is None:
                classes.pop(number, None)
            else:
                classes[number] = after
        if change.threshold is not None and run is not None and run.id == change.threshold[0]:
            run = run.at(change.threshold[2])
        if run is not state.run or classes.keys() != state.classes.keys():
            row_answers = RowAnswers.of(run, state.pile, classes)
        classes = dict(sorted(classes.items()))
        self._state = replace(
            state, given=given, classes=classes, run=run, row_answers=row_answers, undo=undo, redo=redo
        )
        self._publish()

    def _class(self, number: int) -> Class:
        if number not in self._state.classes:
            raise Refusal(f"there is no class {number}: it may have been deleted", 404)
        return self._state.classes[number]

    def _new(self, name: str) -> Class:
        taken = {key for _, key in self._state.classes.values()}
        return name, next((key for key in KEYS if key not in taken), None)

    def _check_name(self, name: str, number: int | None = None) -> str:
        name = unicodedata.normalize("NFC", name).strip()
        if not name or len(name) > LONGEST or not name.isprintable():
            raise Refusal(f"a class's name is one line of 1 to {LONGEST} letters: give another name")
        if name.casefold() == UNKNOWN_NAME:
            raise Refusal(f'"{UNKNOWN_NAME}" is what pictures of no class are called: give the class another name')
        taken = {had[0].casefold() for other, had in self._state.classes.items() if other != number}
        if name.casefold() in taken:
            raise Refusal(f"there is a class {name} already: give another name", 409)
        return name

    def last_run(self) -> Run:
        """Return the last run; raise Refusal if there is none."""
        if self._state.run is None:
            raise Refusal("nothing has been labelled yet: give a few examples and run first", 409)
        return self._state.run


def _label_steps(state: State, wanted: list[tuple[int, int | None]]) -> Iterator[tuple[int, int | None, int | None]]:
    for row, code in wanted:
        before = int(state.given[row])
        if before != (NONE if code is None else code):
            yield int(state.pile.ids[row]), None if before == NONE else before, code

"""The state of a project and its steps: each is stored before it is shown, and can be undone and done again."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from handful.project.refusal import Refusal
from handful.project.runs import NONE, RowAnswers, Run
from handful.project.said import Change, Steps, Store
from handful.project.state import Checks, State

PROMOTED = "group "  # how the text of a step begins that made a class of a group, or added the group to one
MAX_LOADED_RUNS = 4  # beside the one that is shown: to compare them


class Undoable:
    """The state, and the steps that change it.

    The state is a `State`, which is replaced and never changed: a reader takes it once and sees one moment. A writer
    holds the lock and writes to the store first.
    """

    def __init__(self, store: Store, state: State) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._state = state
        self._loaded_runs: dict[int, Run] = {}
        self._listeners: list[Callable[[], None]] = []

    @property
    def state(self) -> State:
        """The state as it is on the disk."""
        return self._state

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function, from any thread, after each change.

        Parameters
        ----------
        listener : callable
            The function.

        Returns
        -------
        callable
            A function that ends this.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self) -> None:
        """Call every listener."""
        for listener in tuple(self._listeners):
            listener()

    def undo(self) -> str:
        """Undo the last step; return what it was."""
        return self._turn(self.store.undo, "there is nothing to undo")

    def redo(self) -> str:
        """Do the last undone step again; return what it was."""
        return self._turn(self.store.redo, "there is nothing to do again")

    def take_back(self) -> str:
        """Undo the last run and the promotion before it, in one; return what the promotion was."""
        with self._lock:
            if not can_take_back(self._state):
                raise Refusal("the last step is no run after a promotion: use undo", 409)
            with self.store.write():
                run_step, promotion = self.store.undo(), self.store.undo()
                assert run_step is not None
                assert promotion is not None
                run = self._run_after(run_step)
            self._mirror([run_step, promotion], run, self.store.steps())
        return promotion.text

    def _turn(self, step: Callable[[], Change | None], otherwise: str) -> str:
        with self._lock:
            with self.store.write():
                change = step()
                if change is None:
                    raise Refusal(otherwise, 409)
                run = self._run_after(change)
            self._mirror([change], run, self.store.steps())
        return change.text

    def _run_after(self, change: Change) -> Run | None:
        """The run that is shown after a change."""
        if change.run is None:
            return self._state.run
        return None if change.run[1] is None else self._read_run(change.run[1])

    def _read_run(self, number: int) -> Run:
        row = self.store.run(number)
        if row is None:
            raise Refusal(f"run {number} is not stored any more: choose another one", 404)
        try:
            return Run.unpacked(*row)
        except ValueError as error:
            raise Refusal(f"run {number} is damaged, {error}: this step stays as it is", 409) from None

    def stored_run(self, number: int) -> Run:
        """A run that undo, redo or a comparison leads to; Refusal if it is not stored.

        Parameters
        ----------
        number : int
            The run.
        """
        with self._lock:
            shown = self._state.run
            if shown is not None and shown.id == number:
                return shown
            if number not in self._loaded_runs:
                self._loaded_runs[number] = self._read_run(number)
                for old in [*self._loaded_runs][:-MAX_LOADED_RUNS]:
                    del self._loaded_runs[old]
            return self._loaded_runs[number]

    def _do(self, make: Callable[[sqlite3.Connection], Change]) -> Change:
        """Write to the store first, then to memory: only stored changes are shown."""
        change = self.store.change(make)
        if change:
            self._mirror([change], self._state.run, Steps(change.text, None, None))
        return change

    def _mirror(self, changes: Sequence[Change], run: Run | None, steps: Steps) -> None:
        """Repeat stored changes in memory; run: the run that is shown after them."""
        state = self._state
        labels, classes, row_answers, checks = state.labels.copy(), dict(state.classes), state.row_answers, state.checks
        for change in changes:
            for item, _, code in change.labels:
                if item in state.pile.row:  # otherwise the picture is gone; its label stays in the store
                    labels[state.pile.row[item]] = NONE if code is None else code
            for number, _, after in change.classes:
                if after is None:
                    classes.pop(number, None)
                else:
                    classes[number] = after
            if change.threshold is not None and run is not None and run.id == change.threshold[0]:
                run = run.at(change.threshold[2])
            self._loaded_runs.pop(change.run_of or 0, None)  # its threshold may have changed
        if run is not state.run or classes.keys() != state.classes.keys():
            row_answers = RowAnswers.of(run, state.pile, classes)
        if run is not state.run or any(change.checks for change in changes):
            checks = None if run is None else Checks(run, self.store.checks(run.id)).computed()
        classes = dict(sorted(classes.items()))
        self._state = replace(
            state, labels=labels, classes=classes, run=run, row_answers=row_answers, checks=checks, steps=steps
        )
        self.tell()

    def last_run(self) -> Run:
        """Return the last run; raise Refusal if there is none."""
        if self._state.run is None:
            raise Refusal("nothing has been labelled yet: give a few examples and run first", 409)
        return self._state.run


def can_take_back(state: State) -> bool:
    """Whether the last two steps are a promotion and the run after it."""
    return (state.steps.before_run or "").startswith(PROMOTED)

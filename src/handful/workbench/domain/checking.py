"""What a person answers when a run is checked. Answers are steps that can be undone, and no labels."""

from __future__ import annotations

from typing import Any

from handful.core.checks import UNKNOWN_NAME
from handful.workbench.domain.changes import WRONG, Change
from handful.workbench.domain.checks import FIRST_SAMPLE
from handful.workbench.domain.edits import Edits
from handful.workbench.domain.refusal import Refusal
from handful.workbench.domain.runs import NONE, UNKNOWN
from handful.workbench.domain.views import row_of


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

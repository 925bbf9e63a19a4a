"""What the page shows of a project at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME
from handful.features.labels import NDArray
from handful.project.events import Class, Said, Store
from handful.project.pile import Pile
from handful.project.refusal import Refusal
from handful.project.runs import NONE, UNKNOWN, WRONG, RowAnswers, Run

FIRST_SAMPLE = 10  # items that a check asks for first


@dataclass(frozen=True, eq=False)
class Checks:
    """The answers that a person gave for items of a run: a class, UNKNOWN, or WRONG. They are no labels."""

    run: Run
    answers: dict[int, int]  # by item

    @cached_property
    def measured(self) -> Any:
        """What the answers say of all labels, a `handful.solving.check.Checked`; None if there are none."""
        place = {item: k for k, item in enumerate(self.run.ids.tolist())}
        by_place = {place[item]: answer for item, answer in self.answers.items() if item in place}
        if not by_place:
            return None
        from handful.solving import check

        words: dict[int, Any] = {WRONG: check.WRONG, UNKNOWN: UNKNOWN_NAME}
        return check.check_answers(self.run.answers, {k: words.get(answer, answer) for k, answer in by_place.items()})

    @cached_property
    def order(self) -> list[int]:
        """All items of the run in the order in which to ask. It does not depend on the answers."""
        from handful.solving.check import draw_sample

        run = self.run
        return [int(item) for item in run.ids[draw_sample(run.answers, len(run.ids), seed=0)]]

    def trust(self) -> dict[str, Any]:
        """How many labels should be right, or are right by the check, for JSON."""
        checked = self.measured
        if checked is None:
            return {"sentence": self.run.expected_in_words(), "is_measured": False, "checked": 0, "details": [],
                    "more_to_halve": 0, "classes": []}  # fmt: skip
        return {
            "sentence": checked.sentences[0], "is_measured": True, "checked": checked.answers,
            "details": checked.sentences[1:], "more_to_halve": checked.more_to_halve,
            "classes": [{"class": int(number), **one._asdict()} for number, one in checked.by_class.items()],
        }  # fmt: skip


@dataclass(frozen=True)
class State:
    """A state is replaced, never changed. Only features are filled in place when they become available."""

    pile: Pile
    said: Said
    labels: np.ndarray  # [n] the class that a person gave each item, or NONE
    run: Run | None
    row_answers: RowAnswers
    checks: Checks | None  # of the run
    skipped: tuple[tuple[str, str], ...]  # names of files, and why

    @classmethod
    def of(
        cls, store: Store, pile: Pile, skipped: tuple[tuple[str, str], ...] = (), before: State | None = None
    ) -> State:
        """What a store has now. before: the state of before, for what need not be computed again."""
        said, run, checks = store.said, store.run(), None
        labels = np.full(len(pile), NONE)
        for item, code in said.labels.items():
            if item in pile.row:  # otherwise the item is gone; its label stays in the store
                labels[pile.row[item]] = code
        same = before if before is not None and before.run is run else None
        if same is not None and same.pile is pile and same.classes.keys() == said.classes.keys():
            row_answers = same.row_answers
        else:
            row_answers = RowAnswers.of(run, pile, said.classes)
        if run is not None:
            answers = said.checks.get(run.id, {})
            old = None if same is None else same.checks
            checks = old if old is not None and old.answers == answers else Checks(run, answers)
            if before is not None:
                _ = checks.measured  # it takes a third of a second, which an event must not wait for
        return cls(pile, said, labels, run, row_answers, checks, skipped)

    @property
    def classes(self) -> dict[int, Class]:
        """The name and the key of each class, by number."""
        return self.said.classes

    @cached_property
    def worth_asking(self) -> np.ndarray:
        """The rows whose label would help the next run most, in the order to ask."""
        if self.run is None:
            return np.zeros(0, int)
        rows = [self.pile.row[item] for item in self.run.facts["asking"] if item in self.pile.row]
        return np.array([row for row in rows if self.pile.usable[row] and self.labels[row] == NONE], int)

    def row_of(self, item: int) -> int:
        """The row of an item; Refusal if there is no such item."""
        row = self.pile.row.get(item)
        if row is None or not self.pile.usable[row]:
            raise Refusal(f"there is no {self.pile.noun} with the number {item}", 404)
        return row

    def usable_rows(self, items: list[int]) -> NDArray:
        """The rows of those items that exist and can be opened."""
        rows = [self.pile.row[item] for item in items if item in self.pile.row]
        return np.array([row for row in rows if self.pile.usable[row]], int)

    def last_run(self) -> Run:
        """The run that is shown; Refusal if there is none."""
        if self.run is None:
            raise Refusal("nothing has been labelled yet: give a few examples and run first", 409)
        return self.run

    def usable_checks(self, store: Store) -> dict[int, int]:
        """The answers to the check of the run that can become labels, by item."""
        answers = store.usable_checks(self.last_run().id).items()
        return {item: code for item, code in answers if item in self.pile.row and self.pile.usable[self.pile.row[item]]}

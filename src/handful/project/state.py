"""What the page of the workbench shows of a project at one moment, by the rows of its pile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from handful.features.labels import NDArray
from handful.project.events import Class, Said, Store
from handful.project.pile import Pile
from handful.project.refusal import Refusal
from handful.project.runs import NONE, UNKNOWN, Run, checked
from handful.solving.check import Checked


@dataclass(frozen=True, eq=False)
class RowAnswers:
    """The answers of a run by the rows of a pile; NONE or NaN where the run has none."""

    decision: NDArray  # [n]
    confidence: NDArray
    p_unknown: NDArray
    score: NDArray
    changed: NDArray  # bool
    group: NDArray  # 0 for none
    place: NDArray  # [n] the row in the run's arrays, NONE
    given: NDArray  # [n] the label that the run started from, NONE
    groups: dict[int, NDArray]  # rows, the most central first


@lru_cache(maxsize=2)  # a label changes none of it
def answers_by_row(run: Run | None, pile: Pile, classes: frozenset[int]) -> RowAnswers:
    """The answers of a run for a pile; decisions for classes that were deleted are left out."""
    n = len(pile)
    decision, place, group = np.full(n, NONE), np.full(n, NONE), np.zeros(n, int)
    confidence, p_unknown, score = (np.full(n, np.nan) for _ in range(3))
    changed = np.zeros(n, bool)
    groups: dict[int, NDArray] = {}
    if run is not None:
        rows = np.array([pile.row.get(item, NONE) for item in run.ids.tolist()], int)
        here = np.flatnonzero(rows >= 0)
        rows = rows[here]
        codes = np.where(np.isin(run.decisions, [UNKNOWN, *classes]), run.decisions, NONE)
        decision[rows], place[rows], changed[rows] = codes[here], here, run.changed[here]
        confidence[rows], score[rows] = run.answers.confidence[here], run.answers.doubts[here]
        if run.answers.p_unknown is not None:
            p_unknown[rows] = run.answers.p_unknown[here]
        for number, items in enumerate(run.facts["groups"], 1):
            members = np.array([pile.row[item] for item in items if item in pile.row], int)
            members = members[decision[members] == UNKNOWN]
            if len(members):
                groups[number], group[members] = members, number
    given = codes_by_row(pile, {} if run is None else run.given_labels)
    return RowAnswers(decision, confidence, p_unknown, score, changed, group, place, given, groups)


def codes_by_row(pile: Pile, codes: Mapping[int, int]) -> NDArray:
    """[n] the label or the decision of each item of a pile, NONE where it has none; other items are gone."""
    rows = np.full(len(pile), NONE)
    for item, code in codes.items():
        if item in pile.row:
            rows[pile.row[item]] = code
    return rows


@dataclass(frozen=True)
class State:
    """A state is replaced, never changed. Only features are filled in place when they become available."""

    pile: Pile
    said: Said
    labels: NDArray  # [n] the class that a person gave each item, or NONE
    run: Run | None
    row_answers: RowAnswers
    checked: Checked | None  # what the answers to the check of the run say; None if there are none
    skipped: tuple[tuple[str, str], ...]  # names of files, and why

    @classmethod
    def of(cls, store: Store, pile: Pile, skipped: tuple[tuple[str, str], ...] = ()) -> State:
        """What a store has now."""
        said, run, measured = store.said, store.run(), None
        if run is not None and (answers := said.checks.get(run.id)):
            measured = checked(run, frozenset(answers.items()))  # here: it takes a third of a second
        row_answers = answers_by_row(run, pile, frozenset(said.classes))
        return cls(pile, said, codes_by_row(pile, said.labels), run, row_answers, measured, skipped)

    @property
    def classes(self) -> dict[int, Class]:
        """The name and the key of each class, by number."""
        return self.said.classes

    @cached_property
    def worth_asking(self) -> NDArray:
        """The rows whose label would help the next run most, in the order to ask."""
        rows = self.usable_rows([] if self.run is None else self.run.facts["asking"])
        return np.asarray(rows[self.labels[rows] == NONE])

    def row_of(self, item: int) -> int:
        """The row of an item; Refusal if there is no such item."""
        row = self.pile.row.get(item)
        if row is None or not self.pile.usable[row]:
            raise Refusal(f"there is no {self.pile.noun} with the number {item}", 404)
        return row

    def usable_rows(self, items: Sequence[int]) -> NDArray:
        """The rows of those items that exist and can be opened."""
        rows = np.array([self.pile.row[item] for item in items if item in self.pile.row], int)
        return np.asarray(rows[self.pile.usable[rows]])

    def last_run(self) -> Run:
        """The run that is shown; Refusal if there is none."""
        if self.run is None:
            raise Refusal("nothing has been labelled yet: give a few examples and run first", 409)
        return self.run

    def usable_checks(self, store: Store) -> dict[int, int]:
        """The answers to the check of the run that can become labels, by item."""
        answers = store.usable_checks(self.last_run().id)
        usable = self.pile.ids[self.usable_rows(list(answers))].tolist()
        return {item: answers[item] for item in usable}

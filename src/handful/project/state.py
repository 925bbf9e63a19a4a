"""The state of a project at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME
from handful.project.pile import Pile
from handful.project.runs import NONE, UNKNOWN, WRONG, RowAnswers, Run
from handful.project.said import Steps

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

    def computed(self) -> Checks:
        """The same, with `measured` computed: it takes a third of a second, which an event must not wait for."""
        _ = self.measured
        return self

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


Class = tuple[str, int | None]  # name and key


@dataclass(frozen=True)
class State:
    """A state is replaced, never changed. Only features are filled in place when they become available."""

    pile: Pile
    labels: np.ndarray  # [n] the class that a person gave each item, or NONE
    classes: dict[int, Class]
    run: Run | None
    row_answers: RowAnswers
    skipped: tuple[tuple[str, str], ...]
    checks: Checks | None  # of the run
    steps: Steps

    @cached_property
    def worth_asking(self) -> np.ndarray:
        """The rows whose label would help the next run most, in the order to ask."""
        if self.run is None:
            return np.zeros(0, int)
        rows = [self.pile.row[item] for item in self.run.facts["asking"] if item in self.pile.row]
        return np.array([row for row in rows if self.pile.usable[row] and self.labels[row] == NONE], int)

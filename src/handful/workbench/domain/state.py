"""The state of a project at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from handful.workbench.domain.checks import Checks
from handful.workbench.domain.pile import Pile
from handful.workbench.domain.runs import RowAnswers, Run
from handful.workbench.domain.store import Steps

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
        from handful.workbench.domain.asking import rows_worth_asking

        return rows_worth_asking(self)

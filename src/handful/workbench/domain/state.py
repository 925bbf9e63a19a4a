"""All that is known of a project at one moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handful.workbench.domain.pile import Pile
from handful.workbench.domain.runs import RowAnswers, Run

Class = tuple[str, int | None]  # name and key


@dataclass(frozen=True)
class State:
    """Never changed, only replaced; but features are filled in place as they come."""

    pile: Pile
    given: np.ndarray  # [n] the class a person gave, NONE if none
    classes: dict[int, Class]
    run: Run | None
    row_answers: RowAnswers
    skipped: tuple[tuple[str, str], ...]
    undo: str | None
    redo: str | None

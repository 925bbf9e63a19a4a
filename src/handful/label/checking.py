"""A check of the results in a folder: a sample of the items, the answers in `checked.json`, and what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful.label.sitting import Sitting
from handful.report import write_measured
from handful.solving.check import WRONG, Checked, check_answers, draw_sample

CHECKED_FILE, REPORT_FILE = "checked.json", "report.html"


class Check(Sitting):
    """The check of a folder of results.

    Parameters
    ----------
    folder : Path
        What `handful label` wrote.
    seed : int, optional
        Of the draw of items; by default that of the earlier answers, or 0.
    """

    FILE = CHECKED_FILE

    def __init__(self, folder: Path, seed: int | None = None) -> None:
        super().__init__(folder)
        self.seed = int(self._entries.get("seed", 0) if seed is None else seed)

    def _next_rows(self, count: int, done: Sequence[int]) -> Sequence[int]:
        rows: list[int] = draw_sample(self.stored.answers, count, seed=self.seed, exclude=done).tolist()
        return rows

    @property
    def truth(self) -> dict[int, Any]:
        """By row what is known of the items. That a label is wrong says nothing if the item has another one now."""
        truth: dict[int, Any] = {}
        for item, answer in self.answers.items():
            row = self._rows[item]
            if answer.label is not None:
                truth[row] = answer.label
            elif answer.says == self._labels[row]:
                truth[row] = WRONG
        return truth

    @property
    def checked(self) -> Checked:
        """What the answers say of all labels."""
        return check_answers(self.stored.answers, self.truth)

    def rows_by_class(self) -> dict[str, tuple[int, int, int]]:
        """For each class that has labels: how many, how many of them were looked at, and how many were right."""
        in_pile = np.flatnonzero(~self.stored.answers.is_given).tolist()
        labels = Counter(self._labels[row] for row in in_pile)
        seen = [(self._labels[row], said) for row, said in self.truth.items() if not self.stored.answers.is_given[row]]
        looked_at = Counter(label for label, _ in seen)
        right = Counter(label for label, said in seen if label == said)
        return {name: (labels[name], looked_at[name], right[name]) for name in self.classes if labels[name]}

    def document(self) -> dict[str, Any]:
        """What `checked.json` holds."""
        return {**super().document(), "seed": self.seed, "checked": self.checked.as_json()}


def update_report(folder: Path, document: Mapping[str, Any]) -> str:
    """Show what was measured in the report of a folder; return a sentence if that was not possible, or "".

    Parameters
    ----------
    folder : Path
        A folder of results. It need not have a report.
    document : mapping
        What `Check.document` gave.
    """
    path = folder / REPORT_FILE
    if not path.is_file():
        return ""
    try:
        write_measured(path, {**document["checked"], "made": document["made"]})
    except (OSError, ValueError) as error:
        return f"The report does not show the check: {error}"
    return ""

"""Questions whose answers change the labels of a pile most: the items that its record says are worth asking about."""

from __future__ import annotations

from collections.abc import Sequence

from handful.label.sitting import Sitting

ASKED_FILE = "asked.json"


class Asking(Sitting):
    """The questions that are most worth an answer, and the answers so far.

    They are kept apart from those of a check: the items are no random sample, and would give a wrong picture of the
    labels.
    """

    FILE = ASKED_FILE

    def _next_rows(self, count: int, done: Sequence[int]) -> Sequence[int]:
        asked = set(done)
        return [row for row in self.stored.record.worth_asking if row not in asked][:count]

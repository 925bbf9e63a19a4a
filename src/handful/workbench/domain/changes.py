"""A change that a person made: how to apply it, how to undo it, and how the history stores it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_ID = 2**53 - 1  # the largest whole number that JavaScript has
WRONG = -1  # the answer "the label is wrong", which does not say what is right


@dataclass(frozen=True)
class Change:
    """What is changed, as (id, before, after), with None for nothing.

    A class is (name, key). An answer of a check is a class, 0 for none of them, or WRONG; its id is (run, item).
    """

    text: str
    labels: tuple[tuple[int, int | None, int | None], ...] = ()
    classes: tuple[tuple[int, tuple[str, int | None] | None, tuple[str, int | None] | None], ...] = ()
    threshold: tuple[int, float, float] | None = None  # the run, the old and the new threshold
    run: tuple[int | None, int | None] | None = None  # the run that was shown before, and the new one
    checks: tuple[tuple[tuple[int, int], int | None, int | None], ...] = ()

    def back(self) -> Change:
        """Return the change that undoes this one."""
        threshold = None if self.threshold is None else (self.threshold[0], self.threshold[2], self.threshold[1])
        run = None if self.run is None else (self.run[1], self.run[0])
        labels, classes, checks = (tuple(_reversed(steps)) for steps in (self.labels, self.classes, self.checks))
        return Change(self.text, labels, classes, threshold, run, checks)

    @property
    def run_of(self) -> int | None:
        """The run that the step cannot be undone or done again without; `run` has a second one."""
        if self.checks:
            return self.checks[0][0][0]
        return self.run[1] if self.run is not None else self.threshold and self.threshold[0]

    def as_json(self) -> str:
        """Return the change as JSON, without its text."""
        parts = [self.labels, self.classes, self.threshold, self.run, self.checks]
        return json.dumps(parts, separators=(",", ":"))

    @classmethod
    def read(cls, text: str, change: str) -> Change:
        """Read what `as_json` wrote; raise ValueError for anything else, because the file may come from anyone."""
        try:
            parts = json.loads(change, parse_constant=_no_number)
            labels, classes, threshold, run, checks = parts
            return cls(
                text,
                tuple((_id(item), _or_none(_code, a), _or_none(_code, b)) for item, a, b in labels),
                tuple((_id(number), _or_none(_class, a), _or_none(_class, b)) for number, a, b in classes),
                _or_none(_threshold, threshold),
                _or_none(_runs, run),
                tuple((_check_id(of), _or_none(_answer, a), _or_none(_answer, b)) for of, a, b in checks),
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError("the entry of this step in the history is damaged") from None

    def __bool__(self) -> bool:
        return bool(self.labels or self.classes or self.threshold or self.run or self.checks)


def _reversed(steps: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, Any, Any]]:
    return ((what, after, before) for what, before, after in steps)


def _or_none(read: Any, value: Any) -> Any:
    return None if value is None else read(value)


def _code(value: Any, smallest: int = 0) -> int:
    if type(value) is not int or not smallest <= value <= MAX_ID:
        raise ValueError
    return value


def _id(value: Any) -> int:
    return _code(value, 1)


def _class(value: Any) -> tuple[str, int | None]:
    name, key = value
    if not isinstance(value, list) or not isinstance(name, str) or not name or key not in (None, *range(1, 10)):
        raise ValueError
    return name, key


def _threshold(value: Any) -> tuple[int, float, float]:
    run, before, after = value
    if not all(type(x) in (int, float) and math.isfinite(x) for x in (before, after)):
        raise ValueError
    return _id(run), float(before), float(after)


def _runs(value: Any) -> tuple[int | None, int | None]:
    before, after = value
    return _or_none(_id, before), _or_none(_id, after)


def _check_id(value: Any) -> tuple[int, int]:
    run, item = value
    return _id(run), _id(item)


def _answer(value: Any) -> int:
    return _code(value, WRONG)


def _no_number(text: str) -> Any:
    raise ValueError(text)

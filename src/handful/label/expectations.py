"""What is expected of labels: how many of them should be right, in numbers and words."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any

import numpy as np

from handful.core.answers import ExpectedLabels
from handful.utils.shares_in_words import is_low, percent, right_in_words

EXPECTED_HEAD = ("Class", "Labels", "Should be right", "Precision")
ADVISED_PRECISION = 0.9  # that a warning names


def total_of(expected: Mapping[Any, ExpectedLabels]) -> ExpectedLabels:
    """The labels of all classes together."""
    return ExpectedLabels(sum(e.labels for e in expected.values()), sum(e.right for e in expected.values()))


def expected_in_words(expected: Mapping[Any, ExpectedLabels], has_examples: bool = False) -> str:
    """How many labels should be right, in a sentence; "" if there are none.

    Parameters
    ----------
    expected : mapping of ExpectedLabels
        By class.
    has_examples : bool
        Whether items of the pile are examples: their labels do not count.

    Examples
    --------
    >>> expected_in_words({"cat": ExpectedLabels(10, 5.0), "hen": ExpectedLabels(10, 7.0)})
    'Only about 12 of 20 labels should be right: check them, or ask for --precision 0.9.'
    """
    total = total_of(expected)
    if not total.labels:
        return ""
    words = right_in_words(*total)
    if has_examples:
        words = f"Without the examples: {words[0].lower()}{words[1:]}"
    advice = f": check them, or ask for --precision {ADVISED_PRECISION:g}" if is_low(*total) else ""
    return f"{words}{advice}."


def expected_rows(expected: Mapping[Any, ExpectedLabels]) -> list[list[str]]:
    """The rows of a table with the columns `EXPECTED_HEAD`: classes that have labels, as text."""
    return [
        [str(name), str(e.labels), f"about {e.right:.{0 if e.right >= 10 else 1}f}", percent(e.precision)]
        for name, e in expected.items()
        if e.labels
    ]


def expected_numbers(expected: Mapping[Any, ExpectedLabels] | None, set_aside: int) -> dict[str, Any]:
    """What is expected of the labels, for JSON: null where the method gives no probabilities, or without labels."""
    total = total_of(expected or {})
    return {
        "set_aside": set_aside,
        "expected_precision": total.precision if total.labels else None,
        "expected_in_words": expected_in_words(expected or {}) or None,
        "expected_by_class": None if expected is None else {str(name): e._asdict() for name, e in expected.items()},
    }


def precision_in_words(precision: float, min_confidence: float, p_right: np.ndarray) -> str:
    """What was set aside for a precision, in words. p_right [n]: of all labels that there were before."""
    kept = p_right[p_right >= min_confidence]
    if not len(p_right):
        return f"There is no label, so --precision {precision:g} changes nothing."
    if not len(kept):
        surest = float(p_right.max())
        less = floor(20 * surest) / 20
        hint = f", or ask for less, as in --precision {less:g}" if less > 0 else ""
        return (
            f"No label reaches the precision that --precision {precision:g} asks for: the surest is right with a "
            f"probability of {percent(surest)}, so nothing is labelled. Give more examples of each class{hint}."
        )
    if len(kept) == len(p_right):
        return (
            f"All labels are kept, because together they reach the precision that --precision {precision:g} asks for."
        )
    return (
        f"A label that is right with a probability below {percent(min_confidence)} is set aside, so that "
        f"{percent(precision)} of the others should be right, as --precision says."
    )

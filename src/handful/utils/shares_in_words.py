"""Shares in words, the same on every page and in every command."""

from __future__ import annotations

from collections.abc import Sequence

LOW_PRECISION = 0.7  # labels of which a smaller part should be right need a warning
MIN_SHARE = 0.02  # an estimate cannot distinguish a smaller share from 0


def percent(share: float) -> str:
    """Return a share as a percentage, with one more digit near 0 and 1.

    >>> percent(0.314), percent(0), percent(0.004)
    ('31 %', '0 %', '0.4 %')
    """
    whole = share in (0, 1) or 0.01 <= share <= 0.99
    return f"{100 * share:.{0 if whole else 1}f} %"


def about(share: float) -> str:
    """Return an estimated share in words.

    >>> about(0.314), about(0.01)
    ('about 31 %', 'fewer than 2 %')
    """
    return f"fewer than {percent(MIN_SHARE)}" if share < MIN_SHARE else f"about {percent(share)}"


def span(share: float, interval: Sequence[float], items: int = 0) -> str:
    """Return the interval of an estimate, to follow it in a sentence; "" if it says nothing. items: to count, if any.

    >>> span(0.9, (0.8, 1)), span(0.5, (0, 1))
    (' (at least 80 %)', '')
    >>> span(0.314, (0.22, 0.4), 238), span(0.01, (0, 0.07), 238)
    (' (between 22 and 40 %: 52 to 95 of 238)', ' (at most 7 %: 17 of 238)')
    """
    low, high = (round(100 * end) for end in interval)
    if not interval[0] <= share <= interval[1] or low == high or high <= 100 * MIN_SHARE:
        return ""
    fewest, most = (f"{round(end * items):,}" for end in interval)
    if low == 0:
        words, count = f"at most {high} %", most
    elif high == 100:
        words, count = f"at least {low} %", fewest
    else:
        words, count = f"between {low} and {high} %", f"{fewest} to {most}"
    return "" if (low, high) == (0, 100) else f" ({words}: {count} of {items:,})" if items else f" ({words})"


def right_in_words(labels: int, right: float) -> str:
    """Return how many labels should be right, without a full stop; "" if there is no label.

    >>> right_in_words(105, 95.2), right_in_words(105, 60)
    ('Of 105 labels about 95 should be right', 'Only about 60 of 105 labels should be right')
    >>> right_in_words(40, 39.8)
    'Of 40 labels nearly all should be right'
    """
    if not labels:
        return ""
    if labels == 1:
        return f"The only label is right with a probability of {percent(right)}"
    if is_low(labels, right):
        return f"Only about {round(right):,} of {labels:,} labels should be right"
    count = "nearly all" if round(right) == labels else f"about {round(right):,}"
    return f"Of {labels:,} labels {count} should be right"


def is_low(labels: int, right: float) -> bool:
    """Whether so few labels should be right that somebody must check them."""
    return right < LOW_PRECISION * labels

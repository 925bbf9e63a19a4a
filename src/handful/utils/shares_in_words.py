"""Shares in words, the same on every page and in every command."""

from __future__ import annotations

from collections.abc import Sequence

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


def span(share: float, interval: Sequence[float]) -> str:
    """Return the interval of an estimate, to follow it in a sentence; "" if it says nothing.

    >>> span(0.314, (0.22, 0.4)), span(0.01, (0, 0.07)), span(0.9, (0.8, 1)), span(0.5, (0, 1))
    (' (between 22 and 40 %)', ' (at most 7 %)', ' (at least 80 %)', '')
    """
    low, high = (round(100 * end) for end in interval)
    if not interval[0] <= share <= interval[1] or low == high or high <= 100 * MIN_SHARE:
        return ""
    if low == 0:
        return "" if high == 100 else f" (at most {high} %)"
    return f" (at least {low} %)" if high == 100 else f" (between {low} and {high} %)"

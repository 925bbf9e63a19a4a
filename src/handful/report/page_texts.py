"""The texts of items as the page holds them: long ones are cut, so that the page stays small enough to open."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from handful.report.html_text import printable

MAX_TEXT_CHARACTERS = 20_000  # of one text
MAX_PAGE_CHARACTERS = 8_000_000  # of all texts: at most 48 MB of JSON, and mostly a fifth of it


def page_texts(texts: Sequence[str]) -> tuple[list[str], dict[int, int]]:
    """The texts as the page shows them, and the whole lengths of those that are cut, by their places.

    If all texts together are too long for one page, the longest ones are cut shorter.

    Examples
    --------
    >>> texts, lengths = page_texts(["short", "long " * 10_000])
    >>> texts[0], len(texts[1]), lengths
    ('short', 20000, {1: 50000})
    """
    limit = longest_text([len(text) for text in texts])
    lengths = {n: len(text) for n, text in enumerate(texts) if len(text) > limit}
    return [printable(text[:limit]) for text in texts], lengths


def longest_text(lengths: Sequence[int], max_total: int = MAX_PAGE_CHARACTERS) -> int:
    """The length to which texts are cut, so that all together have at most `max_total` characters.

    Examples
    --------
    >>> longest_text([10, 100, 1000]), longest_text([10, 100, 1000], 210)
    (20000, 100)
    """
    ordered = np.sort(np.asarray(lengths, np.int64))
    if np.minimum(ordered, MAX_TEXT_CHARACTERS).sum() <= max_total:
        return MAX_TEXT_CHARACTERS
    rest = len(ordered) - np.arange(len(ordered))  # texts that are at least as long as this one
    shorter = np.cumsum(ordered) - ordered  # characters of all shorter texts
    limits = (max_total - shorter) // rest
    return int(min(MAX_TEXT_CHARACTERS, limits[np.argmax(limits <= ordered)]))

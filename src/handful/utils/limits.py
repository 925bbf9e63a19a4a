"""Limits on the memory that the content of a file may take, checked before anything is allocated.

The limit is 8 GiB. For a small file it is lower: 1,000 times its own size, but at least 512 MiB. Features do not
compress that well, so a file that claims more is damaged or hostile. HANDFUL_MAX_BYTES replaces both limits.
"""

from __future__ import annotations

import os
import re

VARIABLE = "HANDFUL_MAX_BYTES"
DEFAULT_BYTES = 8 * 2**30
SMALL_FILE_BYTES = 512 * 2**20  # allowed for a file of any size
MAX_EXPANSION = 1000  # allowed for a larger file, times its own size; deflate reaches 1,032 on zeros
TEXT_EXPANSION = 8  # memory of labels in Python and NumPy, at most about this many times the size of the text
JSON_BYTES = 16 * 2**20  # of a JSON file next to features or a network; real ones have some kB
POWERS = ("", "K", "M", "G", "T", "P", "E")  # of 1,024


def max_bytes() -> int:
    """Return the bytes that a file may take in memory: HANDFUL_MAX_BYTES (17179869184 or 16GB), or 8 GiB."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT_BYTES
    match = re.fullmatch(r"(\d{1,20}(?:\.\d{1,9})?)\s*([KMGTPE]?)(?:iB|B)?", text, re.IGNORECASE | re.ASCII)
    count = int(float(match[1]) * 1024 ** POWERS.index(match[2].upper())) if match else 0
    if count < 1:
        raise ValueError(f"{VARIABLE} is {text[:40]!r}: give a number of bytes, or one with a unit, such as 16GB")
    return count


def check_bytes(count: int, what: str, stored: int | None = None) -> None:
    """Raise ValueError if `what` would take more than the limit.

    Parameters
    ----------
    count : bytes that the content would take in memory, as its headers say.
    what : the subject of the error's sentence, such as "array 'features'".
    stored : bytes of the file, if it is one that can expand.

    Examples
    --------
    >>> check_bytes(4 * 1000 * 512, "array 'features'")
    >>> check_bytes(4 * 10**15, "array 'features'")
    Traceback (most recent call last):
    ...
    ValueError: array 'features' would take 3.6 PiB of memory, more than the limit of 8 GiB: the file is damaged, or \
raise the limit with HANDFUL_MAX_BYTES=4PB
    """
    limit, of_file = max_bytes(), ""
    if stored is not None and not os.environ.get(VARIABLE, "").strip():
        expanded = max(SMALL_FILE_BYTES, MAX_EXPANSION * stored)
        if expanded < limit:
            limit, of_file = expanded, f" for a file of {in_units(stored)}"
    if count > limit:
        raise ValueError(
            f"{what} would take {in_units(count)} of memory, more than the limit of {in_units(limit)}{of_file}: "
            f"the file is damaged, or raise the limit with {VARIABLE}={_enough(count)}"
        )


def in_units(count: int) -> str:
    """Return a number of bytes with a unit.

    >>> in_units(3 * 2**29)
    '1.5 GiB'
    """
    power = _power(count)
    if count >= 1024 ** len(POWERS):
        return f"more than 1,024 {POWERS[-1]}iB"
    number = count / 1024**power
    text = f"{number:.0f}" if number >= 100 else f"{number:.1f}".removesuffix(".0")
    return f"{text} {POWERS[power]}iB" if power else f"{count} bytes"


def _enough(count: int) -> str:
    """Return a round number of at least `count` bytes for the variable; "..." if no machine has that much."""
    power = _power(count)
    return f"{-(-count // 1024**power)}{POWERS[power]}B" if count < 2**60 else "..."


def _power(count: int) -> int:
    return min(max(count.bit_length() - 1, 0) // 10, len(POWERS) - 1)

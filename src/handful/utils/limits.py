"""A limit on the memory that the content of a file may take, checked by the file's own header before it is read."""

from __future__ import annotations

import os
import re

VARIABLE = "HANDFUL_MAX_BYTES"
DEFAULT_BYTES = 8 * 2**30
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


def check_bytes(count: int, what: str) -> None:
    """Raise ValueError if `what`, the subject of a sentence, would take more memory than the limit."""
    if count > max_bytes():
        power = _power(count)
        raise ValueError(
            f"{what} would take {in_units(count)} of memory, more than the limit of {in_units(max_bytes())}: "
            f"the file is damaged, or raise the limit with {VARIABLE}={-(-count // 1024**power)}{POWERS[power]}B"
        )


def in_units(count: int) -> str:
    """A number of bytes with a unit, as in 1.5 GiB."""
    power = _power(count)
    number = min(count / 1024**power, 1024**2)  # a header may say any number
    text = f"{number:.{0 if number >= 100 else 1}f}".removesuffix(".0")
    return f"{text} {POWERS[power]}iB" if power else f"{count} bytes"


def _power(count: int) -> int:
    return min(max(count.bit_length() - 1, 0) // 10, len(POWERS) - 1)

"""How much memory the content of a file may take: asked before anything is allocated for it."""

from __future__ import annotations

import os

VARIABLE = "HANDFUL_MAX_BYTES"
DEFAULT_BYTES = 8 * 2**30


def max_bytes() -> int:
    """How many bytes a file may take in memory: the environment variable HANDFUL_MAX_BYTES, or else 8 GiB."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT_BYTES
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text)):
        raise ValueError(f"{VARIABLE} is {text[:40]!r}: give a number of bytes, such as {16 * 2**30}")
    return int(text)

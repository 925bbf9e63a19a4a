"""Text of a file or of a user, prepared for a message."""

from __future__ import annotations


def shortened(text: str, max_length: int = 80) -> str:
    r"""Return text for a message: on one line, and not longer than `max_length` characters.

    >>> shortened("a\nb"), shortened("x" * 1000, 8)
    ('a\\nb', 'xxxxx...')
    """
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: max_length + 1])
    return line if len(line) <= max_length else f"{line[: max_length - 3]}..."

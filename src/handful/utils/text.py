"""Text of a file or of a user: prepared for a message, and whether there is any."""

from __future__ import annotations


def shortened(text: str, max_length: int = 80) -> str:
    r"""Return text for a message: on one line, and not longer than `max_length` characters.

    >>> shortened("a\nb"), shortened("x" * 1000, 8)
    ('a\\nb', 'xxxxx...')
    """
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: max_length + 1])
    return line if len(line) <= max_length else f"{line[: max_length - 3]}..."


def one_line(text: str, max_length: int = 80) -> str:
    r"""Return the words of a text on one line, shortened; characters that a terminal would obey become escapes.

    >>> one_line(" a\n b[2J", 20)
    'a b\\x1b[2J'
    """
    return shortened(" ".join(text[: 2 * max_length].split()) + "..." * (len(text) > 2 * max_length), max_length)


def is_blank(text: str | None) -> bool:
    r"""Whether a text has nothing to read: only blanks, control characters and characters without width.

    >>> is_blank(" \n\u200b\0"), is_blank("."), is_blank(None)
    (True, False, True)
    """
    return text is None or not any(c.isprintable() and not c.isspace() for c in text)


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 text", "2,000 texts".

    >>> counted(1, "text"), counted(2000, "text")
    ('1 text', '2,000 texts')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"

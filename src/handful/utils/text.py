"""Text of a file or of a user: decoded, prepared for a message, and whether there is any."""

from __future__ import annotations

import codecs
from typing import NamedTuple

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# What the codec `surrogateescape` makes of a wrong byte, and the character that Windows-1252 has for it. Five bytes
# have none there: they become control characters, as in Latin-1.
WINDOWS_1252 = {0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x80, 0x100)}


class Decoded(NamedTuple):
    """The text of a file, and what was wrong with its encoding: a part of a sentence, or ""."""

    text: str
    problem: str


def decode(data: bytes) -> Decoded:
    r"""The text of a file: UTF-8 with or without a mark, UTF-16 with a mark; other bytes as Windows-1252.

    >>> decode(b"caf\xe9")
    Decoded(text='café', problem='1 byte is not UTF-8 and was read as Windows-1252')
    """
    if data.startswith(UTF16_MARKS):
        text = data.decode("utf-16", "replace")
        count = text.count("\ufffd")
        return Decoded(text, f"{count:,} character{'s are' if count != 1 else ' is'} not UTF-16" if count else "")
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    readable = text.translate(WINDOWS_1252)
    count = sum(a != b for a, b in zip(text, readable, strict=True)) if readable != text else 0
    plural = "bytes are not UTF-8 and were" if count != 1 else "byte is not UTF-8 and was"
    return Decoded(readable, f"{count:,} {plural} read as Windows-1252" if count else "")


def shortened(text: str, max_length: int = 80) -> str:
    r"""Return text for a message: on one line, and not longer than `max_length` characters.

    >>> shortened("a\nb"), shortened("x" * 1000, 8)
    ('a\\nb', 'xxxxx...')
    """
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: max_length + 1])
    return line if len(line) <= max_length else f"{line[: max_length - 3]}..."


def one_line(text: str, max_length: int = 80) -> str:
    """The words of a text on one line, shortened; characters that a terminal would obey become escapes."""
    return shortened(" ".join(text[: 2 * max_length].split()) + "..." * (len(text) > 2 * max_length), max_length)


def is_blank(text: str | None) -> bool:
    r"""Whether a text has nothing to read: only blanks, control characters and characters without width.

    >>> is_blank(" \n\u200b\0"), is_blank("."), is_blank(None)
    (True, False, True)
    """
    return text is None or not any(c.isprintable() and not c.isspace() for c in text)


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 text", "2,000 texts"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"

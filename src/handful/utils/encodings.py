"""Bytes of a file as text, whatever encoding it has: no byte is lost, and a sentence says what was not UTF-8."""

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

    Parameters
    ----------
    data : bytes
        The content of the file.

    Returns
    -------
    Decoded
        The text, without the mark at its beginning, and what was wrong.

    Examples
    --------
    >>> decode("caf\u00e9".encode("utf-16")).text, decode(b"caf\xe9")
    ('café', Decoded(text='café', problem='1 byte is not UTF-8 and was read as Windows-1252'))
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

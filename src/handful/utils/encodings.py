"""Bytes of a file as text, whatever encoding it has: no byte is lost, and a sentence says what was not UTF-8."""

from __future__ import annotations

import codecs
from typing import NamedTuple

MARKS = (  # longer marks first: that of UTF-32 begins like that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What the codec `surrogateescape` makes of a wrong byte, and the character that Windows-1252 has for it. Five bytes
# have none there: they become control characters, as in Latin-1.
WINDOWS_1252 = {0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x80, 0x100)}
SAMPLE_BYTES = 4096  # from which UTF-16 without a mark is recognised
MIN_ZERO_SHARE = 0.3  # of every second byte, in UTF-16


class Decoded(NamedTuple):
    """The text of a file, and what was wrong with its encoding: a part of a sentence, or ""."""

    text: str
    problem: str


def decode(data: bytes) -> Decoded:
    r"""The text of a file: UTF-8 with or without a mark, UTF-16 or UTF-32; other bytes as Windows-1252.

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
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return _decode_as(data[len(mark) :], encoding)
    if encoding := _utf16_without_mark(data[:SAMPLE_BYTES]):
        text, problem = _decode_as(data, encoding)
        return Decoded(text, problem or f"it has no mark of its encoding and was read as {encoding.upper()}")
    return _decode_as(data, "utf-8")


def _decode_as(data: bytes, encoding: str) -> Decoded:
    try:
        return Decoded(data.decode(encoding), "")
    except UnicodeDecodeError:
        pass
    if encoding != "utf-8":
        text = data.decode(encoding, "replace")
        count = text.count("\ufffd")
        return Decoded(text, f"{count:,} character{'s are' if count != 1 else ' is'} not {encoding.upper()}")
    text = data.decode("utf-8", "surrogateescape")
    count = len(text) - len(text.translate(dict.fromkeys(WINDOWS_1252)))
    plural = "bytes are not UTF-8 and were" if count != 1 else "byte is not UTF-8 and was"
    return Decoded(text.translate(WINDOWS_1252), f"{count:,} {plural} read as Windows-1252")


def _utf16_without_mark(sample: bytes) -> str:
    """The encoding, if every second byte of a file is often zero; else ""."""
    pairs = len(sample) // 2
    if pairs < 2:
        return ""
    for place, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = (sample[k : 2 * pairs : 2].count(0) for k in (place, 1 - place))
        if zeros > MIN_ZERO_SHARE * pairs and others < zeros / 4:
            return encoding
    return ""

"""Texts from files: find them, and read them within limits, whatever their encoding, as `pictures.py` does pictures."""

from __future__ import annotations

import os
from pathlib import Path

from handful.backbones.folders import BadFile, Kind, Skipped, find_files, opened
from handful.utils.text import Decoded, decode

TEXT_SUFFIXES = frozenset({".txt", ".text", ".md"})
TEXT_KINDS = ".txt or .md"
MAX_TEXT_BYTES = 2**24  # three thousand pages


class BadText(BadFile):
    """A file that cannot be used as a text."""


TEXTS = Kind("text", TEXT_SUFFIXES, TEXT_KINDS, BadText, MAX_TEXT_BYTES, "split it")


def read_text(path: str | os.PathLike[str]) -> Decoded:
    """Return the text of a file (UTF-8, UTF-16 or else Windows-1252) and what was wrong with it, or `BadText`."""
    with opened(path, TEXTS) as file:
        return decode(file.read(MAX_TEXT_BYTES + 1))


def find_texts(
    folder: str | os.PathLike[str], *, strict: bool = False, within: str | os.PathLike[str] | None = None
) -> tuple[list[Path], list[Skipped]]:
    """Find the texts in a folder and its subfolders, as `find_pictures` finds pictures."""
    return find_files(folder, TEXTS, strict, within)

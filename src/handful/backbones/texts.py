"""Texts from files: find them, and read them within limits, whatever their encoding.

A folder may hold anything, so nothing in it is trusted: only regular files that are not too large are read. Every
problem with a file is a `BadText`.
"""

from __future__ import annotations

import os
from pathlib import Path

from handful.backbones.folders import BadFile, Kind, Skipped, find_files, opened
from handful.utils.encodings import Decoded, decode

TEXT_SUFFIXES = frozenset({".txt", ".text", ".md"})
TEXT_KINDS = ".txt or .md"
MAX_TEXT_BYTES = 2**24  # three thousand pages


class BadText(BadFile):
    """A file that cannot be used as a text."""


TEXTS = Kind("text", TEXT_SUFFIXES, TEXT_KINDS, BadText, MAX_TEXT_BYTES, "split it")


def read_text(path: str | os.PathLike[str]) -> Decoded:
    """Read a text.

    Parameters
    ----------
    path : path
        A file: UTF-8 with or without a mark, UTF-16, or else Windows-1252.

    Returns
    -------
    Decoded
        The text, and what was wrong with its encoding, or "". An empty file is the text "".

    Raises
    ------
    BadText
        If the file cannot be used.
    """
    with opened(path, TEXTS) as file:
        return decode(file.read(MAX_TEXT_BYTES + 1))


def find_texts(
    folder: str | os.PathLike[str], *, strict: bool = False, within: str | os.PathLike[str] | None = None
) -> tuple[list[Path], list[Skipped]]:
    """Find the texts in a folder and its subfolders.

    A text is a file with the suffix .txt, .text or .md. Hidden files and files of the operating system are ignored.
    Links are followed if they stay in the folder, and each folder is read once.

    Parameters
    ----------
    folder : path
        The folder.
    strict : bool
        Whether to raise the first folder or text that cannot be used as `BadText`.
    within : path, optional
        A folder around `folder`, if links may lead to anywhere in that.

    Returns
    -------
    list of Path
        The texts, sorted as people sort: 2.txt before 10.txt.
    list of Skipped
        The folders and texts that cannot be used, and one entry with the number of files with other suffixes.
    """
    return find_files(folder, TEXTS, strict, within)

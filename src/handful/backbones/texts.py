"""Texts from files: find them, and read them within limits, whatever their encoding.

A folder may hold anything, so nothing in it is trusted: only regular files that are not too large are read. Every
problem with a file is a `BadText`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from handful.backbones.folders import BadFile, Kind, Skipped, find_files, shown
from handful.utils.encodings import Decoded, decode

TEXT_SUFFIXES = frozenset({".txt", ".text", ".md"})
TEXT_KINDS = ".txt or .md"
MAX_TEXT_BYTES = 2**24  # three thousand pages


class BadText(BadFile):
    """A file that cannot be used as a text."""


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
    try:
        _check(path, os.stat(path))  # before opening, because opening a device can have effects, and again after it
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe would wait
        with open(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            _check(path, status)
            return decode(file.read(status.st_size + 1))
    except OSError as error:
        why = shown(error.strerror or type(error).__name__)
        raise BadText(path, f"cannot be read ({why}): check that it exists and that you can read it") from None
    except ValueError as error:
        if isinstance(error, BadText):
            raise
        raise BadText(path, "is not a valid file name: give another path") from None  # a zero character


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
    return find_files(folder, Kind("text", TEXT_SUFFIXES, TEXT_KINDS, BadText), strict, within)


def _check(path: str | os.PathLike[str], status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadText(path, "is not a regular file (a folder, pipe or device): give the file of a text")
    if status.st_size > MAX_TEXT_BYTES:
        size, limit = status.st_size // 2**20, MAX_TEXT_BYTES // 2**20
        raise BadText(path, f"has {size} MB, and at most {limit} MB are read: split it")

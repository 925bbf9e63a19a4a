"""The files below a folder: found, sorted, named and opened; a sentence for each that cannot be used.

A folder may hold anything, so nothing in it is trusted: links that lead in circles, pipes, folders that cannot be read.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from handful.utils.files import is_within
from handful.utils.text import shortened

LITTER = frozenset({"__macosx", "thumbs.db", "desktop.ini", "@eadir", "$recycle.bin", "system volume information"})
Opener = Callable[[str], int]  # from a path to a descriptor of its file, opened for reading; raises OSError
LEADS_OUT = "is a link that leads out of the folder: copy the {} itself there"


class BadFile(ValueError):
    """A file that cannot be used: `path`, and a `reason` that says what is wrong and what to do."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(os.fspath(path), reason)
        self.path, self.reason = os.fspath(path), reason

    def __str__(self) -> str:
        return f"{shown(self.path)} {self.reason}"


class Skipped(NamedTuple):
    """A skipped file or folder, and why: the reason continues the sentence that begins with the path."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{shown(self.path)} {self.reason}"


def shown(path: str | os.PathLike[str]) -> str:
    r"""Return a path as one printable line: file names may contain newlines and bytes that are not text.

    >>> shown("a\nb.jpg")
    'a\\nb.jpg'
    """
    return shortened(os.fspath(path), 4096)


class Kind(NamedTuple):
    """What is looked for: files of one kind."""

    noun: str  # "picture"
    suffixes: Collection[str]
    formats: str  # for people, as in "JPEG, PNG or GIF"
    error: type[BadFile]
    max_bytes: int
    too_large: str = "make it smaller"  # what to do with a file that has more


@contextmanager
def opened(path: str | os.PathLike[str], kind: Kind, opener: Opener | None = None) -> Iterator[BinaryIO]:
    """Open a regular file that is not too large. Whatever goes wrong is an error of the kind."""

    def open_now(name: str, flags: int) -> int:
        return opener(name) if opener else os.open(name, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait

    try:
        with open(path, "rb", opener=open_now) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise IsADirectoryError
            if status.st_size > kind.max_bytes:
                size, limit = status.st_size // 2**20, kind.max_bytes // 2**20
                raise kind.error(path, f"has {size} MB, and at most {limit} MB are read: {kind.too_large}")
            yield file
    except IsADirectoryError:
        reason = f"is not a regular file (a folder, pipe or device): give the file of a {kind.noun}"
        raise kind.error(path, reason) from None
    except BadFile:
        raise
    except OSError as error:
        raise kind.error(path, _unreadable(error)) from None
    except ValueError:  # a zero character
        raise kind.error(path, "is not a valid file name: give another path") from None


def find_files(
    folder: str | os.PathLike[str], kind: Kind, strict: bool = False, within: str | os.PathLike[str] | None = None
) -> tuple[list[Path], list[Skipped]]:
    """Find the files of a kind below a folder, as people sort; and what cannot be used, with a count of others."""
    top = os.fspath(folder)
    if not os.path.isdir(top):
        problem = "is a file" if os.path.exists(top) else "does not exist"
        raise NotADirectoryError(f"{shown(top)} {problem}: give a folder of {kind.noun}s")
    files: list[Path] = []
    skipped: list[Skipped] = []
    others: Counter[str] = Counter()
    for parts, reason in sorted(walk(top, kind.suffixes, within), key=lambda file: _as_a_person_sorts(file[0])):
        if reason is not None:
            skipped.append(Skipped(os.path.join(top, *parts), reason))
        elif suffix_of(parts[-1]) in kind.suffixes:
            files.append(Path(top, *parts))
        else:
            others[suffix_of(parts[-1]) or "no suffix"] += 1
    if strict and skipped:
        raise kind.error(skipped[0].path, skipped[0].reason)
    if count := others.total():
        counts = ", ".join(f"{count} with {suffix}" for suffix, count in others.most_common(5))
        counts += ", ..." if len(others) > 5 else ""
        what = f"file that is not a {kind.noun}" if count == 1 else f"files that are not {kind.noun}s"
        reason = f"holds {count} {what}, by the suffix: {counts} ({kind.noun}s are {kind.formats})"
        skipped.append(Skipped(top, reason))
    return files, skipped


def walk(
    top: str, suffixes: Collection[str] = (), within: str | os.PathLike[str] | None = None
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yield each file below `top`, with None or what is wrong with it; links out of `within` are not followed."""
    named = os.path.realpath(top if within is None else within)
    # A link to a parent would list the folders next to `top`.
    seen = {_identity(parent) for parent in Path(top).resolve().parents}
    folders: list[tuple[str, ...]] = [()]
    links: deque[tuple[str, ...]] = deque()  # read last, so that a picture is listed in its own folder
    while folders or links:
        parts = folders.pop() if folders else links.popleft()
        where = os.path.join(top, *parts)
        try:
            if not is_within(os.path.realpath(where), named):
                yield parts, LEADS_OUT.format("folder")
                continue
            identity = _identity(where)
            if identity in seen:
                continue
            seen.add(identity)
            with os.scandir(where) as entries:
                listing = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield parts, f"cannot be opened ({in_short(error)}): check that you can read it"
            continue
        for entry in listing:
            if entry.name.startswith(".") or entry.name.lower() in LITTER:
                continue
            try:
                leads_out = entry.is_symlink() and not is_within(os.path.realpath(entry.path), named)
                if entry.is_dir():
                    (links if entry.is_symlink() else folders).append((*parts, entry.name))
                    continue
                if entry.is_file() and not leads_out:
                    problem = None
                elif leads_out:
                    problem = LEADS_OUT.format("file")
                elif entry.is_symlink() and not os.path.exists(entry.path):
                    problem = "is a link to a missing file: copy the file itself there"
                else:
                    problem = "is not a regular file (a pipe or device): remove it"
            except OSError as error:  # a link to itself
                problem = _unreadable(error)
            if problem is None or suffix_of(entry.name) in suffixes:
                yield (*parts, entry.name), problem


def suffix_of(name: str) -> str:
    """Return the suffix of a file name, in lower case."""
    return os.path.splitext(name)[1].lower()


def _identity(folder: str | Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _as_a_person_sorts(parts: tuple[str, ...]) -> tuple[object, ...]:
    """Return a sort key: 2.jpg before 10.jpg, a before B; names that are equal otherwise by their characters."""
    pieces = [re.split(r"(\d+)", part.casefold()) for part in parts]
    return [[int(p) if i % 2 else p for i, p in enumerate(piece)] for piece in pieces], parts


def _unreadable(error: OSError) -> str:
    return f"cannot be read ({in_short(error)}): check that it exists and that you can read it"


def in_short(error: BaseException) -> str:
    """Return what an error says, on one short line."""
    return shortened(getattr(error, "strerror", None) or str(error) or type(error).__name__)

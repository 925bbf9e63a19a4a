"""Files that are written whole or not at all, and names of files."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from handful.utils.interrupts import cleanup


def scratch(path: Path, mark: str = "") -> Path:
    """A hidden name of one's own beside `path`, for what is to replace it; `mark` tells whose it is."""
    return path.with_name(f".{path.name}.{mark}.{uuid4().hex[:8]}.tmp")


def write_whole(path: Path, content: Any, mark: str = "") -> None:
    """Write bytes under a temporary name first: `path` is never seen half written, and stays as it was on failure."""
    temporary = scratch(path, mark)
    try:
        with cleanup(temporary.unlink), open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def locked(path: Path, what: str) -> Any:
    """The file opened for reading and appending, by one process at a time; a kill unlocks it."""
    try:
        file = open(path, "a+b")  # noqa: SIM115  # for as long as the caller needs it
    except OSError as error:
        raise OSError(error.errno, f"the {what} cannot be written: {error.strerror}", str(path)) from None
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # pragma: no cover - not on Windows
        pass
    except BlockingIOError:
        file.close()
        raise OSError(f"{path} is in use by another process: wait for it, or name another {what}") from None
    return file


def printable(name: str) -> str:
    """File names may hold bytes that are no text: those are written as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def class_name(folder: str) -> str:
    """The class that a folder is named after: in one Unicode form, as names that look the same are the same."""
    return unicodedata.normalize("NFC", printable(folder))


def unique_names(names: Sequence[str]) -> list[str]:
    """Names of rows, no two alike: of equal ones the first stays, the others have their row added.

    A name that stands for one row alone stays as it is.

    >>> unique_names(["a", "b", "a", "a (row 2)"])
    ['a', 'b', 'a (row 2, 2)', 'a (row 2)']
    """
    taken, is_new = set(names), dict.fromkeys(names, True)
    unique = []
    for row, name in enumerate(names):
        if not is_new[name]:
            start, k = f"{name} (row {row}", 2
            candidate = f"{start})"
            while candidate in taken:
                candidate, k = f"{start}, {k})", k + 1
            taken.add(candidate)
            unique.append(candidate)
        else:
            is_new[name] = False
            unique.append(name)
    return unique


def in_brief(name: str | os.PathLike[str], max_length: int = 120) -> str:
    r"""A name in quotes, on one line and not longer than `most` characters, for a sentence.

    >>> in_brief("a\nb" + "x" * 200, 11)
    "'a\\n...xxx'"
    """
    text = repr(os.fspath(name))
    return (
        text
        if len(text) <= max_length
        else f"{text[: max_length // 2 - 1]}...{text[-(max_length - max_length // 2 - 2) :]}"
    )


def first_folder(name: str) -> str:
    """The first folder of a relative path, which is a picture's label; "" if it lies in none."""
    parts = Path(name).parts
    return parts[0] if len(parts) > 1 else ""

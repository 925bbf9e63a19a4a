"""Files that are written whole or not at all, small files of text and JSON, and helpers for file names."""

from __future__ import annotations

import json
import os
import stat
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from errno import EINVAL
from pathlib import Path
from typing import Any
from uuid import uuid4

from handful.utils.interrupts import cleanup
from handful.utils.limits import JSON_BYTES, in_units
from handful.utils.text import shortened


def scratch(path: Path, mark: str = "") -> Path:
    """A new hidden name next to `path`, for a file that will replace it; `mark` identifies the writer."""
    return path.with_name(f".{path.name[:50]}.{mark}.{uuid4().hex[:8]}.tmp")  # a long name fits too: 255 bytes


def read_text(path: Path, max_bytes: int) -> str:
    """Return the text of a file that a person named. The ValueError for one that is none does not name the file."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait
        raise ValueError("it is not a regular file (a folder, pipe or device)")
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"it has more than {max_bytes:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a small JSON file."""
    size = path.stat().st_size
    if size > JSON_BYTES:
        raise ValueError(f"{path.name} has {in_units(size)}, more than {in_units(JSON_BYTES)}: it is damaged")
    return parse_json(path.read_bytes(), path.name)


def parse_json(text: str | bytes, where: str) -> dict[str, Any]:
    """Return an object that is stored as JSON; `where` names the place in errors."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON, or is damaged: {shortened(str(error), 200)}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{where} holds a {type(content).__name__}, not an object")
    return content


def damaged(kind: str, error: Exception | str, where: str = "") -> ValueError:
    """Return the error to raise for a file that cannot be parsed; a fault of the disk is raised as it is."""
    if isinstance(error, OSError) and error.errno not in (None, EINVAL):
        raise error  # or missing permissions; a damaged file gives EINVAL or no number
    return ValueError(f"the file is not a {kind} file, or is damaged or cut off: {where}{shortened(str(error), 300)}")


def write_whole(path: Path, content: Any, mark: str = "") -> None:
    """Write bytes to a temporary file, then rename it: `path` is never half written; a failure leaves it unchanged."""
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


def is_within(path: str, root: str) -> bool:
    """Return whether a path is the root or is below it. Both have their links resolved."""
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def printable(name: str) -> str:
    """Return a file name as text; bytes that are not text are written as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def class_name(folder: str) -> str:
    """Return the class of a folder. Unicode is normalised, so that names that look the same are the same."""
    return unicodedata.normalize("NFC", printable(folder))


def unique_names(names: Sequence[str]) -> list[str]:
    """Names without duplicates: the first of equal names stays, the others get their row number.

    >>> unique_names(["a", "b", "a", "a (row 2)"])
    ['a', 'b', 'a (row 2, 2)', 'a (row 2)']
    """
    taken, seen = set(names), set[str]()
    unique = []
    for row, name in enumerate(names):
        candidate, k = name, 1
        while name in seen and candidate in taken:
            candidate = f"{name} (row {row})" if k == 1 else f"{name} (row {row}, {k})"
            k += 1
        taken.add(candidate)
        seen.add(name)
        unique.append(candidate)
    return unique


def in_brief(name: str | os.PathLike[str], max_length: int = 120) -> str:
    """A name in quotes, on one line and not longer than `max_length` characters, for a message."""
    text, half = repr(os.fspath(name)), max_length // 2
    return text if len(text) <= max_length else f"{text[: half - 1]}...{text[-(max_length - half - 2) :]}"


def first_folder(name: str) -> str:
    """Return the first folder of a relative path, which is the label of a picture; "" if there is none."""
    parts = Path(name).parts
    return parts[0] if len(parts) > 1 else ""

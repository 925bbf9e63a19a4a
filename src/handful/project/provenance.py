"""Tell files that the user's own runs wrote from files that somebody else made.

The record of a labelling says what to do. A run puts a random id into it, and stores the id with a digest of the record
in the user's own folder, `$HANDFUL_CACHE/runs/<id>`. A record of a stranger, a changed one and one from another machine
have no match there. Then the user sees what the file asks for, and it is done only if the user agrees. If that folder
is deleted, the user is asked once more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from handful.utils.files import in_brief, write_whole


@dataclass(frozen=True)
class Request:
    """What a file asks for, if the user's own runs did not write it."""

    file: Path
    action: str  # "use '/home/me/pile' ...", short enough for a sentence
    details: Sequence[str] = field(default_factory=list)  # the complete request, one line each

    @property
    def sentence(self) -> str:
        """What the file asks for, in words."""
        return f"{in_brief(self.file)} was not written by a run of yours on this machine, and asks to {self.action}"


Agree = Callable[[Request], None]  # returns if the user agrees, and raises ValueError if not


def refuse(request: Request) -> None:
    """Refuse: there is nobody to ask."""
    raise ValueError(f"{request.sentence}: nothing was done, because nobody agreed to it")


def new_id() -> str:
    """A random id for a run."""
    return uuid4().hex


def digest_of(content: bytes) -> str:
    """The SHA-256 of a file's content."""
    return sha256(content).hexdigest()


def remember(run: str, digest: str) -> None:
    """Record that one of the user's own runs wrote a file. If that cannot be written, the user is asked later."""
    with suppress(OSError, RuntimeError):  # RuntimeError: the user has no home folder
        place = _place_of(run)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, digest.encode())


def is_own(run: Any, digest: str) -> bool:
    """Whether one of the user's own runs wrote a file with this id and this digest."""
    try:
        place = _place_of(run)
        if not place.is_absolute():
            return False  # a relative folder may come with the file
        with place.open("rb") as file:
            owner = os.fstat(file.fileno()).st_uid
            return file.read(len(digest) + 1) == digest.encode() and owner == getattr(os, "geteuid", lambda: owner)()
    except (OSError, ValueError, RuntimeError):
        return False


def _place_of(run: Any) -> Path:
    """The file that records a run. Raises ValueError if the id is not valid: the file may come from anyone."""
    from handful.utils.cache_folder import cache_folder

    if not isinstance(run, str) or not re.fullmatch("[0-9a-f]{32}", run):
        raise ValueError("this is not the id of a run")
    return cache_folder() / "runs" / run

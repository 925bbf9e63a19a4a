"""Files that the user's own runs wrote, told apart from files of the same form that somebody else made.

Some files say what is to be done: the journal of `--sort move`, the record of a labelling. A run puts a random id into
such a file, and keeps the same id with a digest of the file in the user's own folder, `$HANDFUL_CACHE/runs/<id>`. A
file out of a stranger's archive, one that was changed, and one from another machine have no match there. What they ask
for is shown, and done only if the user agrees. Deleting that folder costs no more than such a question.
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
    """What a file asks for that is not known to be of the user's own runs."""

    file: Path
    action: str  # "move 3 pictures ...", short enough for a sentence
    details: Sequence[str] = field(default_factory=list)  # all of it, a line each

    @property
    def sentence(self) -> str:
        return f"{in_brief(self.file)} is not known to be of a run of yours on this machine, and asks to {self.action}"


Agree = Callable[[Request], None]  # returns if the user agrees, and raises ValueError if not


def refuse(request: Request) -> None:
    """The answer where nobody is asked."""
    raise ValueError(f"{request.sentence}: nothing was done, because nobody agreed to it")


def new_id() -> str:
    return uuid4().hex


def digest_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def remember(run: str, digest: str) -> None:
    """Keep that a run of the user's own wrote a file. Where that cannot be kept, the user is asked later."""
    with suppress(OSError, RuntimeError):  # RuntimeError: the user has no home
        place = _place_of(run)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, digest.encode())


def forget(run: str) -> None:
    """What the file asked for is done: whoever brings it again is asked."""
    with suppress(OSError, RuntimeError):
        _place_of(run).unlink()


def is_own(run: Any, digest: str) -> bool:
    """Whether a run of the user's own wrote a file with this id and this digest."""
    try:
        place = _place_of(run)
        if not place.is_absolute():
            return False  # a relative folder may be one that came with the file
        with place.open("rb") as file:
            whose = os.fstat(file.fileno()).st_uid
            return file.read(len(digest) + 1) == digest.encode() and whose == getattr(os, "geteuid", lambda: whose)()
    except (OSError, ValueError, RuntimeError):
        return False


def _place_of(run: Any) -> Path:
    """Where a run is kept. ValueError if that is no id: a file of anyone's may say anything."""
    from handful.utils.cache_folder import cache_folder

    if not isinstance(run, str) or not re.fullmatch("[0-9a-f]{32}", run):
        raise ValueError("this is no id of a run")
    return cache_folder() / "runs" / run

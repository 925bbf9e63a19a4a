"""What a project of somebody else may ask for: a person is asked once, and what they agreed to is remembered.

A project may come from anyone. To open it runs nothing. But it names the folders that it was made from, and a backbone,
which can be a program. What the user's own commands wrote or named needs no question: it is recorded, as is what the
user has agreed to, in the user's own folder, `$HANDFUL_CACHE/agreed`, by a digest of its content. A file that has
changed has another digest. If that folder is deleted, the user is asked once more.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from handful.utils.files import in_brief, write_whole

MAX_NAME_CHARACTERS = 200  # of a model in a sentence


@dataclass(frozen=True)
class Request:
    """What a project asks for, if the user did not name it."""

    sentence: str  # short enough for one line
    details: Sequence[str] = ()  # the complete request, one line each
    advice: str = "give --yes if that is right"


Agree = Callable[[Request], None]  # returns if the user agrees, and raises ValueError if not


def refuse(request: Request) -> None:
    """Refuse: there is nobody to ask."""
    raise ValueError(f"{request.sentence}: nothing was done, because nobody agreed to it")


def remember(*parts: str) -> None:
    """Record that the user named this or agreed to it. If that cannot be written, the user is asked again."""
    with suppress(OSError, RuntimeError):  # RuntimeError: the user has no home folder
        place = _place_of(parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, ("\n".join(parts) + "\n").encode("utf-8", "surrogateescape"))


def is_agreed(*parts: str) -> bool:
    """Whether the user has named this or agreed to it before."""
    try:
        place = _place_of(parts)
        status = os.stat(place, follow_symlinks=False)
    except (OSError, RuntimeError):
        return False
    if not place.is_absolute():  # a relative folder may come with the project
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == getattr(os, "geteuid", lambda: status.st_uid)()


def _place_of(parts: Sequence[str]) -> Path:
    from handful.utils.cache_folder import cache_folder

    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return cache_folder() / "agreed" / sha256(text).hexdigest()


class Model(NamedTuple):
    """A model that is not built in: its file with all links followed, or a name such as timm:<model>, and a digest."""

    name: str
    digest: str  # of the file and of those that belong to it; "" if the model is only a name

    def __str__(self) -> str:
        return in_brief(self.name, MAX_NAME_CHARACTERS)


def model_of(backbone: str | None) -> Model | None:
    """The model that a backbone would load; None if it is built in, the default, or if there is no such file."""
    from handful.backbones.catalogue import files_beside, is_built_in, model_file

    if backbone is None or is_built_in(backbone):
        return None
    file = model_file(backbone)
    if file is None:
        return Model(backbone, "")
    real = os.path.realpath(file)
    try:
        digests = [_digest(real)]  # first, because only a regular file is opened to look for others
        digests += [_digest(path) if os.path.isfile(path) else "" for path in files_beside(backbone)]
        return Model(real, ":".join(digests))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        sentence = f"the model file {in_brief(real)} cannot be read ({reason}): name another with --backbone"
        raise ValueError(sentence) from None


def agreed_model(backbone: str | None, is_named: bool, agree: Agree) -> Model | None:
    """The model that will be loaded; None if it is built in. Raises ValueError if the user does not agree to it."""
    model = model_of(backbone)
    if model is None or is_agreed("model", model.name, model.digest):
        return model
    if not is_named:
        sentence = f"the project asks for the model {model}, which you did not name"
        details = ["    A model file can hold anything: load it only if you trust it."]
        agree(Request(sentence, details, "if you trust it, give --yes, or name it with --backbone"))
    remember("model", model.name, model.digest)
    return model


def _digest(path: str | os.PathLike[str]) -> str:
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is not a regular file")
        digest = sha256()
        while block := file.read(2**20):
            digest.update(block)
        return digest.hexdigest()

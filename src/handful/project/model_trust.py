"""A model that only the project names is loaded after the user has agreed.

A folder of pictures may contain a project that somebody else made, and the project names the backbone. A built-in
backbone is harmless, but a model file of a stranger is a program. The models that the user named or agreed to are
recorded in the user's own folder, `$HANDFUL_CACHE/models`, by the real path and the content of the file, and by the
content of the files that belong to it. So the user is asked once, and again if one of them has changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from handful.utils.files import write_whole


@dataclass(frozen=True)
class Model:
    """A model that is not built in: its file with all links followed, or a name such as timm:<model>, and a digest."""

    name: str
    digest: str  # of the file and of those that belong to it; "" if the model is only a name

    def __str__(self) -> str:
        text = repr(self.name)
        return text if len(text) <= 200 else f"{text[:100]}...{text[-97:]}"


Agree = Callable[[Model], None]  # returns if the user agrees, and raises ValueError if not


def refuse(model: Model) -> None:
    """Refuse: there is nobody to ask."""
    raise ValueError(
        f"the project asks for the model {model}, which you did not name: if you trust it, give --yes, or name it "
        "with --backbone"
    )


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
        raise ValueError(
            f"the model file {Model(real, '')} cannot be read ({reason}): name another with --backbone"
        ) from None


def is_agreed(model: Model) -> bool:
    """Whether the user has named this file, with this content, or agreed to it before."""
    record = _record(model)
    if not record.is_absolute():  # a relative folder may be a part of the project
        return False
    try:
        status = os.stat(record, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == getattr(os, "geteuid", lambda: status.st_uid)()


def remember(model: Model) -> None:
    """Record that the user agreed. If that cannot be written, the user is asked again."""
    record = _record(model)
    with suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        write_whole(record, f"{model.name}\n{model.digest}\n".encode("utf-8", "surrogateescape"))


def _record(model: Model) -> Path:
    from handful.utils.cache_folder import cache_folder

    text = f"{model.name}\0{model.digest}".encode("utf-8", "surrogateescape")
    return cache_folder() / "models" / sha256(text).hexdigest()


def _digest(path: str | os.PathLike[str]) -> str:
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is not a regular file")
        digest = sha256()
        while block := file.read(2**20):
            digest.update(block)
        return digest.hexdigest()

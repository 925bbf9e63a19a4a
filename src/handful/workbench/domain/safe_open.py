"""Files opened below a folder. What is checked is what was opened: no link that is swapped in can lead out of it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import PurePath

_FOLLOW_NONE = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_LINK = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)  # what systems answer when a part of a path is a link
_HAS_STEPS = os.open in os.supports_dir_fd  # not on Windows


class LeadsOut(OSError):
    """A name whose file does not lie below the folder."""

    def __init__(self, name: str) -> None:
        super().__init__(errno.EXDEV, "it lies outside of the folder", name)


def is_within(path: str, root: str) -> bool:
    """Return whether a path is the root or lies below it."""
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def open_below(root: str | os.PathLike[str], name: str) -> int:
    """A descriptor, for reading, of the regular file `name` below the folder `root`; `OSError` if there is none.

    Links are followed if they stay below `root`. Each folder of the path is opened from the one above it, without
    following links, so that it makes no difference what happens to a name after it was looked at.
    """
    parts = PurePath(name).parts
    if _HAS_STEPS and parts and not PurePath(name).is_absolute() and ".." not in parts:
        try:
            return _open_in_steps(os.fspath(root), parts)
        except OSError as error:
            if error.errno not in _LINK:
                raise
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(real_root, name))
    if real == real_root or not is_within(real, real_root):
        raise LeadsOut(name)
    if _HAS_STEPS:
        return _open_in_steps(real_root, PurePath(os.path.relpath(real, real_root)).parts)
    return _open_and_compare(real)


def _open_in_steps(root: str, parts: tuple[str, ...]) -> int:
    folder = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            above, folder = folder, os.open(part, _FOLDER | _FOLLOW_NONE, dir_fd=folder)
            os.close(above)
        # Asked before opening, as opening a device may do things, and after it, as another may be there by then
        _check_regular(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False), parts[-1])
        return _checked(os.open(parts[-1], _FILE | _FOLLOW_NONE, dir_fd=folder), parts[-1])
    finally:
        os.close(folder)


def _open_and_compare(real: str) -> int:
    """Where folders cannot be opened one from the other: open it, then see that the path still leads to the same."""
    _check_regular(os.stat(real, follow_symlinks=False), real)
    descriptor = _checked(os.open(real, _FILE), real)
    if os.path.realpath(real) == real and os.path.samestat(os.fstat(descriptor), os.stat(real, follow_symlinks=False)):
        return descriptor
    os.close(descriptor)
    raise LeadsOut(real)


def _checked(descriptor: int, name: str) -> int:
    try:
        _check_regular(os.fstat(descriptor), name)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(status: os.stat_result, name: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", name)

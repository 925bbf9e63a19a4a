"""Open files below a folder. The open file itself is checked: a link that is put there meanwhile cannot lead out."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import PurePath

from handful.utils.files import is_within

_FOLLOW_NONE = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_LINK = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)  # errors of systems when a folder of a path is a link
_HAS_STEPS = os.open in os.supports_dir_fd  # not on Windows


class LeadsOut(OSError):
    """A name whose file does not lie below the folder."""

    def __init__(self, name: str) -> None:
        super().__init__(errno.EXDEV, "it is outside of the folder", name)


def open_below(root: str | os.PathLike[str], name: str) -> int:
    """Open the regular file `name` below the folder `root` for reading; raise OSError if there is none.

    Links are followed if they stay below `root`. Each folder of the path is opened from the folder above it, without
    following links. So a change of the path after the check has no effect.
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
        # Checked before opening, because opening a device may do something, and after it, because the file may change
        _check_regular(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False), parts[-1])
        return _checked(os.open(parts[-1], _FILE | _FOLLOW_NONE, dir_fd=folder), parts[-1])
    finally:
        os.close(folder)


def _open_and_compare(real: str) -> int:
    """On systems without `dir_fd`: open the file, then check that the path still leads to it."""
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
        raise OSError(errno.EINVAL, "it is not a regular file", name)

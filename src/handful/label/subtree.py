"""A folder in which files are added, moved and removed, with no way to reach files outside of it.

The folder is opened once. Every place below it is opened from there, one folder after the other, and no link is
followed. So a link that somebody adds after the checks has no effect. On systems that cannot do that (Windows), each
place is checked again directly before it is used.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import NamedTuple

from handful.utils.files import in_brief

BY_DESCRIPTOR = hasattr(os, "O_NOFOLLOW") and os.supports_dir_fd >= {os.open, os.stat, os.mkdir, os.rename, os.unlink}
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | NO_LINK

Parts = Sequence[str]  # the names in a path below the folder: ("left", "a.png")


class Place(NamedTuple):
    """Arguments for functions of `os`: a name and the descriptor of its folder, or a path and None."""

    name: str
    folder: int | None


class Subtree:
    """An existing folder, for use in a `with` statement."""

    def __init__(self, folder: Path) -> None:
        self.path = Path(os.path.realpath(folder))
        self._root = os.open(self.path, FOLDER) if BY_DESCRIPTOR else None

    def __enter__(self) -> Subtree:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._root is not None:
            os.close(self._root)

    def check(self, parts: Parts) -> Parts:
        """The same place with the links of its folder resolved; ValueError if that is outside."""
        if any(part in ("", ".", "..") or os.path.basename(part) != part or "\0" in part for part in parts):
            raise ValueError(f"{in_brief('/'.join(parts))} is not a place below {in_brief(self.path)}")
        folder = Path(os.path.realpath(self.path.joinpath(*parts[:-1])))
        if folder != self.path and self.path not in folder.parents:
            raise ValueError(
                f"{in_brief(self.path.joinpath(*parts))} leads out of {in_brief(self.path)} through a link"
            )
        return (*folder.relative_to(self.path).parts, parts[-1])

    def status(self, parts: Parts) -> os.stat_result | None:
        """The status of the file, or of the link itself; None if there is none."""
        try:
            with self._place(parts) as (name, folder):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_claim(self, parts: Parts) -> bool:
        """Whether it is an empty file: it reserves a name, or it is a text without content."""
        status = self.status(parts)
        return status is not None and S_ISREG(status.st_mode) and status.st_size == 0

    def remove(self, parts: Parts) -> None:
        """Remove a file."""
        with self._place(parts) as (name, folder):
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, parts: Parts) -> None:
        """Remove a folder if it is empty."""
        with suppress(OSError), self._place(parts) as (name, folder):
            os.rmdir(name, dir_fd=folder)

    def link(self, file: Path, parts: Parts) -> None:
        """Add a link to a file."""
        with self._place(parts, make=True) as (name, folder):
            os.symlink(os.path.realpath(file), name, dir_fd=folder)

    def copy(self, file: Path, parts: Parts) -> None:
        """Add a copy of a file; never replace another file."""
        with self._place(parts, make=True) as place, _claimed(place):
            _copy(Place(str(file), None), place)

    def move(self, parts: Parts, other: Subtree, there: Parts) -> None:
        """Move a file to another folder; never replace another file."""
        with self._place(parts) as source, other._place(there, make=True) as place, _claimed(place):
            _move(source, place)

    @contextmanager
    def _place(self, parts: Parts, make: bool = False) -> Iterator[Place]:
        """Open the folder of a place. make: create it if needed."""
        if self._root is None:
            self.check(parts)
            path = self.path.joinpath(*parts)
            if make:
                path.parent.mkdir(parents=True, exist_ok=True)
            yield Place(str(path), None)
            return
        folder = os.dup(self._root)
        try:
            for part in parts[:-1]:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                below = os.open(part, FOLDER, dir_fd=folder)
                os.close(folder)
                folder = below
            yield Place(parts[-1], folder)
        finally:
            os.close(folder)


@contextmanager
def _claimed(place: Place) -> Iterator[None]:
    """Reserve a name with an empty file, so that no file is replaced. It is removed if the work fails."""
    file = os.open(place.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | NO_LINK, 0o666, dir_fd=place.folder)
    try:
        claim = os.fstat(file).st_ino
    finally:
        os.close(file)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_ino == claim:
                os.unlink(place.name, dir_fd=place.folder)
        raise


def _move(source: Place, place: Place) -> None:
    try:
        os.replace(source.name, place.name, src_dir_fd=source.folder, dst_dir_fd=place.folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, place)  # to another disk: the picture is removed when its copy is complete
        os.unlink(source.name, dir_fd=source.folder)


def _copy(source: Place, place: Place) -> None:
    """Copy a file over a reserved name, with times and permissions. A link is followed only if the source is a path."""
    part = f".handful-{os.getpid()}.part"
    if place.folder is None:
        part = os.path.join(os.path.dirname(place.name), part)
    no_link = 0 if source.folder is None else NO_LINK
    try:
        with (
            open(
                source.name, "rb", opener=lambda name, flags: os.open(name, flags | no_link, dir_fd=source.folder)
            ) as old,
            open(
                part, "xb", opener=lambda name, flags: os.open(name, flags | NO_LINK, 0o600, dir_fd=place.folder)
            ) as new,
        ):
            shutil.copyfileobj(old, new, 1 << 20)
            new.flush()
            if os.utime in os.supports_fd:
                shutil.copystat(old.fileno(), new.fileno())  # type: ignore[arg-type]
        if os.utime not in os.supports_fd:
            shutil.copystat(source.name, part)
        os.replace(part, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    finally:
        with suppress(OSError):
            os.unlink(part, dir_fd=place.folder)

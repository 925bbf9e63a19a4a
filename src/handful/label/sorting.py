"""Sort pictures or text files into a folder for each label: copy, link or move them, never one over another.

Everything that can be checked is checked before the first picture is touched. All moves are written to a journal before
the first one is made, so that even a killed run can be undone.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from handful.features import FeatureTable
from handful.label.move_journal import JOURNAL_FILE, Move, is_journal, write_journal
from handful.label.subtree import Subtree
from handful.utils.files import in_brief

SORT_WAYS = ("copy", "link", "move")
MAX_NAME_BYTES = 255  # the limit of most file systems
MAX_PATH_BYTES = 4095
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))}  # on Windows


def check_sorting(how: str, folder: Path) -> None:
    """Raise an error, before the work begins, if pictures cannot be sorted into a folder."""
    if how not in SORT_WAYS:
        raise ValueError(f"pictures are sorted by {', '.join(SORT_WAYS)}, not by {how!r}")
    if folder.is_symlink():
        raise ValueError(
            f"{str(folder)!r} is a link, but pictures are only sorted into the folder of results: remove it"
        )
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise _closed(folder)
    for path in folder.rglob("*"):
        if is_journal(path) and path.parent == folder:
            continue
        if path.is_symlink() or not path.is_dir():
            raise ValueError(
                f"{str(folder)!r} holds the pictures of an earlier run, which would mix with these: "
                f"remove them (`handful undo` moves moved pictures back), or give another folder"
            )
        if not os.access(path, os.W_OK | os.X_OK):
            raise _closed(path)


def check_places(pile: FeatureTable, places: Sequence[Path], folder: Path, how: str) -> None:
    """Raise an error, before anything is written, if a picture cannot be put where `plan_places` says."""
    nearest_folder = _nearest(folder)
    if not os.access(nearest_folder, os.W_OK | os.X_OK):
        raise _closed(nearest_folder)
    name_bytes = os.pathconf(nearest_folder, "PC_NAME_MAX") if hasattr(os, "pathconf") else MAX_NAME_BYTES
    for place in places:
        if len(os.fsencode(place.name)) > name_bytes:
            raise ValueError(f"{in_brief(place.name)} is too long a name for {in_brief(nearest_folder)}: shorten it")
        if len(os.fsencode(place.absolute())) > MAX_PATH_BYTES:
            raise ValueError(
                f"{in_brief(place)} is too long a path for a sorted picture: give a folder with a shorter one"
            )
    if how == "move":
        _check_movable(pile.files or (), _source_of(pile))
    _check_room(pile, folder, how)


def _check_room(pile: FeatureTable, folder: Path, how: str) -> None:
    """Raise OSError if the disk has no room for the copies. Rounding to disk blocks may need a little more."""
    nearest_folder = _nearest(folder)
    if how == "copy" or (how == "move" and nearest_folder.stat().st_dev != _source_of(pile).stat().st_dev):
        needed, free = sum(file.stat().st_size for file in pile.files or ()), shutil.disk_usage(nearest_folder).free
        if needed > free:
            raise OSError(
                errno.ENOSPC, f"the sorted pictures take {needed:,} bytes, but {free:,} are free", str(nearest_folder)
            )


def _nearest(folder: Path) -> Path:
    """The folder itself, or the first folder above it that exists."""
    return next(part for part in (folder, *folder.absolute().parents) if part.exists())


def _closed(folder: Path) -> PermissionError:
    return PermissionError(errno.EACCES, "pictures cannot be sorted into this folder", str(folder))


def _check_movable(files: Sequence[Path], source: Path) -> None:
    """Raise an error for pictures that are outside of the sorted folder, or that could not be moved back."""
    whole = Path(os.path.realpath(source))
    for parent in {file.parent for file in files}:
        if Path(os.path.realpath(parent)) != whole / parent.relative_to(source):
            raise ValueError(
                f"{in_brief(parent)} is behind a link, and --sort move takes nothing from other folders: "
                "use copy or link"
            )
        if not os.access(parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "pictures cannot be moved out of this folder", str(parent))
    for file in files:
        if file.is_symlink():
            raise ValueError(
                f"{in_brief(file)} is a link to a picture, but --sort move moves only pictures themselves: "
                "use copy or link"
            )


def sort_pictures(pile: FeatureTable, places: Sequence[Path], folder: Path, how: str) -> Path:
    """Put each picture of the pile where `plan_places` says, below `folder`."""
    if pile.files is None:
        raise ValueError("there are no files to sort: the items came from a table")
    _check_room(pile, folder, how)  # again: the results have taken some room
    source, journal, is_new = _source_of(pile), folder / JOURNAL_FILE, not folder.exists()
    moves = [
        Move(file.relative_to(source).parts, place.relative_to(folder).parts)
        for file, place in zip(pile.files, places, strict=True)
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if how == "move":
            write_journal(journal, source, moves)
    except OSError as error:
        with suppress(OSError):
            if is_new:
                folder.rmdir()
        number = error.errno or errno.EIO
        raise OSError(number, f"no picture was sorted: {os.strerror(number)}", str(folder)) from None
    with Subtree(source) as tree, Subtree(folder) as target:
        for done, (file, move) in enumerate(zip(pile.files, moves, strict=True)):
            try:
                if how == "move":
                    tree.move(move.home, target, move.place)
                else:
                    (target.copy if how == "copy" else target.link)(file, move.place)
            except OSError as error:
                back = f"; `handful undo {journal}` moves them back" if how == "move" and done else ""
                why = error.strerror or error
                reason = f"{done} of {len(places)} pictures were sorted{back}; the next one was not: {why}"
                raise OSError(error.errno or errno.EIO, reason, str(file)) from None
    return folder


def plan_places(pile: FeatureTable, labels: Sequence[str], folder: Path) -> list[Path]:
    """The new path of each picture, `folder/<label>/<its name>`, with a number if another one has that name."""
    names = folder_names(set(labels))
    used_names: dict[tuple[str, str], int] = {}  # by folder and name: the number to try next
    places = []
    for file, label in zip(pile.files or (), labels, strict=True):
        start = (label, _alike(file.name))
        k = used_names.get(start, 1)
        name = _numbered(file.name, k)
        while (label, _alike(name)) in used_names or os.path.lexists(folder / names[label] / name):
            k += 1
            name = _numbered(file.name, k)
        used_names[start] = k + 1
        used_names.setdefault((label, _alike(name)), 2)
        places.append(folder / names[label] / name)
    return places


def _numbered(name: str, k: int) -> str:
    """a.png, a (2).png, a (3).png; the stem is cut if the name would be too long."""
    stem, suffix = os.path.splitext(name)
    end = suffix if k == 1 else f" ({k}){suffix}"
    while len(os.fsencode(stem + end)) > MAX_NAME_BYTES and len(stem) > 1:
        stem = stem[:-1]
    return stem + end


def _source_of(pile: FeatureTable) -> Path:
    """The folder that contains the pictures of a pile."""
    files = pile.files or []
    return pile.folder or Path(os.path.commonpath([file.parent for file in files]))


def folder_names(labels: set[str]) -> dict[str, str]:
    """A folder name for each label that every file system accepts, no two alike."""
    names: dict[str, str] = {}
    used_names = {_alike(JOURNAL_FILE)}
    for label in sorted(labels):
        base = re.sub(r'[\x00-\x1f<>:"/\\|?*]', "_", label).strip(" .") or "_"
        if base.split(".")[0].rstrip().lower() in RESERVED:
            base = f"_{base}"
        while len(os.fsencode(base)) > 200:  # most systems allow 255 bytes, and a number may follow
            base = base[:-1].rstrip(" .")
        name, k = base, 2
        while _alike(name) in used_names:
            name, k = f"{base} ({k})", k + 1
        used_names.add(_alike(name))
        names[label] = name
    return names


def _alike(name: str) -> str:
    """A form of a name that is equal for names that some file system does not tell apart."""
    return unicodedata.normalize("NFC", name).casefold()

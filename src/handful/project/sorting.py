"""Sort pictures or text files into a folder for each label: copy or link them. The pile stays as it is.

The files are sorted into a new folder, which then replaces the one of an earlier run.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from handful.backbones.cache import content_hash
from handful.backbones.folders import LITTER
from handful.features import FeatureTable
from handful.utils.files import in_brief

SORT_WAYS = ("copy", "link")
COPY_BYTES = 2**20  # that are read at a time
MAX_NAME_BYTES = 255  # the limit of most file systems
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))}  # on Windows


def check_sorting(how: str, folder: Path) -> None:
    """Raise an error, before the work begins, if pictures cannot be sorted into a folder."""
    if how not in SORT_WAYS:
        raise ValueError(f"pictures are sorted by {' or '.join(SORT_WAYS)}, not by {how!r}")
    if folder.is_symlink():
        raise ValueError(
            f"{str(folder)!r} is a link, but pictures are only sorted into the folder of results: remove it"
        )
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink() and not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "pictures cannot be sorted into this folder", str(path))


def sorted_files(folder: Path) -> list[Path]:
    """The files and links in a folder of sorted pictures, without hidden files and those of the operating system."""
    paths = [path for path in folder.rglob("*") if path.name[0] != "." and path.name.lower() not in LITTER]
    return [path for path in paths if path.is_symlink() or not path.is_dir()]


def check_replaced(folder: Path, files: Sequence[Path]) -> None:
    """Raise ValueError if a folder that will be replaced holds anything but links to these files and copies."""
    copies = [path for path in sorted_files(folder) if not path.is_symlink()]
    within = folder.resolve()
    kept = [file for file in files if within not in file.resolve().parents] if copies else []
    known = {content_hash(file.read_bytes()) for file in kept}
    for path in copies:
        if not path.is_file() or content_hash(path.read_bytes()) not in known:
            raise ValueError(
                f"{in_brief(path)} is not a copy of a file of the pile, and would be lost: move it away, or give "
                "another folder"
            )


def sort_files(items: FeatureTable, places: Sequence[Path], how: str, missing: list[Path] | None = None) -> None:
    """Copy or link each file to its place. missing: gets the places of files that cannot be opened, else an error."""
    for file, place in zip(items.files or (), places, strict=True):
        try:
            source = open(file if items.opener is None else items.opener(str(file)), "rb")  # noqa: SIM115
        except (OSError, ValueError):
            if missing is None:
                raise
            missing.append(place)
            continue
        with source:
            place.parent.mkdir(parents=True, exist_ok=True)
            if how == "link":
                place.symlink_to(os.path.realpath(file))
                continue
            with place.open("xb") as copy:
                shutil.copyfileobj(source, copy, COPY_BYTES)
            times = os.fstat(source.fileno())
            os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))


def plan_places(pile: FeatureTable, labels: Sequence[str], folder: Path) -> list[Path]:
    """The new path of each picture, `folder/<label>/<its name>`, with a number if another one has that name."""
    if pile.files is None:
        raise ValueError("there are no files to sort: the items came from a table")
    places = [folder] * len(labels)
    for label, name in folder_names(set(labels)).items():
        rows = [row for row, own in enumerate(labels) if own == label]
        for row, file in zip(rows, _told_apart([pile.files[row].name for row in rows]), strict=True):
            places[row] = folder / name / file
    return places


def _told_apart(names: Sequence[str]) -> list[str]:
    """Names that no file system takes for one another, some with a number: a.png, a (2).png, a (3).png."""
    next_number: dict[str, int] = {}
    found = []
    for name in names:
        k = next_number.get(_alike(name), 1)
        while _alike(_numbered(name, k)) in next_number:
            k += 1
        next_number[_alike(name)] = k + 1
        next_number.setdefault(_alike(_numbered(name, k)), 2)
        found.append(_numbered(name, k))
    return found


def _numbered(name: str, k: int) -> str:
    """The k-th file of a name; its stem is cut if the name would be too long."""
    stem, suffix = os.path.splitext(name)
    end = suffix if k == 1 else f" ({k}){suffix}"
    while len(os.fsencode(stem + end)) > MAX_NAME_BYTES and len(stem) > 1:
        stem = stem[:-1]
    return stem + end


def folder_names(labels: set[str]) -> dict[str, str]:
    """A folder name for each label that every file system accepts, no two alike."""
    bases = []
    for label in sorted(labels):
        base = re.sub(r'[\x00-\x1f<>:"/\\|?*]', "_", label).strip(" .") or "_"
        if base.split(".")[0].rstrip().lower() in RESERVED:
            base = f"_{base}"
        while len(os.fsencode(base)) > 200:  # most systems allow 255 bytes, and a number may follow
            base = base[:-1].rstrip(" .")
        bases.append(base)
    return dict(zip(sorted(labels), _told_apart(bases), strict=True))


def _alike(name: str) -> str:
    """A form of a name that is equal for names that some file system does not tell apart."""
    return unicodedata.normalize("NFC", name).casefold()

"""Pictures into a folder for each label: copied, linked or moved, never one over another.

All moves are written to `undo.jsonl` before the first of them: even a run that was killed can be undone.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from handful.files import write_whole
from handful.label.items import Items

WAYS = ("copy", "link", "move")
UNDO = "undo.jsonl"
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))}  # on Windows


def check_sorting(how: str, folder: Path) -> None:
    """Say before the work begins if pictures could not be sorted into a folder."""
    if how not in WAYS:
        raise ValueError(f"pictures are sorted by {', '.join(WAYS)}, not by {how!r}")
    if any(path.name != UNDO and not path.is_dir() for path in folder.rglob("*")):
        raise ValueError(
            f"{str(folder)!r} holds the pictures of an earlier run, which would mix with these: "
            f"remove them (what was moved goes back with `handful undo`), or give another folder"
        )


def sort_pictures(pile: Items, places: Sequence[Path], folder: Path, how: str) -> Path:
    """Put each picture of the pile where `plan_places` says, below `folder`."""
    if pile.files is None:
        raise ValueError("there are no pictures to sort: the items came from a table")
    folder.mkdir(parents=True, exist_ok=True)
    journal = folder / UNDO
    if how == "move":
        _write_journal(journal, zip(pile.files, places, strict=True))
    for done, (file, place) in enumerate(zip(pile.files, places, strict=True)):
        try:
            place.parent.mkdir(exist_ok=True)
            _put(file, place, how)
        except OSError as error:
            back = f"; `handful undo {journal}` takes them back" if how == "move" and done else ""
            reason = f"{done} of {len(places)} pictures were sorted{back}; the next was not: {error.strerror or error}"
            raise OSError(error.errno or errno.EIO, reason, str(file)) from None
    return folder


def plan_places(pile: Items, labels: Sequence[str], folder: Path) -> list[Path]:
    """Where each picture will be, `folder/<label>/<its name>`; numbered where another has that name."""
    names = folder_names(set(labels))
    taken: dict[tuple[str, str], int] = {}  # by folder and name: the number to try next
    places = []
    for file, label in zip(pile.files or (), labels, strict=True):
        stem, suffix = os.path.splitext(file.name)
        start = (label, _alike(file.name))
        name, k = file.name, taken.get(start, 1)
        if k > 1:
            name = f"{stem} ({k}){suffix}"
        while (label, _alike(name)) in taken or os.path.lexists(folder / names[label] / name):
            k += 1
            name = f"{stem} ({k}){suffix}"
        taken[start] = k + 1
        taken.setdefault((label, _alike(name)), 2)
        places.append(folder / names[label] / name)
    return places


def undo(journal: Path) -> tuple[int, list[str]]:
    """Move everything back that a journal says; gives how many went back, and what was left where it is and why."""
    back, left, folders = 0, [], set()
    for line in reversed(journal.read_text("utf-8").splitlines()):
        try:
            move = json.loads(line)
            here, there = journal.parent / move["to"], Path(move["from"])
        except (ValueError, KeyError, TypeError):
            left.append(f"a damaged line: {line[:80]}")
            continue
        folders.add(here.parent)
        try:
            if _is_claim(here) and os.path.lexists(there):
                here.unlink()  # killed between taking the name and the move
            elif os.path.lexists(here) and os.path.lexists(there):
                left.append(f"{here} stays: there is another {there} by now")
            elif os.path.lexists(here):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(here, there)
                back += 1
            elif not os.path.lexists(there):
                left.append(f"{here} is gone")
        except OSError as error:
            left.append(f"{here} stays: {error.strerror or error}")
    for folder in folders:
        with suppress(OSError):  # others are in it
            folder.rmdir()
    return back, left


def folder_names(labels: set[str]) -> dict[str, str]:
    """A folder name for each label that every file system takes, no two alike."""
    names: dict[str, str] = {}
    taken = {_alike(UNDO)}
    for label in sorted(labels):
        base = re.sub(r'[\x00-\x1f<>:"/\\|?*]', "_", label).strip(" .") or "_"
        if base.split(".")[0].rstrip().lower() in RESERVED:
            base = f"_{base}"
        while len(os.fsencode(base)) > 200:  # 255 bytes is what most take, and a number may follow
            base = base[:-1].rstrip(" .")
        name, k = base, 2
        while _alike(name) in taken:
            name, k = f"{base} ({k})", k + 1
        taken.add(_alike(name))
        names[label] = name
    return names


def _alike(name: str) -> str:
    """The same for names that some file system takes for one."""
    return unicodedata.normalize("NFC", name).casefold()


def _write_journal(journal: Path, moves: Iterable[tuple[Path, Path]]) -> None:
    """Added to what it says already, whole or not at all. Places are kept below it: the folder may be moved."""
    before = journal.read_bytes() if journal.exists() else b""
    lines = [
        json.dumps({"from": str(file.absolute()), "to": str(place.relative_to(journal.parent))}) + "\n"
        for file, place in moves
    ]
    write_whole(journal, before + "".join(lines).encode("ascii"))


def _put(file: Path, place: Path, how: str) -> None:
    if how == "link":
        place.symlink_to(file.resolve())
        return
    place.touch(exist_ok=False)  # takes the name in one step; what replaces this empty file replaces nobody's
    try:
        if how == "copy":
            _copy(file, place)
        else:
            _move(file, place)
    except BaseException:
        if os.path.lexists(file) and _is_claim(place):
            place.unlink()
        raise


def _copy(file: Path, place: Path) -> None:
    part = place.with_name(f".handful-{os.getpid()}.part")
    try:
        shutil.copy2(file, part)
        os.replace(part, place)
    finally:
        part.unlink(missing_ok=True)


def _move(file: Path, place: Path) -> None:
    try:
        os.replace(file, place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(file, place)  # to another disk: the picture goes when its copy is whole
        file.unlink()


def _is_claim(place: Path) -> bool:
    """An empty file, which no picture is."""
    return place.is_file() and not place.is_symlink() and place.stat().st_size == 0

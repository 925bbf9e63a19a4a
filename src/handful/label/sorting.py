"""Pictures into a folder for each label: copied, linked or moved, never one over another.

A move is written to `undo.jsonl` before it happens, a line each, so that even a run that was killed can be undone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from handful.label.items import Items

WAYS = ("copy", "link", "move")
UNDO = "undo.jsonl"
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))}  # on Windows


def sort_pictures(pile: Items, labels: Sequence[str], folder: Path, how: str) -> Path:
    """Put each picture of the pile into `folder/<label>/`."""
    if how not in WAYS:
        raise ValueError(f"pictures are sorted by {', '.join(WAYS)}, not by {how!r}")
    if pile.files is None:
        raise ValueError("there are no pictures to sort: the items came from a table")
    names = folder_names(set(labels))
    folder.mkdir(parents=True, exist_ok=True)
    for file, label in zip(pile.files, labels, strict=True):
        place = folder / names[label]
        place.mkdir(exist_ok=True)
        _put(file, place, how, folder / UNDO)
    return folder


def undo(journal: Path) -> tuple[int, list[str]]:
    """Move everything back that a journal says; gives how many went back, and what was left where it is and why."""
    back, left = 0, []
    for line in reversed(journal.read_text("utf-8").splitlines()):
        try:
            move = json.loads(line)
            here, there = Path(move["to"]), Path(move["from"])
        except (ValueError, KeyError, TypeError):
            left.append(f"a damaged line: {line[:80]}")
            continue
        if not os.path.lexists(here):
            if not os.path.lexists(there):
                left.append(f"{here} is gone")
            continue  # it was never moved, or went back before
        if os.path.lexists(there):
            left.append(f"{here} stays: there is another {there} by now")
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(here, there)
        back += 1
    return back, left


def folder_names(labels: set[str]) -> dict[str, str]:
    """A folder name for each label that every file system takes, no two alike."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for label in sorted(labels):
        base = re.sub(r'[\x00-\x1f<>:"/\\|?*]', "_", label).strip(" .") or "_"
        if base.lower() in RESERVED:
            base = f"_{base}"
        name, k = base, 2
        while name.casefold() in taken:
            name, k = f"{base} ({k})", k + 1
        taken.add(name.casefold())
        names[label] = name
    return names


def _put(file: Path, place: Path, how: str, journal: Path) -> None:
    target = _claim(place, file.name)
    try:
        if how == "copy":
            shutil.copy2(file, target)
        elif how == "link":
            target.unlink()
            target.symlink_to(file.resolve())
        else:
            with open(journal, "a", encoding="utf-8") as log:
                log.write(json.dumps({"from": str(file.absolute()), "to": str(target.absolute())}) + "\n")
                log.flush()
                os.fsync(log.fileno())
            target.unlink()
            shutil.move(file, target)
    except BaseException:
        if how != "move" and target.is_file() and not target.is_symlink():
            target.unlink()  # a copy that was cut off
        raise


def _claim(place: Path, name: str) -> Path:
    """An empty file under a name that nobody had: made in one step, so that two runs cannot take the same."""
    stem, suffix = os.path.splitext(name)
    k = 1
    while True:
        target = place / (name if k == 1 else f"{stem} ({k}){suffix}")
        try:
            target.touch(exist_ok=False)
        except FileExistsError:
            k += 1
            continue
        return target

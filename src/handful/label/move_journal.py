"""The journal of `--sort move`, `undo.jsonl`, and how to undo it.

Its first line names the run that wrote it and the folder that the pictures came from. Then there is one line for each
picture. Both paths are relative, so that the sorted folder may be moved:

    {"handful": "0.1.0", "format": 2, "run": "<random id>", "from": "/home/me/pile", "when": "2026-11-16T20:00:00Z"}
    {"from": "sub/a.png", "to": "left/a.png"}

Journals of the first format have no such first line, and absolute paths in "from".

A journal may come from anyone. So it can only move pictures from its own folder to places below the one folder that
they came from. Anything else is refused before the first picture is moved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import Any, BinaryIO, NamedTuple

import handful
from handful.label.provenance import Agree, Request, digest_of, forget, is_own, new_id, refuse, remember
from handful.label.subtree import Parts, Subtree
from handful.utils.files import in_brief, write_whole

JOURNAL_FILE = "undo.jsonl"
JOURNAL_FORMAT = 2
MAX_JOURNAL_BYTES = 2**27  # about two million pictures
MAX_LINE_BYTES = 2**16
MAX_PATH_CHARACTERS = 4096
MAX_DAMAGED_LINES = 20
MAX_LISTED_MOVES = 5  # moves that the question to the user lists


class Move(NamedTuple):
    """The old path of a picture, below the folder that was sorted, and its new path, below the sorted folder."""

    home: Parts
    place: Parts


@dataclass(frozen=True)
class Journal:
    """What was moved, as the journal of a sorted folder says."""

    path: Path
    source: Path  # the folder that the pictures came from
    moves: list[Move]
    damaged: list[str]  # lines that cannot be read, shortened
    run: Any
    own: bool  # one of the user's own runs wrote it


def write_journal(path: Path, source: Path, moves: Iterable[Move]) -> None:
    """Write the planned moves, completely or not at all. An earlier journal is kept beside it."""
    run, when = new_id(), datetime.now(timezone.utc).isoformat(timespec="seconds")
    head = {
        "handful": handful.__version__,
        "format": JOURNAL_FORMAT,
        "run": run,
        "from": os.path.realpath(source),
        "when": when,
    }
    rows = [{"from": str(Path(*move.home)), "to": str(Path(*move.place))} for move in moves]
    content = "".join(json.dumps(row) + "\n" for row in (head, *rows)).encode("ascii")
    old_journal = next(name for k in range(1, 10**9) if not os.path.lexists(name := path.with_name(f"undo-{k}.jsonl")))
    if earlier := os.path.lexists(path):
        os.rename(path, old_journal)
    try:
        write_whole(path, content)
    except BaseException:
        if earlier:
            os.rename(old_journal, path)
        raise
    remember(run, digest_of(content))


def is_journal(path: Path) -> bool:
    """Whether a path is the journal of this run or of an earlier one, by its name."""
    stem, number = path.stem.partition("-")[::2]
    named = path.name == JOURNAL_FILE or ((path.suffix, stem) == (".jsonl", "undo") and number.isdecimal())
    return named and path.is_file() and not path.is_symlink()


def read_journal(path: Path) -> Journal:
    """Read a journal; raise ValueError if it names a place that it must not change."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {in_brief(path)}")
    path = Path(os.path.realpath(path))
    with path.open("rb") as file:
        if (size := os.fstat(file.fileno()).st_size) > MAX_JOURNAL_BYTES:
            raise ValueError(f"{in_brief(path)} is not a journal of handful: it has {size:,} bytes")
        digest, head, rows, damaged = sha256(), None, [], list[str]()
        for number, line in enumerate(_lines(file)):
            digest.update(line)
            row = _parse(line)
            if number == 0 and row is not None and "format" in row:
                head = _checked_head(row, path)
            elif row is not None and isinstance(row.get("from"), str) and isinstance(row.get("to"), str):
                rows.append((row["from"], row["to"]))
            else:
                damaged.append(in_brief(line[:80].decode("utf-8", "replace").rstrip("\n")))
                if len(damaged) > MAX_DAMAGED_LINES:
                    raise ValueError(f"{in_brief(path)} is not a journal of handful: its lines are damaged")
    if not rows:
        raise ValueError(f"{in_brief(path)} is not a journal of handful: it names no pictures")
    try:
        source = Path(head["from"]) if head is not None else _common_folder([home for home, _ in rows])
        moves = [Move(_below(source, home, head is None), _sorted_place(place)) for home, place in rows]
        for move in moves:
            _check_names(move)
    except ValueError as error:
        raise _not_obeyed(path, error) from None
    run = None if head is None else head["run"]
    return Journal(path, source, moves, damaged, run, is_own(run, digest.hexdigest()))


def undo(path: Path, agree: Agree = refuse) -> tuple[int, list[str]]:
    """Move the pictures of a journal back.

    Parameters
    ----------
    path : Path
        The journal.
    agree : callable
        Called before anything is moved, unless one of the user's own runs wrote the journal.

    Returns
    -------
    int, list of str
        How many pictures were moved back; and which were not, with reasons.
    """
    journal = read_journal(path)
    back, problems = 0, [f"a damaged line: {line}" for line in journal.damaged]
    with Subtree(journal.path.parent) as tree:
        waiting = _waiting(journal, tree)
        if waiting and not journal.own:
            agree(_request(journal, waiting))
        if not os.path.isdir(journal.source):
            place = in_brief(journal.source)
            raise FileNotFoundError(
                f"the folder {place}, which the pictures came from, is gone: make it, and run this again"
            )
        with Subtree(journal.source) as homes:
            try:
                moves = [Move(homes.check(move.home), move.place) for move in journal.moves]
            except ValueError as error:
                raise _not_obeyed(journal.path, error) from None
            for move in reversed(moves):
                try:
                    reason = _take_back(move, tree, homes)
                except OSError as error:
                    reason = f"{tree.path.joinpath(*move.place)} stays: {error.strerror or error}"
                back += reason is None
                problems += [reason] if reason else []
        for folder in {move.place[0] for move in moves}:
            tree.remove_folder([folder])
    if journal.own and not problems:
        forget(journal.run)
    return back, problems


def _take_back(move: Move, tree: Subtree, homes: Subtree) -> str | None:
    """Move a picture back. Return None if it was moved, the reason if not, "" if there was nothing to do."""
    here, there = tree.path.joinpath(*move.place), homes.path.joinpath(*move.home)
    status, is_home_used = tree.status(move.place), homes.status(move.home) is not None
    if status is None:
        return "" if is_home_used else f"{here} is gone"
    if is_home_used and tree.is_claim(move.place):
        tree.remove(move.place)  # killed between taking the name and the move
        return ""
    if is_home_used:
        return f"{here} stays: there is another {there} now"
    if not S_ISREG(status.st_mode):
        return f"{here} stays: it is not a file"
    tree.move(move.place, homes, move.home)
    return None


def _waiting(journal: Journal, tree: Subtree) -> list[Move]:
    """The moves whose picture is still in the sorted folder."""
    waiting = []
    try:
        for move in journal.moves:
            tree.check(move.place)
            if (status := tree.status(move.place)) is not None:
                if S_ISLNK(status.st_mode):
                    raise ValueError(f"{in_brief(tree.path.joinpath(*move.place))} is a link, not a picture: remove it")
                waiting.append(move)
    except ValueError as error:
        raise _not_obeyed(journal.path, error) from None
    return waiting


def _request(journal: Journal, waiting: list[Move]) -> Request:
    count = f"{len(waiting)} picture{'s' * (len(waiting) != 1)}"
    action = f"move {count} from {in_brief(journal.path.parent)} to {in_brief(journal.source)}"
    details = [f"From: {str(journal.path.parent)!r}", f"To:   {str(journal.source)!r}"]
    details += [f"    {'/'.join(move.place)!r} becomes {'/'.join(move.home)!r}" for move in waiting[:MAX_LISTED_MOVES]]
    details += [f"    and {len(waiting) - MAX_LISTED_MOVES} more"] if len(waiting) > MAX_LISTED_MOVES else []
    return Request(journal.path, action, details)


def _not_obeyed(path: Path, reason: Exception) -> ValueError:
    return ValueError(f"{in_brief(path)} is not obeyed, and nothing was moved: {reason}")


# Lines


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file. A line that is too long comes in pieces, which are not JSON."""
    while line := file.readline(MAX_LINE_BYTES):
        yield line


def _parse(line: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        row = json.loads(line.decode("utf-8"))
        if isinstance(row, dict):
            return row
    return None


def _checked_head(row: dict[str, Any], path: Path) -> dict[str, Any]:
    if type(row["format"]) is not int or row["format"] != JOURNAL_FORMAT:
        raise ValueError(f"{in_brief(path)} has a format that this version of handful does not know: use a later one")
    source = row.get("from")
    if not isinstance(source, str) or not _is_path(source) or not os.path.isabs(source) or ".." in Path(source).parts:
        raise _not_obeyed(path, ValueError("it does not say which folder the pictures came from"))
    return {"from": source, "run": row.get("run")}


# Places


def _is_path(text: str) -> bool:
    """Whether the system accepts a text as a path: no NUL, no half of a character."""
    try:
        return 0 < len(os.fsencode(text)) <= MAX_PATH_CHARACTERS and "\0" not in text
    except ValueError:
        return False


def _common_folder(homes: list[str]) -> Path:
    """The folder that was sorted, for a journal that does not name it."""
    for home in homes:
        if not _is_path(home) or not os.path.isabs(home) or ".." in Path(home).parts:
            raise ValueError(f"{in_brief(home)} is not a place that a picture came from")
    folder = Path(os.path.commonpath([os.path.dirname(home) for home in homes]))  # ValueError: on several drives
    if folder == Path(folder.anchor):
        raise ValueError("it names places that have no folder in common")
    return folder


def _below(source: Path, home: str, whole: bool) -> Parts:
    """The names in a path below the folder that was sorted. whole: `home` is an absolute path."""
    path = Path(home)
    if not _is_path(home) or path.is_absolute() is not whole or ".." in path.parts or (path.drive and not whole):
        raise ValueError(f"{in_brief(home)} is not a place below {in_brief(source)}, where the pictures came from")
    parts = path.relative_to(source).parts if whole else path.parts
    if not parts:
        raise ValueError(f"{in_brief(home)} is not a picture")
    return parts


def _sorted_place(place: str) -> Parts:
    """The path of a sorted picture: the folder of a label, and a name."""
    parts = Path(place).parts
    if not _is_path(place) or Path(place).is_absolute() or Path(place).drive or ".." in parts or len(parts) != 2:
        raise ValueError(f"{in_brief(place)} is not a place in a folder of sorted pictures")
    return parts


def _check_names(move: Move) -> None:
    """Raise ValueError for files that handful does not sort: only pictures and texts are, and no hidden ones."""
    from handful.backbones.picture_formats import KNOWN_SUFFIXES
    from handful.backbones.texts import TEXT_SUFFIXES

    suffixes = [os.path.splitext(parts[-1])[1].lower() for parts in move]
    is_sorted = suffixes[0] == suffixes[1] and suffixes[0] in KNOWN_SUFFIXES | TEXT_SUFFIXES
    if not is_sorted or any(part[0] == "." for part in move.home):
        raise ValueError(f"{in_brief('/'.join(move.home))} is not a picture that handful sorts")

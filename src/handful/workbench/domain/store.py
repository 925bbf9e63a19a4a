"""The store of a project, one SQLite file. No change that was confirmed is lost if the process or the machine stops.

    items      the pictures or rows, by a number that never changes
    classes, labels      what a person set; class 0 is "unknown"
    runs       the answers of the last few runs
    history    every change that a person made, in order, for undo and redo

All writes use one connection and a lock. Each change and its entry in the history are one transaction, which is on the
disk when it returns (WAL, synchronous=FULL). Reads use connections of their own.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from handful.workbench.domain.changes import Change
from handful.workbench.domain.database import (
    FILE,
    LOCK,
    MAX_RUN_BYTES,
    MIGRATIONS,
    check_database,
    check_folder,
    connect,
    explained,
)
from handful.workbench.domain.refusal import Refusal

MAX_STEPS = 500  # changes that can be undone
MAX_RUNS = 3  # that are stored
_WHOLE = ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")


class Store:
    """The file of one project. Only one process can have it open; another one gets an error."""

    def __init__(self, folder: Path, *, any_name: bool = False) -> None:
        """any_name: see `check_database`."""
        check_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._lock = threading.RLock()
        self._depth = 0
        self._claim = _claim(folder)
        try:
            check_database(self.path, any_name=any_name)
            with explained(self.path, writing=True):
                self._writer = connect(self.path, "rwc")
                self._writer.execute("PRAGMA journal_mode=WAL")
                self._writer.execute("PRAGMA synchronous=FULL")
                self._migrate()
        except BaseException:
            self._claim.close()
            raise
        self._files = self._identities()

    def _migrate(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            self._writer.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version={number}; COMMIT;")

    def _identities(self) -> list[tuple[int, int] | None]:
        """The device and inode of the file and of its log, None if there is none."""
        return [_identity(self.path), _identity(Path(f"{self.path}-wal"))]

    def _check_there(self) -> None:
        """Raise Refusal if the file was deleted: SQLite would accept writes that are lost when the program ends."""
        now = self._identities()
        if any(was is not None and was != file for was, file in zip(self._files, now, strict=True)):
            raise Refusal(
                f"nothing was changed: {FILE} of the project was deleted or replaced while the workbench is open. "
                "Export your labels, stop the workbench, put the file back if you have it, and start it again",
                503,
            )
        self._files = now  # the first change creates the log

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: completely on the disk when it ends, or not at all.

        Inside another one it is a savepoint: if it fails, only its own changes are undone.
        """
        with self._lock:
            if self._depth and not self._writer.in_transaction:  # a full disk may have ended it
                raise sqlite3.OperationalError("the transaction that this belongs to was not stored")
            if not self._depth:
                self._check_there()
            begin, end, back = ("SAVEPOINT part", "RELEASE part", "ROLLBACK TO part") if self._depth else _WHOLE
            self._writer.execute(begin)
            self._depth += 1
            try:
                yield self._writer
                self._writer.execute(end)
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back already
                    self._writer.execute(back)
                    if self._depth > 1:
                        self._writer.execute(end)
                raise
            finally:
                self._depth -= 1
            if not self._depth:
                self._check_there()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A new connection that cannot write."""
        connection = connect(self.path, "rw")  # a deleted file is not created again
        try:
            connection.execute("PRAGMA query_only=ON")
            yield connection
        finally:
            connection.close()

    def close(self) -> None:
        """Close the database and give up the claim on it."""
        with self._lock:
            self._writer.close()
            self._claim.close()

    # ---- what a person does

    def change(self, make: Callable[[sqlite3.Connection], Change]) -> Change:
        """Make a change and add it to the history; a change that changes nothing has no entry."""
        with self.write() as tx:
            change = make(tx)
            if change:
                self._apply(tx, change)
                tx.execute("DELETE FROM history WHERE undone")
                run = change.threshold and change.threshold[0]
                row = (change.text, change.as_json(), run)
                last = tx.execute("INSERT INTO history (text, change, run) VALUES (?, ?, ?)", row).lastrowid or 0
                tx.execute("DELETE FROM history WHERE id <= ?", (last - MAX_STEPS,))
            return change

    def undo(self) -> Change | None:
        """Undo the last step; return it, or None if there is none."""
        return self._step("SELECT id, text, change FROM history WHERE NOT undone ORDER BY id DESC LIMIT 1", True)

    def redo(self) -> Change | None:
        """Do the last undone step again; return it, or None if there is none."""
        return self._step("SELECT id, text, change FROM history WHERE undone ORDER BY id LIMIT 1", False)

    def _step(self, query: str, back: bool) -> Change | None:
        with self.write() as tx:
            row = tx.execute(query).fetchone()
            if row is None:
                return None
            try:
                change = Change.read(*row[1:])
                change = change.back() if back else change
                self._apply(tx, change)
                _check_classes(tx, change)
            except ValueError as error:
                raise Refusal(f"{error}: this step stays as it is", 409) from None
            tx.execute("UPDATE history SET undone = ? WHERE id = ?", (back, row[0]))
            return change

    def _apply(self, tx: sqlite3.Connection, change: Change) -> None:
        removed_labels = [(item,) for item, _, after in change.labels if after is None]
        new_labels = [(item, after) for item, _, after in change.labels if after is not None]
        tx.executemany("DELETE FROM labels WHERE item = ?", removed_labels)
        tx.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?)", new_labels)
        for number, _, after in change.classes:
            if after is None:
                tx.execute("DELETE FROM classes WHERE id = ?", (number,))
            else:
                tx.execute("INSERT OR REPLACE INTO classes VALUES (?, ?, ?)", (number, *after))
        if change.threshold is not None:
            run, _, after_ = change.threshold
            tx.execute("UPDATE runs SET threshold = ? WHERE id = ?", (after_, run))

    def steps(self) -> tuple[str | None, str | None]:
        """The texts of the next step to undo and to redo. They are read on the writing connection."""
        with self._lock:
            db = self._writer
            undo = db.execute("SELECT text FROM history WHERE NOT undone ORDER BY id DESC LIMIT 1").fetchone()
            redo = db.execute("SELECT text FROM history WHERE undone ORDER BY id LIMIT 1").fetchone()
        return undo and undo[0], redo and redo[0]

    # ---- items, runs and what they are of

    def meta(self, **new: str) -> dict[str, str]:
        """Set facts of the project, if any are given; return all."""
        if new:
            with self.write() as tx:
                tx.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", new.items())
        with self.read() as db:
            return dict(db.execute("SELECT key, value FROM meta"))

    def take_items(self, origin: str, names: Iterable[str]) -> None:
        """Set the items of an origin. Other items of it are gone, and keep their number and label."""
        names = list(names)
        with self.write() as tx:
            tx.execute("UPDATE items SET state = 'gone', reason = NULL WHERE origin = ?", (origin,))
            add_items(tx, origin, names)

    def items(self) -> list[tuple[int, str, str, str, str | None]]:
        """(id, origin, name, state, reason) of all that are not gone."""
        with self.read() as db:
            query = "SELECT id, origin, name, state, reason FROM items WHERE state != 'gone' ORDER BY id"
            return db.execute(query).fetchall()

    def skip(self, reasons: dict[int, str]) -> None:
        """Mark items as skipped, each with its reason."""
        with self.write() as tx:
            rows = [(reason, item) for item, reason in reasons.items()]
            tx.executemany("UPDATE items SET state = 'skipped', reason = ? WHERE id = ?", rows)

    def classes(self) -> dict[int, tuple[str, int | None]]:
        """Return the name and the key of each class."""
        with self.read() as db:
            return {i: (name, key) for i, name, key in db.execute("SELECT id, name, key FROM classes ORDER BY id")}

    def labels(self) -> list[tuple[int, int]]:
        """Return each labelled item with its class."""
        with self.read() as db:
            return db.execute("SELECT item, class FROM labels").fetchall()

    def add_run(self, made: str, threshold: float, facts: dict[str, Any], arrays: bytes) -> int:
        """Store a run; return its number. Old runs are deleted."""
        if len(arrays) > MAX_RUN_BYTES:
            raise ValueError(f"the result takes more than {MAX_RUN_BYTES >> 20} MB: take fewer pictures or classes")
        with self.write() as tx:
            row = (made, threshold, json.dumps(facts), arrays)
            last = tx.execute("INSERT INTO runs (made, threshold, facts, arrays) VALUES (?, ?, ?, ?)", row).lastrowid
            assert last is not None
            tx.execute("DELETE FROM runs WHERE id <= ?", (last - MAX_RUNS,))
            # A threshold belongs to its run: undoing the threshold of an earlier run would have no visible effect
            tx.execute("DELETE FROM history WHERE run IS NOT NULL")
            return last

    def set_facts(self, number: int, facts: dict[str, Any]) -> None:
        """Store other facts of a run."""
        with self.write() as tx:
            tx.execute("UPDATE runs SET facts = ? WHERE id = ?", (json.dumps(facts), number))

    def last_run(self) -> tuple[int, str, float, str, bytes] | None:
        """Return the row of the last run, or None."""
        with self.read() as db:
            query = "SELECT id, made, threshold, facts, arrays FROM runs ORDER BY id DESC LIMIT 1"
            row: tuple[int, str, float, str, bytes] | None = db.execute(query).fetchone()
            return row


def add_items(tx: sqlite3.Connection, origin: str, names: Iterable[str]) -> None:
    """Add items to the database; those that had been skipped are there again."""
    rows = [(origin, name) for name in names]
    tx.executemany(
        "INSERT INTO items (origin, name, state) VALUES (?, ?, 'there') "
        "ON CONFLICT (origin, name) DO UPDATE SET state = 'there', reason = NULL",
        rows,
    )


def next_class(tx: sqlite3.Connection) -> int:
    """A number that no class has, and that no deleted class had."""
    row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'classes'").fetchone()
    return 1 + (row[0] if row else 0)


def _check_classes(tx: sqlite3.Connection, change: Change) -> None:
    """Raise ValueError if a step of the history would leave labels without a class: the file may come from anyone."""
    for code in {after for _, _, after in change.labels if after}:
        if tx.execute("SELECT 1 FROM classes WHERE id = ?", (code,)).fetchone() is None:
            raise ValueError("the entry of this step in the history is damaged")
    for number, _, after in change.classes:
        if after is None and tx.execute("SELECT 1 FROM labels WHERE class = ?", (number,)).fetchone():
            raise ValueError("the entry of this step in the history is damaged")


def _claim(folder: Path) -> sqlite3.Connection:
    """Lock a project by an open transaction on another file: it ends with the process, also if that is killed."""
    with explained(folder / LOCK, writing=True):
        claim = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            claim.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            claim.close()
            if "locked" not in str(error):
                raise
            raise ValueError(
                f"{str(folder)!r} is open in another workbench: close that one, or give another --project"
            ) from None
        except BaseException:
            claim.close()
            raise
        return claim


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino

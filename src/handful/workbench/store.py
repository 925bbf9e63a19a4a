"""What a project knows, in one SQLite file: nothing that was acknowledged is lost when the process or the machine dies.

    items      the pictures or rows, by a number that never changes
    classes, labels      what a person said; class 0 is "unknown"
    runs       what the method said, the last few times
    history    every change a person made, in order, so that it can be undone and done again

Writes go through one connection behind a lock, each change in one transaction together with its entry in the history,
and are on the disk when it returns (WAL, synchronous=FULL). Reads have connections of their own.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE, LOCK = "workbench.sqlite", "lock.sqlite"
PATIENCE = 30.0  # seconds to wait for another process, such as a backup
KEPT = 500  # changes that can be undone
RUNS = 3  # that are kept
MIGRATIONS = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE items (
        id INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL, name TEXT NOT NULL,
        state TEXT NOT NULL, reason TEXT, UNIQUE (origin, name)
    );
    CREATE TABLE classes (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, key INTEGER);
    CREATE TABLE labels (item INTEGER PRIMARY KEY, class INTEGER NOT NULL);
    CREATE INDEX labels_of_class ON labels (class);
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, made TEXT NOT NULL, threshold REAL NOT NULL,
        facts TEXT NOT NULL, arrays BLOB NOT NULL
    );
    CREATE TABLE history (
        id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, change TEXT NOT NULL, run INTEGER,
        undone INTEGER NOT NULL DEFAULT 0
    );
    """,
)
_WHOLE = ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")


@dataclass(frozen=True)
class Change:
    """What a person did, both ways: (id, before, after), None where there is nothing. A class is (name, key)."""

    text: str
    labels: tuple[tuple[int, int | None, int | None], ...] = ()
    classes: tuple[tuple[int, tuple[str, int | None] | None, tuple[str, int | None] | None], ...] = ()
    threshold: tuple[int, float, float] | None = None  # of which run

    def back(self) -> Change:
        turned = None if self.threshold is None else (self.threshold[0], self.threshold[2], self.threshold[1])
        return Change(self.text, tuple(_turned(self.labels)), tuple(_turned(self.classes)), turned)

    def as_json(self) -> str:
        return json.dumps([self.labels, self.classes, self.threshold], separators=(",", ":"))

    @classmethod
    def read(cls, text: str, change: str) -> Change:
        labels, classes, threshold = json.loads(change)
        pairs = ((i, a and tuple(a), b and tuple(b)) for i, a, b in classes)
        return cls(text, tuple(map(tuple, labels)), tuple(pairs), threshold and tuple(threshold))

    def __bool__(self) -> bool:
        return bool(self.labels or self.classes or self.threshold)


class Store:
    """The file of one project. It is one process's at a time: another is told so."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._lock = threading.RLock()
        self._depth = 0
        # An open transaction on a file of its own: it ends with the process, however that ends
        self._claim = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._claim.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            self._claim.close()
            raise ValueError(
                f"{str(folder)!r} is open in another workbench: close that one, or give another --project"
            ) from None
        try:
            self._writer = self._connect()
            self._migrate()
        except sqlite3.DatabaseError as error:
            self._claim.close()
            raise ValueError(f"{str(self.path)!r} cannot be used ({error}): put back a copy, or move it away") from None
        except BaseException:
            self._claim.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _migrate(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise ValueError(f"{str(self.path)!r} was made by a newer handful: update with pip install -U handful")
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            self._writer.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version={number}; COMMIT;")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: on the disk when it is over, or as if it had never begun.

        Inside another it is a part of that: undone alone if it fails, and kept with the whole.
        """
        with self._lock:
            if self._depth and not self._writer.in_transaction:  # a full disk may have ended it
                raise sqlite3.OperationalError("what was to be kept together with this was not kept")
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

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own that cannot write."""
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            connection.execute("PRAGMA query_only=ON")
            yield connection
        finally:
            connection.close()

    def close(self) -> None:
        with self._lock:
            self._writer.close()
            self._claim.close()

    # ---- what a person does

    def change(self, make: Callable[[sqlite3.Connection], Change]) -> Change:
        """Do what `make` says, and note it; a change that changes nothing leaves no entry."""
        with self.write() as tx:
            change = make(tx)
            if change:
                self._apply(tx, change)
                tx.execute("DELETE FROM history WHERE undone")
                run = change.threshold and change.threshold[0]
                row = (change.text, change.as_json(), run)
                last = tx.execute("INSERT INTO history (text, change, run) VALUES (?, ?, ?)", row).lastrowid or 0
                tx.execute("DELETE FROM history WHERE id <= ?", (last - KEPT,))
            return change

    def undo(self) -> Change | None:
        return self._step("SELECT id, text, change FROM history WHERE NOT undone ORDER BY id DESC LIMIT 1", True)

    def redo(self) -> Change | None:
        return self._step("SELECT id, text, change FROM history WHERE undone ORDER BY id LIMIT 1", False)

    def _step(self, query: str, back: bool) -> Change | None:
        with self.write() as tx:
            row = tx.execute(query).fetchone()
            if row is None:
                return None
            change = Change.read(*row[1:])
            change = change.back() if back else change
            self._apply(tx, change)
            tx.execute("UPDATE history SET undone = ? WHERE id = ?", (back, row[0]))
            return change

    def _apply(self, tx: sqlite3.Connection, change: Change) -> None:
        gone = [(item,) for item, _, after in change.labels if after is None]
        there = [(item, after) for item, _, after in change.labels if after is not None]
        tx.executemany("DELETE FROM labels WHERE item = ?", gone)
        tx.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?)", there)
        for number, _, after in change.classes:
            if after is None:
                tx.execute("DELETE FROM classes WHERE id = ?", (number,))
            else:
                tx.execute("INSERT OR REPLACE INTO classes VALUES (?, ?, ?)", (number, *after))
        if change.threshold is not None:
            run, _, after_ = change.threshold
            tx.execute("UPDATE runs SET threshold = ? WHERE id = ?", (after_, run))

    def steps(self) -> tuple[str | None, str | None]:
        """What would be undone, and done again; asked where it is written, as it may be in the midst of that."""
        with self._lock:
            db = self._writer
            undo = db.execute("SELECT text FROM history WHERE NOT undone ORDER BY id DESC LIMIT 1").fetchone()
            redo = db.execute("SELECT text FROM history WHERE undone ORDER BY id LIMIT 1").fetchone()
        return undo and undo[0], redo and redo[0]

    # ---- items, runs and what they are of

    def meta(self, **new: str) -> dict[str, str]:
        """Facts of the project; with some to set."""
        if new:
            with self.write() as tx:
                tx.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", new.items())
        with self.read() as db:
            return dict(db.execute("SELECT key, value FROM meta"))

    def take_items(self, origin: str, names: Iterable[str]) -> None:
        """These are there now, under this origin; others of it are gone, and keep their number and label."""
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
        with self.write() as tx:
            rows = [(reason, item) for item, reason in reasons.items()]
            tx.executemany("UPDATE items SET state = 'skipped', reason = ? WHERE id = ?", rows)

    def classes(self) -> dict[int, tuple[str, int | None]]:
        with self.read() as db:
            return {i: (name, key) for i, name, key in db.execute("SELECT id, name, key FROM classes ORDER BY id")}

    def labels(self) -> list[tuple[int, int]]:
        with self.read() as db:
            return db.execute("SELECT item, class FROM labels").fetchall()

    def add_run(self, made: str, threshold: float, facts: dict[str, Any], arrays: bytes) -> int:
        with self.write() as tx:
            row = (made, threshold, json.dumps(facts), arrays)
            last = tx.execute("INSERT INTO runs (made, threshold, facts, arrays) VALUES (?, ?, ?, ?)", row).lastrowid
            assert last is not None
            tx.execute("DELETE FROM runs WHERE id <= ?", (last - RUNS,))
            # A threshold belongs to its run: undoing that of an earlier one would change nothing to be seen
            tx.execute("DELETE FROM history WHERE run IS NOT NULL")
            return last

    def last_run(self) -> tuple[int, str, float, str, bytes] | None:
        with self.read() as db:
            query = "SELECT id, made, threshold, facts, arrays FROM runs ORDER BY id DESC LIMIT 1"
            return db.execute(query).fetchone()


def add_items(tx: sqlite3.Connection, origin: str, names: Iterable[str]) -> None:
    rows = [(origin, name) for name in names]
    tx.executemany(
        "INSERT INTO items (origin, name, state) VALUES (?, ?, 'there') "
        "ON CONFLICT (origin, name) DO UPDATE SET state = 'there', reason = NULL",
        rows,
    )


def next_class(tx: sqlite3.Connection) -> int:
    """A number that no class has or had."""
    row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'classes'").fetchone()
    return 1 + (row[0] if row else 0)


def _turned(steps: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, Any, Any]]:
    return ((what, after, before) for what, before, after in steps)

"""The SQLite file of a project: its schema, how it is opened, and transactions.

A folder of pictures may contain a project that somebody else made. SQLite runs no code of such a file: it is opened
only if it is no link and if its schema is exactly ours (no trigger, no view). SQLite checks its rows by the constraints
of the schema, and the values that Python reads are checked where they are used.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from handful.project.refusal import Refusal

FILE, LOCK = "project.sqlite", ".lock.sqlite"
SIDECARS = ("-wal", "-shm", "-journal")  # files that SQLite writes beside a database
FOLDERS = ("uploads", "exports")
LOCK_TIMEOUT_S = 30.0  # to wait for another process, such as a backup
VERSION = 3  # raised when the schema changes
SCHEMA = """
    CREATE TABLE meta (
        key TEXT PRIMARY KEY, value TEXT NOT NULL, CHECK (typeof(key) = 'text' AND typeof(value) = 'text')
    ) WITHOUT ROWID;
    CREATE TABLE items (
        id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
        origin TEXT NOT NULL CHECK (origin IN ('pile', 'examples', 'unknown', 'uploads')),
        name TEXT NOT NULL CHECK (typeof(name) = 'text'),
        state TEXT NOT NULL CHECK (state IN ('there', 'skipped', 'gone')),
        reason TEXT, title TEXT, came_as TEXT, mark TEXT, UNIQUE (origin, name),
        CHECK ('blob' NOT IN (typeof(reason), typeof(title), typeof(came_as), typeof(mark)))
    );
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991), made TEXT NOT NULL,
        threshold REAL NOT NULL CHECK (abs(threshold) < 1e300), facts TEXT NOT NULL, arrays BLOB NOT NULL,
        CHECK (typeof(made) = 'text' AND typeof(facts) = 'text' AND typeof(arrays) = 'blob')
    );
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT, made TEXT NOT NULL, run INTEGER,
        is_undone INTEGER NOT NULL DEFAULT 0 CHECK (is_undone IN (0, 1)), text TEXT, what TEXT NOT NULL,
        CHECK (typeof(made) = 'text' AND typeof(text) != 'blob' AND typeof(what) = 'text')
    );
"""


class Unusable(ValueError):
    """A file of a project cannot be used: which file, and why."""

    def __init__(self, path: Path, reason: object) -> None:
        text = "".join(c if c.isprintable() else "?" for c in str(reason))
        text = text if len(text) <= 200 else f"{text[:197]}..."
        super().__init__(f"{str(path)!r} cannot be used ({text}): put back a copy of it, or move it away")


class NotWritten(ValueError):
    """A file of a project cannot be written: which file, and why."""

    def __init__(self, path: Path, reason: object) -> None:
        super().__init__(
            f"{str(path)!r} cannot be written ({reason}): see that the disk has space and that you may write there"
        )


@contextmanager
def explained(path: Path, *, writing: bool = False) -> Iterator[None]:
    """Turn errors of SQLite into sentences: the file cannot be used or, with `writing`, cannot be written."""
    try:
        yield
    except sqlite3.Error as error:
        if writing and isinstance(error, sqlite3.OperationalError):
            raise NotWritten(path, error) from None
        raise Unusable(path, error) from None


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a connection on which the schema of a file cannot run code. mode: ro, rw, or rwc, which creates the file."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=True)
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


def _check_kinds(folder: Path) -> None:
    """Raise an error if something in the folder of a project is a link: SQLite would read or write elsewhere."""
    folders = [folder, *(folder / name for name in FOLDERS)]
    for path in [*folders, *(folder / f"{name}{end}" for name in (FILE, LOCK) for end in ("", *SIDECARS))]:
        try:
            mode = os.stat(path, follow_symlinks=path == folder).st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Unusable(path, error.strerror) from None
        if not (stat.S_ISDIR(mode) if path in folders else stat.S_ISREG(mode)):
            kind = "folder" if path in folders else "regular file"
            raise Unusable(path, "it is a link" if stat.S_ISLNK(mode) else f"it is not a {kind}")


def _check_schema(path: Path) -> None:
    """Raise an error for a file that handful did not make; the file is not changed."""
    if not path.exists() or not path.stat().st_size:
        return
    journal, wal = (Path(f"{path}{end}") for end in ("-journal", "-wal"))
    if journal.exists() and journal.stat().st_size:  # SQLite would apply it to the file after the check
        raise Unusable(journal, "it is an unfinished change of another program")
    # Without a log, only the file is read and no file is created beside it
    mode = "ro" if wal.exists() and wal.stat().st_size else "ro&immutable=1"
    with explained(path), closing(_connect(path, mode)) as db, closing(sqlite3.connect(":memory:")) as fresh:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise ValueError(f"{str(path)!r} was made by a newer handful: update with pip install -U handful")
        fresh.executescript(SCHEMA if version else "")
        expected, actual = _parts(fresh), _parts(db)
    for kind, name in sorted(expected.keys() | actual.keys()):
        if expected.get((kind, name)) != actual.get((kind, name)):
            raise Unusable(path, f"its {kind} {name:.60} is not as handful makes it")


def _parts(db: sqlite3.Connection) -> dict[tuple[str, str], tuple[str, str]]:
    """By kind and name of each part of a schema, its table and its SQL."""
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return {(str(kind), str(name)): (str(table), str(sql)) for kind, name, table, sql in rows}


_WHOLE = ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")
_NEW = f"BEGIN IMMEDIATE; {SCHEMA}; PRAGMA user_version={VERSION}; COMMIT;"


class OpenDatabase:
    """The file of one project. Only one process can have it open; another one gets an error.

    folder: of the project; None for one in memory, which `copy_to` writes.
    """

    def __init__(self, folder: Path | None) -> None:
        self._lock, self._depth = threading.RLock(), 0
        self.path = Path(":memory:") if folder is None else folder / FILE
        with ExitStack() as stack:
            if folder is None:
                self.db = stack.enter_context(closing(sqlite3.connect(":memory:", isolation_level=None)))
                self.db.executescript(_NEW)
            else:
                _check_kinds(folder)
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(closing(claim(folder)))
                _check_schema(self.path)
                with explained(self.path, writing=True):
                    self.db = stack.enter_context(closing(_connect(self.path, "rwc")))
                self._prepare()
            self.close = stack.pop_all().close  # close the database and give up the claim on it
        self._file = self._identity()

    def _prepare(self) -> None:
        """Check what is in the file; make the tables of a new one."""
        with explained(self.path):
            (report,) = self.db.execute("PRAGMA quick_check(1)").fetchone()  # the constraints too
        if report != "ok":
            raise Unusable(self.path, f"it is damaged, {report}")
        with explained(self.path, writing=True):
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("PRAGMA synchronous=FULL")
            if not self.db.execute("PRAGMA user_version").fetchone()[0]:
                self.db.executescript(_NEW)

    def _identity(self) -> tuple[int, int]:
        """The device and inode of the file; zeros if there is none."""
        with suppress(OSError):
            status = os.stat(self.path, follow_symlinks=False)
            return status.st_dev, status.st_ino
        return 0, 0

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: completely on the disk when it ends, or not at all.

        Inside another one it is a savepoint: if it fails, only its own changes are undone.
        """
        with self._lock:
            if self._depth and not self.db.in_transaction:  # a full disk may have ended it
                raise sqlite3.OperationalError("the transaction that this belongs to was not stored")
            begin, end, back = ("SAVEPOINT part", "RELEASE part", "ROLLBACK TO part") if self._depth else _WHOLE
            self.db.execute(begin)
            self._depth += 1
            try:
                yield self.db
                if self._depth == 1 and self._identity() != self._file:  # SQLite would accept writes that are lost
                    raise Refusal(
                        f"nothing was changed: {FILE} of the project was deleted or replaced while the workbench is "
                        "open. Export your labels, stop the workbench, put the file back if you have it, and start it "
                        "again",
                        503,
                    )
                self.db.execute(end)
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back already
                    self.db.execute(back)
                    if self._depth > 1:
                        self.db.execute(end)
                raise
            finally:
                self._depth -= 1

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Write a copy of what is stored to another database."""
        with self._lock:
            self.db.backup(target)


def claim(folder: Path) -> sqlite3.Connection:
    """Lock a project by an open transaction on another file: it ends with the process, also if that is killed."""
    with explained(folder / LOCK, writing=True):
        own = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            own.execute("BEGIN EXCLUSIVE")
        except BaseException as error:
            own.close()
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise ValueError(
                    f"{str(folder)!r} is in use by another process, as a workbench: close that one, or use another "
                    "folder"
                ) from None
            raise
        return own

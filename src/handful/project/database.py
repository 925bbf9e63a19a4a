"""The SQLite file of a project: its schema, and the checks of a file that may come from anyone.

A folder of pictures may contain a project that somebody else made. So its files are checked before they are used: they
must not be links, the schema must be exactly ours (no trigger, no view), and handful must be able to write each row.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePath, PureWindowsPath

from handful.project.refusal import Refusal
from handful.project.runs import MAX_ID, WRONG, read_facts, unpack

FILE, LOCK = "project.sqlite", ".lock.sqlite"
SIDECARS = ("-wal", "-shm", "-journal")  # files that SQLite writes beside a database
FOLDERS = ("uploads", "thumbnails", "exports")
LOCK_TIMEOUT_S = 30.0  # to wait for another process, such as a backup
MAX_RUN_BYTES = 2**29  # of the arrays of one run: a million items and a hundred classes
MAX_SCHEMA_BYTES = 2**20
VERSION = 2  # raised when the schema changes
SCHEMA = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE items (
        id INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL, name TEXT NOT NULL,
        state TEXT NOT NULL, reason TEXT, title TEXT, came_as TEXT, mark TEXT, UNIQUE (origin, name)
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
        undone INTEGER NOT NULL DEFAULT 0, run_before INTEGER
    );
    CREATE TABLE checks (
        run INTEGER NOT NULL, item INTEGER NOT NULL, answer INTEGER NOT NULL, PRIMARY KEY (run, item)
    ) WITHOUT ROWID;
    CREATE TABLE skipped (
        run INTEGER NOT NULL, item INTEGER NOT NULL, asked_by TEXT NOT NULL, PRIMARY KEY (run, item, asked_by)
    ) WITHOUT ROWID;
    INSERT INTO meta VALUES ('run', '');  -- that is shown, which is not always the last one
"""


def _is_text(column: str, max_bytes: int) -> str:
    return f"typeof({column}) = 'text' AND length(CAST({column} AS BLOB)) <= {max_bytes}"


def _is_id(column: str) -> str:
    return f"typeof({column}) = 'integer' AND {column} BETWEEN 1 AND {MAX_ID}"


# What holds for each row that handful writes
ROW_RULES = {
    "meta": (
        f"{_is_text('key', 100)} AND {_is_text('value', 100_000)} "
        "AND (key != 'run' OR value = '' OR value IN (SELECT CAST(id AS TEXT) FROM runs))"
    ),
    "sqlite_sequence": f"{_is_text('name', 100)} AND typeof(seq) = 'integer' AND seq BETWEEN 0 AND {MAX_ID}",
    "items": (
        f"{_is_id('id')} AND origin IN ('pile', 'uploads', 'examples', 'unknown') AND {_is_text('name', 100_000)} "
        f"AND state IN ('there', 'skipped', 'gone') AND (reason IS NULL OR {_is_text('reason', 10_000)}) "
        f"AND (title IS NULL OR {_is_text('title', 100_000)}) AND (mark IS NULL OR {_is_text('mark', 200)}) "
        f"AND (came_as IS NULL OR {_is_text('came_as', 10_000)})"
    ),
    "classes": (
        f"{_is_id('id')} AND id <= (SELECT max(seq) FROM sqlite_sequence WHERE name = 'classes') "
        f"AND {_is_text('name', 10_000)} AND name != '' "
        "AND (key IS NULL OR typeof(key) = 'integer' AND key BETWEEN 1 AND 9)"
    ),
    "labels": f"{_is_id('item')} AND (class = 0 OR class IN (SELECT id FROM classes)) AND typeof(class) = 'integer'",
    "runs": (
        f"{_is_id('id')} AND {_is_text('made', 100)} AND typeof(threshold) = 'real' AND abs(threshold) < 1e300 "
        f"AND typeof(facts) = 'text' AND typeof(arrays) = 'blob' AND length(arrays) <= {MAX_RUN_BYTES}"
    ),
    "history": (
        f"{_is_id('id')} AND {_is_text('text', 100_000)} AND typeof(change) = 'text' "
        f"AND (run IS NULL OR {_is_id('run')}) AND undone IN (0, 1) "
        f"AND (run_before IS NULL OR {_is_id('run_before')})"
    ),
    "checks": (
        f"run IN (SELECT id FROM runs) AND {_is_id('item')} "
        f"AND typeof(answer) = 'integer' AND answer BETWEEN {WRONG} AND {MAX_ID}"
    ),
    "skipped": f"run IN (SELECT id FROM runs) AND {_is_id('item')} AND asked_by IN ('ask', 'check')",
}


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
        self.reason = str(reason)


@contextmanager
def explained(path: Path, *, writing: bool = False) -> Iterator[None]:
    """Turn errors of SQLite into sentences: the file cannot be used or, with `writing`, cannot be written."""
    try:
        yield
    except sqlite3.Error as error:
        if writing and isinstance(error, sqlite3.OperationalError):
            raise NotWritten(path, error) from None
        raise Unusable(path, error) from None


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a connection on which the schema of a file cannot run code. mode: ro, rw, or rwc, which creates the file."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )  # fmt: skip
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def check_folder(folder: Path) -> None:
    """Raise an error if a file or folder of a project is a link: SQLite would read or write elsewhere."""
    _check_kind(folder, stat.S_ISDIR, "folder", links=True)
    for name in FOLDERS:
        _check_kind(folder / name, stat.S_ISDIR, "folder")
    for name in (FILE, LOCK):
        for end in ("", *SIDECARS):
            _check_kind(folder / f"{name}{end}", stat.S_ISREG, "regular file")


def _check_kind(path: Path, is_kind: Callable[[int], bool], kind: str, links: bool = False) -> None:
    try:
        mode = os.stat(path, follow_symlinks=links).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unusable(path, error.strerror) from None
    if not is_kind(mode):
        problem = "it is a link" if stat.S_ISLNK(mode) else f"it is not a {kind}"
        raise Unusable(path, problem)


def check_database(path: Path, *, any_name: bool) -> None:
    """Raise an error for a file that handful did not write; the file is not changed.

    any_name: items are rows of a table, which may have any name. Otherwise they are pictures below a folder.
    """
    if not path.exists() or not path.stat().st_size:
        return
    journal, wal = (Path(f"{path}{end}") for end in ("-journal", "-wal"))
    if journal.exists() and journal.stat().st_size:  # SQLite would apply it to the file after the check
        raise Unusable(journal, "it is an unfinished change of another program")
    # Without a log, only the file is read and no file is created beside it
    mode = "ro" if wal.exists() and wal.stat().st_size else "ro&immutable=1"
    with explained(path), closing(connect(path, mode)) as db:
        _limit_values(db, MAX_SCHEMA_BYTES)
        _check_schema(db, path)
        _limit_values(db, 2 * MAX_RUN_BYTES)
        (report,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if report != "ok":
            raise Unusable(path, f"it is damaged, {report}")
        if db.execute("SELECT 1 FROM sqlite_master").fetchone():
            _check_rows(db, path, any_name)


def _limit_values(db: sqlite3.Connection, max_bytes: int) -> None:
    if hasattr(db, "setlimit"):  # since Python 3.11
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max_bytes)


def _check_schema(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise ValueError(f"{str(path)!r} was made by a newer handful: update with pip install -U handful")
    if version < 0:
        raise Unusable(path, f"its version is {version}")
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(SCHEMA if version else "")
        expected = _schema(fresh)
    actual = _schema(db)
    for part in sorted(actual.keys() - expected.keys()):
        raise Unusable(path, f"its {part[0]} {part[1]:.60} is not one that handful makes")
    for part in sorted(expected.keys() - actual.keys()):
        raise Unusable(path, f"it lacks the {part[0]} {part[1]}")
    for part, sql in expected.items():
        if actual[part] != sql:
            raise Unusable(path, f"its {part[0]} {part[1]} is not as handful makes it")


def _schema(db: sqlite3.Connection) -> dict[tuple[str, str], tuple[str, str]]:
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return {(str(kind), str(name)): (str(table), " ".join(str(sql).split())) for kind, name, table, sql in rows}


def _check_rows(db: sqlite3.Connection, path: Path, any_name: bool) -> None:
    for table, rule in ROW_RULES.items():
        if db.execute(f"SELECT 1 FROM {table} WHERE NOT coalesce({rule}, 0) LIMIT 1").fetchone():
            raise Unusable(path, f"its table {table} holds a row that handful does not write")
    for query in (
        "SELECT name, reason, title, came_as, mark FROM items",
        "SELECT name FROM classes",
        "SELECT text FROM history",
    ):
        for name, *_ in db.execute(query):  # SQLite raises an error if a text is not valid
            if "items" in query and not any_name and not is_item_name(name):
                raise Unusable(path, f"the name {name!r:.80} of an item leads out of the folder")
    shown = "(SELECT value FROM meta WHERE key = 'run')"
    last = db.execute(f"SELECT facts, arrays FROM runs WHERE id = CAST({shown} AS INTEGER)").fetchone()
    if last is not None:
        try:
            read_facts(last[0])
            unpack(last[1])
        except ValueError as error:
            raise Unusable(path, f"its last run cannot be read, {error}") from None


def is_item_name(name: str) -> bool:
    """Whether a name can be the name of a picture below a folder."""
    if not name or "\0" in name or PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        return False
    return os.name != "nt" or not (PureWindowsPath(name).drive or PureWindowsPath(name).root)


_WHOLE = ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")


class OpenDatabase:
    """The file of one project. Only one process can have it open; another one gets an error."""

    def __init__(self, folder: Path, *, any_name: bool = False) -> None:
        """any_name: see `check_database`."""
        check_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._lock = threading.RLock()
        self._depth = 0
        self._claim = claim(folder)
        try:
            check_database(self.path, any_name=any_name)
            with explained(self.path, writing=True):
                self._writer = connect(self.path, "rwc")
                self._writer.execute("PRAGMA journal_mode=WAL")
                self._writer.execute("PRAGMA synchronous=FULL")
                self._create()
        except BaseException:
            self._claim.close()
            raise
        self._files = self._identities()

    def _create(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if not version:
            self._writer.executescript(f"BEGIN IMMEDIATE; {SCHEMA}; PRAGMA user_version={VERSION}; COMMIT;")

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
        """The connection to read with. A thread that is writing sees what it has written."""
        with self._lock:
            yield self._writer

    def copy_to(self, path: Path) -> None:
        """Write a copy of what is stored to a new file."""
        with self._lock, closing(sqlite3.connect(path)) as copy:
            self._writer.backup(copy)

    def close(self) -> None:
        """Close the database and give up the claim on it."""
        with self._lock:
            self._writer.close()
            self._claim.close()


def claim(folder: Path) -> sqlite3.Connection:
    """Lock a project by an open transaction on another file: it ends with the process, also if that is killed."""
    with explained(folder / LOCK, writing=True):
        own = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            own.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            own.close()
            if "locked" not in str(error):
                raise
            raise ValueError(
                f"{str(folder)!r} is in use by another process, as a workbench: close that one, or use another folder"
            ) from None
        except BaseException:
            own.close()
            raise
        return own


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino

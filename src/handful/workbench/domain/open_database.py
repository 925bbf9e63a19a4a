"""The SQLite file of a project, open: transactions, and a lock so that only one process has it.

All writes use one connection and a lock. A transaction is on the disk when it returns (WAL, synchronous=FULL). Reads
use connections of their own.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from handful.workbench.domain.database import (
    FILE,
    LOCK,
    SCHEMA,
    VERSION,
    check_database,
    check_folder,
    connect,
    explained,
)
from handful.workbench.domain.refusal import Refusal

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
        self._claim = _claim(folder)
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

"""A cache of features on disk, so that a second run over a pile reads the cache and not the pictures.

It is one SQLite file in the user's cache folder. Many processes and threads may use it at once:

    features   (content hash, fingerprint of backbone and loading) -> float32 vector
    files      path -> its status (size, times, inode) when read, and its content hash

A moved picture is recognised by its content. A picture with a new modification time is read again, but not embedded
again. An entry takes four bytes for each dimension, 5 kB for 1280. Nothing is deleted automatically: call
`FeatureCache().clear()` or delete the file. SQLite cannot lock reliably on a network drive: set $HANDFUL_CACHE to a
folder on a local disk.

A problem with the cache never stops a run. A damaged file is renamed and a new one is started. If the cache cannot be
written, handful works without it. Both give a warning.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from handful.utils.cache_folder import cache_folder

FILE = "features-1.sqlite"  # 1 is the version of the schema: another version uses another file
LOCK_TIMEOUT_S = 30.0  # how long to wait while another process writes
MAX_QUERY_VALUES = 500  # old versions of SQLite take at most 999
MIN_AGE_NS = 2_000_000_000  # some drives store times coarsely: a newer file may change again without a new time
SCHEMA = """
CREATE TABLE IF NOT EXISTS features (
    fingerprint TEXT NOT NULL, hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (fingerprint, hash)
);
CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, status TEXT NOT NULL, hash BLOB NOT NULL) WITHOUT ROWID;
"""

T = TypeVar("T")


def content_hash(data: bytes) -> str:
    """Return the BLAKE2b hash of a file's content, 40 hex digits."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


class FeatureCache:
    """Features by content hash and backbone fingerprint, in an SQLite file.

    Parameters
    ----------
    path : path, optional
        The file; by default the one in the user's cache folder.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = cache_folder() / FILE if path is None else Path(path)
        self.usable = True  # False after it could not be read or written
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._lock = threading.RLock()  # some builds of SQLite serve only one thread at a time

    def get(self, hashes: Iterable[str], fingerprint: str) -> dict[str, np.ndarray]:
        """Return the vectors, float32 [D], of the hashes that the cache holds.

        Parameters
        ----------
        hashes : iterable of str
            Content hashes.
        fingerprint : str
            That of the backbone.

        Returns
        -------
        dict of str to array [D]
            By content hash.
        """
        digests = [bytes.fromhex(h) for h in dict.fromkeys(hashes)]

        def select(connection: sqlite3.Connection) -> dict[str, np.ndarray]:
            vectors = {}
            for batch in _batches(digests):
                query = f"SELECT hash, vector FROM features WHERE fingerprint = ? AND hash IN ({_marks(batch)})"
                for digest, vector in connection.execute(query, (fingerprint, *batch)):
                    if len(vector) % 4 == 0:
                        vectors[digest.hex()] = np.frombuffer(vector, "<f4").astype(np.float32)
            return vectors

        return self._do(select, {}) if digests else {}

    def put(self, vectors: Mapping[str, np.ndarray], fingerprint: str) -> None:
        """Store features.

        Parameters
        ----------
        vectors : mapping of str to array [D]
            By content hash.
        fingerprint : str
            That of the backbone.
        """
        rows = [(fingerprint, bytes.fromhex(h), np.asarray(v, "<f4").tobytes()) for h, v in vectors.items()]
        self._write("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)

    def known(self, paths: Iterable[str], status_of: Callable[[str], os.stat_result] | None = None) -> dict[str, str]:
        """Return the content hashes of files that have not changed since they were read. No file is read.

        Parameters
        ----------
        paths : iterable of str
            The files.
        status_of : callable, optional
            Returns the status of a file; by default `os.stat`.

        Returns
        -------
        dict of str to str
            By path.
        """
        status_of = status_of or os.stat
        current: dict[bytes, tuple[str, list[str]]] = {}  # stored path -> status, and the paths of the call
        for path in paths:
            try:
                current.setdefault(_key(path), (_status(status_of(path)), []))[1].append(path)
            except (OSError, ValueError):  # opening the file will raise the right error later
                continue

        def select(connection: sqlite3.Connection) -> dict[str, str]:
            hashes: dict[str, str] = {}
            for batch in _batches(list(current)):
                query = f"SELECT path, status, hash FROM files WHERE path IN ({_marks(batch)})"
                for key, status, digest in connection.execute(query, batch):
                    if status == current[key][0]:
                        hashes |= {path: digest.hex() for path in current[key][1]}
            return hashes

        return self._do(select, {}) if current else {}

    def remember(self, files: Iterable[tuple[str, os.stat_result, str]]) -> None:
        """Store the content hashes of files, for `known`.

        Parameters
        ----------
        files : iterable of tuple
            (path, status after reading, content hash).
        """
        settled = time.time_ns() - MIN_AGE_NS
        rows = [
            (_key(path), _status(status), bytes.fromhex(digest))
            for path, status, digest in files
            if max(status.st_mtime_ns, status.st_ctime_ns) < settled
        ]
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", rows)

    def clear(self) -> None:
        """Delete all entries and free the disk space."""

        def delete(connection: sqlite3.Connection) -> None:
            connection.executescript("DELETE FROM features; DELETE FROM files; VACUUM;")

        self._do(delete, None)

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    # ---- SQLite

    def _write(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        def insert(connection: sqlite3.Connection) -> None:
            with connection:  # commits or rolls back: an interruption leaves nothing half written
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(statement, rows)

        if rows:
            self._do(insert, None)

    def _do(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Return the result of `work`; after replacing a damaged file, or `otherwise` if there is no cache."""
        with self._lock:
            for again in (False, True):
                if not self.usable:
                    break
                try:
                    return work(self._open())
                except (sqlite3.Error, OSError) as error:
                    self.close()
                    # SQLite's other errors are subclasses: full, locked, read-only, ...
                    if type(error) is sqlite3.DatabaseError:
                        self._set_aside(error, though_sound=again)
                    else:
                        self._do_without(error)
        return otherwise

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        if self._connection is not None:  # in a forked child: closing it would release the locks of the parent
            _PARENTS.append(self._connection)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._process = connection, os.getpid()
        return connection

    def _set_aside(self, error: Exception, though_sound: bool) -> None:
        """Rename a damaged file, unless another process has already replaced it by a sound one."""
        try:
            if not though_sound and _sound(self.path):
                return
            aside = self.path.with_name(self.path.name + ".damaged")
            for end in ("-wal", "-shm", ""):  # SQLite would apply a remaining -wal file to the new file
                if os.path.exists(f"{self.path}{end}"):
                    os.replace(f"{self.path}{end}", f"{aside}{end}")
        except OSError as failure:
            self._do_without(failure)
            return
        _warn(
            f"the cache of features {self.path} is damaged ({error}): it was renamed to {aside.name}, and a "
            "new one was started"
        )

    def _do_without(self, error: Exception) -> None:
        self.usable = False
        reason = getattr(error, "strerror", None) or error
        _warn(
            f"the cache of features {self.path} cannot be used ({reason}): pictures will be embedded in each run; "
            "set HANDFUL_CACHE to a folder where you can write"
        )


_PARENTS: list[sqlite3.Connection] = []


def _prepare(connection: sqlite3.Connection) -> None:
    end = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            # WAL allows readers and a writer at the same time. This statement does not wait for locks as others do.
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last batches, nothing else
            tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
            if tables < 2:
                connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            if connection.in_transaction:
                connection.rollback()
            time.sleep(0.05)


def _sound(path: Path) -> bool:
    try:
        connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_S)
        try:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
        finally:
            connection.close()
    except sqlite3.Error:
        return False


def _key(path: str) -> bytes:
    return os.fsencode(os.path.abspath(path))  # bytes, because file names are not always text


def _status(status: os.stat_result) -> str:
    """Return a text that changes when the content of a file changes.

    Size and modification time are not enough: two files of the same size and time may exchange their names.
    """
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + MAX_QUERY_VALUES] for start in range(0, len(values), MAX_QUERY_VALUES))


def _marks(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=5)

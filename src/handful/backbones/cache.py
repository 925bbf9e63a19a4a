"""A cache of features on disk, so that a second run over a pile reads the cache and not the pictures.

It is one SQLite file in the user's cache folder, which many processes and threads may use at once:

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
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from handful.utils.cache_folder import cache_folder

FILE = "features-1.sqlite"  # 1 is the version of the schema: another version uses another file
LOCK_TIMEOUT_S = 30.0  # how long to wait while another process writes
MAX_QUERY_VALUES = 500  # old versions of SQLite take at most 999
MIN_AGE_NS = 2_000_000_000  # some drives store times coarsely: a newer file may change again without a new time
SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS features (
    fingerprint TEXT NOT NULL, hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (fingerprint, hash)
);
CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, status TEXT NOT NULL, hash BLOB NOT NULL) WITHOUT ROWID;
COMMIT;
"""


def content_hash(data: bytes) -> str:
    """Return the BLAKE2b hash of a file's content, 40 hex digits."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


class FeatureCache:
    """Features by content hash and backbone fingerprint, in an SQLite file.

    Each call opens the file and closes it, so a cache can be used by threads and in forked processes.

    Parameters
    ----------
    path : path, optional
        The file; by default the one in the user's cache folder.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = cache_folder() / FILE if path is None else Path(path)
        self.usable = True  # False after it could not be read or written

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
        rows = self._select("SELECT hash, vector FROM features WHERE fingerprint = ? AND hash IN", digests, fingerprint)
        return {digest.hex(): np.frombuffer(vector, "<f4").astype(np.float32) for digest, vector in rows}

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
        self._insert("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)

    def known(self, paths: Iterable[str], status_of: Callable[[str], os.stat_result] = os.stat) -> dict[str, str]:
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
        current: dict[str, str] = {}
        for path in paths:
            with suppress(OSError, ValueError):  # opening the file will raise the right error later
                current[path] = _status(status_of(path))
        rows = self._select("SELECT path, status, hash FROM files WHERE path IN", list({*map(_key, current)}))
        stored = {key: (status, digest.hex()) for key, status, digest in rows}
        by_path = {path: stored.get(_key(path), ("", "")) for path in current}
        return {path: digest for path, (status, digest) in by_path.items() if status == current[path]}

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
        self._insert("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", rows)

    def clear(self) -> None:
        """Delete all entries and free the disk space."""
        self._do(lambda connection: connection.executescript("DELETE FROM features; DELETE FROM files; VACUUM"))

    # ---- SQLite

    def _select(self, query: str, keys: Sequence[bytes], *values: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query that ends in IN, for any number of keys."""

        def select(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
            for start in range(0, len(keys), MAX_QUERY_VALUES):
                batch = keys[start : start + MAX_QUERY_VALUES]
                yield from connection.execute(f"{query} ({','.join('?' * len(batch))})", (*values, *batch))

        return self._do(select) if keys else []

    def _insert(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        def insert(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
            with connection:  # commits or rolls back: an interruption leaves nothing half written
                connection.execute("BEGIN IMMEDIATE")
                return connection.executemany(statement, rows)

        if rows:
            self._do(insert)

    def _do(self, work: Callable[[sqlite3.Connection], Iterator[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        """Return the rows that `work` gives; after replacing a damaged file, or no rows if there is no cache."""
        for _ in range(2):
            if not self.usable:
                break
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S, isolation_level=None)) as connection:
                    connection.execute("PRAGMA synchronous = OFF")  # a power cut may damage it: it is started anew
                    if connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0] < 2:
                        connection.executescript(SCHEMA)
                    return list(work(connection))
            except (sqlite3.Error, OSError) as error:
                # SQLite's other errors are subclasses: full, locked, read-only, ...
                if type(error) is not sqlite3.DatabaseError or not self._set_aside(error):
                    self.usable = False
                    _warn(
                        f"the cache of features {self.path} cannot be used ({error}): pictures will be embedded in "
                        "each run; set HANDFUL_CACHE to a folder where you can write"
                    )
        return []

    def _set_aside(self, error: Exception) -> bool:
        """Rename a damaged file, and return whether that was possible."""
        aside = self.path.with_name(self.path.name + ".damaged")
        try:
            os.replace(self.path, aside)
            # SQLite would apply the journal of an interrupted change to the new file
            self.path.with_name(self.path.name + "-journal").unlink(missing_ok=True)
        except OSError:
            return False
        _warn(
            f"the cache of features {self.path} is damaged ({error}): it was renamed to {aside.name}, and a new one "
            "was started"
        )
        return True


def _key(path: str) -> bytes:
    return os.fsencode(os.path.abspath(path))  # bytes, because file names are not always text


def _status(status: os.stat_result) -> str:
    """Return a text that changes when the content of a file changes.

    Size and modification time are not enough: two files of the same size and time may exchange their names.
    """
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=5)

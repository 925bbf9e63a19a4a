"""A cache of features on disk, so that a second run over a pile reads the cache and not the pictures.

It is one SQLite file in the user's cache folder, which many processes and threads may use at once. Its one table maps

    (fingerprint of backbone and loading, content hash)          -> float32 vector
    ("files", hash of a path and its status: size, times, inode) -> content hash of that file

A problem with the cache never stops a run: a damaged file is replaced, and without a cache handful works too. Both
give a warning. SQLite cannot lock reliably on a network drive.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from handful.utils.cache_folder import cache_folder

FILE = "features-1.sqlite"  # 1 is the version of the schema: another version uses another file
FILES = "files"  # stands where features have a fingerprint
LOCK_TIMEOUT_S = 30.0  # how long to wait while another process writes
MIN_AGE_NS = 2_000_000_000  # some drives store times coarsely: a newer file may change again without a new time
SCHEMA = """
CREATE TABLE IF NOT EXISTS features (
    fingerprint TEXT NOT NULL, hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (fingerprint, hash)
)
"""


def content_hash(data: bytes) -> str:
    """Return the BLAKE2b hash of a file's content, 40 hex digits."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


class FeatureCache:
    """Features by content hash and fingerprint, in an SQLite file that each call opens: for threads and forks too."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = cache_folder() / FILE if path is None else Path(path)
        self.usable = True  # False after it could not be read or written

    def get(self, hashes: Iterable[str], fingerprint: str) -> dict[str, np.ndarray]:
        """Return the vectors, float32 [D], of the content hashes that the cache holds."""
        rows = self._select(fingerprint, hashes)
        return {content: np.frombuffer(vector, "<f4").astype(np.float32) for content, vector in rows.items()}

    def put(self, vectors: Mapping[str, np.ndarray], fingerprint: str) -> None:
        """Store features by content hash."""
        self._insert(fingerprint, {content: np.asarray(v, "<f4").tobytes() for content, v in vectors.items()})

    def known(self, paths: Iterable[str], opener: Callable[[str], int] | None = None) -> dict[str, str]:
        """Return the content hashes of the files that have not changed since they were read. No file is read."""
        keys: dict[str, str] = {}
        for path in paths:
            with suppress(OSError, ValueError):  # opening the file will raise the right error later
                descriptor = path if opener is None else opener(path)
                try:
                    keys[path] = _file_key(path, os.stat(descriptor))
                finally:
                    if isinstance(descriptor, int):
                        os.close(descriptor)
        rows = self._select(FILES, keys.values())
        return {path: rows[key].hex() for path, key in keys.items() if key in rows}

    def remember(self, files: Iterable[tuple[str, os.stat_result, str]]) -> None:
        """Store the content hashes of files for `known`: path, status after reading, content hash."""
        settled = time.time_ns() - MIN_AGE_NS
        rows = {
            _file_key(path, status): bytes.fromhex(content)
            for path, status, content in files
            if max(status.st_mtime_ns, status.st_ctime_ns) < settled
        }
        self._insert(FILES, rows)

    def _select(self, fingerprint: str, hashes: Iterable[str]) -> dict[str, bytes]:
        keys = list(dict.fromkeys(hashes))
        query = "SELECT vector FROM features WHERE fingerprint = ? AND hash = ?"

        def select(connection: sqlite3.Connection) -> list[tuple[bytes] | None]:
            return [connection.execute(query, (fingerprint, bytes.fromhex(key))).fetchone() for key in keys]

        rows = self._do(select) if keys else []
        return {key: row[0] for key, row in zip(keys, rows, strict=False) if row}  # no rows if there is no cache

    def _insert(self, fingerprint: str, values: Mapping[str, bytes]) -> None:
        rows = [(fingerprint, bytes.fromhex(key), value) for key, value in values.items()]
        if rows:
            self._do(
                lambda connection: connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)
            )

    def _do(self, work: Callable[[sqlite3.Connection], Iterable[Any]]) -> list[Any]:
        """Return what `work` gives; after replacing a damaged file; nothing if there is no cache."""
        for _ in range(2):
            if not self.usable:
                break
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S)) as connection:
                    connection.execute("PRAGMA synchronous = OFF")  # a power cut may damage it: it is started anew
                    connection.execute(SCHEMA)
                    with connection:  # commits or rolls back: an interruption leaves nothing half written
                        return list(work(connection))
            except (sqlite3.Error, OSError) as error:
                if type(error) is sqlite3.DatabaseError:  # damaged; subclasses: full, locked, read-only, ...
                    with suppress(OSError):
                        for suffix in ("", "-journal"):  # SQLite would apply an old journal to the new file
                            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
                        message = f"the cache of features {self.path} is damaged ({error}): a new one was started"
                        warnings.warn(message, stacklevel=4)
                        continue
                self.usable = False
                message = (
                    f"the cache of features {self.path} cannot be used ({error}): pictures will be embedded in each "
                    "run; set HANDFUL_CACHE to a folder where you can write"
                )
                warnings.warn(message, stacklevel=4)
        return []


def _file_key(path: str, status: os.stat_result) -> str:
    """Return a hash of status and path: two files of one size and time may exchange their names."""
    state = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino} "
    return content_hash(state.encode() + os.fsencode(os.path.abspath(path)))  # file names are not always text

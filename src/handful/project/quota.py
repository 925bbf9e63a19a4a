"""Limits of uploads: the bytes of a project, and the free space of the disk."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from handful.project.refusal import Refusal

GIGABYTE = 10**9
MAX_UPLOAD_BYTES = 20 * GIGABYTE  # of all uploads of a project
MIN_FREE_BYTES = GIGABYTE  # that must stay free on the disk
FILE_BYTES = 4096  # counted for each file beside its content: a million tiny files need space too


class Quota:
    """Counts the bytes in the folder of uploads, and those that all requests are sending now."""

    def __init__(self, folder: Path, max_bytes: int = MAX_UPLOAD_BYTES) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self.stored_bytes = self.incoming_bytes = 0
        self.lock = threading.Lock()

    def begin(self) -> Incoming:
        """Begin one request. The folder is counted again, because files may be deleted by hand."""
        with self.lock:
            self.stored_bytes = _bytes_in(self.folder)
        return Incoming(self)


class Incoming:
    """The bytes of one request. They are counted before they are written."""

    def __init__(self, quota: Quota) -> None:
        self._quota, self._taken_bytes = quota, 0

    def take(self, count: int) -> None:
        """Count bytes of this upload; raise Refusal if the project has no room for them."""
        quota = self._quota
        with quota.lock:
            if quota.stored_bytes + quota.incoming_bytes + count > quota.max_bytes:
                raise Refusal(
                    f"the uploads of this project would take more than {quota.max_bytes / GIGABYTE:.3g} GB, the "
                    "limit: put the files into the opened folder itself, or start with a larger --max-upload",
                    413,
                )
            if shutil.disk_usage(quota.folder).free - count < MIN_FREE_BYTES:
                raise Refusal(
                    f"less than {MIN_FREE_BYTES / GIGABYTE:.3g} GB would be left on the disk: free some space, then "
                    "send the files again",
                    507,
                )
            quota.incoming_bytes += count
            self._taken_bytes += count

    def end(self, stored_bytes: int = 0) -> None:
        """End the request; stored_bytes of it stay on the disk."""
        with self._quota.lock:
            self._quota.incoming_bytes -= self._taken_bytes
            self._quota.stored_bytes += stored_bytes
            self._taken_bytes = 0


def _bytes_in(folder: Path) -> int:
    """The bytes of the files in a folder. Incomplete uploads are in hidden folders and do not count."""
    with os.scandir(folder) as entries:
        return sum(
            FILE_BYTES + entry.stat(follow_symlinks=False).st_size
            for entry in entries
            if entry.is_file(follow_symlinks=False)
        )

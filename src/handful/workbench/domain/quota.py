"""How much may be uploaded to a project in all, and how much of the disk stays free."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from handful.workbench.domain.refusal import Refusal

GIGABYTE = 10**9
MAX_UPLOAD_BYTES = 20 * GIGABYTE  # of all uploads of a project
MIN_FREE_BYTES = GIGABYTE  # of the disk, that uploads leave
FILE_BYTES = 4096  # that a file takes beside its content: a million tiny ones are not free either


class Quota:
    """Counts what lies in the folder of uploads, and what comes in by all requests at once."""

    def __init__(self, folder: Path, most: int = MAX_UPLOAD_BYTES) -> None:
        self.folder, self.most = folder, most
        self.kept = self.coming = 0
        self.lock = threading.Lock()

    def begin(self) -> Incoming:
        """For one request. The folder is counted anew, as files may be deleted by hand."""
        with self.lock:
            self.kept = _bytes_in(self.folder)
        return Incoming(self)


class Incoming:
    """What one request brings: each part of it is taken before it is written."""

    def __init__(self, quota: Quota) -> None:
        self._quota, self._taken = quota, 0

    def take(self, count: int) -> None:
        """Count bytes of this upload; raise Refusal if the project has no room for them."""
        quota = self._quota
        with quota.lock:
            if quota.kept + quota.coming + count > quota.most:
                raise Refusal(
                    f"the uploads of this project would take more than {quota.most / GIGABYTE:.3g} GB, which is the "
                    "most: put the pictures into the opened folder itself, or start with a larger --max-upload",
                    413,
                )
            if shutil.disk_usage(quota.folder).free - count < MIN_FREE_BYTES:
                raise Refusal(
                    f"less than {MIN_FREE_BYTES / GIGABYTE:.3g} GB would be left on the disk: free some space, then "
                    "send the pictures again",
                    507,
                )
            quota.coming += count
            self._taken += count

    def end(self, kept: int = 0) -> None:
        """It is over, and so many bytes stay."""
        with self._quota.lock:
            self._quota.coming -= self._taken
            self._quota.kept += kept
            self._taken = 0


def _bytes_in(folder: Path) -> int:
    """Of the files in it; what is still coming in lies in hidden folders."""
    with os.scandir(folder) as entries:
        return sum(
            FILE_BYTES + entry.stat(follow_symlinks=False).st_size
            for entry in entries
            if entry.is_file(follow_symlinks=False)
        )

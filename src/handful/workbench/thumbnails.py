"""Small pictures for the page: decoded within limits and always encoded anew, so that nothing else of a file leaves."""

from __future__ import annotations

import os
import threading
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

from handful.workbench.pile import Source
from handful.workbench.refusal import Refusal

SIZES = (96, 160, 320, 1024)
AT_ONCE = threading.BoundedSemaphore(2)  # a decoded picture may take 360 MB


class Thumbnails:
    """JPEGs in the project's folder, made when first asked for; a changed picture is made anew."""

    def __init__(self, source: Source) -> None:
        self.source, self.folder = source, source.project / "thumbnails"

    def get(self, item: int, origin: str, name: str, size: int) -> bytes:
        from handful.images import BadPicture, thumbnail

        if size not in SIZES:
            raise Refusal(f"pictures come in sizes {', '.join(map(str, SIZES))}: ask for one of these", 400)
        file = self.source.safe_file(origin, name)
        if file is None:
            raise Refusal("the file of this picture is not in the opened folder: put it back there", 404)
        status = os.stat(file)
        mark = blake2b(f"{status.st_size} {status.st_mtime_ns}".encode(), digest_size=6).hexdigest()
        kept = self.folder / str(size) / f"{item % 256:02x}" / f"{item}-{mark}.jpg"
        try:
            if data := kept.read_bytes():
                return data
        except OSError:
            pass
        with AT_ONCE:
            try:
                data = thumbnail(file, size)
            except BadPicture as error:
                raise Refusal(f"the picture {error.reason}", 404) from None
        _keep(kept, data)
        return data

    def size_of(self, origin: str, name: str) -> tuple[int, int]:
        """Width and height; 0 where there is no picture."""
        from handful.images import BadPicture, picture_size

        file = self.source.safe_file(origin, name)
        try:
            return (0, 0) if file is None else picture_size(file)
        except BadPicture:
            return 0, 0


def _keep(path: Path, data: bytes) -> None:
    """Not forced to the disk, as it can be made again; what a full disk refuses is done without."""
    part = path.with_name(f".{uuid4().hex}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)

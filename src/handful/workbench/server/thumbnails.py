"""Small pictures for the page: decoded within limits and always encoded anew, so that nothing else of a file leaves."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

from handful.workbench.domain.pile import Source
from handful.workbench.domain.refusal import Refusal
from handful.workbench.domain.safe_open import open_below

THUMBNAILS = "thumbnails"
JPEG = b"\xff\xd8\xff"  # how a file of this format begins
MAX_KEPT_BYTES = 8 * 2**20  # of one thumbnail
SIZES = (96, 160, 320, 1024)
AT_ONCE = threading.BoundedSemaphore(2)  # a decoded picture may take 360 MB


class Thumbnails:
    """JPEGs in the project's folder, made when first asked for; a changed picture is made anew."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def get(self, item: int, origin: str, name: str, size: int) -> bytes:
        """Return the picture of an item as a small JPEG, from the folder of thumbnails or made now."""
        from handful.backbones import BadPicture, thumbnail

        if size not in SIZES:
            raise Refusal(f"pictures come in sizes {', '.join(map(str, SIZES))}: ask for one of these", 400)
        try:
            descriptor = self.source.open(origin, name)
        except (OSError, ValueError):
            raise Refusal("the file of this picture is not in the opened folder: put it back there", 404) from None
        try:  # from here on it is this file, whatever its name leads to by now
            status = os.fstat(descriptor)
            mark = blake2b(f"{status.st_size} {status.st_mtime_ns}".encode(), digest_size=6).hexdigest()
            kept = Path(THUMBNAILS, str(size), f"{item % 256:02x}", f"{item}-{mark}.jpg")
            if data := self._kept(kept):
                return data
            with AT_ONCE:
                data = thumbnail(name, size, opener=lambda _: os.dup(descriptor))
        except BadPicture as error:
            raise Refusal(f"the picture {error.reason}", 404) from None
        finally:
            os.close(descriptor)
        self._keep(kept, data)
        return data

    def size_of(self, origin: str, name: str) -> tuple[int, int]:
        """Width and height; 0 where there is no picture."""
        from handful.backbones import BadPicture, picture_size

        try:
            return picture_size(name, opener=lambda _: self.source.open(origin, name))
        except BadPicture:
            return 0, 0

    def _kept(self, name: Path) -> bytes:
        """Empty if there is none. The project's folder may have come from elsewhere: it is read like the pictures."""
        try:
            with open(open_below(self.source.project, str(name)), "rb") as file:
                data = file.read(MAX_KEPT_BYTES + 1)
        except OSError:
            return b""
        return data if data.startswith(JPEG) and len(data) <= MAX_KEPT_BYTES else b""

    def _keep(self, name: Path, data: bytes) -> None:
        """Not forced to the disk, as it can be made again; what a full disk refuses is done without."""
        path = self.source.project / name
        part = path.with_name(f".{uuid4().hex}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.realpath(path.parent) != os.path.join(os.path.realpath(self.source.project), name.parent):
                return  # a link in the project's folder leads elsewhere: nothing is written there
            part.write_bytes(data)
            os.replace(part, path)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)

"""Small pictures for the page. They are decoded within limits and encoded again, so that no other data is sent."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

from handful.project.pile import Source, open_below
from handful.project.refusal import Refusal

THUMBNAIL_FOLDER = "thumbnails"
JPEG_START = b"\xff\xd8\xff"  # the first bytes of a JPEG
MAX_THUMBNAIL_BYTES = 8 * 2**20  # of one thumbnail
SIZES_PX = (96, 160, 320, 1024)
DECODER_SLOTS = threading.BoundedSemaphore(2)  # pictures decoded at a time: each may take 360 MB


class Thumbnails:
    """JPEGs in the folder of the project, made at the first request, and made again if the picture has changed."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def get(self, item: int, origin: str, name: str, size: int) -> bytes:
        """Return the picture of an item as a small JPEG, from the folder of thumbnails or made now."""
        from handful.backbones.pictures import BadPicture, thumbnail

        if size not in SIZES_PX:
            raise Refusal(f"pictures come in sizes {', '.join(map(str, SIZES_PX))}: ask for one of these", 400)
        try:
            descriptor = self.source.open(origin, name)
        except (OSError, ValueError):
            raise Refusal("the file of this picture is not in the opened folder: put it back there", 404) from None
        try:  # this open file is used from here on, even if the name leads to another one now
            status = os.fstat(descriptor)
            mark = blake2b(f"{status.st_size} {status.st_mtime_ns}".encode(), digest_size=6).hexdigest()
            stored_name = Path(THUMBNAIL_FOLDER, str(size), f"{item % 256:02x}", f"{item}-{mark}.jpg")
            if data := self._read(stored_name):
                return data
            with DECODER_SLOTS:
                data = thumbnail(name, size, opener=lambda _: os.dup(descriptor))
        except BadPicture as error:
            raise Refusal(f"the picture {error.reason}", 404) from None
        finally:
            os.close(descriptor)
        self._write(stored_name, data)
        return data

    def size_of(self, origin: str, name: str) -> tuple[int, int]:
        """Width and height; 0 where there is no picture."""
        from handful.backbones.pictures import BadPicture, picture_size

        try:
            return picture_size(name, opener=lambda _: self.source.open(origin, name))
        except BadPicture:
            return 0, 0

    def _read(self, name: Path) -> bytes:
        """A stored thumbnail, or b"". The folder may come from anyone, so it is read with the same care."""
        try:
            with open(open_below(self.source.project, str(name)), "rb") as file:
                data = file.read(MAX_THUMBNAIL_BYTES + 1)
        except OSError:
            return b""
        return data if data.startswith(JPEG_START) and len(data) <= MAX_THUMBNAIL_BYTES else b""

    def _write(self, name: Path, data: bytes) -> None:
        """Store a thumbnail if possible. It is not synced to the disk, because it can be made again."""
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

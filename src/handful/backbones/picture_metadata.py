"""The orientation of a picture, and how to read a picture whose other metadata is broken.

Cameras and programs write a lot of metadata into a picture's file: EXIF, colour profiles, comments, resolutions. Some
of it is broken, and Pillow then refuses the whole picture. handful only needs the orientation. So a picture that
cannot be opened is tried again without the other metadata, and then without the orientation too.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from struct import Struct
from typing import BinaryIO, TypeVar
from zlib import crc32

from PIL import Image

ORIENTATION = 274  # the tag of TIFF and EXIF
UPRIGHT = {  # what sets each orientation upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
PNG, PNG_HEAD = b"\x89PNG\r\n\x1a\n", Struct(">I4s")  # a chunk's length and kind
JPEG, JPEG_HEAD = b"\xff\xd8", Struct(">2BH")  # a segment's 255 and marker, and its length
APP1, APP14, SCAN, COMMENT = 0xE1, 0xEE, 0xDA, 0xFE  # markers of JPEG: EXIF, Adobe's colours, pixels, text
APP = range(0xE0, 0xF0)
ADOBE_LENGTH = 14
EXIF = b"Exif\0"

T = TypeVar("T")


def orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8; 1 (upright) if it is missing or not valid.

    The value must be a number; of several numbers the first counts. The text "6" is ignored, as in other programs.
    """
    try:
        value = image.getexif().get(ORIENTATION)
        return next((number for number in UPRIGHT if number == value), 1)
    except Exception:  # EXIF data is often damaged while the picture is whole
        return 1


def despite_metadata(read: Callable[[BinaryIO], T], file: BinaryIO) -> T:
    """Return what `read` returns for a file. If it fails, try again with less and less metadata."""
    try:
        return read(file)
    except MemoryError:
        raise
    except Exception as error:
        first = error
    file.seek(0)
    data = file.read()
    for with_orientation in (True, False):
        less = _without_metadata(data, with_orientation)
        if less is not None and len(less) < len(data):
            with suppress(Exception):
                return read(io.BytesIO(less))
    raise first


def _without_metadata(data: bytes, with_orientation: bool) -> bytes | None:
    """Return the file without metadata; None if it is not a PNG or JPEG, or if its structure is broken."""
    if data.startswith(PNG):
        return PNG + b"".join(_chunks(data, with_orientation))
    if data.startswith(JPEG):
        parts = list(_segments(data, with_orientation))
        return JPEG + b"".join(parts) if parts else None
    return None


def _chunks(data: bytes, with_orientation: bool) -> Iterator[bytes]:
    at = len(PNG)
    while at + PNG_HEAD.size <= len(data):
        length, kind = PNG_HEAD.unpack_from(data, at)
        end = at + PNG_HEAD.size + length + 4
        needed = kind[:1].isupper() or kind == b"tRNS"  # a small first letter means: not needed to show the pixels
        if kind == b"eXIf" and with_orientation:
            needed = crc32(data[at + 4 : end - 4]).to_bytes(4, "big") == data[end - 4 : end]
        if needed:
            yield data[at:end]
        at = end


def _segments(data: bytes, with_orientation: bool) -> Iterator[bytes]:
    """Yield the segments before the pixels, then the rest of the file."""
    at = len(JPEG)
    while at + JPEG_HEAD.size <= len(data):
        start, marker, length = JPEG_HEAD.unpack_from(data, at)
        if start != 0xFF or marker == SCAN or length < 2:
            yield data[at:]
            return
        end = at + 2 + length
        of_exif = marker == APP1 and with_orientation and data.startswith(EXIF, at + JPEG_HEAD.size)
        of_colours = marker == APP14 and length >= ADOBE_LENGTH
        if of_exif or of_colours or (marker not in APP and marker != COMMENT):
            yield data[at:end]
        at = end

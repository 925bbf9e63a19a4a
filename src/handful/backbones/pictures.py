"""Pictures from files: find them, and open them within limits, upright and in RGB.

A folder may hold anything, so nothing in it is trusted. Only regular files of a few formats are opened, and the size of
a picture is read from its header before any pixel is decoded. Every problem with a picture is a `BadPicture`. Pillow's
own limits apply as well: `Image.MAX_IMAGE_PIXELS` and its warnings belong to the calling program and are not changed.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from handful.backbones.colours import to_rgb
from handful.backbones.folders import BadFile, Kind, Skipped, find_files, in_short
from handful.backbones.picture_formats import HEIC, KINDS, KNOWN_SUFFIXES, Unreadable, identify
from handful.backbones.picture_metadata import UPRIGHT, despite_metadata, orientation

MAX_PIXELS = 2**30 // 4 // 3  # 89 million, where Pillow starts to warn; such a picture takes 360 MB in memory
MAX_BYTES = 2**28  # the size of an uncompressed TIFF with that many pixels

Opener = Callable[[str], int]  # from a path to a descriptor of its file, opened for reading; raises OSError
WIDTH, HEIGHT = 256, 257  # tags of TIFF


class BadPicture(BadFile):
    """A picture that cannot be used: an error with the attributes `path` and `reason`.

    Parameters
    ----------
    path : path
        The file.
    reason : str
        What is wrong and what to do; it continues the sentence that begins with the path.
    """


# ---- opening


def open_picture(
    picture: str | os.PathLike[str] | bytes,
    *,
    max_pixels: int = MAX_PIXELS,
    at_least: int | None = None,
    opener: Opener | None = None,
) -> Image.Image:
    """Open a picture, upright and in RGB.

    Parameters
    ----------
    picture : path or bytes
        The path of the file, or its content. Of an animation, the first frame is read.
    max_pixels : int
        Larger pictures are refused.
    at_least : int, optional
        Large JPEGs may be decoded at 1/2, 1/4 or 1/8 of their size, which is several times faster. No side becomes
        shorter than `at_least` pixels. None: the full size.
    opener : callable, optional
        Opens the path and returns a file descriptor. Exactly this file is read, even if its name changes meanwhile.

    Returns
    -------
    PIL.Image.Image

    Raises
    ------
    BadPicture
        If the picture cannot be used.
    """
    if isinstance(picture, bytes):
        return decode(picture, "the picture", max_pixels=max_pixels, at_least=at_least)
    return decode(read(picture, opener)[0], picture, max_pixels=max_pixels, at_least=at_least)


def picture_size(path: str | os.PathLike[str], *, opener: Opener | None = None) -> tuple[int, int]:
    """Return width and height of the upright picture. Only the header of the file is read.

    Parameters
    ----------
    path : path
        The file.
    opener : callable, optional
        As in `open_picture`.

    Returns
    -------
    tuple of two int
        Width and height, in pixels.
    """
    with _opened(path, opener) as file, _blaming(path, MAX_PIXELS):
        image, turn = despite_metadata(lambda file: _with_orientation(_identify(file, path, MAX_PIXELS)), file)
        # For a TIFF, newer versions of Pillow give the upright size, older ones the size in the file: read the tags.
        tags = getattr(image, "tag_v2", {})
        width, height = tags.get(WIDTH, image.width), tags.get(HEIGHT, image.height)
        return (height, width) if turn >= 5 else (width, height)


def read(path: str | os.PathLike[str], opener: Opener | None = None) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a picture's file, and the status of the file after reading."""
    with _opened(path, opener) as file:
        data = file.read(os.fstat(file.fileno()).st_size + 1)
        return data, os.fstat(file.fileno())


def decode(
    data: bytes, path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS, at_least: int | None = None
) -> Image.Image:
    """Return a picture from the bytes of its file, as `open_picture` does; `path` is its name in errors."""

    def load(file: BinaryIO) -> tuple[Image.Image, int]:
        image = _identify(file, path, max_pixels)
        if at_least is not None and image.format != HEIC:  # of HEIC, it would be a preview, which may be another crop
            image.draft(None, (at_least, at_least))  # only JPEG can do this; other formats ignore it
        image.load()
        _check_pixels(image, path, max_pixels)  # a HEIC file may hold other pixels than its header says
        return _with_orientation(image)

    with _blaming(path, max_pixels):
        image, turn = despite_metadata(load, io.BytesIO(data))
        image = to_rgb(image)
        if turn in UPRIGHT:
            image = image.transpose(UPRIGHT[turn])
    image.info = {}  # so that it is not rotated again, and thumbnails carry no location or comment
    return image


def status_of(path: str, opener: Opener) -> os.stat_result:
    """Return the status of the file that `opener` opens."""
    descriptor = opener(path)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    # Checked before opening, because opening a device can have effects, and again after it (`_opened`).
    _check_regular(path, os.stat(path))
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait


@contextmanager
def _opened(path: str | os.PathLike[str], opener: Opener | None = None) -> Iterator[BinaryIO]:
    """Open a regular file that is not too large."""
    try:
        with open((opener or _open)(os.fspath(path)), "rb") as file:
            _check_regular(path, os.fstat(file.fileno()))
            yield file
    except BadPicture:
        raise
    except OSError as error:
        raise BadPicture(
            path, f"cannot be read ({in_short(error)}): check that it exists and that you can read it"
        ) from None
    except ValueError:  # a zero character
        raise BadPicture(path, "is not a valid file name: give another path") from None


def _check_regular(path: str | os.PathLike[str], status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadPicture(path, "is not a regular file (a folder, pipe or device): give the file of a picture")
    if not status.st_size:
        raise BadPicture(path, "is an empty file: copy it again or remove it")
    if status.st_size > MAX_BYTES:
        size, limit = status.st_size // 2**20, MAX_BYTES // 2**20
        raise BadPicture(path, f"has {size} MB, and at most {limit} MB are read: make it smaller")


def _identify(file: BinaryIO, path: str | os.PathLike[str], max_pixels: int) -> Image.Image:
    """Open a picture and read only its header."""
    try:
        image = identify(file)
    except Unreadable as error:
        raise BadPicture(path, str(error)) from None
    _check_pixels(image, path, max_pixels)
    return image


def _check_pixels(image: Image.Image, path: str | os.PathLike[str], max_pixels: int) -> None:
    if image.width * image.height > max_pixels:
        raise BadPicture(path, f"has {image.width} x {image.height} pixels, {_at_most(max_pixels)}")


@contextmanager
def _blaming(path: str | os.PathLike[str], max_pixels: int) -> Iterator[None]:
    """Turn every error of a decoder (OSError, SyntaxError, struct.error, ...) into `BadPicture`."""
    try:
        yield
    except BadPicture:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):  # its warning, where warnings are errors
        raise BadPicture(path, f"has far too many pixels, {_at_most(max_pixels)}") from None
    except MemoryError:
        raise BadPicture(path, "does not fit into memory: make it smaller") from None
    except Exception as error:
        what = "is cut short" if "truncated" in str(error).lower() else f"cannot be decoded ({in_short(error)})"
        raise BadPicture(path, f"{what}, its file is damaged: copy it again") from None


def _at_most(max_pixels: int) -> str:
    return f"and at most {max_pixels / 1e6:.3g} million are decoded: make it smaller"


def _with_orientation(image: Image.Image) -> tuple[Image.Image, int]:
    return image, orientation(image)


# ---- finding


def find_pictures(
    folder: str | os.PathLike[str], *, strict: bool = False, within: str | os.PathLike[str] | None = None
) -> tuple[list[Path], list[Skipped]]:
    """Find the pictures in a folder and its subfolders.

    A picture is a file with the suffix of a picture. Hidden files and files of the operating system are ignored. Links
    are followed if they stay in the folder, and each folder is read once.

    Parameters
    ----------
    folder : path
        The folder.
    strict : bool
        Whether to raise the first folder or picture that cannot be used as `BadPicture`.
    within : path, optional
        A folder around `folder`, if links may lead to anywhere in that.

    Returns
    -------
    list of Path
        The pictures, sorted as people sort: 2.jpg before 10.jpg.
    list of Skipped
        The folders and pictures that cannot be used, and one entry with the number of files with other suffixes.
    """
    return find_files(folder, Kind("picture", KNOWN_SUFFIXES, KINDS, BadPicture), strict, within)

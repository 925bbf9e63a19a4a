"""Pictures from files: find them, and open them within limits, upright and in RGB.

A folder may hold anything, so nothing in it is trusted. Only regular files of a few formats are opened, and the size of
a picture is read from its header before any pixel is decoded. Every problem with a picture is a `BadPicture`. Pillow's
own limits apply as well: `Image.MAX_IMAGE_PIXELS` and its warnings belong to the calling program and are not changed.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from PIL import Image

from handful.backbones.colours import to_rgb
from handful.backbones.picture_formats import HEIC, KINDS, KNOWN_SUFFIXES, Unreadable, identify
from handful.backbones.picture_metadata import UPRIGHT, despite_metadata, orientation

MAX_PIXELS = 2**30 // 4 // 3  # 89 million, where Pillow starts to warn; such a picture takes 360 MB in memory
MAX_BYTES = 2**28  # the size of an uncompressed TIFF with that many pixels
LITTER = frozenset({"__macosx", "thumbs.db", "desktop.ini", "@eadir", "$recycle.bin", "system volume information"})

Opener = Callable[[str], int]  # from a path to a descriptor of its file, opened for reading; raises OSError
WIDTH, HEIGHT = 256, 257  # tags of TIFF


class BadPicture(ValueError):
    """A picture that cannot be used: `path`, and a `reason` that says what is wrong and what to do."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(os.fspath(path), reason)
        self.path, self.reason = os.fspath(path), reason

    def __str__(self) -> str:
        return f"{shown(self.path)} {self.reason}"


class Skipped(NamedTuple):
    """A skipped file or folder: its `path`, and a `reason` that continues the sentence."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{shown(self.path)} {self.reason}"


def shown(path: str | os.PathLike[str]) -> str:
    r"""Return a path as one printable line: file names may contain newlines and bytes that are not text.

    >>> shown("a\nb.jpg")
    'a\\nb.jpg'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in os.fspath(path))


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
    """Return width and height of the upright picture, from its header only; `opener` as in `open_picture`."""
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
            path, f"cannot be read ({_short(error)}): check that it exists and that you can read it"
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
        what = "is cut short" if "truncated" in str(error).lower() else f"cannot be decoded ({_short(error)})"
        raise BadPicture(path, f"{what}, its file is damaged: copy it again") from None


def _at_most(max_pixels: int) -> str:
    return f"and at most {max_pixels / 1e6:.3g} million are decoded: make it smaller"


def _with_orientation(image: Image.Image) -> tuple[Image.Image, int]:
    return image, orientation(image)


def _short(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return shown(text if len(text) <= 80 else text[:77] + "...")


# ---- finding


def find_pictures(folder: str | os.PathLike[str], *, strict: bool = False) -> tuple[list[Path], list[Skipped]]:
    """Find the pictures in a folder and its subfolders.

    A picture is a file with the suffix of a picture. Hidden files and files of the operating system are ignored. Links
    are followed, and each folder is read once.

    Parameters
    ----------
    folder : path
        The folder.
    strict : bool
        Whether to raise the first folder or picture that cannot be used as `BadPicture`.

    Returns
    -------
    list of Path
        The pictures, sorted as people sort: 2.jpg before 10.jpg.
    list of Skipped
        The folders and pictures that cannot be used, and one entry with the number of files with other suffixes.
    """
    top = os.fspath(folder)
    if not os.path.isdir(top):
        problem = "is a file" if os.path.exists(top) else "does not exist"
        raise NotADirectoryError(f"{shown(top)} {problem}: give a folder of pictures")
    pictures: list[Path] = []
    skipped: list[Skipped] = []
    others: Counter[str] = Counter()
    for parts, reason in sorted(walk(top), key=lambda file: as_a_person_sorts(file[0])):
        if reason is not None:
            skipped.append(Skipped(os.path.join(top, *parts), reason))
        elif suffix_of(parts[-1]) in KNOWN_SUFFIXES:
            pictures.append(Path(top, *parts))
        else:
            others[suffix_of(parts[-1]) or "no suffix"] += 1
    if strict and skipped:
        raise BadPicture(skipped[0].path, skipped[0].reason)
    if others:
        counts = ", ".join(f"{count} with {suffix}" for suffix, count in others.most_common(5))
        more = ", ..." if len(others) > 5 else ""
        count = others.total()
        kind = "file that is not a picture" if count == 1 else "files that are not pictures"
        skipped.append(Skipped(top, f"holds {count} {kind}, by the suffix: {counts}{more} (pictures are {KINDS})"))
    return pictures, skipped


def walk(top: str, suffixes: Collection[str] = KNOWN_SUFFIXES) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yield the path of each file below `top`, in components, with None or with what is wrong with it.

    Something that is no file is only listed if it has one of the suffixes.
    """
    seen = {
        _identity(parent) for parent in Path(top).resolve().parents
    }  # a link to a parent would list the folders next to `top`
    folders: list[tuple[str, ...]] = [()]
    links: deque[tuple[str, ...]] = deque()  # read last, so that a picture is listed in its own folder
    while folders or links:
        parts = folders.pop() if folders else links.popleft()
        where = os.path.join(top, *parts)
        try:
            identity = _identity(where)
            if identity in seen:
                continue
            seen.add(identity)
            with os.scandir(where) as entries:
                listing = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield parts, f"cannot be opened ({_short(error)}): check that you can read it"
            continue
        for entry in listing:
            if entry.name.startswith(".") or entry.name.lower() in LITTER:
                continue
            below = (*parts, entry.name)
            try:
                if entry.is_dir():
                    (links if entry.is_symlink() else folders).append(below)
                elif entry.is_file():
                    yield below, None
                elif suffix_of(entry.name) not in suffixes:
                    continue
                elif entry.is_symlink() and not os.path.exists(entry.path):
                    yield below, "is a link to a missing file: copy the file itself there"
                else:
                    yield below, "is not a regular file (a pipe or device): remove it"
            except OSError as error:  # a link to itself
                if suffix_of(entry.name) in suffixes:
                    yield below, f"cannot be read ({_short(error)}): check that it exists and that you can read it"


def suffix_of(name: str) -> str:
    """Return the suffix of a file name, in lower case."""
    return os.path.splitext(name)[1].lower()


def _identity(folder: str | Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def as_a_person_sorts(parts: tuple[str, ...]) -> tuple[object, ...]:
    """Return a sort key: 2.jpg before 10.jpg, a before B; names that are equal otherwise by their characters."""
    pieces = [re.split(r"(\d+)", part.casefold()) for part in parts]
    return [[int(p) if i % 2 else p for i, p in enumerate(piece)] for piece in pieces], parts

"""Pictures from files: found, opened within limits, given upright and in RGB.

A folder may hold anything, so nothing in it is trusted: only regular files are opened, of a few formats, and a
picture's size is read from its header before a pixel is decoded. Whatever is wrong with one is a `BadPicture`.
Pillow's own limits hold as well: `Image.MAX_IMAGE_PIXELS` and its warnings are the program's, and stay as they are.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

# Named so that Pillow knows their formats: it would import all of its fifty to find TIFF
from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)  # fmt: skip

from handful.backbones.colours import to_rgb
from handful.backbones.picture_metadata import UPRIGHT, despite_metadata, orientation

SUFFIXES = {
    JpegImagePlugin.JpegImageFile.format: (".jpg", ".jpeg", ".jpe", ".jfif"),
    PngImagePlugin.PngImageFile.format: (".png",),
    WebPImagePlugin.WebPImageFile.format: (".webp",),
    GifImagePlugin.GifImageFile.format: (".gif",),
    BmpImagePlugin.BmpImageFile.format: (".bmp",),
    TiffImagePlugin.TiffImageFile.format: (".tif", ".tiff"),
}
FORMATS = tuple(SUFFIXES)
KNOWN_SUFFIXES = frozenset(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
KINDS = "JPEG, PNG, WebP, GIF, BMP or TIFF"
MAX_PIXELS = 2**30 // 4 // 3  # 89 million, where Pillow begins to warn; a decoded one takes 360 MB
MAX_BYTES = 2**28  # an uncompressed TIFF of so many pixels
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
    """Something passed over: its `path` as the system has it, and a `reason` that continues the sentence."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{shown(self.path)} {self.reason}"


def shown(path: str | os.PathLike[str]) -> str:
    r"""A path on one line that any terminal or file can hold: names may have newlines and bytes that are no text.

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
    """A picture, from its path or from the bytes of its file, upright and in RGB; `BadPicture` if that cannot be.

    Of an animation it is the first frame. `at_least`: large JPEGs may come at 1/2, 1/4 or 1/8 of their size, which
    is several times faster, but with no side under `at_least` pixels. `opener` opens the path: the file that it gives
    is the one that is read, whatever has become of its name.
    """
    if isinstance(picture, bytes):
        return decode(picture, "the picture", max_pixels=max_pixels, at_least=at_least)
    return decode(read(picture, opener)[0], picture, max_pixels=max_pixels, at_least=at_least)


def picture_size(path: str | os.PathLike[str], *, opener: Opener | None = None) -> tuple[int, int]:
    """Width and height of a picture once upright, from its header alone; `opener` as in `open_picture`."""
    with _opened(path, opener) as file, _blaming(path, MAX_PIXELS):
        image, turn = despite_metadata(lambda file: _with_orientation(_identify(file, path, MAX_PIXELS)), file)
        # Of a TIFF, newer Pillow gives the size once turned, older that in the file, which its tags hold
        tags = getattr(image, "tag_v2", {})
        width, height = tags.get(WIDTH, image.width), tags.get(HEIGHT, image.height)
        return (height, width) if turn >= 5 else (width, height)


def read(path: str | os.PathLike[str], opener: Opener | None = None) -> tuple[bytes, os.stat_result]:
    """The bytes of a picture's file, and its status after they were read."""
    with _opened(path, opener) as file:
        data = file.read(os.fstat(file.fileno()).st_size + 1)
        return data, os.fstat(file.fileno())


def decode(
    data: bytes, path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS, at_least: int | None = None
) -> Image.Image:
    """A picture from the bytes of its file, as `open_picture` gives it; `path` is what errors call it."""

    def load(file: BinaryIO) -> tuple[Image.Image, int]:
        image = _identify(file, path, max_pixels)
        if at_least is not None:
            image.draft(None, (at_least, at_least))  # JPEG's alone; others take no notice
        image.load()
        return _with_orientation(image)

    with _blaming(path, max_pixels):
        image, turn = despite_metadata(load, io.BytesIO(data))
        image = to_rgb(image)
        if turn in UPRIGHT:
            image = image.transpose(UPRIGHT[turn])
    image.info = {}  # nobody turns it again, and no thumbnail carries a place or a comment
    return image


def status_of(path: str, opener: Opener) -> os.stat_result:
    """The status of the file that `opener` opens."""
    descriptor = opener(path)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    # Asked before opening, as opening a device may do things, and after it, as another may be there by then
    _check_regular(path, os.stat(path))
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait


@contextmanager
def _opened(path: str | os.PathLike[str], opener: Opener | None = None) -> Iterator[BinaryIO]:
    """A regular file of bearable size, opened."""
    try:
        with open((opener or _open)(os.fspath(path)), "rb") as file:
            _check_regular(path, os.fstat(file.fileno()))
            yield file
    except BadPicture:
        raise
    except OSError as error:
        raise BadPicture(path, f"cannot be read ({_short(error)}): see that it is there and may be read") from None
    except ValueError:  # a zero character
        raise BadPicture(path, "has a name that no file can have: give another path") from None


def _check_regular(path: str | os.PathLike[str], status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadPicture(path, "is no regular file (a folder, pipe or device): give a picture's file")
    if not status.st_size:
        raise BadPicture(path, "is an empty file: copy it anew or remove it")
    if status.st_size > MAX_BYTES:
        size, limit = status.st_size // 2**20, MAX_BYTES // 2**20
        raise BadPicture(path, f"is {size} MB large, and {limit} MB are read at most: make it smaller")


def _identify(file: BinaryIO, path: str | os.PathLike[str], max_pixels: int) -> Image.Image:
    """A picture of which only the header has been read."""
    try:
        image = Image.open(file, formats=FORMATS)
    except UnidentifiedImageError:
        file.seek(0)
        raise BadPicture(path, _unknown(file.read(512))) from None
    if image.width * image.height > max_pixels:
        raise BadPicture(path, f"has {image.width} x {image.height} pixels, {_at_most(max_pixels)}")
    return image


@contextmanager
def _blaming(path: str | os.PathLike[str], max_pixels: int) -> Iterator[None]:
    """Decoders raise all kinds for damaged data, OSError, SyntaxError, struct.error, ...: here they are one."""
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
        raise BadPicture(path, f"{what}, its file is damaged: copy it anew") from None


def _at_most(max_pixels: int) -> str:
    return f"and {max_pixels / 1e6:.3g} million are decoded at most: make it smaller"


def _with_orientation(image: Image.Image) -> tuple[Image.Image, int]:
    return image, orientation(image)


def _unknown(data: bytes) -> str:
    if not data:
        return "is an empty file: copy it anew or remove it"
    start = data.lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "is a web page, not a picture: download the picture again"
    if start.startswith((b"<svg", b"<?xml")):
        return f"is a drawing or a text, not a picture of pixels: save it as {KINDS}"
    if data[4:8] == b"ftyp":
        return f"is a HEIC or AVIF picture or a film, which is not read: save it as {KINDS}"
    return f"is no {KINDS} picture, or its file is damaged: save it as one of these anew"


def _short(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return shown(text if len(text) <= 80 else text[:77] + "...")


# ---- finding


def find_pictures(folder: str | os.PathLike[str], *, strict: bool = False) -> tuple[list[Path], list[Skipped]]:
    """The pictures in a folder and its subfolders, as a person would sort them, and what was passed over.

    A picture is a file with a picture's suffix, hidden ones and those that systems leave about aside. Links are
    followed, each folder is looked into once. Files with other suffixes are counted, in one entry for all of them.
    With `strict`, a folder or picture that cannot be used is an error: the first `BadPicture` is raised.
    """
    top = os.fspath(folder)
    if not os.path.isdir(top):
        problem = "is a file" if os.path.exists(top) else "does not exist"
        raise NotADirectoryError(f"{shown(top)} {problem}: give a folder of pictures")
    pictures: list[Path] = []
    skipped: list[Skipped] = []
    others: Counter[str] = Counter()
    for parts, reason in sorted(_walk(top), key=lambda file: _as_a_person_sorts(file[0])):
        if reason is not None:
            skipped.append(Skipped(os.path.join(top, *parts), reason))
        elif _suffix(parts[-1]) in KNOWN_SUFFIXES:
            pictures.append(Path(top, *parts))
        else:
            others[_suffix(parts[-1]) or "no suffix"] += 1
    if strict and skipped:
        raise BadPicture(skipped[0].path, skipped[0].reason)
    if others:
        counts = ", ".join(f"{count} with {suffix}" for suffix, count in others.most_common(5))
        more = ", ..." if len(others) > 5 else ""
        count = others.total()
        kind = "file that is not a picture" if count == 1 else "files that are not pictures"
        skipped.append(Skipped(top, f"holds {count} {kind}, by the suffix: {counts}{more} (pictures are {KINDS})"))
    return pictures, skipped


def _walk(top: str) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Each file under `top` as the parts of its path below it, and folders and pictures with what is wrong."""
    seen = {_identity(parent) for parent in Path(top).resolve().parents}  # a link upwards would list its neighbours
    folders: list[tuple[str, ...]] = [()]
    links: deque[tuple[str, ...]] = deque()  # looked into last, so that a picture is listed under its own folder
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
            yield parts, f"cannot be looked into ({_short(error)}): see that you may read it"
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
                elif _suffix(entry.name) not in KNOWN_SUFFIXES:
                    continue
                elif entry.is_symlink() and not os.path.exists(entry.path):
                    yield below, "is a link to nothing: copy the file itself there"
                else:
                    yield below, "is no regular file (a pipe or device): remove it"
            except OSError as error:  # a link to itself
                if _suffix(entry.name) in KNOWN_SUFFIXES:
                    yield below, f"cannot be read ({_short(error)}): see that it is there and may be read"


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _identity(folder: str | Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _as_a_person_sorts(parts: tuple[str, ...]) -> tuple[object, ...]:
    """2.jpg before 10.jpg, a before B; names that differ in nothing else by their characters."""
    pieces = [re.split(r"(\d+)", part.casefold()) for part in parts]
    return [[int(p) if i % 2 else p for i, p in enumerate(piece)] for piece in pieces], parts

"""Pictures from files: find them, and open them within limits, upright and in RGB.

A folder may hold anything, so nothing in it is trusted. Only regular files of a few formats are opened, and the size of
a picture is read from its header before any pixel is decoded. Every problem with a picture is a `BadPicture`. Pillow's
own limits apply as well; they belong to the calling program and are not changed.

Pillow reads all formats but HEIC, which phones write and which pi-heif reads (extra `heic`). Its class is called here
alone: it is not registered with Pillow, so that other code of the program opens pictures as before.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np
from PIL import Image, UnidentifiedImageError, features

from handful.backbones.folders import BadFile, Kind, Opener, Skipped, find_files, in_short, opened
from handful.utils.extras import HEIC as HEIC_EXTRA

MAX_PIXELS = 2**30 // 4 // 3  # 89 million, where Pillow starts to warn; such a picture takes 360 MB in memory
AT_MOST = f"and at most {MAX_PIXELS / 1e6:.3g} million are decoded: make it smaller"
MAX_BYTES = 2**28  # the size of an uncompressed TIFF with that many pixels

AVIF, HEIC = "AVIF", "HEIF"  # Pillow's and pi-heif's names
SUFFIXES = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    AVIF: (".avif",),
    HEIC: (".heic", ".heif", ".hif"),
}
HAS_AVIF = features.check("avif") is True  # from Pillow 11.3 on, where its wheel has the decoder
PLUGINS = ("Jpeg", "Png", "WebP", "Gif", "Bmp", "Tiff", *(("Avif",) if HAS_AVIF else ()))
for _plugin in PLUGINS:  # so that Pillow knows them: otherwise it would import all of its fifty plugins to find TIFF
    import_module(f"PIL.{_plugin}ImagePlugin")
FORMATS = tuple(name for name in SUFFIXES if name != HEIC and (name != AVIF or HAS_AVIF))  # those of Pillow
KNOWN_SUFFIXES = frozenset(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
KINDS = "JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF or HEIC"
HEIC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"})
AVIF_BRANDS = frozenset({b"avif", b"avis"})
HEIF_MODULES = ("pi_heif", "pillow_heif")
HEAD_BYTES = 512  # enough for all brands that a file names

WIDTH, HEIGHT, ORIENTATION = 256, 257, 274  # tags of TIFF, the last one of EXIF too
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
BITS, PHOTOMETRIC, WHITE_IS_ZERO = 258, 262, 0  # two TIFF tags, and a value of the second


class BadPicture(BadFile):
    """A picture that cannot be used: an error with the attributes `path` and `reason`."""


PICTURES = Kind("picture", KNOWN_SUFFIXES, KINDS, BadPicture, MAX_BYTES)


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
    return find_files(folder, PICTURES, strict, within)


def open_picture(
    picture: str | os.PathLike[str] | bytes, *, at_least: int | None = None, opener: Opener | None = None
) -> Image.Image:
    """Open a picture, by path or content, upright and in RGB; large JPEGs may come smaller, down to `at_least`."""
    if isinstance(picture, bytes):
        return decode(picture, "the picture", at_least)
    return decode(read(picture, opener)[0], picture, at_least)


def picture_size(path: str | os.PathLike[str], *, opener: Opener | None = None) -> tuple[int, int]:
    """Return width and height of the upright picture, from the header of its file."""
    with opened(path, PICTURES, opener) as file, _blaming(path):
        image = identify(file, path)
        # For a TIFF, newer versions of Pillow give the upright size, older ones the size in the file: read the tags.
        tags = getattr(image, "tag_v2", {})
        width, height = tags.get(WIDTH, image.width), tags.get(HEIGHT, image.height)
        return (height, width) if _orientation(image) >= 5 else (width, height)


def thumbnail(picture: str | os.PathLike[str] | bytes, size: int = 160, *, opener: Opener | None = None) -> bytes:
    """Return a picture, from its path or its content, as a JPEG without metadata; no side is longer than `size`."""
    image = open_picture(picture, at_least=2 * size, opener=opener)
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80, optimize=True)
    return file.getvalue()


def read(path: str | os.PathLike[str], opener: Opener | None = None) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a picture's file, and the status of the file after reading."""
    with opened(path, PICTURES, opener) as file:
        data = file.read(os.fstat(file.fileno()).st_size + 1)
        return data, os.fstat(file.fileno())


def decode(data: bytes, path: str | os.PathLike[str], at_least: int | None = None) -> Image.Image:
    """Return a picture from the bytes of its file, as `open_picture` does; `path` is its name in errors."""
    with _blaming(path):
        image = identify(io.BytesIO(data), path)
        if at_least is not None and image.format != HEIC:  # of HEIC, it would be a preview, which may be another crop
            image.draft(None, (at_least, at_least))  # only JPEG can do this; other formats ignore it
        image.load()
        _check_pixels(image, path)  # a HEIC file may hold other pixels than its header says
        turn = _orientation(image)
        image = _to_rgb(image)
        if turn in UPRIGHT:
            image = image.transpose(UPRIGHT[turn])
    image.info = {}  # so that it is not rotated again, and thumbnails carry no location or comment
    return image


@contextmanager
def _blaming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn every error of a decoder (OSError, SyntaxError, struct.error, ...) into `BadPicture`."""
    try:
        yield
    except BadPicture:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):  # its warning, where warnings are errors
        raise BadPicture(path, f"has far too many pixels, {AT_MOST}") from None
    except MemoryError:
        raise BadPicture(path, "does not fit into memory: make it smaller") from None
    except Exception as error:
        what = "is cut short" if "truncated" in str(error).lower() else f"cannot be decoded ({in_short(error)})"
        raise BadPicture(path, f"{what}, its file is damaged: copy it again") from None


def _check_pixels(image: Image.Image, path: str | os.PathLike[str]) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise BadPicture(path, f"has {image.width} x {image.height} pixels, {AT_MOST}")


# ---- formats


def identify(file: BinaryIO, path: str | os.PathLike[str] = "the picture") -> Image.Image:
    """Open a picture and read only its header. Raise `BadPicture` if it has none of the formats, or is too large."""
    head = file.read(HEAD_BYTES)
    file.seek(0)
    try:
        image: Image.Image = Image.open(_without_metadata(file) if head.startswith(PNG) else file, formats=FORMATS)
    except UnidentifiedImageError:
        file.seek(0)
        if not _brands(head) & HEIC_BRANDS:
            raise BadPicture(path, _what_it_is(head)) from None
        if (heif := _heif()) is None:
            install = f"pip install {HEIC_EXTRA} to read it"
            raise BadPicture(path, f"is a HEIC picture: {install}, or save it as JPEG or PNG") from None
        image = heif.HeifImageFile(file)
    _check_pixels(image, path)
    return image


def _without_metadata(file: BinaryIO) -> BinaryIO:
    """Return a PNG without the chunks that pixels and orientation do not need: programs write broken ones."""
    data = file.read()
    needed, at = [PNG], len(PNG)
    while at + PNG_HEAD.size <= len(data):
        length, kind = PNG_HEAD.unpack_from(data, at)
        end = at + PNG_HEAD.size + length + 4
        is_needed = kind[:1].isupper() or kind == b"tRNS"  # a capital letter means: needed for the pixels
        if kind == b"eXIf":
            is_needed = crc32(data[at + 4 : end - 4]).to_bytes(4, "big") == data[end - 4 : end]
        if is_needed:
            needed.append(data[at:end])
        at = end
    return io.BytesIO(b"".join(needed))


def _brands(head: bytes) -> set[bytes]:
    """Return the brands of a file of the ISO family (HEIC, AVIF, films): four letters each; an empty set for others."""
    if head[4:8] != b"ftyp":
        return set()
    box = head[: min(int.from_bytes(head[:4], "big"), len(head))]
    return {box[8:12], *(box[i : i + 4] for i in range(16, len(box) - 3, 4))}


def _heif() -> Any:
    """Return pi_heif, or pillow_heif, its larger sister that can also write; None if there is neither."""
    for name in HEIF_MODULES:
        with suppress(Exception):  # missing, or its library does not fit the machine
            return import_module(name)
    return None


def _what_it_is(head: bytes) -> str:
    """Return what is wrong with a file that is none of the formats, by its beginning."""
    brands, start = _brands(head), head.lstrip().lower()
    if not head:
        return "is an empty file: copy it again or remove it"
    if start.startswith((b"<!doctype html", b"<html")):
        return "is a web page, not a picture: download the picture again"
    if start.startswith((b"<svg", b"<?xml")):
        return f"is a vector drawing or a text, not a picture of pixels: save it as {KINDS}"
    if brands & AVIF_BRANDS and not HAS_AVIF:
        return "is an AVIF picture, which this Pillow cannot read: pip install -U pillow, or save it as JPEG or PNG"
    if brands and not brands & AVIF_BRANDS:
        return f"is a film, or a picture of a kind that cannot be read: save it as {KINDS}"
    return f"is not a {KINDS} picture, or its file is damaged: save it again as one of these"


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8; 1 (upright) if it is missing or no valid number."""
    try:
        value = image.getexif().get(ORIENTATION)
        return next((number for number in UPRIGHT if number == value), 1)
    except Exception:  # EXIF data is often damaged while the picture is whole
        return 1


# ---- colours


def _to_rgb(image: Image.Image) -> Image.Image:
    """Return a decoded picture as RGB. Transparent pixels become white."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        grey = _sixteen(image) if image.mode.startswith("I;16") else _unscaled(image)  # from 0 to 1, [H, W]
        return Image.fromarray(np.rint(grey * 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        # "La" and "RGBa" (colours multiplied by alpha) must be converted to "LA" and "RGBA" first.
        plain = {"La": "LA", "RGBa": "RGBA"}.get(image.mode, image.mode)
        upon = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(upon, image.convert(plain).convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def _sixteen(image: Image.Image) -> np.ndarray:
    tags = getattr(image, "tag_v2", {})  # only TIFF has them
    bits = max(tags.get(BITS, (16,)))  # microscopes write 12
    values: np.ndarray = np.asarray(image).astype(np.float32) / (2**bits - 1)
    return np.subtract(1, values) if tags.get(PHOTOMETRIC) == WHITE_IS_ZERO else values


def _unscaled(image: Image.Image) -> np.ndarray:
    """Scale numbers to 0..1: white is 1 (of floats), 255 or 65535, the first that none exceeds, or else the largest."""
    values: np.ndarray = np.nan_to_num(np.asarray(image).astype(np.float64), posinf=0.0, neginf=0.0)
    black, largest = min(values.min(), 0.0), values.max()
    usual = {"F": [1.0, 255.0, 65535.0], "I": [255.0, 65535.0]}[image.mode]
    if image.format == "PNG":  # Pillow 10 gives 16-bit PNGs as "I"
        usual = [65535.0]
    white = next((white for white in usual if largest <= white), largest)
    scaled: np.ndarray = (values - black) / (white - black)
    return scaled

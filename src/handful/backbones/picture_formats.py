"""The formats of pictures that are read, and which of them a file has.

Pillow reads all but HEIC, which phones write and which pi-heif reads (extra `heic`). Its class is called here
alone: it is not registered with Pillow, so that other code of the program opens pictures as before.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO

# Imported so that Pillow knows these formats. Otherwise it would import all of its fifty plugins to find TIFF.
from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
    features,
)  # fmt: skip

from handful.utils.extras import HEIC as HEIC_EXTRA

AVIF, HEIC = "AVIF", "HEIF"  # Pillow's and pi-heif's names
SUFFIXES = {
    JpegImagePlugin.JpegImageFile.format: (".jpg", ".jpeg", ".jpe", ".jfif"),
    PngImagePlugin.PngImageFile.format: (".png",),
    WebPImagePlugin.WebPImageFile.format: (".webp",),
    GifImagePlugin.GifImageFile.format: (".gif",),
    BmpImagePlugin.BmpImageFile.format: (".bmp",),
    TiffImagePlugin.TiffImageFile.format: (".tif", ".tiff"),
    AVIF: (".avif",),
    HEIC: (".heic", ".heif", ".hif"),
}
HAS_AVIF = features.check("avif") is True  # from Pillow 11.3 on, where its wheel has the decoder
if HAS_AVIF:
    from PIL import AvifImagePlugin  # noqa: F401
FORMATS = tuple(name for name in SUFFIXES if name != HEIC and (name != AVIF or HAS_AVIF))  # those of Pillow
KNOWN_SUFFIXES = frozenset(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
KINDS = "JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF or HEIC"
HEIC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"})
AVIF_BRANDS = frozenset({b"avif", b"avis"})
HEIF_MODULES = ("pi_heif", "pillow_heif")
HEAD_BYTES = 512  # enough for all brands that a file names


class Unreadable(Exception):
    """The file has none of the formats; the message says what it is, and what to do."""


def identify(file: BinaryIO) -> Image.Image:
    """Open a picture and read only its header. Raise `Unreadable` if it is none."""
    try:
        return Image.open(file, formats=FORMATS)
    except UnidentifiedImageError:
        file.seek(0)
        head = file.read(HEAD_BYTES)
        file.seek(0)
    if brands_of(head) & HEIC_BRANDS:
        picture: Image.Image = _heif().HeifImageFile(file)
        return picture
    raise Unreadable(_what_it_is(head))


def brands_of(head: bytes) -> set[bytes]:
    """Return the brands of a file of the ISO family (HEIC, AVIF, films): four letters each; an empty set for others."""
    if head[4:8] != b"ftyp":
        return set()
    box = head[: min(int.from_bytes(head[:4], "big"), len(head))]
    return {box[8:12], *(box[i : i + 4] for i in range(16, len(box) - 3, 4))}


def _heif() -> Any:
    """Return pi_heif, or pillow_heif, its larger sister that can also write."""
    for name in HEIF_MODULES:
        with suppress(Exception):  # missing, or its library does not fit the machine
            return import_module(name)
    raise Unreadable(f"is a HEIC picture: pip install {HEIC_EXTRA} to read it, or save it as JPEG or PNG")


def _what_it_is(head: bytes) -> str:
    if not head:
        return "is an empty file: copy it again or remove it"
    start = head.lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "is a web page, not a picture: download the picture again"
    if start.startswith((b"<svg", b"<?xml")):
        return f"is a vector drawing or a text, not a picture of pixels: save it as {KINDS}"
    if (brands := brands_of(head)) & AVIF_BRANDS and not HAS_AVIF:
        return "is an AVIF picture, which this Pillow cannot read: pip install -U pillow, or save it as JPEG or PNG"
    if brands and not brands & AVIF_BRANDS:
        return f"is a film, or a picture of a kind that cannot be read: save it as {KINDS}"
    return f"is not a {KINDS} picture, or its file is damaged: save it again as one of these"

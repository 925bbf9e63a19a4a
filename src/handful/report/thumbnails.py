"""The pictures of items, made small: from files, Pillow's images or arrays."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image


def png(array: Any) -> bytes:
    """An array [H, W] or [H, W, 3] as a PNG; numbers that are no bytes are stretched to 0 to 255."""
    from PIL import Image

    pixels = np.asarray(array)
    if pixels.size == 0 or not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)):
        raise ValueError(f"a picture is a [H, W] or [H, W, 3] array, this one has shape {list(pixels.shape)}")
    if pixels.dtype != np.uint8:
        pixels = pixels.astype(np.float64)
        finite = np.isfinite(pixels)
        low, high = pixels.min(where=finite, initial=np.inf), pixels.max(where=finite, initial=-np.inf)
        stretch = 255 / (high - low) if high > low else 0.0
        pixels = np.rint(np.where(finite, pixels - low, 0.0) * stretch).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG", optimize=True)
    return file.getvalue()


def check_pictures(pictures: Any, count: int) -> Any:
    """Pictures as something that can be indexed; ValueError if there is not one for each of the `count` items."""
    if isinstance(pictures, str | bytes | os.PathLike) or not hasattr(pictures, "__len__"):
        raise ValueError("pictures is not a sequence: give one path, image or array for each item, in their order")
    if len(pictures) != count:
        raise ValueError(f"there are {len(pictures):,} pictures for {count:,} items: give one for each item")
    is_listed = getattr(getattr(pictures, "dtype", None), "kind", "") in ("O", "U", "S", "T")
    return pictures.tolist() if is_listed else pictures


def small_image(picture: Any, size: int) -> Image | None:
    """A picture in RGB with no side longer than `size`; a tiny one keeps its size. None if it cannot be opened."""
    from PIL import Image, ImageOps

    from handful.backbones.pictures import MAX_PIXELS, BadPicture, open_picture

    try:
        if isinstance(picture, str | bytes | os.PathLike):
            image: Any = open_picture(picture, at_least=2 * size)
        elif isinstance(picture, Image.Image):
            if picture.width * picture.height > MAX_PIXELS:
                return None
            image = ImageOps.exif_transpose(picture).convert("RGB")
        else:
            pixels = np.asarray(picture)
            image = Image.open(io.BytesIO(png(pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)))
            image = image.convert("RGB")
    except (BadPicture, OSError):  # the file is gone or damaged
        return None
    if max(image.size) > size:
        image.thumbnail((size, size), Image.Resampling.LANCZOS)
    small: Image.Image = image
    return small

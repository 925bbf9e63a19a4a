"""The pictures of items, made small: from files, Pillow's images or arrays."""

from __future__ import annotations

import io
import os
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.report.pictures import png

if TYPE_CHECKING:
    from PIL.Image import Image

TINY = 40  # pixels; a picture with shorter sides is enlarged as it is, without blur


class Thumbnails:
    """Small pictures of the items of a pile, made when they are asked for.

    Parameters
    ----------
    pictures : sequence or array
        For each of the items the path of its file, the bytes of the file, an image of Pillow, or an array [H, W] or
        [H, W, 3]. Or all of them as one array [n, H, W] or [n, H, W, 3].
    count : int
        How many items there are.

    Raises
    ------
    ValueError
        If there is not one picture for each item.

    Examples
    --------
    >>> Thumbnails(np.zeros((2, 8, 8)), 2).address(0, 32)[:22]
    'data:image/png;base64,'
    """

    def __init__(self, pictures: Any, count: int) -> None:
        if isinstance(pictures, str | bytes | os.PathLike) or not hasattr(pictures, "__len__"):
            raise ValueError("pictures is not a sequence: give one path, image or array for each item, in their order")
        if len(pictures) != count:
            raise ValueError(f"there are {len(pictures):,} pictures for {count:,} items: give one for each item")
        self.pictures = (
            pictures.tolist()
            if getattr(getattr(pictures, "dtype", None), "kind", "") in ("O", "U", "S", "T")
            else pictures
        )
        self._made: dict[tuple[int, int], str] = {}

    def address(self, row: int, size: int) -> str:
        """The picture of an item as a data: address, no side longer than `size` pixels; "" if it cannot be opened."""
        if (row, size) not in self._made:
            self._made[row, size] = _address(self.pictures[row], size)
        return self._made[row, size]

    def image(self, row: int, size: int) -> Image | None:
        """The same as an image of Pillow; None if it cannot be opened."""
        return small_image(self.pictures[row], size)


def small_image(picture: Any, size: int) -> Image | None:
    """A picture in RGB with no side longer than `size`; a tiny one keeps its size. None if it cannot be opened.

    Files are opened within the limits of `handful.backbones.open_picture`; an image of Pillow has the same limit of
    pixels.
    """
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
    image.info = {}
    shown: Image.Image = image
    return shown


def _address(picture: Any, size: int) -> str:
    image = small_image(picture, size)
    if image is None:
        return ""
    file = io.BytesIO()
    if max(image.size) < TINY:
        image.save(file, "PNG", optimize=True)
    else:
        image.save(file, "JPEG", quality=78, optimize=True)
    kind = "png" if max(image.size) < TINY else "jpeg"
    return f"data:image/{kind};base64,{b64encode(file.getvalue()).decode()}"

"""Arrays as pictures for the page."""

from __future__ import annotations

import io
from typing import Any

import numpy as np


def png(array: Any) -> bytes:
    r"""An array as a PNG.

    Parameters
    ----------
    array : array [H, W] or [H, W, 3]
        A grey or colour picture. Bytes (uint8) are taken as they are; other numbers are stretched, so that the lowest
        becomes 0 and the highest 255.

    Returns
    -------
    bytes
        The content of a .png file.

    Examples
    --------
    >>> png([[0.0, 1.0], [1.0, 0.0]])[:4]
    b'\x89PNG'
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("pictures on the page need Pillow: pip install pillow") from error
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

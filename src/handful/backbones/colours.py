"""Conversion of any Pillow mode to 8-bit RGB. Pillow's own conversion clips values of more than 8 bits to white."""

from __future__ import annotations

import numpy as np
from PIL import Image

BITS, PHOTOMETRIC, WHITE_IS_ZERO = 258, 262, 0  # two TIFF tags, and a value of the second


def to_rgb(image: Image.Image) -> Image.Image:
    """Return a decoded picture as RGB. Transparent pixels become white."""
    if image.mode.startswith("I;16"):
        return _grey(_sixteen(image))
    if image.mode in ("I", "F"):
        return _grey(_unscaled(image))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        # "La" and "RGBa" (colours multiplied by alpha) must be converted to "LA" and "RGBA" first.
        plain = {"La": "LA", "RGBa": "RGBA"}.get(image.mode)
        upon = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(upon, (image.convert(plain) if plain else image).convert("RGBA")).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _grey(values: np.ndarray) -> Image.Image:
    """Return values from 0 to 1, [H, W], as a grey RGB picture."""
    return Image.fromarray(np.rint(values * 255).astype(np.uint8)).convert("RGB")


def _sixteen(image: Image.Image) -> np.ndarray:
    tags = getattr(image, "tag_v2", {})  # only TIFF has them
    bits = max(tags.get(BITS, (16,)))  # microscopes write 12
    values: np.ndarray = np.asarray(image).astype(np.float32) / (2**bits - 1)
    return np.subtract(1, values) if tags.get(PHOTOMETRIC) == WHITE_IS_ZERO else values


def _unscaled(image: Image.Image) -> np.ndarray:
    """Scale 32-bit whole numbers or floats to 0..1. The file does not define white, so the largest value decides.

    White is 1 (only for floats), 255 or 65535: the first that no value exceeds, otherwise the largest value. Black is
    0, or the smallest value if it is negative.
    """
    values: np.ndarray = np.nan_to_num(np.asarray(image).astype(np.float64), posinf=0.0, neginf=0.0)
    black, largest = min(values.min(), 0.0), values.max()
    usual = [1.0, 255.0, 65535.0] if image.mode == "F" else [255.0, 65535.0]
    if image.format == "PNG":  # Pillow 10 gives 16-bit PNGs as "I"
        usual = [65535.0]
    white = next((white for white in usual if largest <= white), largest)
    scaled: np.ndarray = (values - black) / (white - black)
    return scaled

"""Pictures made by code: soft blotches of colour with a little grain."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

COARSE = (6, 8, 3)  # the colours that a picture is made of


def blotches(colours: np.ndarray, rng: np.random.Generator) -> Image.Image:
    """A picture of 400 x 300 pixels from colours [6, 8, 3]."""
    soft = np.asarray(Image.fromarray(colours).resize((400, 300), Image.Resampling.BICUBIC), np.float32)
    return Image.fromarray((soft + rng.normal(0, 8, soft.shape)).clip(0, 255).astype(np.uint8))


def pictures(n: int) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [blotches(rng.integers(0, 256, COARSE, dtype=np.uint8), rng) for _ in range(n)]


def photo(rng: np.random.Generator, size: tuple[int, int]) -> bytes:
    """A JPEG of this width and height with detail everywhere: one of 12 megapixels has about 3 MB, as from a phone."""
    width, height = size
    small = np.asarray(blotches(rng.integers(0, 256, COARSE, dtype=np.uint8), rng))
    large = np.asarray(Image.fromarray(small).resize(size, Image.Resampling.BICUBIC), np.int16)
    grain = rng.integers(-9, 10, (height, width, 1), dtype=np.int16)
    file = io.BytesIO()
    Image.fromarray((large + grain).clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=88)
    return file.getvalue()


def with_comment(jpeg: bytes, text: bytes) -> bytes:
    """The same picture in other bytes, so that no cache knows it: a comment follows the first marker."""
    return jpeg[:2] + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + jpeg[2:]


def write_classes(folder: Path, classes: int, items: int) -> Path:
    """FOLDER/<Class>/<number>.jpg: the pictures of a class have similar colours in the same places."""
    rng = np.random.default_rng(0)
    for k in range(classes):
        (folder / f"class{k}").mkdir()
        of_class = rng.integers(0, 256, COARSE)
        for i in range(items):
            colours = (of_class + rng.normal(0, 40, COARSE)).clip(0, 255).astype(np.uint8)
            blotches(colours, rng).save(folder / f"class{k}" / f"{i}.jpg")
    return folder

"""From a picture of any size to pixels of the data set's size."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
from PIL import Image


@dataclass(frozen=True)
class Preparation:
    """Crop the middle and resize to `size` x `size`, as `Preprocessing` does. Pictures of that size do not change."""

    size: int
    crop: float | None = None  # the share of the largest middle square; None: the whole picture, resized
    ink: bool = False  # black drawings on white: one channel, resized without overshooting

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or not 1 <= self.size <= 1024:
            raise ValueError(f"size is {self.size!r}: a whole number of pixels between 1 and 1024 is needed")

    @property
    def channels(self) -> int:
        """The number of colour channels: one for ink, three for pictures."""
        return 1 if self.ink else 3

    def picture(self, image: Image.Image) -> np.ndarray:
        """Return an RGB picture as uint8 [size, size, C]."""
        if self.ink:
            image = image.convert("L")
        if image.size != (self.size, self.size):
            how = Image.Resampling[self.interpolation.upper()]
            image = image.resize((self.size, self.size), how, box=self._window(*image.size), reducing_gap=3.0)
        return np.asarray(image).reshape(self.size, self.size, self.channels)

    def array(self, pixels: np.ndarray) -> np.ndarray:
        """Return pictures of an array, [n, H, W, 3], resized but not cropped: they were cropped before."""
        if pixels.shape[1:3] == (self.size, self.size):
            return pixels
        small = np.empty((len(pixels), self.size, self.size, 3), np.uint8)
        for i, picture in enumerate(pixels):
            image = Image.fromarray(np.ascontiguousarray(picture))
            small[i] = np.asarray(image.resize((self.size, self.size), Image.Resampling.BICUBIC))
        return small

    @property
    def interpolation(self) -> str:
        """The name of the interpolation in `Preprocessing`."""
        return "bilinear" if self.ink else "bicubic"

    def describe(self) -> str:
        """Return a text that identifies the preparation."""
        return json.dumps(asdict(self), sort_keys=True)

    def _window(self, width: int, height: int) -> tuple[float, float, float, float]:
        if self.crop is None:
            return 0, 0, width, height
        w = h = self.crop * min(width, height)
        return (width - w) / 2, (height - h) / 2, (width + w) / 2, (height + h) / 2

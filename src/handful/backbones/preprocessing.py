"""From a picture to the numbers that a network was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# How well-known networks want their pictures: what to give with one's own ONNX file. The numbers are those that the
# networks were published with; tests/backbones/test_onnx_file.py holds the sources.
PRESETS: dict[str, dict[str, Any]] = {
    "imagenet": {  # torchvision's networks
        "size": (224, 224), "mean": IMAGENET_MEAN, "std": IMAGENET_STD, "interpolation": "bilinear", "crop": 224 / 256,
    },
    "clip": {  # OpenAI's and OpenCLIP's: the whole shorter side
        "size": (224, 224), "mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711),
        "interpolation": "bicubic", "crop": 1.0,
    },
    "dinov2": {
        "size": (224, 224), "mean": IMAGENET_MEAN, "std": IMAGENET_STD, "interpolation": "bicubic", "crop": 224 / 256,
    },
    "siglip": {  # the whole picture, squeezed into a square
        "size": (224, 224), "mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bicubic", "crop": None,
    },
}  # fmt: skip
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos", "box")


@dataclass(frozen=True)
class Preprocessing:
    """Crop the middle, resize, scale pixels to 0..1, subtract `mean` and divide by `std` (one number a channel)."""

    size: tuple[int, int]  # height, width
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    interpolation: str = "bicubic"
    crop: float | None = 0.875  # the share of the largest fitting window; None: the whole picture, resized

    def __post_init__(self) -> None:
        numbers = f"mean {list(self.mean)} and std {list(self.std)}"
        for is_wrong, message in (
            (len(self.size) != 2 or not all(isinstance(n, int) and 1 <= n <= 4096 for n in self.size),
             f"the input size is {self.size}: one or two whole numbers from 1 to 4096 are needed"),
            (len(self.mean) != len(self.std) or len(self.mean) not in (1, 3),
             f"{numbers}: three numbers each are needed, for red, green and blue, or one for grey"),
            (not np.isfinite([*self.mean, *self.std]).all() or min(self.std, default=0) <= 0,
             f"{numbers} must be finite, and std positive"),
            (max(map(abs, self.mean), default=0) > 1,
             f"{numbers} are for pixels 0..255, and 0..1 is needed: divide mean and std by 255"),
            (self.interpolation not in INTERPOLATIONS,
             f"interpolation {self.interpolation!r} is unknown: choose from {', '.join(INTERPOLATIONS)}"),
            (self.crop is not None and not 0 < self.crop <= 1,
             f"crop is {self.crop}: a fraction of the picture, above 0 and at most 1, is needed"),
        ):  # fmt: skip
            if is_wrong:
                raise ValueError(message)

    def __call__(self, image: Image) -> np.ndarray:
        """Return an RGB picture as float32 [C, H, W]."""
        pixels = self.resized(image).astype(np.float32).transpose(2, 0, 1)
        scale = np.array([1 / (255 * s) for s in self.std], np.float32)[:, None, None]
        shift = np.array([m / s for m, s in zip(self.mean, self.std, strict=True)], np.float32)[:, None, None]
        return np.ascontiguousarray(pixels * scale - shift)

    def resized(self, image: Image) -> np.ndarray:
        """Return the middle of an RGB picture as uint8 [H, W, C]."""
        from PIL.Image import Resampling

        height, width = self.size
        if len(self.mean) == 1:
            image = image.convert("L")
        # Crop and resize in one pass. A picture that is much too large is first reduced by averaging whole squares.
        small = image.resize(
            (width, height), Resampling[self.interpolation.upper()], box=self._window(image), reducing_gap=3.0
        )
        return np.asarray(small).reshape(height, width, -1)

    def _window(self, image: Image) -> tuple[float, float, float, float]:
        """Return left, upper, right and lower border of the middle of the picture, in the shape of the input."""
        width, height = image.size
        if self.crop is None:
            return 0, 0, width, height
        scale = self.crop * min(height / self.size[0], width / self.size[1])
        h, w = min(scale * self.size[0], height), min(scale * self.size[1], width)  # rounding may give a little more
        return (width - w) / 2, (height - h) / 2, (width + w) / 2, (height + h) / 2

    def describe(self) -> str:
        """Return a text that identifies this preprocessing, for the fingerprint of a backbone."""
        return json.dumps(asdict(self), sort_keys=True)


def preprocessing_for(channels: int, settings: Mapping[str, Any]) -> Preprocessing:
    """Return the preprocessing with these settings; one number of mean, std or size counts for all of them."""
    values = dict(settings)
    for key, count, dtype in (("size", 2, None), ("mean", channels, float), ("std", channels, float)):
        try:
            numbers = tuple(np.atleast_1d(np.asarray(settings[key], dtype)).tolist())
        except (TypeError, ValueError):
            raise ValueError(f"{key} is {settings[key]!r}: numbers are needed") from None
        values[key] = numbers * count if len(numbers) == 1 else numbers
    preprocessing = Preprocessing(**values)
    if len(preprocessing.mean) != channels:
        raise ValueError(
            f"mean and std have {len(preprocessing.mean)} numbers, and the network takes {channels} channels"
        )
    return preprocessing

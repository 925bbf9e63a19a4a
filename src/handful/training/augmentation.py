"""Random changes of pictures, a batch at a time, so that a network never sees the same picture twice.

Cropping, rotating and stretching a picture is one affine map, so one resampling does all of it. NumPy draws the random
numbers: they are the same on every device.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from handful.training.settings import DRAWINGS, PICTURES

TURN, SHEAR, STRETCH, SHIFT = 15.0, 10.0, 0.15, 0.1  # for drawings: degrees, degrees, and shares of the size
AREA, RATIO = (0.35, 1.0), (3 / 4, 4 / 3)  # of the window that is cut from a photo
JITTER = 0.4  # of its brightness, contrast and saturation


def augment(x: Tensor, how: str, rng: np.random.Generator) -> Tensor:
    """Return changed versions of pictures [n, C, H, W] with values 0..1; `how` is a value of `Settings.augment`."""
    n = len(x)
    if how == PICTURES:
        x = _warp(x, _windows(n, rng))
        return _coloured(x, rng) if x.shape[1] == 3 else x
    if how == DRAWINGS:
        return _warp(x, _bends(n, rng))
    return x


def turned(x: Tensor, quarters: np.ndarray) -> Tensor:
    """Rotate each picture of [n, C, H, W] by its own number of quarter turns."""
    out = torch.empty_like(x)
    for k in range(4):
        rows = torch.from_numpy(np.flatnonzero(quarters == k)).to(x.device)
        out[rows] = torch.rot90(x[rows], k, dims=(2, 3))
    return out


def _warp(x: Tensor, maps: np.ndarray) -> Tensor:
    """Resample with maps [n, 2, 3] from positions in the new picture to positions in the old one, both -1..1."""
    theta = torch.from_numpy(maps.astype(np.float32)).to(x.device)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def _bends(n: int, rng: np.random.Generator) -> np.ndarray:
    turn, shear = (np.deg2rad(rng.uniform(-limit, limit, n)) for limit in (TURN, SHEAR))
    wide, high = np.exp(rng.uniform(-STRETCH, STRETCH, (2, n)))
    maps = np.empty((n, 2, 3))
    maps[:, 0, 0], maps[:, 0, 1] = wide * np.cos(turn), -high * np.sin(turn + shear)
    maps[:, 1, 0], maps[:, 1, 1] = wide * np.sin(turn), high * np.cos(turn + shear)
    maps[:, :, 2] = rng.uniform(-2 * SHIFT, 2 * SHIFT, (n, 2))
    return maps


def _windows(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return maps that cut a window of random area and shape from each picture; half of them are mirrored."""
    area, ratio = rng.uniform(*AREA, n), np.exp(rng.uniform(np.log(RATIO[0]), np.log(RATIO[1]), n))
    wide, high = np.minimum(np.sqrt(area * ratio), 1), np.minimum(np.sqrt(area / ratio), 1)
    maps = np.zeros((n, 2, 3))
    maps[:, 0, 0] = wide * rng.choice([-1, 1], n)
    maps[:, 1, 1] = high
    maps[:, 0, 2], maps[:, 1, 2] = rng.uniform(-1, 1, n) * (1 - wide), rng.uniform(-1, 1, n) * (1 - high)
    return maps


def _coloured(x: Tensor, rng: np.random.Generator) -> Tensor:
    brightness, contrast, saturation = (
        torch.from_numpy(rng.uniform(1 - JITTER, 1 + JITTER, (len(x), 1, 1, 1)).astype(np.float32)).to(x.device)
        for _ in range(3)
    )
    x = (x * brightness).clamp(0, 1)
    grey = x.mean(dim=1, keepdim=True)  # [n, 1, H, W]
    x = (grey + (x - grey) * saturation).clamp(0, 1)
    middle = x.mean(dim=(1, 2, 3), keepdim=True)
    return (middle + (x - middle) * contrast).clamp(0, 1)

"""From the pictures of a data set to features, with the same steps as for a folder of pictures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

from handful.backbones.backbone import Backbone
from handful.features import FeatureTable
from handful.training.datasets.picture_set import PictureSet
from handful.utils.threads import available_threads

BATCH_SIZE = 64


def embed_set(
    pictures: PictureSet, backbone: Backbone, progress: Callable[[int, int], object] = lambda done, total: None
) -> FeatureTable:
    """Return the features of all pictures, with their classes and splits."""
    n = len(pictures)
    features = np.empty((n, backbone.dimension), np.float32)

    def ready(pixels: np.ndarray) -> np.ndarray:
        return backbone.prepare(Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]).convert("RGB"))

    progress(0, n)
    with ThreadPoolExecutor(available_threads(), thread_name_prefix="handful-pictures") as pool:
        for start in range(0, n, BATCH_SIZE):
            pixels = np.asarray(pictures.pixels[start : start + BATCH_SIZE])
            features[start : start + BATCH_SIZE] = backbone.embed(np.stack(list(pool.map(ready, pixels))))
            progress(min(start + BATCH_SIZE, n), n)
    return FeatureTable(features, pictures.labels, splits=pictures.splits, name=pictures.name)

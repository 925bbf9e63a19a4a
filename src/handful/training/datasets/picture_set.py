"""Pictures with their classes, each class in one split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from handful.backbones.folders import Skipped
from handful.features import FeatureTable
from handful.utils.threads import available_threads

if TYPE_CHECKING:
    from handful.backbones.backbone import Backbone

SPLITS = ("base", "val", "novel")
EMBEDDING_BATCH = 64


@dataclass(frozen=True, eq=False)
class PictureSet:
    """Pictures of one size. Networks learn from base classes; novel classes occur only in tasks.

    Parameters
    ----------
    name : str
        What messages call it.
    pixels : array [n, H, W, C] of uint8
        The pictures, with 1 or 3 channels; perhaps memory-mapped.
    labels : array [n] of str
        The names of their classes.
    splits : array [n] of str
        "base", "val" or "novel".
    skipped : sequence of Skipped
        Files that could not be read.
    interpolation, crop : str, float or None
        How the pictures were resized, as in `Preprocessing`. A network that learns from them needs other pictures
        prepared in the same way.
    """

    name: str
    pixels: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    skipped: Sequence[Skipped] = field(default=(), repr=False)
    interpolation: str = "bicubic"
    crop: float | None = None

    def __post_init__(self) -> None:
        shape = self.pixels.shape
        if self.pixels.dtype != np.uint8 or len(shape) != 4 or shape[3] not in (1, 3):
            needed = "uint8 [pictures, height, width, 1 or 3] is needed"
            raise ValueError(f"{self.name}: pixels are {self.pixels.dtype} of shape {shape}: {needed}")
        if not len(self.labels) == len(self.splits) == shape[0]:
            counts = f"{shape[0]} pictures, {len(self.labels)} labels and {len(self.splits)} splits"
            raise ValueError(f"{self.name}: {counts}: one of each is needed for each picture")
        split_of: dict[str, str] = {}
        for name, split in sorted(set(zip(self.labels.tolist(), self.splits.tolist(), strict=True))):
            if split not in SPLITS:
                raise ValueError(f"{self.name}: there is no split {split!r}: choose from {', '.join(SPLITS)}")
            if split_of.setdefault(name, split) != split:
                raise ValueError(
                    f"{self.name}: class {name!r} is in the splits {split_of[name]} and {split}: "
                    "a class belongs to one, or novel classes would not be new"
                )

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def classes(self) -> list[str]:
        """Names of the classes, sorted."""
        return [str(name) for name in np.unique(self.labels)]

    def select(self, split: str) -> PictureSet:
        """Return the pictures of one split, without a copy if their rows are together.

        Parameters
        ----------
        split : str
            The split.
        """
        rows = np.flatnonzero(self.splits == split)
        if not len(rows):
            available = [name for name in SPLITS if name in self.splits]
            raise ValueError(f"{self.name} has no split {split!r}: there is {', '.join(available) or 'none'}")
        are_together = rows[-1] - rows[0] + 1 == len(rows)
        return self.take(slice(int(rows[0]), int(rows[-1]) + 1) if are_together else rows)

    def take(self, rows: np.ndarray | slice) -> PictureSet:
        """Return the pictures of these rows, in this order.

        Parameters
        ----------
        rows : array of int, or slice
            Their places.
        """
        return replace(self, pixels=self.pixels[rows], labels=self.labels[rows], splits=self.splits[rows], skipped=())

    def describe(self) -> dict[str, Any]:
        """Return counts and sizes as plain data."""
        splits = {}
        for split in SPLITS:
            counts = np.unique(self.labels[self.splits == split], return_counts=True)[1]
            if len(counts):
                splits[split] = {
                    "classes": len(counts),
                    "pictures": int(counts.sum()),
                    "pictures_per_class": [int(counts.min()), int(counts.max())],
                }
        return {
            "name": self.name, "pictures": len(self), "classes": len(self.classes), "splits": splits,
            "size": list(self.pixels.shape[1:3]), "channels": self.pixels.shape[3], "skipped": len(self.skipped),
        }  # fmt: skip


def embed_set(
    pictures: PictureSet, backbone: Backbone, progress: Callable[[int, int], object] = lambda done, total: None
) -> FeatureTable:
    """Return the features of all pictures, with their classes and splits, by the same steps as for a folder."""
    n = len(pictures)
    features = np.empty((n, backbone.dimension), np.float32)

    def ready(pixels: np.ndarray) -> np.ndarray:
        return backbone.prepare(Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]).convert("RGB"))

    progress(0, n)
    with ThreadPoolExecutor(available_threads(), thread_name_prefix="handful-pictures") as pool:
        for start in range(0, n, EMBEDDING_BATCH):
            rows = slice(start, start + EMBEDDING_BATCH)
            features[rows] = backbone.embed(np.stack(list(pool.map(ready, pictures.pixels[rows]))))
            progress(min(rows.stop, n), n)
    return FeatureTable(features, pictures.labels, splits=pictures.splits, name=pictures.name)

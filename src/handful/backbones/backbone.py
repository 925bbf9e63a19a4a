"""The base classes of all backbones, for pictures and for texts, and a function of the user as a backbone."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.backbones.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image


class Backbone(ABC):
    """Turns pictures into features in two steps: `prepare` can run in many threads, `embed` runs on batches."""

    kind = "pictures"
    name: str
    dimension: int
    preprocessing: Preprocessing
    fingerprint: str  # hex; changes whenever weights or preprocessing would change features
    device = "cpu"  # where it runs; it does not change the features
    base: Path | None = None  # the base file that belongs to this backbone, if it has one

    @property
    def input_size(self) -> tuple[int, int]:
        """Height and width of a prepared picture. Decoding to a much larger size is wasted work."""
        return self.preprocessing.size

    @property
    def _input_shape(self) -> tuple[int, ...]:
        return (len(self.preprocessing.mean), *self.input_size)

    def prepare(self, image: Image) -> np.ndarray:
        """Return an upright RGB picture as float32 [C, H, W]. Safe to call in threads.

        Parameters
        ----------
        image : PIL.Image.Image
            An upright picture in RGB.

        Returns
        -------
        array [C, H, W]
        """
        return self.preprocessing(image)

    def embed(self, batch: np.ndarray) -> np.ndarray:
        """Return the features, float32 [n, D], of prepared pictures, float32 [n, C, H, W].

        Parameters
        ----------
        batch : array [n, C, H, W]
            Prepared pictures.

        Returns
        -------
        array [n, D]
        """
        batch = np.asarray(batch, np.float32)
        if batch.shape[1:] != self._input_shape:
            shape = ", ".join(map(str, self._input_shape))
            raise ValueError(
                f"a batch has shape {batch.shape}, and the backbone {self.name} takes [n, {shape}]: "
                "stack the arrays that `prepare` returns"
            )
        if not len(batch):
            return np.empty((0, self.dimension), np.float32)
        return self._embed(batch)

    @abstractmethod
    def _embed(self, batch: np.ndarray) -> np.ndarray: ...


class TextBackbone(ABC):
    """Turns texts into features.

    A text that is longer than the network can read is cut into pieces, and the features of its pieces are averaged.
    """

    kind = "texts"
    name: str
    dimension: int
    fingerprint: str  # hex; changes whenever the same text would get other features; "" if that is not known
    base: Path | None = None

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return the features, float32 [n, D], of n texts.

        Parameters
        ----------
        texts : sequence of str
            The texts.

        Returns
        -------
        array [n, D]
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError("texts must be a list of strings")
        if not len(texts):
            return np.empty((0, self.dimension), np.float32)
        return self._embed(list(texts))

    def count_pieces(self, texts: Sequence[str]) -> np.ndarray:
        """Return into how many pieces each text is cut [n]; 1 where the network reads it whole.

        Parameters
        ----------
        texts : sequence of str
            The texts.

        Returns
        -------
        array [n] of int
        """
        return np.ones(len(texts), int)

    @abstractmethod
    def _embed(self, texts: list[str]) -> np.ndarray: ...


class FunctionBackbone(TextBackbone):
    """The user's own function from a list of texts to an array [n, D]. Its features are not kept in the cache."""

    fingerprint = ""

    def __init__(self, function: Callable[[list[str]], Any]) -> None:
        self._function, self.dimension = function, 0
        self.name = getattr(function, "__qualname__", type(function).__qualname__)
        self.dimension = self._embed(["A short text."]).shape[1]

    def _embed(self, texts: list[str]) -> np.ndarray:
        rows = np.asarray(self._function(texts), np.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1] or self.dimension not in (0, rows.shape[1]):
            raise ValueError(
                f"the backbone {self.name} gave an array of shape {rows.shape} for {len(texts)} texts: "
                "a row of features for each text is needed, of the same length for all"
            )
        return rows


def fingerprint(*parts: str) -> str:
    """Return one hex string for everything that determines the features of a backbone."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def pooled(features: np.ndarray, what: str) -> np.ndarray:
    """Return the output of a network as features: [n, D] unchanged, a map [n, D, H, W] averaged over H and W."""
    if features.ndim == 4:
        features = features.mean(axis=(2, 3), dtype=np.float32)
    if features.ndim != 2 or not features.shape[1]:
        raise ValueError(
            f"{what} gives an array of shape {features.shape}: features [n, D] or a map [n, D, H, W] are needed"
        )
    return features.astype(np.float32, copy=False)


def ramp(shape: tuple[int, ...]) -> np.ndarray:
    """Return one prepared picture [1, *shape] on which devices are compared: zeros would hide differences."""
    return np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(1, *shape)


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Return rows of length 1; rows of zeros stay zeros."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return (x / np.where(length == 0, 1, length)).astype(np.float32, copy=False)

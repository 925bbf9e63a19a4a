"""The base class of backbones for texts, and how long texts are cut into pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

MAX_PIECES = 64  # of one text: of a longer one, as many as this, spread evenly over it


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


class TokenBackbone(TextBackbone):
    """A backbone that reads tokens: texts become pieces of tokens, and pieces of the same length form a batch.

    Nothing is padded, so the features of a text do not depend on the texts beside it.
    """

    batch_tokens = 1024  # in a batch

    @abstractmethod
    def pieces(self, text: str) -> Sequence[Sequence[int]]:
        """Return the numbers of a text's tokens, ready for the network: one list for each piece, at least one."""

    @abstractmethod
    def embed_tokens(self, tokens: np.ndarray) -> np.ndarray:
        """Return the features, float32 [n, D] of length 1, of n pieces of the same length, int64 [n, length]."""

    def run_batches(self, work: Callable[[np.ndarray], Any], batches: Sequence[np.ndarray]) -> None:
        """Call `work` for each batch."""
        for batch in batches:
            work(batch)

    def count_pieces(self, texts: Sequence[str]) -> np.ndarray:
        """Return into how many pieces each text is cut [n]."""
        return np.array([len(self.pieces(text)) for text in texts], int)

    def _embed(self, texts: list[str]) -> np.ndarray:
        pieces: list[Sequence[int]] = []
        owners: list[int] = []
        for row, text in enumerate(texts):
            own = self.pieces(text)
            pieces += own
            owners += [row] * len(own)
        lengths = np.array([len(piece) for piece in pieces])
        vectors = np.empty((len(pieces), self.dimension), np.float32)

        def work(batch: np.ndarray) -> None:
            vectors[batch] = self.embed_tokens(np.array([pieces[i] for i in batch], np.int64))

        batches: list[np.ndarray] = []
        for length in np.unique(lengths)[::-1]:
            same, step = np.flatnonzero(lengths == length), max(1, self.batch_tokens // int(length))
            batches += [same[i : i + step] for i in range(0, len(same), step)]
        self.run_batches(work, batches)
        sums = np.zeros((len(texts), self.dimension), np.float32)
        np.add.at(sums, np.array(owners), vectors * lengths[:, None].astype(np.float32))
        return unit_rows(sums)


class FunctionBackbone(TextBackbone):
    """The user's own function from a list of texts to an array [n, D]. Its features are not kept in the cache."""

    fingerprint = ""

    def __init__(self, function: Callable[[list[str]], Any]) -> None:
        self._function = function
        self.name = getattr(function, "__qualname__", type(function).__qualname__)
        self.dimension = self._rows(["A short text."]).shape[1]

    def _embed(self, texts: list[str]) -> np.ndarray:
        rows = self._rows(texts)
        if rows.shape[1] != self.dimension:
            raise ValueError(
                f"the backbone {self.name} gave {rows.shape[1]} features, and {self.dimension} for a text before"
            )
        return rows

    def _rows(self, texts: list[str]) -> np.ndarray:
        rows = np.asarray(self._function(texts), np.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
            raise ValueError(
                f"the backbone {self.name} gave an array of shape {rows.shape} for {len(texts)} texts: "
                "a row of features for each text is needed"
            )
        return rows


def spread(pieces: Sequence[Any]) -> list[Any]:
    """Return the pieces; of more than `MAX_PIECES` as many as that, spread evenly.

    >>> len(spread(range(10))), spread(range(6400))[:3]
    (10, [0, 101, 203])
    """
    if len(pieces) <= MAX_PIECES:
        return list(pieces)
    return [pieces[i] for i in np.linspace(0, len(pieces) - 1, MAX_PIECES).astype(int)]


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Return rows of length 1; rows of zeros stay zeros."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return (x / np.where(length == 0, 1, length)).astype(np.float32, copy=False)

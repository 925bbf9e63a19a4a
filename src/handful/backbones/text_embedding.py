"""From texts to features; known features come from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from handful.backbones.backbone import TextBackbone
from handful.backbones.cache import FeatureCache, content_hash
from handful.features import FeatureTable
from handful.utils.text import shortened

TEXTS_PER_BLOCK = 512  # the features of a block are stored when all its texts are embedded


def embed_texts(
    texts: Iterable[str],
    backbone: TextBackbone,
    *,
    cache: bool | FeatureCache = True,
    batch: int = TEXTS_PER_BLOCK,
    progress: Callable[[int, int], object] | None = None,
) -> FeatureTable:
    """Embed texts with a backbone.

    Each finished block is stored in the cache at once, so an interrupted run continues where it stopped. Equal texts
    are embedded once.

    Parameters
    ----------
    texts : iterable of str
        The texts.
    backbone : TextBackbone
        As `load_backbone` returns it for texts.
    cache : bool or FeatureCache
        True: the user's cache. False: no cache.
    batch : int
        Texts that are given to the backbone at once.
    progress : callable, optional
        Called with the number of finished texts and the number of all texts.

    Returns
    -------
    FeatureTable
        A row for each text, with the text and its content hash.

    Examples
    --------
    >>> def letters(texts):
    ...     return [[text.count(letter) for letter in "aeiou"] for text in texts]
    >>> from handful.backbones import load_backbone
    >>> embed_texts(["a hen", "an owl"], load_backbone(letters)).features
    array([[1., 1., 0., 0., 0.],
           [1., 0., 0., 1., 0.]], dtype=float32)
    """
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise ValueError(f"batch={batch!r} must be a whole number from 1")
    if isinstance(texts, str):
        raise TypeError("texts is a single text: give a list of texts")
    texts = list(texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {row} is a {type(text).__name__}: texts are strings")
    store = cache if isinstance(cache, FeatureCache) else FeatureCache() if cache and backbone.fingerprint else None
    try:
        return _embed(texts, backbone, store if backbone.fingerprint else None, batch, progress)
    finally:
        if store is not None and store is not cache:
            store.close()


def _embed(
    texts: list[str],
    backbone: TextBackbone,
    store: FeatureCache | None,
    batch: int,
    progress: Callable[[int, int], object] | None,
) -> FeatureTable:
    hashes = [content_hash(text.encode("utf-8", "surrogatepass")) for text in texts]
    rows: dict[str, list[int]] = {}
    for row, content in enumerate(hashes):
        rows.setdefault(content, []).append(row)
    features = np.empty((len(texts), backbone.dimension), np.float32)
    todo, done = dict(rows), 0
    for content, vector in (store.get(rows, backbone.fingerprint) if store is not None else {}).items():
        if len(vector) == backbone.dimension:
            features[rows[content]] = vector
            done += len(todo.pop(content))
    cached = done
    if progress is not None:
        progress(done, len(texts))
    by_length = sorted(todo, key=lambda content: len(texts[todo[content][0]]))  # a block has texts of similar length
    for start in range(0, len(by_length), batch):
        block = by_length[start : start + batch]
        vectors = np.asarray(backbone.embed([texts[todo[content][0]] for content in block]), np.float32)
        _check(vectors, [texts[todo[content][0]] for content in block], backbone)
        for content, vector in zip(block, vectors, strict=True):
            features[todo[content]] = vector
            done += len(todo[content])
        if store is not None:
            store.put(dict(zip(block, vectors, strict=True)), backbone.fingerprint)
        if progress is not None:
            progress(done, len(texts))
    source = {"backbone": backbone.name, "backbone_fingerprint": backbone.fingerprint, "cached": cached}
    return FeatureTable(features, hashes=hashes, texts=texts, source=source)


def _check(vectors: np.ndarray, texts: list[str], backbone: TextBackbone) -> None:
    if vectors.shape != (len(texts), backbone.dimension):
        raise ValueError(
            f"backbone {backbone.name} gave features of shape {vectors.shape} for {len(texts)} texts, "
            f"not {(len(texts), backbone.dimension)}: its `dimension` or `embed` is wrong"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        text = texts[int(np.argmin(finite))]
        raise ValueError(f"backbone {backbone.name} gave features that are not finite for {shortened(text)!r}")

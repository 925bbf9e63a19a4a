"""From pictures and texts to features; known features come from the cache, and equal items are embedded once.

Each finished batch is stored in the cache at once, so an interrupted run continues where it stopped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from handful.backbones.backbone import Backbone, TextBackbone
from handful.backbones.cache import FeatureCache, content_hash
from handful.backbones.folders import Opener, Skipped
from handful.backbones.pictures import BadPicture, decode, read
from handful.features import FeatureTable
from handful.utils.text import shortened
from handful.utils.threads import available_threads

LOADING_VERSION = 2  # raise it when loading gives other pixels for the same file: cached features are wrong then
# times the input size: 12-megapixel JPEGs are decoded at 1/4, and their features keep a cosine of 0.999
DECODE_SCALE = 2
MAX_THREADS = 8  # by default: each may hold a picture of 360 MB
TEXTS_PER_BLOCK = 512

Progress = Callable[[int, int], object]


def embed_pictures(
    paths: Iterable[str | os.PathLike[str]],
    backbone: Backbone,
    *,
    cache: bool | FeatureCache = True,
    batch: int = 32,
    threads: int | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    opener: Opener | None = None,
) -> FeatureTable:
    """Embed pictures with a backbone. Threads decode pictures while the backbone runs.

    Parameters
    ----------
    paths : iterable of path
        The pictures.
    backbone : Backbone
        The network, as `load_backbone` returns it.
    cache : bool or FeatureCache
        True: the user's cache. False: no cache.
    batch : int
        Pictures that go through the backbone at once.
    threads : int, optional
        Threads that decode pictures. None: one for each core, at most 8.
    strict : bool
        Whether to raise the first picture that cannot be used as `BadPicture`. Otherwise such pictures are skipped.
    progress : callable, optional
        Called with the number of finished pictures and the number of all pictures.
    opener : callable, optional
        As in `open_picture`.

    Returns
    -------
    FeatureTable
        A row for each picture that could be used, with its path and content hash, and the skipped pictures.
    """
    _check_count("batch", batch)
    _check_count("threads", 1 if threads is None else threads)
    if isinstance(paths, str | bytes | os.PathLike):
        raise TypeError(
            f"paths is a single path, {paths!r}: give a list of paths, such as find_pictures returns for a folder"
        )
    names = [os.fsdecode(path) for path in paths]
    features = _Features(backbone, cache, f"{backbone.fingerprint}-{LOADING_VERSION}", "pictures")
    hashes: dict[str, str] = {}  # by path: the content hash
    bad: dict[str, str] = {}  # by path or by content hash: why it cannot be used
    if features.cache is not None:
        hashes = features.cache.known(names, opener)
        features.fetch(hashes.values())

    def is_done(path: str) -> bool:
        return hashes.get(path) in features.vectors

    def look(path: str) -> tuple[os.stat_result, str, np.ndarray | None]:
        """Read a picture and prepare it, unless its features are known. Runs in a thread."""
        data, status = read(path, opener)
        content = content_hash(data)
        features.fetch([content])  # quick, compared with decoding
        if content in features.vectors:
            return status, content, None
        return status, content, backbone.prepare(decode(data, path, at_least=DECODE_SCALE * max(backbone.input_size)))

    def settle(block: list[tuple[str, Future[Any]]]) -> None:
        """Embed what is new in a block of pictures, in order: batches do not depend on which thread was first."""
        files: list[tuple[str, os.stat_result, str]] = []
        fresh: dict[str, tuple[str, np.ndarray]] = {}  # by content hash: path and input
        for path, future in block:
            try:
                status, hashes[path], prepared = future.result()
            except BadPicture as error:
                if strict:
                    raise
                hashes.pop(path, None)
                bad[path] = error.reason
                continue
            files.append((path, status, hashes[path]))
            if prepared is not None and not is_done(path):
                fresh.setdefault(hashes[path], (path, prepared))
        if fresh:
            for content in features.compute(list(fresh), np.stack([prepared for _, prepared in fresh.values()])):
                bad[content] = f"has features that are not finite with backbone {backbone.name}: leave it out"
                if strict:
                    raise BadPicture(fresh[content][0], bad[content])
        if features.cache is not None:
            features.cache.remember(files)

    todo = [name for name in dict.fromkeys(names) if not is_done(name)]
    counts, report = Counter(names), progress or (lambda done, total: None)
    done = len(names) - sum(counts[name] for name in todo)
    report(done, len(names))
    pool = ThreadPoolExecutor(threads or min(available_threads(), MAX_THREADS), thread_name_prefix="handful-pictures")
    try:
        looks: list[tuple[str, Future[Any]]] = []  # the next batch: it is prepared while this one is embedded
        for start in range(0, len(todo) + batch, batch):
            block, looks = looks, [(path, pool.submit(look, path)) for path in todo[start : start + batch]]
            if block:
                settle(block)
                done += sum(counts[path] for path, _ in block)
                report(done, len(names))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    good = [name for name in names if is_done(name)]
    skipped = [Skipped(name, bad.get(name) or bad[hashes[name]]) for name in names if not is_done(name)]
    return features.table([hashes[name] for name in good], paths=good, skipped=skipped)


def embed_texts(
    texts: Iterable[str],
    backbone: TextBackbone,
    *,
    cache: bool | FeatureCache = True,
    batch: int = TEXTS_PER_BLOCK,
    progress: Progress | None = None,
) -> FeatureTable:
    """Embed texts with a backbone.

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
    _check_count("batch", batch)
    if isinstance(texts, str):
        raise TypeError("texts is a single text: give a list of texts")
    texts = list(texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {row} is a {type(text).__name__}: texts are strings")
    hashes = [content_hash(text.encode("utf-8", "surrogatepass")) for text in texts]
    by_hash, counts = dict(zip(hashes, texts, strict=True)), Counter(hashes)
    report = progress or (lambda done, total: None)
    features = _Features(backbone, cache, backbone.fingerprint, "texts")
    features.fetch(by_hash)
    done = sum(counts[content] for content in features.vectors)
    report(done, len(texts))
    todo = [content for content in by_hash if content not in features.vectors]
    todo.sort(key=lambda content: len(by_hash[content]))  # a batch has texts of similar length
    for start in range(0, len(todo), batch):
        block = todo[start : start + batch]
        for content in features.compute(block, [by_hash[content] for content in block]):
            what = shortened(by_hash[content])
            raise ValueError(f"backbone {backbone.name} gave features that are not finite for {what!r}")
        done += sum(counts[content] for content in block)
        report(done, len(texts))
    return features.table(hashes, texts=texts)


class _Features:
    """Features by content hash: those of the cache, and those that are computed in this call."""

    def __init__(self, backbone: Any, cache: bool | FeatureCache, key: str, noun: str) -> None:
        self.backbone, self.key, self.noun = backbone, key, noun
        self.cache: FeatureCache | None = None
        if cache is not False and backbone.fingerprint:  # without a fingerprint nobody knows what would be found
            self.cache = FeatureCache() if cache is True else cache
        self.vectors: dict[str, np.ndarray] = {}
        self.computed: set[str] = set()

    def fetch(self, contents: Iterable[str]) -> None:
        """Take what the cache has of these contents. Safe to call in threads."""
        missing = [content for content in contents if content not in self.vectors]
        vectors = {} if self.cache is None else self.cache.get(missing, self.key)
        self.vectors.update({key: vector for key, vector in vectors.items() if len(vector) == self.backbone.dimension})

    def compute(self, contents: Sequence[str], inputs: Any) -> list[str]:
        """Embed and store a batch. Return the contents whose features are not finite; they are not kept."""
        vectors = np.asarray(self.backbone.embed(inputs), np.float32)
        if vectors.shape != (len(contents), self.backbone.dimension):
            raise ValueError(
                f"backbone {self.backbone.name} gave features of shape {vectors.shape} for {len(contents)} "
                f"{self.noun}, not {(len(contents), self.backbone.dimension)}: its `dimension` or `embed` is wrong"
            )
        finite = np.asarray(np.isfinite(vectors).all(axis=1))
        fresh = {content: vectors[i] for i, content in enumerate(contents) if finite[i]}
        self.computed.update(fresh)
        self.vectors.update(fresh)
        if self.cache is not None:
            self.cache.put(fresh, self.key)
        return [content for i, content in enumerate(contents) if not finite[i]]

    def table(self, hashes: Sequence[str], **more: Any) -> FeatureTable:
        """Return the features of these contents, in order."""
        rows = np.empty((len(hashes), self.backbone.dimension), np.float32)
        for row, content in enumerate(hashes):
            rows[row] = self.vectors[content]
        source = {
            "backbone": self.backbone.name,
            "backbone_fingerprint": self.backbone.fingerprint,
            "cached": sum(content not in self.computed for content in hashes),
        }
        if self.noun == "pictures":
            source["device"] = getattr(self.backbone, "device", "cpu")
        return FeatureTable(rows, hashes=hashes, source=source, **more)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number from 1")

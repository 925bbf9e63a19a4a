"""From pictures and texts to features; known features come from the cache, and equal items are embedded once.

Each finished batch is stored in the cache at once, so an interrupted run continues where it stopped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

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
    run = _Pictures(features, strict, opener)
    run.find_known(names)
    todo = [name for name in dict.fromkeys(names) if run.hashes.get(name) not in features.vectors]
    counts, report = Counter(names), progress or _silent
    done = len(names) - sum(counts[name] for name in todo)
    report(done, len(names))
    pool = ThreadPoolExecutor(threads or min(available_threads(), MAX_THREADS), thread_name_prefix="handful-pictures")
    try:
        looked: list[tuple[str, Future[_Lookup]]] = []  # the next batch: it is prepared while this one is embedded
        for start in range(0, len(todo) + batch, batch):
            block, looked = looked, [(path, pool.submit(run.look, path)) for path in todo[start : start + batch]]
            if block:
                run.settle(block)
                done += sum(counts[path] for path, _ in block)
                report(done, len(names))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    good = [name for name in names if run.hashes.get(name) in features.vectors]
    hashes = [run.hashes[name] for name in good]
    skipped = [Skipped(name, run.reason(name)) for name in names if run.hashes.get(name) not in features.vectors]
    source = features.source(hashes) | {"device": getattr(backbone, "device", "cpu")}
    return FeatureTable(features.rows(hashes), paths=good, hashes=hashes, skipped=skipped, source=source)


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
    report = progress or _silent
    features = _Features(backbone, cache, backbone.fingerprint, "texts")
    features.take(features.stored(by_hash))
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
    return FeatureTable(features.rows(hashes), hashes=hashes, texts=texts, source=features.source(hashes))


class _Features:
    """Features by content hash: those of the cache, and those that are computed in this call."""

    def __init__(self, backbone: Any, cache: bool | FeatureCache, key: str, noun: str) -> None:
        self.backbone, self.key, self.noun = backbone, key, noun
        self.cache: FeatureCache | None = None
        if cache is not False and backbone.fingerprint:  # without a fingerprint nobody knows what would be found
            self.cache = FeatureCache() if cache is True else cache
        self.vectors: dict[str, np.ndarray] = {}
        self.cached: set[str] = set()

    def stored(self, contents: Iterable[str]) -> dict[str, np.ndarray]:
        """Return what the cache has of these contents. Safe to call in threads."""
        vectors = {} if self.cache is None else self.cache.get(contents, self.key)
        return {content: vector for content, vector in vectors.items() if len(vector) == self.backbone.dimension}

    def take(self, vectors: dict[str, np.ndarray]) -> None:
        self.vectors.update(vectors)
        self.cached.update(vectors)

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
        self.vectors.update(fresh)
        if self.cache is not None:
            self.cache.put(fresh, self.key)
        return [content for i, content in enumerate(contents) if not finite[i]]

    def rows(self, hashes: Sequence[str]) -> np.ndarray:
        features = np.empty((len(hashes), self.backbone.dimension), np.float32)
        for row, content in enumerate(hashes):
            features[row] = self.vectors[content]
        return features

    def source(self, hashes: Sequence[str]) -> dict[str, Any]:
        return {
            "backbone": self.backbone.name,
            "backbone_fingerprint": self.backbone.fingerprint,
            "cached": sum(content in self.cached for content in hashes),
        }


class _Lookup(NamedTuple):
    """What a thread found out about one picture. If its content is known already, `vector` and `input` are None."""

    status: os.stat_result
    hash: str
    vector: np.ndarray | None = None  # from the cache
    input: np.ndarray | None = None  # for the backbone


class _Pictures:
    """The pictures of one call of `embed_pictures`.

    Threads only read and prepare pictures. Everything else happens in the caller's thread, picture by picture in order.
    So the batches, and the last bits of the features, do not depend on which thread was first.
    """

    def __init__(self, features: _Features, strict: bool, opener: Opener | None) -> None:
        self.features, self.strict, self.opener = features, strict, opener
        self.hashes: dict[str, str] = {}  # by path: the content hash
        self.bad: dict[str, str] = {}  # by path or by content hash: why it cannot be used

    def find_known(self, paths: list[str]) -> None:
        """Look up files that have not changed since an earlier call."""
        if self.features.cache is not None:
            self.hashes = self.features.cache.known(paths, os.stat if self.opener is None else self._status)
            self.features.take(self.features.stored(self.hashes.values()))

    def _status(self, path: str) -> os.stat_result:
        assert self.opener is not None
        descriptor = self.opener(path)
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def look(self, path: str) -> _Lookup:
        """Read a picture and prepare it, unless its content is known. Runs in a thread: it must not change `self`."""
        data, status = read(path, self.opener)
        content, backbone = content_hash(data), self.features.backbone
        if content in self.features.vectors:
            return _Lookup(status, content)
        if stored := self.features.stored([content]):  # quick, compared with decoding
            return _Lookup(status, content, vector=stored[content])
        image = decode(data, path, at_least=DECODE_SCALE * max(backbone.input_size))
        try:
            return _Lookup(status, content, input=backbone.prepare(image))
        except MemoryError:
            raise BadPicture(path, "does not fit into memory: make it smaller") from None

    def settle(self, block: list[tuple[str, Future[_Lookup]]]) -> None:
        """Embed what is new in a block of pictures, and store what was found out."""
        files: list[tuple[str, os.stat_result, str]] = []
        fresh: dict[str, tuple[str, np.ndarray]] = {}  # by content hash: path and input
        for path, future in block:
            try:
                lookup = future.result()
            except BadPicture as error:
                if self.strict:
                    raise
                self.hashes.pop(path, None)
                self.bad[path] = error.reason
                continue
            self.hashes[path] = lookup.hash
            files.append((path, lookup.status, lookup.hash))
            if lookup.vector is not None:
                self.features.take({lookup.hash: lookup.vector})
            elif lookup.input is not None and lookup.hash not in self.features.vectors:
                fresh.setdefault(lookup.hash, (path, lookup.input))
        if fresh:
            self._embed(fresh)
        if self.features.cache is not None:
            self.features.cache.remember(files)

    def _embed(self, fresh: dict[str, tuple[str, np.ndarray]]) -> None:
        for content in self.features.compute(list(fresh), np.stack([prepared for _, prepared in fresh.values()])):
            self.bad[content] = (
                f"has features that are not finite with backbone {self.features.backbone.name}: leave it out"
            )
            if self.strict:
                raise BadPicture(fresh[content][0], self.bad[content])

    def reason(self, path: str) -> str:
        """Why a picture cannot be used."""
        return self.bad[path] if path in self.bad else self.bad[self.hashes[path]]


def _silent(done: int, total: int) -> None: ...


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number from 1")

"""From pictures to features. Threads decode pictures while the backbone runs; known features come from the cache."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from handful.backbones.cache import FeatureCache, content_hash
from handful.backbones.folders import Skipped
from handful.backbones.pictures import BadPicture, Opener, decode, open_picture, read, status_of
from handful.features import FeatureTable

if TYPE_CHECKING:
    from handful.backbones.backbone import Backbone

LOADING_VERSION = 2  # raise it when loading gives other pixels for the same file: cached features are wrong then
VERSION_OF_OTHERS = 1  # of files that are not JPEG by their names: the second version reads large JPEG files otherwise
JPEG_NAMES = (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo")
DECODE_SCALE = (
    2  # times the input size: 12-megapixel JPEGs are decoded at 1/4, and their features keep a cosine of 0.999
)
MAX_THREADS = 8  # by default: each may hold a picture of 360 MB


def embed_pictures(
    paths: Iterable[str | os.PathLike[str]],
    backbone: Backbone,
    *,
    cache: bool | FeatureCache = True,
    batch: int = 32,
    threads: int | None = None,
    strict: bool = False,
    progress: Callable[[int, int], object] | None = None,
    opener: Opener | None = None,
) -> FeatureTable:
    """Embed pictures with a backbone.

    Each finished batch is stored in the cache at once, so an interrupted run continues where it stopped. Pictures with
    the same content are embedded once.

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
    for name, value in (("batch", batch), ("threads", threads)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name}={value!r} must be a whole number from 1")
    if isinstance(paths, str | bytes | os.PathLike):
        raise TypeError(
            f"paths is a single path, {paths!r}: give a list of paths, such as find_pictures returns for a folder"
        )
    store = cache if isinstance(cache, FeatureCache) else FeatureCache() if cache else None
    run = _Run([os.fsdecode(path) for path in paths], backbone, store, batch, strict, progress, opener)
    try:
        run.embed(_cores() if threads is None else threads)
    finally:
        run.remember()
        if store is not None and store is not cache:
            store.close()
    return run.result()


def thumbnail(picture: str | os.PathLike[str] | bytes, size: int = 160, *, opener: Opener | None = None) -> bytes:
    """Return a picture as a small JPEG without metadata.

    Parameters
    ----------
    picture : path or bytes
        The path of the file, or its content.
    size : int
        No side is longer than this, in pixels.
    opener : callable, optional
        As in `open_picture`.

    Returns
    -------
    bytes
        The content of a JPEG file.
    """
    image = open_picture(picture, at_least=2 * size, opener=opener)
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80, optimize=True)
    return file.getvalue()


class _Lookup(NamedTuple):
    """What a thread found out about one picture. If its content is known already, `vector` and `input` are None."""

    status: os.stat_result
    hash: str
    vector: np.ndarray | None  # from the cache
    input: np.ndarray | None  # for the backbone


class _Waiting(NamedTuple):
    """A picture that waits for its batch to fill."""

    path: str
    input: np.ndarray


class _Run:
    """One call of `embed_pictures`.

    Threads only read and prepare pictures. Everything else happens in the caller's thread, picture by picture in order.
    So the batches, and the last bits of the features, do not depend on which thread was first.
    """

    def __init__(
        self,
        paths: list[str],
        backbone: Backbone,
        store: FeatureCache | None,
        batch: int,
        strict: bool,
        progress: Callable[[int, int], object] | None,
        opener: Opener | None,
    ) -> None:
        self.paths, self.backbone, self.store, self.batch, self.strict = paths, backbone, store, batch, strict
        self.progress = progress or (lambda done, total: None)
        self.opener = opener
        self.vectors: dict[str, np.ndarray] = {}  # by content hash, as all below
        self.waiting: dict[str, _Waiting] = {}
        self.cached: set[str] = set()
        self.hashes: list[str | None] = [None] * len(paths)
        self.bad: dict[int, str] = {}  # row -> reason
        self.useless: dict[str, str] = {}  # content hash -> reason
        self.read: list[tuple[str, os.stat_result, str]] = []  # not yet stored in the cache

    def embed(self, threads: int) -> None:
        if self.store is not None:
            opener = self.opener
            stored_hashes = self.store.known(
                self.paths, None if opener is None else lambda path: status_of(path, opener)
            )
            self.hashes = [stored_hashes.get(path) for path in self.paths]
            by_key: dict[str, list[str]] = {}
            for path, content in stored_hashes.items():
                by_key.setdefault(self._key(path), []).append(content)
            for key, contents in by_key.items():
                self._take(self.store.get(contents, key))
        todo = [i for i, content in enumerate(self.hashes) if content not in self.vectors]
        done = reported = len(self.paths) - len(todo)
        self.progress(done, len(self.paths))
        pool = ThreadPoolExecutor(threads, thread_name_prefix="handful-pictures")
        try:
            upcoming = iter(todo)
            # Only so many pictures are prepared ahead: enough for the next batch while one is embedded.
            lookups: deque[tuple[int, Future[_Lookup]]] = deque()
            for count, index in enumerate(todo, start=1):
                for i in islice(upcoming, self.batch + threads - len(lookups)):
                    lookups.append((i, pool.submit(self._look, i)))
                self._settle(index, lookups.popleft()[1])
                if len(self.waiting) == self.batch or count == len(todo):
                    self._embed_waiting()
                if (settled := done + count - len(self.waiting)) > reported:
                    reported = settled
                    self.progress(settled, len(self.paths))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _look(self, index: int) -> _Lookup:
        """Read a picture and prepare it, unless its content is known. Runs in a thread: it must not change `self`."""
        path = self.paths[index]
        data, status = read(path, self.opener)
        content = content_hash(data)
        if content in self.vectors or content in self.waiting:
            return _Lookup(status, content, None, None)
        if self.store is not None and content != self.hashes[index]:  # the others were looked up together
            cached = self.store.get([content], self._key(path)).get(content)  # quick, compared with reading
            if self._fits(cached):
                return _Lookup(status, content, cached, None)
        image = decode(data, path, at_least=DECODE_SCALE * max(self.backbone.input_size))
        try:
            return _Lookup(status, content, None, self.backbone.prepare(image))
        except MemoryError:
            raise BadPicture(path, "does not fit into memory: make it smaller") from None

    def _settle(self, index: int, future: Future[_Lookup]) -> None:
        try:
            lookup = future.result()
        except BadPicture as error:
            if self.strict:
                raise
            self.hashes[index], self.bad[index] = None, error.reason
            return
        path, content = self.paths[index], lookup.hash
        self.hashes[index] = content
        self.read.append((path, lookup.status, content))
        if lookup.vector is not None:
            self._take({content: lookup.vector})
        elif lookup.input is not None and content not in self.vectors and content not in self.waiting:
            self.waiting[content] = _Waiting(path, lookup.input)
        if len(self.read) >= 1000:
            self.remember()

    def _embed_waiting(self) -> None:
        if not self.waiting:
            return
        inputs = np.stack([waiting.input for waiting in self.waiting.values()])
        vectors = np.asarray(self.backbone.embed(inputs), np.float32)
        if vectors.shape != (len(inputs), self.backbone.dimension):
            raise ValueError(
                f"backbone {self.backbone.name} gave features of shape {vectors.shape} for {len(inputs)} pictures, "
                f"not {(len(inputs), self.backbone.dimension)}: its `dimension` or `embed` is wrong"
            )
        fresh: dict[str, dict[str, np.ndarray]] = {}  # by key of the cache
        for (content, waiting), vector in zip(self.waiting.items(), vectors, strict=True):
            if np.isfinite(vector).all():
                fresh.setdefault(self._key(waiting.path), {})[content] = vector
                continue
            self.useless[content] = f"has features that are not finite with backbone {self.backbone.name}: leave it out"
            if self.strict:
                raise BadPicture(waiting.path, self.useless[content])
        self.waiting.clear()
        for key, of_key in fresh.items():
            self.vectors.update(of_key)
            if self.store is not None:
                self.store.put(of_key, key)
        if self.store is not None:
            self.remember()

    def _key(self, path: str) -> str:
        """What the cache keeps a picture's features under, beside its content."""
        is_jpeg = path.lower().endswith(JPEG_NAMES)
        return f"{self.backbone.fingerprint}-{LOADING_VERSION if is_jpeg else VERSION_OF_OTHERS}"

    def _take(self, vectors: dict[str, np.ndarray]) -> None:
        fitting = {content: vector for content, vector in vectors.items() if self._fits(vector)}
        self.vectors.update(fitting)
        self.cached.update(fitting)

    def _fits(self, vector: np.ndarray | None) -> bool:
        return vector is not None and len(vector) == self.backbone.dimension

    def remember(self) -> None:
        if self.store is not None:
            self.store.remember(self.read)
        self.read = []

    def result(self) -> FeatureTable:
        skipped, paths, hashes = [], [], []
        for index, (path, content) in enumerate(zip(self.paths, self.hashes, strict=True)):
            if content is not None and content in self.vectors:
                paths.append(path)
                hashes.append(content)
            else:
                skipped.append(Skipped(path, self.bad[index] if content is None else self.useless[content]))
        features = np.empty((len(paths), self.backbone.dimension), np.float32)
        for row, content in enumerate(hashes):
            features[row] = self.vectors[content]
        source = {
            "backbone": self.backbone.name,
            "backbone_fingerprint": self.backbone.fingerprint,
            "device": getattr(self.backbone, "device", "cpu"),
            "cached": sum(content in self.cached for content in hashes),
        }
        return FeatureTable(features, paths=paths, hashes=hashes, skipped=skipped, source=source)


def _cores() -> int:
    """Return the number of cores that this process may use, at most `MAX_THREADS`."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(allowed, MAX_THREADS)

"""Join the parts of a data set. Threads decode the pictures, and large sets are cached in the cache folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from handful.backbones.folders import Skipped
from handful.backbones.pictures import BadPicture, decode, read
from handful.backbones.preprocessing import Preprocessing
from handful.training.datasets.picture_set import PictureSet
from handful.utils.cache_folder import cache_folder
from handful.utils.files import scratch, write_whole
from handful.utils.threads import available_threads

CACHE_VERSION = 2  # raise it when reading gives other pixels for the same files
MIN_CACHED_PICTURES = 5000  # this many pictures or fewer are decoded again each time
MAX_MEMORY_BYTES = 2**32  # of pixels; larger sets are memory-mapped, even if nothing had to be decoded
BLOCK_PICTURES = 256  # pictures decoded between two writes
MAX_THREADS = 8  # each may hold a picture of 360 MB
DECODE_SCALE = 3  # times the size: large JPEGs are decoded at a fraction, see backbones.embedding

Pictures = np.ndarray | Sequence[str] | Sequence[bytes]  # pixels [n, H, W, 3], paths, or bytes of files
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Part:
    """The pictures of one split. They are loaded only if they are not in the cache."""

    labels: Sequence[str]
    split: str
    load: Callable[[], Pictures]
    sources: Sequence[str]  # the files that they come from
    is_encoded: bool = True  # else they are pixels


def from_files(files: Sequence[tuple[str, Path]], split: str) -> Part:
    """Return a part from (label, path) of each picture."""
    paths = [os.fspath(path) for _, path in files]
    return Part([label for label, _ in files], split, lambda: paths, paths)


def gather(
    name: str, parts: Sequence[Part], how: Preprocessing, skipped: Sequence[Skipped], progress: Progress
) -> PictureSet:
    """Join the parts in order. Pictures that cannot be read are skipped and listed in the result."""
    labels = np.array([label for part in parts for label in part.labels], dtype=str)
    splits = np.repeat([part.split for part in parts], [len(part.labels) for part in parts])
    if not len(labels):
        raise ValueError(f"{name}: no picture was found")
    shape = (len(labels), *how.size, len(how.mean))
    bad: dict[int, Skipped] = {}  # by row
    blocks = _blocks(parts, how, bad, progress)
    has_encoded = any(part.is_encoded for part in parts)
    if (has_encoded and len(labels) > MIN_CACHED_PICTURES) or np.prod(shape, dtype=np.int64) > MAX_MEMORY_BYTES:
        pixels = _cached_pixels(f"{name}-{_key(parts, how)}", blocks, shape, bad)
        progress(len(labels), len(labels))
    else:
        pixels = np.concatenate(list(blocks))
    good = np.ones(len(labels), bool)
    good[list(bad)] = False
    if not good.any():
        raise ValueError(f"{name}: none of {len(labels)} pictures can be read; the first: {next(iter(bad.values()))}")
    return PictureSet(
        name, pixels, labels[good], splits[good], [*skipped, *bad.values()], how.interpolation, how.crop
    )  # fmt: skip


def _blocks(
    parts: Sequence[Part], how: Preprocessing, bad: dict[int, Skipped], progress: Progress
) -> Iterator[np.ndarray]:
    """Yield blocks of prepared pictures, [k, size, size, C]. Pictures that cannot be read are added to `bad`."""
    shape = (*how.size, len(how.mean))
    whole = replace(how, crop=None)  # for pictures of that size; those of arrays were cropped before

    def prepared(picture: str | bytes | np.ndarray, name: str) -> np.ndarray | BadPicture:
        try:
            if isinstance(picture, np.ndarray):
                return whole.resized(Image.fromarray(picture))
            data = picture if isinstance(picture, bytes) else read(picture)[0]
            image = decode(data, name, at_least=DECODE_SCALE * shape[0])
            return (whole if image.size == shape[:2] else how).resized(image)
        except BadPicture as error:
            return error
        except MemoryError:
            return BadPicture(name, "does not fit into memory: make it smaller")

    done, total = 0, sum(len(part.labels) for part in parts)
    with ThreadPoolExecutor(min(available_threads(), MAX_THREADS), thread_name_prefix="handful-pictures") as pool:
        for part in parts:
            pictures = part.load()
            if len(pictures) != len(part.labels):
                raise ValueError(
                    f"{part.sources[0]} has {len(pictures)} pictures, but there are {len(part.labels)} labels for them"
                )
            for start in range(0, len(pictures), BLOCK_PICTURES):
                block: Any = pictures[start : start + BLOCK_PICTURES]
                if isinstance(block, np.ndarray) and block.shape[1:] == shape:
                    yield block
                else:
                    names = [
                        one if isinstance(one, str) else f"{part.sources[0]}: picture {i}"
                        for i, one in enumerate(block, start)
                    ]
                    rows = list(pool.map(prepared, block, names))
                    failures = {i: row for i, row in enumerate(rows, done) if isinstance(row, BadPicture)}
                    bad.update({i: Skipped(row.path, row.reason) for i, row in failures.items()})
                    good = [row for row in rows if isinstance(row, np.ndarray)]
                    yield np.stack(good) if good else np.empty((0, *shape), np.uint8)
                done += len(block)
                progress(done, total)
            del pictures


# ---- the cache


def _key(parts: Sequence[Part], how: Preprocessing) -> str:
    """Return a key that depends on the names, sizes and times of the files, and on the preparation."""
    digest = hashlib.blake2b(f"{CACHE_VERSION} {asdict(how)}".encode(), digest_size=12)
    for part in parts:
        digest.update(f"\0\0{len(part.labels)} {part.split}".encode())
        for source in part.sources:
            status = os.stat(source) if os.path.exists(source) else None  # a link to a missing file is reported later
            stamp = f"{status.st_size} {status.st_mtime_ns}" if status else "none"
            digest.update(os.fsencode(os.path.abspath(source)) + b"\0" + stamp.encode() + b"\0")
    return digest.hexdigest()


def _cached_pixels(
    name: str, blocks: Iterator[np.ndarray], shape: tuple[int, ...], bad: dict[int, Skipped]
) -> np.ndarray:
    """Return the pixels from the cache, memory-mapped; unreadable pictures leave rows over at its end."""
    path = cache_folder() / "pictures" / f"{name}.npy"
    notes = path.with_suffix(".json")
    with suppress(OSError, ValueError, TypeError):
        skipped = {int(row): Skipped(*why) for row, why in json.loads(notes.read_text()).items()}
        pixels: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        if pixels.shape == shape and pixels.dtype == np.uint8:
            bad.update(skipped)
            return pixels[: shape[0] - len(skipped)]
    temporary = scratch(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.lib.format.open_memmap(temporary, "w+", np.uint8, shape)
    except OSError:
        return np.concatenate(list(blocks))
    try:
        rows = 0
        for block in blocks:
            pixels[rows : rows + len(block)] = block
            rows += len(block)
        del pixels  # written and closed
        write_whole(notes, json.dumps({row: [why.path, why.reason] for row, why in bad.items()}).encode())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()
    mapped: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped[:rows]

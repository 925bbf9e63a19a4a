"""Join the parts of a data set. Threads decode the pictures, and large sets are cached in the cache folder.

The cache holds one .npy file for each list of files and preparation, which is memory-mapped, and a .json file with the
skipped pictures. Both are written whole. Nothing is deleted automatically: delete `pictures` in the cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from handful.backbones.folders import Skipped
from handful.backbones.pictures import BadPicture, decode, read
from handful.training.datasets.picture_set import PictureSet
from handful.utils.cache_folder import cache_folder
from handful.utils.files import scratch, write_whole
from handful.utils.threads import available_threads

CACHE_VERSION = 2  # raise it when reading gives other pixels for the same files
MIN_CACHED_PICTURES = 5000  # this many pictures or fewer are decoded again each time
MAX_MEMORY_BYTES = 2**32  # of pixels in several arrays; up to this size they are joined in memory
BLOCK_PICTURES = 256  # pictures decoded between two writes
MAX_THREADS = 8  # each may hold a picture of 360 MB
DECODE_SCALE = 3  # times the size: large JPEGs are decoded at a fraction, see backbones.embedding

Pictures = np.ndarray | Sequence[str] | Sequence[bytes]  # pixels [n, H, W, 3 or 1], paths, or bytes of files
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Part:
    """A part of a data set. Its pictures are loaded only if they are not in the cache."""

    labels: Sequence[str]
    splits: Sequence[str]
    load: Callable[[], Pictures]
    sources: Sequence[str]  # the files that they come from
    encoded: bool = True  # else they are pixels

    def pictures(self) -> Pictures:
        """Load the pictures; there is one for each label."""
        pictures = self.load()
        if len(pictures) != len(self.labels):
            raise ValueError(
                f"{self.sources[0]} has {len(pictures)} pictures, but there are {len(self.labels)} labels for them"
            )
        return pictures


def from_files(files: Sequence[tuple[str, str, Path]]) -> Part:
    """Return a part from (label, split, path) of each picture."""
    paths = [os.fspath(path) for _, _, path in files]
    return Part([label for label, _, _ in files], [split for _, split, _ in files], lambda: paths, paths)


@dataclass(frozen=True)
class Preparation:
    """Crop the middle and resize to `size` x `size`, as `Preprocessing` does. Pictures of that size do not change."""

    size: int
    crop: float | None = None  # the share of the largest middle square; None: the whole picture, resized
    ink: bool = False  # black drawings on white: one channel, resized without overshooting

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 1024:
            raise ValueError(f"size is {self.size!r}: a whole number of pixels between 1 and 1024 is needed")

    @property
    def channels(self) -> int:
        """The number of colour channels: one for ink, three for pictures."""
        return 1 if self.ink else 3

    @property
    def interpolation(self) -> str:
        """The name of the interpolation in `Preprocessing`."""
        return "bilinear" if self.ink else "bicubic"

    def picture(self, image: Image.Image) -> np.ndarray:
        """Return an RGB picture as uint8 [size, size, C]."""
        if self.ink:
            image = image.convert("L")
        if image.size != (self.size, self.size):
            w, h = image.size
            x = y = 0.0
            if self.crop is not None:
                side = self.crop * min(w, h)
                x, y = (w - side) / 2, (h - side) / 2
            how = Image.Resampling[self.interpolation.upper()]
            image = image.resize((self.size, self.size), how, box=(x, y, w - x, h - y), reducing_gap=3.0)
        return np.asarray(image).reshape(self.size, self.size, self.channels)

    def array(self, pixels: np.ndarray) -> np.ndarray:
        """Return pictures of an array, [n, H, W, 3], resized but not cropped: they were cropped before."""
        if pixels.shape[1:3] == (self.size, self.size):
            return pixels
        square = (self.size, self.size)
        images = (Image.fromarray(np.ascontiguousarray(picture)) for picture in pixels)
        small = [np.asarray(image.resize(square, Image.Resampling.BICUBIC)) for image in images]
        return np.stack(small) if small else np.empty((0, *square, 3), np.uint8)


def gather(
    name: str, parts: Sequence[Part], how: Preparation, skipped: Sequence[Skipped], progress: Progress
) -> PictureSet:
    """Join the parts in order. Pictures that cannot be read are skipped and listed in the result."""
    labels = np.array([label for part in parts for label in part.labels], dtype=str)
    splits = np.array([split for part in parts for split in part.splits], dtype=str)
    if not len(labels):
        raise ValueError(f"{name}: no picture was found")
    shape = (len(labels), how.size, how.size, how.channels)
    looks = how.interpolation, how.crop
    encoded = any(part.encoded for part in parts)
    if not encoded and (len(parts) == 1 or np.prod(shape, dtype=np.int64) <= MAX_MEMORY_BYTES):
        arrays = [how.array(np.asanyarray(part.pictures())) for part in parts]
        pixels = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return PictureSet(name, pixels, labels, splits, skipped, *looks)
    bad: dict[int, Skipped] = {}  # by row
    blocks = _blocks(parts, how, bad, progress)
    if encoded and len(labels) <= MIN_CACHED_PICTURES:
        pixels = np.concatenate(list(blocks))
    else:
        pixels = _cached_pixels(f"{name}-{_key(parts, how)}", blocks, shape, bad)
        progress(len(labels), len(labels))
    good = np.ones(len(labels), bool)
    good[list(bad)] = False
    if not good.any():
        raise ValueError(f"{name}: none of {len(labels)} pictures can be read; the first: {next(iter(bad.values()))}")
    return PictureSet(name, pixels, labels[good], splits[good], [*skipped, *bad.values()], *looks)


def _blocks(
    parts: Sequence[Part], how: Preparation, bad: dict[int, Skipped], progress: Progress
) -> Iterator[np.ndarray]:
    """Yield blocks of prepared pictures, [k, size, size, C]. Pictures that cannot be read are added to `bad`."""

    def decoded(picture: str | bytes, name: str) -> np.ndarray | BadPicture:
        try:
            data = picture if isinstance(picture, bytes) else read(picture)[0]
            return how.picture(decode(data, name, at_least=DECODE_SCALE * how.size))
        except BadPicture as error:
            return error
        except MemoryError:
            return BadPicture(name, "does not fit into memory: make it smaller")

    done, total = 0, sum(len(part.labels) for part in parts)
    with ThreadPoolExecutor(min(available_threads(), MAX_THREADS), thread_name_prefix="handful-pictures") as pool:
        for part in parts:
            pictures = part.pictures()
            for start in range(0, len(pictures), BLOCK_PICTURES):
                block: Any = pictures[start : start + BLOCK_PICTURES]
                if isinstance(block, np.ndarray):
                    yield how.array(block)
                else:
                    numbers = range(start, start + len(block))
                    names = [
                        one if isinstance(one, str) else f"{part.sources[0]}: picture {i}"
                        for i, one in zip(numbers, block, strict=True)
                    ]
                    good = []
                    for i, row in enumerate(pool.map(decoded, block, names)):
                        if isinstance(row, BadPicture):
                            bad[done + i] = Skipped(row.path, row.reason)
                        else:
                            good.append(row)
                    yield np.stack(good) if good else np.empty((0, how.size, how.size, how.channels), np.uint8)
                done += len(block)
                progress(done, total)
            del pictures


# ---- the cache


def _key(parts: Sequence[Part], how: Preparation) -> str:
    """Return a key that depends on the names, sizes and times of the files, and on the preparation."""
    digest = hashlib.blake2b(f"{CACHE_VERSION} {asdict(how)}".encode(), digest_size=12)
    for part in parts:
        digest.update(f"\0\0{len(part.labels)} {sorted(set(part.splits))}".encode())
        for source in part.sources:
            status = os.stat(source) if os.path.exists(source) else None  # a link to a missing file is reported later
            stamp = f"{status.st_size} {status.st_mtime_ns}" if status else "none"
            digest.update(os.fsencode(os.path.abspath(source)) + b"\0" + stamp.encode() + b"\0")
    return digest.hexdigest()


def _cached_pixels(
    name: str, blocks: Iterator[np.ndarray], shape: tuple[int, ...], bad: dict[int, Skipped]
) -> np.ndarray:
    """Return the pixels from the cache, memory-mapped; write them first if needed. In memory if writing fails.

    The file has a row for each picture. Those of pictures that cannot be read are left over at its end.
    """
    folder = cache_folder() / "pictures"
    path = folder / f"{name}.npy"
    notes = path.with_suffix(".json")
    with suppress(OSError, ValueError, TypeError):
        skipped = {int(row): Skipped(*why) for row, why in json.loads(notes.read_text()).items()}
        pixels: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        if pixels.shape == shape and pixels.dtype == np.uint8:
            bad.update(skipped)
            return pixels[: shape[0] - len(skipped)]
    temporary = scratch(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
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

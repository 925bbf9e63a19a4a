"""Omniglot, as published (folders or zip files of Alphabet/characterNN/*.png), or as one .npz of packed drawings."""

from __future__ import annotations

import os
import zipfile
import zlib
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from handful.backbones.folders import Skipped
from handful.backbones.pictures import find_pictures
from handful.training.datasets.gathering import Part, from_files
from handful.training.datasets.pickled import as_published

SIDE = 105
PACKED = ("packed", "labels", "split")  # arrays of the .npz
SPLITS = {"images_background": "base", "images_evaluation": "novel"}


def find_halves(path: Path, dataset: str) -> dict[str, Path]:
    """Return {split: folder or zip file} of the halves that exist in `path`, or of `path` itself."""
    found: dict[str, Path] = {}
    for half, split in SPLITS.items() if dataset == "omniglot" else ():
        for file in (path / half, path / f"{half}.zip", path):
            if file.exists() and file.name in (half, f"{half}.zip"):
                found.setdefault(split, file)
    return found


def read_halves(halves: dict[str, Path], dataset: str, wanted: set[str]) -> tuple[list[Part], list[Skipped]]:
    """Read the two folders or zip files."""
    parts, skipped = [], []
    for split, source in halves.items():
        if source.is_file():
            parts.append(_zipped(source, split))
            continue
        pictures, passed = find_pictures(source, within=source.parent)
        skipped += passed
        named = [(picture.relative_to(source).parts, picture) for picture in pictures]
        parts.append(from_files([("/".join(p[:2]), picture) for p, picture in named if len(p) == 3], split))
    return parts, skipped


def _zipped(path: Path, split: str) -> Part:
    def load() -> list[bytes]:
        try:
            with zipfile.ZipFile(path) as archive:
                return [archive.read(name) for name in names]
        except (zipfile.BadZipFile, RuntimeError, zlib.error) as error:  # also: encrypted, an unknown method
            raise ValueError(f"{path} is damaged, or not as published ({error}): copy it again") from None

    try:
        with zipfile.ZipFile(path) as archive:
            places = {name: PurePosixPath(name).parts for name in sorted(archive.namelist())}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is damaged, or not a zip file ({error}): copy it again") from None
    names = [name for name, p in places.items() if len(p) == 4 and p[0] == path.stem and name.lower().endswith(".png")]
    if not names:
        raise ValueError(f"{path} holds no {path.stem}/Alphabet/characterNN/*.png: is it the file as published?")
    return Part(["/".join(places[name][1:3]) for name in names], split, load, [os.fspath(path)])


def find_packed(path: Path, dataset: str) -> Path | None:
    """Return the path if it is an .npz of packed drawings."""
    if dataset != "omniglot" or path.suffix != ".npz" or not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        return path if {f"{name}.npy" for name in PACKED} <= set(archive.namelist()) else None


def read_packed(path: Path, dataset: str, wanted: set[str]) -> tuple[list[Part], list[Skipped]]:
    """Read the .npz."""
    parts = []
    with as_published(path):
        with np.load(path, allow_pickle=False) as arrays:
            packed, labels, halves_of = (arrays[name] for name in PACKED)
        if packed.dtype != np.uint8 or packed.shape[1:] != ((SIDE**2 + 7) // 8,) or len(packed) != len(halves_of):
            raise ValueError(f"`packed` is {packed.dtype} of shape {packed.shape}: uint8 [drawings, 1379] is needed")
        for half, split in SPLITS.items():
            rows = np.flatnonzero(halves_of == half.removeprefix("images_"))
            if len(rows):
                load = partial(_unpacked, packed[rows])
                parts.append(Part(labels[rows].tolist(), split, load, [os.fspath(path)], is_encoded=False))
    return parts, []


def _unpacked(packed: np.ndarray) -> np.ndarray:
    """Return drawings, black on white, uint8 [n, 105, 105]."""
    ink = np.unpackbits(packed, axis=1, count=SIDE**2).reshape(-1, SIDE, SIDE)
    return (1 - ink) * np.uint8(255)

"""Omniglot: drawn characters of many alphabets, "background" to learn from (base) and "evaluation" (novel).

It is read as published, as two folders or two zip files of Alphabet/characterNN/*.png, or as one .npz with `packed`
(numpy.packbits of each 105 x 105 drawing, ink 1), `labels` (Alphabet/characterNN) and `split`.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from handful.backbones.folders import Skipped
from handful.backbones.pictures import find_pictures
from handful.training.datasets.gathering import Part, Preparation, from_files
from handful.training.datasets.picture_set import PictureSet

SIDE = 105
PACKED = ("packed", "labels", "split")  # arrays of the .npz
SPLITS = {"background": "base", "evaluation": "novel"}


def halves(path: Path) -> dict[str, Path]:
    """Return {split: folder or zip file} of the halves that exist in `path`, or of `path` itself."""
    paths = {}
    for half, split in SPLITS.items():
        name = f"images_{half}"
        candidates = [file for file in (path / name, path / f"{name}.zip") if file.exists()]
        candidates += [path] if path.name in (name, f"{name}.zip") else []
        if candidates:
            paths[split] = candidates[0]
    return paths


def read_omniglot(path: Path) -> tuple[list[Part], list[Skipped]]:
    """Return the parts of the two folders or zip files, and the skipped files."""
    parts, skipped = [], []
    for split, source in halves(path).items():
        if source.is_file():
            parts.append(_zipped(source, split))
            continue
        pictures, passed = find_pictures(source, within=path)
        skipped += passed
        named = [(picture.relative_to(source).parts, picture) for picture in pictures]
        parts.append(from_files([("/".join(p[:2]), picture) for p, picture in named if len(p) == 3], split))
    if not parts:
        raise ValueError(
            f"{path} has no images_background or images_evaluation, as folders or .zip, and is not an .npz of packed "
            "drawings: see `handful train --list-datasets --dataset omniglot`"
        )
    return parts, skipped


def _zipped(path: Path, split: str) -> Part:
    def load() -> list[bytes]:
        with zipfile.ZipFile(path) as archive:
            return [archive.read(name) for name in names]

    try:
        with zipfile.ZipFile(path) as archive:
            places = {name: PurePosixPath(name).parts for name in sorted(archive.namelist())}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is damaged, or not a zip file ({error}): copy it again") from None
    names = [name for name, p in places.items() if len(p) == 4 and p[0] == path.stem and name.lower().endswith(".png")]
    if not names:
        raise ValueError(f"{path} holds no {path.stem}/Alphabet/characterNN/*.png: is it the file as published?")
    return Part(["/".join(places[name][1:3]) for name in names], split, load, [os.fspath(path)])


def is_packed(path: Path) -> bool:
    """Return whether this is an .npz of packed drawings."""
    if path.suffix != ".npz" or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return {f"{name}.npy" for name in PACKED} <= set(archive.namelist())


def read_packed(path: Path, how: Preparation, wanted: set[str]) -> PictureSet:
    """Read the .npz; drawings are unpacked and resized one by one, 30 microseconds each."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            packed, labels, halves_of = (arrays[name] for name in PACKED)
        if packed.dtype != np.uint8 or packed.shape[1:] != ((SIDE**2 + 7) // 8,):
            raise ValueError(f"`packed` is {packed.dtype} of shape {packed.shape}: uint8 [drawings, 1379] is needed")
        if labels.dtype.kind != "U" or not labels.shape == halves_of.shape == (len(packed),):
            raise ValueError(f"`labels` and `split` must be names, one for each of {len(packed)} drawings")
        if unknown := sorted(set(halves_of.tolist()) - set(SPLITS)):
            raise ValueError(f"`split` has {str(unknown[0])!r}: background and evaluation are known")
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged, or not an .npz of packed drawings: {error}") from None
    splits = np.array([SPLITS[half] for half in halves_of.tolist()], dtype=str)
    rows = np.flatnonzero(np.isin(splits, list(wanted)))
    if not len(rows):
        raise ValueError(f"{path} has no split {' or '.join(sorted(wanted))}: there is {', '.join(np.unique(splits))}")
    pixels = np.empty((len(rows), *how.shape), np.uint8)
    for i, row in enumerate(rows):
        ink = np.unpackbits(packed[row], count=SIDE**2).reshape(SIDE, SIDE)
        pixels[i] = how.picture(Image.fromarray((1 - ink) * np.uint8(255)))
    return PictureSet("omniglot", pixels, labels[rows], splits[rows], (), how.interpolation, how.crop)

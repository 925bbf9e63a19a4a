"""Data sets as files of arrays: pickles and .npz, one for each split, which is part of the file name."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from handful.backbones.folders import Skipped
from handful.training.datasets.catalogue import published
from handful.training.datasets.class_folders import NAMES
from handful.training.datasets.gathering import Part
from handful.training.datasets.picture_set import SPLITS
from handful.utils.unpickling import load_plain

PATTERNS = {
    "miniimagenet": r"mini-imagenet-cache-(train|val|validation|test)\.pkl"
    r"|miniImageNet_category_split_(train_phase_train|val|test)\.pickle",
    "tieredimagenet": r"(?:tiered-imagenet-)?(train|val|test)_images(?:_png\.pkl|\.npz)",
    "cifar-fs": r"CIFAR_FS_(train|val|test)\.pickle",
    "fc100": r"FC100_(train|val|test)\.pickle",
}
CIFAR_100 = ("train", "test", "meta")
ADVICE = "get the file from where it was published, or use folders of pictures"


def find_files(path: Path, dataset: str) -> dict[str, Path]:
    """Return {split: file} of the data set's files in a folder, or of one file."""
    candidates = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    files: dict[str, Path] = {}
    for file in candidates:
        if match := re.fullmatch(PATTERNS.get(dataset, "(?!)"), file.name, re.IGNORECASE):
            split = NAMES[next(group for group in match.groups() if group).lower()]
            if split not in files or file.suffix != ".pkl":  # the .npz with the same pictures is faster
                files[split] = file
    return {split: files[split] for split in SPLITS if split in files}


def read_files(files: dict[str, Path], dataset: str, wanted: set[str]) -> tuple[list[Part], list[Skipped]]:
    """Return one part for each file. Files of other splits are not opened if their names show the split."""
    parts = []
    for split, file in files.items():
        is_cache = "cache" in file.name.lower()
        if split in wanted or is_cache:
            read = _tiered if dataset == "tieredimagenet" else _cache if is_cache else _data_and_labels
            with as_published(file):
                parts.append(read(file, split))
    return parts, []


def _cache(path: Path, split: str) -> Part:
    """Read {"image_data": pixels, "class_dict": {class: rows}}; the classes tell copies with val and test exchanged."""
    content = _content(path)
    pixels = content["image_data"]
    labels = np.full(len(pixels), "", dtype=object)
    for name, rows in content["class_dict"].items():
        labels[np.asarray(rows, np.int64)] = _name(name)
    if "" in labels:
        raise ValueError(f"picture {labels.tolist().index('')} is in no class of class_dict")
    splits = {published("miniimagenet").get(name) for name in labels}
    return _part(path, labels.tolist(), next(iter(splits)) or split if len(splits) == 1 else split, pixels)


def _data_and_labels(path: Path, split: str) -> Part:
    """Read {"data": pixels, "labels": numbers}, with or without {"catname2label": {class: number}}."""
    content = _content(path)
    names = {int(number): _name(name) for name, number in content.get("catname2label", {}).items()}
    labels = [names.get(int(number), f"{split}-{int(number):03d}") for number in content["labels"]]
    return _part(path, labels, split, np.asarray(content["data"]))


def _tiered(path: Path, split: str) -> Part:
    """Read a list of PNG files, or `images` of an .npz, with <split>_labels.pkl in the same folder."""
    labels_file = path.with_name(re.sub(r"_images(_png\.pkl|\.npz)$", "_labels.pkl", path.name))
    if not labels_file.is_file():
        raise ValueError(f"it needs {labels_file.name} in the same folder, which has its labels")
    content = _content(labels_file)
    is_specific = "label_specific" in content
    names = [_name(name) for name in content.get("label_specific_str", [])]
    if len(set(names)) != len(names):  # two synsets of one name
        names = [f"{name} ({i})" for i, name in enumerate(names)]
    numbers = [int(number) for number in content["label_specific" if is_specific else "labels"]]
    labels = [names[n] if names else f"{split}-{n:03d}" for n in numbers]
    if path.suffix.lower() == ".npz":
        with np.load(path, allow_pickle=False) as file:
            pixels: np.ndarray = file["images"]
        # The code of the paper wrote the .npz with OpenCV, blue first; another code, with "labels", red first.
        return _part(path, labels, split, pixels[..., ::-1] if is_specific else pixels)

    def load() -> Sequence[bytes]:
        with as_published(path):
            items = load_plain(path, ADVICE)
            return [item if isinstance(item, bytes) else np.asarray(item).tobytes() for item in items]

    return Part(labels, split, load, [os.fspath(path), os.fspath(labels_file)])


def cifar_root(path: Path, dataset: str) -> Path | None:
    """Return the folder with the three files of CIFAR-100, if there is one."""
    roots = (path, path / "cifar-100-python") if dataset in ("cifar-fs", "fc100") else ()
    return next((root for root in roots if all((root / name).is_file() for name in CIFAR_100)), None)


def read_cifar_100(path: Path, dataset: str, wanted: set[str]) -> tuple[list[Part], list[Skipped]]:
    """Read CIFAR-100 as published for Python, train and test together, with the class split of the data set."""
    split_of = published(dataset)
    with as_published(path / "meta"):
        classes = [_name(name) for name in _content(path / "meta")["fine_label_names"]]
        if sorted(classes) != sorted(split_of):
            raise ValueError("it does not name the 100 classes of CIFAR-100")
    arrays, labels = [], []
    for file in (path / "train", path / "test"):
        with as_published(file):
            content = _content(file)
            arrays.append(content["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
            labels += [classes[number] for number in content["fine_labels"]]
    pixels, splits = np.concatenate(arrays), np.array([split_of[label] for label in labels])
    parts = []
    for split in SPLITS:
        rows = np.flatnonzero(splits == split)
        load = partial(pixels.__getitem__, rows)
        parts.append(Part([labels[i] for i in rows], split, load, [os.fspath(path / "train")], is_encoded=False))
    return parts, []


@contextmanager
def as_published(path: Path) -> Iterator[None]:
    """Name the file in an error about its content: it may be cut off, or of another kind."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, OSError, zipfile.BadZipFile) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is damaged, or not as it was published: {what}; {ADVICE}") from None


def _part(path: Path, labels: list[str], split: str, pixels: np.ndarray) -> Part:
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] != 3:
        raise ValueError(
            f"its pictures are {pixels.dtype} of shape {pixels.shape}: uint8 [pictures, height, width, 3] is needed"
        )
    return Part(labels, split, lambda: pixels, [os.fspath(path)], is_encoded=False)


def _content(path: Path) -> dict[str, Any]:
    content = load_plain(path, ADVICE)
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}: a dictionary is needed")
    return {_name(key): value for key, value in content.items()}


def _name(value: object) -> str:
    """The name of a class or an entry; those of Python 2 are bytes."""
    return value.decode("latin1") if isinstance(value, bytes) else str(value)

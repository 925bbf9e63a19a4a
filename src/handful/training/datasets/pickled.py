"""Data sets as files of arrays: pickles and .npz, one for each split. `handful.utils.unpickling` reads pickles.

The split is part of the file name. Classes keep their names if the file has them. Numbers become names such as
base-007, because some of these files number the classes of each split from 0.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful.training.datasets.gathering import Part, Pictures
from handful.training.datasets.splits import NAMES, published
from handful.utils.unpickling import load_plain, quoted

PATTERNS = {
    "miniimagenet": r"mini-imagenet-cache-(train|val|validation|test)\.pkl"
    r"|miniImageNet_category_split_(train_phase_train|val|test)\.pickle",
    "tieredimagenet": r"(?:tiered-imagenet-)?(train|val|test)_images(?:_png\.pkl|\.npz)",
    "cifar-fs": r"CIFAR_FS_(train|val|test)\.pickle",
    "fc100": r"FC100_(train|val|test)\.pickle",
}
CIFAR_100 = ("train", "test", "meta")
MAX_NAME = 200  # characters of a class's name
MAX_LISTED_KEYS = 10  # in a message
ADVICE = "get the file from where it was published, or use folders of pictures"


def files_of(path: Path, dataset: str) -> dict[str, Path]:
    """Return {split: file} of the data set's files in a folder, or of one file."""
    candidates = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    files: dict[str, Path] = {}
    for file in candidates:
        match = re.fullmatch(PATTERNS.get(dataset, "(?!)"), file.name, re.IGNORECASE)
        if match:
            split = NAMES[next(group for group in match.groups() if group).lower()]
            if split in files and file.suffix == ".pkl":  # the .npz with the same pictures is faster
                continue
            files[split] = file
    return {split: files[split] for split in ("base", "val", "novel") if split in files}


def read_files(path: Path, dataset: str, split_names: set[str] | None) -> list[Part]:
    """Return one part for each file. Files of other splits are not opened if their names show the split."""
    parts = []
    for split, file in files_of(path, dataset).items():
        if dataset == "tieredimagenet":
            if split_names is None or split in split_names:
                parts.append(_tiered(file, split))
        elif "cache" in file.name.lower():
            parts.append(_cache(file, split))
        elif split_names is None or split in split_names:
            parts.append(_data_and_labels(file, split))
    if not parts:
        available = ", ".join(files_of(path, dataset))
        raise ValueError(f"{path} has no split {' or '.join(sorted(split_names or ()))}: there is {available}")
    return parts


def _cache(path: Path, split: str) -> Part:
    """Read a file of the form {"image_data": pixels, "class_dict": {class: rows}}.

    In some copies val and test are exchanged. If all classes are in the published list, the list decides.
    """
    content = _content(path)
    pixels, rows_of = _pixels(_get(content, path, "image_data"), path), _get(content, path, "class_dict")
    if not isinstance(rows_of, dict):
        raise ValueError(f"{path}: class_dict is a {type(rows_of).__name__}: {{class: rows}} is needed")
    labels = np.full(len(pixels), "", dtype=object)
    for name, rows in rows_of.items():
        numbers = _numbers(rows, path)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(pixels):
            raise ValueError(f"{path}: class {_text(name, path)} has a row beyond the {len(pixels)} pictures")
        labels[numbers] = _text(name, path)
    if "" in labels:
        raise ValueError(f"{path}: picture {labels.tolist().index('')} is in no class of class_dict")
    published_splits = published("miniimagenet") or {}
    listed = set(labels) <= set(published_splits)
    return _part(path, labels.tolist(), [published_splits[name] if listed else split for name in labels], pixels)


def _data_and_labels(path: Path, split: str) -> Part:
    """Read {"data": pixels, "labels": numbers}, with or without {"catname2label": {class: number}}."""
    content = _content(path)
    pixels = _pixels(_get(content, path, "data"), path)
    numbers = _numbers(_get(content, path, "labels"), path)
    names: dict[int, str] = {}
    if isinstance(content.get("catname2label"), dict):
        coded = content["catname2label"]
        names = dict(
            zip(_numbers(list(coded.values()), path).tolist(), (_text(name, path) for name in coded), strict=True)
        )
    labels = [names.get(number, f"{split}-{number:03d}") for number in numbers.tolist()]
    return _part(path, labels, [split] * len(labels), pixels)


def _tiered(path: Path, split: str) -> Part:
    """Read a list of PNG files, or `images` of an .npz, with <split>_labels.pkl in the same folder."""
    labels_file = path.with_name(re.sub(r"_images(_png\.pkl|\.npz)$", "_labels.pkl", path.name))
    if not labels_file.is_file():
        raise ValueError(f"{path} needs {labels_file.name} in the same folder, which has its labels")
    content = _content(labels_file)
    specific = "label_specific" in content
    numbers = _numbers(_get(content, labels_file, "label_specific" if specific else "labels"), labels_file)
    names = [_text(name, labels_file) for name in _listed(content.get("label_specific_str", []), labels_file)]
    if names and len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(names):
        raise ValueError(f"{labels_file}: a label is beyond its {len(names)} names")
    if len(set(names)) != len(names):  # two synsets of one name
        names = [f"{name} ({i})" for i, name in enumerate(names)]
    labels = [names[n] if names else f"{split}-{n:03d}" for n in numbers.tolist()]
    if path.suffix.lower() == ".npz":
        pixels = _mapped(path)
        # The code of the paper wrote the .npz with OpenCV, blue first; another code, with "labels", red first.
        return _part(path, labels, [split] * len(labels), pixels[..., ::-1] if specific else pixels)

    def load() -> Pictures:
        items = _listed(_unpickled(path), path)
        return [_bytes(item, path) for item in items]

    return Part(labels, [split] * len(labels), load, [os.fspath(path), os.fspath(labels_file)])


def read_cifar_100(path: Path, dataset: str, split_names: set[str] | None) -> list[Part]:
    """Read CIFAR-100 as published for Python, train and test together, with the class split of the data set."""
    names = _get(_content(path / "meta"), path / "meta", "fine_label_names")
    classes = [_text(name, path) for name in _listed(names, path / "meta")]
    splits = published(dataset) or {}
    if sorted(classes) != sorted(splits):
        raise ValueError(f"{path / 'meta'} does not name the 100 classes of CIFAR-100: is it the file as published?")
    pixels, labels = [], []
    for file in (path / "train", path / "test"):
        content = _content(file)
        data = _get(content, file, "data")
        numbers = _numbers(_get(content, file, "fine_labels"), file)
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (len(numbers), 3072):
            raise ValueError(f"{file}: data must be uint8 [{len(numbers)}, 3072], red, green and blue of 32 x 32")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < 100:
            raise ValueError(f"{file}: a label is beyond the 100 classes")
        pixels.append(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels += [classes[number] for number in numbers.tolist()]
    both = np.concatenate(pixels)
    split_of_row = np.array([splits[label] for label in labels])
    parts = []
    for split in ("base", "val", "novel"):
        if split_names is None or split in split_names:
            rows = np.flatnonzero(split_of_row == split)
            parts.append(_part(path / "train", [labels[i] for i in rows], [split] * len(rows), both[rows]))
    return parts


# ---- the content of files


def _part(path: Path, labels: list[str], splits: list[str], pixels: np.ndarray) -> Part:
    return Part(labels, splits, lambda: pixels, [os.fspath(path)], encoded=False)


def _unpickled(path: Path) -> Any:
    try:
        return load_plain(path, ADVICE)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _content(path: Path) -> dict[str, Any]:
    content = _unpickled(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}: a dictionary is needed")
    return {_decoded(key): value for key, value in content.items() if isinstance(key, str | bytes)}


def _get(content: dict[str, Any], path: Path, key: str) -> Any:
    if key not in content:
        available = ", ".join(map(quoted, list(content)[:MAX_LISTED_KEYS])) or "nothing"
        raise ValueError(f"{path} has {available}, but {key!r} is needed")
    return content[key]


def _pixels(value: Any, path: Path) -> np.ndarray:
    if isinstance(value, list):
        if not value or any(not isinstance(a, np.ndarray) or a.shape != value[0].shape for a in value):
            raise ValueError(f"{path} holds a list that is not of pictures of one size")
        value = np.stack(value)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 4 or value.shape[3] != 3:
        what = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"{path} holds pictures as {what}: uint8 [pictures, height, width, 3] is needed")
    return value


def _numbers(value: Any, path: Path) -> np.ndarray:
    if isinstance(value, list | tuple) and all(isinstance(v, int) and abs(v) < 2**31 for v in value):
        value = np.asarray(value, np.int64)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or value.ndim != 1:
        raise ValueError(f"{path}: whole numbers are needed for labels and rows, one after the other")
    return value.astype(np.int64)


def _listed(value: Any, path: Path) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{path} holds a {type(value).__name__} where a list is needed")
    return value


def _bytes(value: Any, path: Path) -> bytes:
    if isinstance(value, np.ndarray) and value.dtype == np.uint8:
        return value.tobytes()
    if isinstance(value, bytes):
        return value
    raise ValueError(f"{path} holds a {type(value).__name__} where the bytes of a PNG file are needed")


def _text(value: Any, path: Path) -> str:
    """Return the name of a class."""
    if not isinstance(value, str | bytes | int) or (isinstance(value, str | bytes) and len(value) > MAX_NAME):
        raise ValueError(f"{path}: a class is called {quoted(value)}: names have at most {MAX_NAME} characters")
    return _decoded(value)


def _decoded(value: str | bytes | int) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _mapped(path: Path) -> np.ndarray:
    """Return `images` of an .npz, memory-mapped if it is not compressed: those of tieredImageNet take 16 GB."""
    try:
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo("images.npy")
            with archive.open(entry) as member:
                version = np.lib.format.read_magic(member)
                read: Callable[..., Any] = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
                shape, fortran, dtype = read(member)
                header = member.tell()
        if dtype != np.uint8 or fortran or len(shape) != 4 or shape[3] != 3:
            raise ValueError(f"images are {dtype} of shape {shape}: uint8 [pictures, height, width, 3] is needed")
        if entry.compress_type != zipfile.ZIP_STORED:
            with np.load(path, allow_pickle=False) as file:
                images: np.ndarray = file["images"]
                return images
        with path.open("rb") as raw:
            raw.seek(entry.header_offset + 26)
            lengths = int.from_bytes(raw.read(2), "little") + int.from_bytes(raw.read(2), "little")
        return np.memmap(path, np.uint8, "r", entry.header_offset + 30 + lengths + header, shape)
    except (KeyError, AttributeError, EOFError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged, or has no `images`: {error}") from None

"""Read any data set from a path, and recognise which one it is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from handful.backbones.preprocessing import Preprocessing
from handful.training.datasets.catalogue import dataset_info, list_datasets, published
from handful.training.datasets.class_folders import (
    CUB_CLASS,
    WNID,
    class_folders,
    class_root,
    find_lists,
    read_class_folders,
    read_lists,
    read_split_file,
)
from handful.training.datasets.gathering import Progress, gather
from handful.training.datasets.omniglot import find_halves, find_packed, read_halves, read_packed
from handful.training.datasets.pickled import cifar_root, find_files, read_cifar_100, read_files
from handful.training.datasets.picture_set import SPLITS, PictureSet

# The published forms besides class folders: what finds the files of a data set in a path, and what reads what was found
FORMS: tuple[tuple[Callable[[Path, str], Any], Callable[..., Any]], ...] = (
    (find_packed, read_packed),
    (find_halves, read_halves),
    (find_files, read_files),
    (cifar_root, read_cifar_100),
    (find_lists, read_lists),
)
CROPS = {"cub": 84 / 96, "folder": 1.0}  # other sets are resized without cropping, as in their papers
ARCHIVE_SUFFIXES = (".tgz", ".gz")
MAX_LISTED_FILES = 20


def read_pictures(
    path: str | os.PathLike[str],
    dataset: str | None = None,
    *,
    size: int | None = None,
    splits: Sequence[str] | None = None,
    split_file: str | os.PathLike[str] | None = None,
    progress: Progress = lambda done, total: None,
) -> PictureSet:
    """Read a data set of pictures from the files or folders in which it is published (`handful train --list-datasets`).

    More than 5,000 decoded pictures are stored in the cache folder and memory-mapped from there. ::

        novel = read_pictures("omniglot.npz").select("novel")

    Parameters
    ----------
    path : path
        The folder or file of the data set.
    dataset : str, optional
        Its name. None: it is recognised by its files, if possible.
    size : int, optional
        Pictures become size x size. None: the usual size of the data set.
    splits : sequence of str, optional
        Only these of base, val and novel, as far as they are there.
    split_file : path, optional
        Your own class split for a folder of class folders: JSON {"base": [classes], "val": [...], "novel": [...]} or
        CSV with class,split.
    progress : callable, optional
        Called with the number of decoded pictures and the number of all pictures.

    Returns
    -------
    PictureSet
    """
    path, wanted = Path(path), set(SPLITS if splits is None else splits)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: give the folder or the file of a data set")
    if not wanted or wanted - set(SPLITS):
        raise ValueError(f"splits={splits!r}: choose some of {', '.join(SPLITS)}")
    if dataset is None:
        dataset = "folder" if split_file is not None and path.is_dir() else recognise(path)
    info = dataset_info(dataset)
    side, c = info.size if size is None else size, info.channels
    way = "bilinear" if c == 1 else "bicubic"  # drawings do not overshoot
    how = Preprocessing((side, side), (0.0,) * c, (1.0,) * c, way, CROPS.get(dataset))
    read, files = _found(path, dataset) if split_file is None else (None, None)
    if read is not None:
        parts, skipped = read(files, dataset, wanted)
    elif path.is_file() or dataset == "omniglot":
        raise ValueError(
            f"{path} is not what is read of {dataset}: see `handful train --list-datasets --dataset {dataset}`"
        )
    else:
        own_splits = None if split_file is None else read_split_file(Path(split_file))
        parts, skipped = read_class_folders(path, dataset, own_splits)
    available = [
        split
        for split in SPLITS
        if split in {part.split for part in parts} | set(files if isinstance(files, dict) else ())
    ]
    if not wanted & set(available):
        raise ValueError(f"{path} has no split {' or '.join(sorted(wanted))}: there is {', '.join(available)}")
    return gather(dataset, [part for part in parts if part.split in wanted], how, skipped, progress)


def _found(path: Path, dataset: str) -> tuple[Any, Any]:
    """Return what reads the data set in this path, and the files that it reads; None if there are none."""
    found = ((read, find(path, dataset)) for find, read in FORMS)
    return next(((read, files) for read, files in found if files), (None, None))


def recognise(path: Path) -> str:
    """Return the name of the data set in this path; raise ValueError if it cannot be recognised."""
    names = [info.name for info in list_datasets()]
    found = [name for name in names if _found(path, name)[0]]
    if not found and path.is_dir():
        classes = {name: {label for _, label, _ in class_folders(class_root(path, name))} for name in names}
        found = [name for name in names if classes[name] and classes[name] == set(published(name))]
        found += ["cub"] if classes["cub"] and all(map(CUB_CLASS.fullmatch, classes["cub"])) else []
        if not found and classes["folder"] and all(map(WNID.fullmatch, classes["miniimagenet"])):
            found = ["miniimagenet", "tieredimagenet", "folder"]  # some classes of ImageNet
        found = found or ["folder"] * bool(classes["folder"])
    if not found:
        raise ValueError(
            f"{path} has neither class folders nor files of a known data set: see `handful train --list-datasets`"
        )
    if len(found) > 1:
        raise ValueError(f"{path} can be read as {' or '.join(found)}: say which, as dataset")
    return found[0]


def check_copy(path: Path, name: str | None = None, *, progress: Progress) -> dict[str, Any]:
    """Compare a copy of a data set, unpacked or as an archive, with what was published."""
    archives = {}
    for info in list_datasets() if name is None else [dataset_info(name)]:
        for archive, digest in info.archives.items():
            file = path if path.name == archive else path / archive
            if file.is_file():
                archives[archive] = _md5(file) == digest
    report: dict[str, Any] = {"archives": archives}
    if path.is_file() and path.suffix in ARCHIVE_SUFFIXES:
        if not archives:
            raise ValueError(f"{path} is not an archive of a known data set: unpack it and give the folder")
        return report
    pictures = read_pictures(path, name, progress=progress)
    report |= pictures.describe()
    report["passed_over"] = [str(skipped) for skipped in pictures.skipped[:MAX_LISTED_FILES]]
    report["as_published"] = None
    info = dataset_info(pictures.name)
    if info.classes:
        report["as_published"] = {
            split: counts["classes"] == info.classes.get(split)
            and counts["pictures"] == info.pictures.get(split, counts["pictures"])
            for split, counts in report["splits"].items()
        }
    return report


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)  # it detects damaged copies, not forged ones
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()

"""Read any data set from a path, and recognise which one it is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handful.backbones.folders import Skipped
from handful.training.datasets.catalogue import dataset_info, list_datasets, published
from handful.training.datasets.class_folders import (
    CUB_CLASS,
    WNID,
    class_folders,
    class_root,
    lists_are_of_imagenet,
    read_class_folders,
    read_lists,
    read_split_file,
    split_lists,
)
from handful.training.datasets.gathering import Preparation, Progress, gather
from handful.training.datasets.omniglot import halves, is_packed, read_omniglot, read_packed
from handful.training.datasets.pickled import PATTERNS, cifar_root, files_of, read_cifar_100, read_files
from handful.training.datasets.picture_set import SPLITS, PictureSet

CROPS = {"cub": 84 / 96, "folder": 1.0}  # other sets are resized without cropping, as in their papers
ARCHIVE_SUFFIXES = (".tgz", ".gz")
MAX_LISTED_FILES = 20
SEE_LIST = "see `handful train --list-datasets` for what is read"


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
    how = Preparation(info.size if size is None else size, CROPS.get(dataset), is_ink=dataset == "omniglot")
    files = files_of(path, dataset)
    root = cifar_root(path) if dataset in ("cifar-fs", "fc100") else None
    own_splits = None if split_file is None else read_split_file(Path(split_file))
    if own_splits is not None and (files or root or dataset == "omniglot"):
        raise ValueError(f"a split file is for folders of class folders, and {path} has its own split: leave it out")
    skipped: list[Skipped] = []
    if dataset == "omniglot" and is_packed(path):
        return read_packed(path, how, wanted)
    if dataset == "omniglot":
        parts, skipped = read_omniglot(path)
    elif files:
        parts = read_files(files, dataset, wanted)
    elif root is not None:
        parts = read_cifar_100(root, dataset)
    elif path.is_file():
        raise ValueError(
            f"{path} is not a file of {dataset}: `handful train --list-datasets --dataset {dataset}` says what is read"
        )
    elif dataset == "miniimagenet" and own_splits is None and split_lists(path):
        parts = read_lists(path)
    else:
        parts, skipped = read_class_folders(path, dataset, own_splits)
    available = {part.split for part in parts} or set(files)
    if not wanted & available:
        raise ValueError(
            f"{path} has no split {' or '.join(sorted(wanted))}: there is {', '.join(sorted(available)) or 'none'}"
        )
    return gather(dataset, [part for part in parts if part.split in wanted], how, skipped, progress)


def recognise(path: Path) -> str:
    """Return the name of the data set in this path; raise ValueError if it cannot be recognised."""
    if is_packed(path) or halves(path):
        return "omniglot"
    for name in PATTERNS:
        if files_of(path, name):
            return name
    if path.is_file():
        raise ValueError(f"{path} is not a file of a known data set: {SEE_LIST}")
    if cifar_root(path):
        raise ValueError(f"{path} is CIFAR-100, of which cifar-fs and fc100 are two splits: say which, as dataset")
    if lists_are_of_imagenet(path):
        return "miniimagenet"
    for root in (class_root(path, "cub"), class_root(path, "miniimagenet")):
        classes = {name for _, name, _ in class_folders(root)}
        if classes and all(CUB_CLASS.fullmatch(name) for name in classes):
            return "cub"
        for name in ("miniimagenet", "tieredimagenet"):
            if classes == set(published(name)):
                return name
        if classes and all(WNID.fullmatch(name) for name in classes):
            raise ValueError(
                f"{path} has {len(classes)} classes of ImageNet: say miniimagenet, tieredimagenet or folder, as dataset"
            )
    if set(published("fc100")) == {name for _, name, _ in class_folders(class_root(path, "fc100"))}:
        raise ValueError(f"{path} has the classes of CIFAR-100: say cifar-fs or fc100, as dataset")
    if next(class_folders(path), None) is None:
        raise ValueError(f"{path} has neither class folders nor files of a known data set: {SEE_LIST}")
    return "folder"


def check_copy(path: Path, name: str | None = None, *, progress: Progress) -> dict[str, Any]:
    """Compare a copy of a data set, unpacked or as an archive, with what was published.

    `archives` says for each archive whether its MD5 is the published one. If the copy is unpacked, there is also what
    `PictureSet.describe` gives, skipped files as `passed_over`, and in `as_published` for each split, whether it has as
    many classes and pictures as were published (None where no such numbers are known).
    """
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

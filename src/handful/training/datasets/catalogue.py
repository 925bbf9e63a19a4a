"""What is known of each data set: where it comes from, what it holds, how its files look. Nothing is fetched."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class DatasetInfo:
    """One data set, as the catalogue has it."""

    name: str
    title: str
    paper: str
    about: str
    classes: dict[str, int]  # by split, where that is known beforehand
    pictures: dict[str, int]
    size: int  # pixels of a side, as usual for it
    channels: int
    preparation: str  # what is done to a picture of another size
    licence: str
    url: str
    archives: dict[str, str]  # name of a published file -> its MD5
    layouts: list[str]  # what a folder may look like
    example: str  # a name for that folder


@lru_cache
def _all() -> dict[str, DatasetInfo]:
    content = json.loads(Path(__file__).with_name("catalogue.json").read_text())
    return {name: DatasetInfo(name, **entry) for name, entry in content.items()}


def list_datasets() -> list[DatasetInfo]:
    """The data sets that `read_pictures` knows.

    >>> [info.name for info in list_datasets()]
    ['omniglot', 'miniimagenet', 'tieredimagenet', 'cub', 'cifar-fs', 'fc100', 'folder']
    """
    return list(_all().values())


def dataset_info(name: str) -> DatasetInfo:
    """One of them by its name."""
    if name not in _all():
        raise ValueError(f"there is no data set {name!r}; there are: {', '.join(_all())}")
    return _all()[name]


def check_archives(path: str | os.PathLike[str], info: DatasetInfo) -> dict[str, bool]:
    """{name: whether its MD5 is the published one} of the data set's archives that lie in a folder, or of one."""
    path = Path(path)
    paths = {name: path if path.name == name else path / name for name in info.archives}
    return {name: _md5(file) == info.archives[name] for name, file in paths.items() if file.is_file()}


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)  # it tells damaged copies, not forged ones
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()

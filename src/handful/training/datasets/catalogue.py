"""The catalogue of data sets: their origin, their content, the layout of their files. Nothing is downloaded."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class DatasetInfo:
    """One data set of the catalogue.

    Parameters
    ----------
    name : str
        The name that `read_pictures` takes.
    title, paper, about : str
        What it is, and who published it.
    classes, pictures : dict of str to int
        How many there are in each split, if the numbers are fixed.
    size : int
        The usual side of the pictures, in pixels.
    channels : int
        3, or 1 for drawings.
    preparation : str
        How a picture of another size is resized.
    licence, url : str
        The licence, and where to get the files.
    archives : dict of str to str
        The MD5 of each published file.
    layouts : list of str
        What its folder may hold.
    example : str
        An example of the name of that folder.
    """

    name: str
    title: str
    paper: str
    about: str
    classes: dict[str, int]
    pictures: dict[str, int]
    size: int
    channels: int
    preparation: str
    licence: str
    url: str
    archives: dict[str, str]
    layouts: list[str]
    example: str


@lru_cache
def _all() -> dict[str, DatasetInfo]:
    content = json.loads(Path(__file__).with_name("catalogue.json").read_text())
    return {name: DatasetInfo(name, **entry) for name, entry in content.items()}


def list_datasets() -> list[DatasetInfo]:
    """Return the data sets that `read_pictures` can read.

    Examples
    --------
    >>> [info.name for info in list_datasets()]
    ['omniglot', 'miniimagenet', 'tieredimagenet', 'cub', 'cifar-fs', 'fc100', 'folder']
    """
    return list(_all().values())


def dataset_info(name: str) -> DatasetInfo:
    """Return the facts about a data set.

    Parameters
    ----------
    name : str
        Its name, as `list_datasets` has it.

    Returns
    -------
    DatasetInfo
    """
    if name not in _all():
        raise ValueError(f"there is no data set {name!r}; there are: {', '.join(_all())}")
    return _all()[name]


def check_archives(path: str | os.PathLike[str], info: DatasetInfo) -> dict[str, bool]:
    """Compare archives with their published MD5.

    Parameters
    ----------
    path : path
        A folder of archives, or one archive.
    info : DatasetInfo
        The data set.

    Returns
    -------
    dict of str to bool
        For each archive that is there, whether its MD5 is the published one.
    """
    path = Path(path)
    paths = {name: path if path.name == name else path / name for name in info.archives}
    return {name: _md5(file) == info.archives[name] for name, file in paths.items() if file.is_file()}


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)  # it detects damaged copies, not forged ones
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()

"""The catalogue of data sets: their origin, their content, the layout of their files, the split of their classes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set, from `catalogue.json`."""

    name: str  # that `read_pictures` takes
    title: str
    paper: str
    about: str
    classes: dict[str, int]  # in each split, if the numbers are fixed; `pictures` too
    pictures: dict[str, int]
    size: int  # the usual side of its pictures, in pixels
    channels: int  # 3, or 1 for drawings
    preparation: str  # how a picture of another size is resized
    licence: str
    url: str
    archives: dict[str, str]  # the MD5 of each published file
    layouts: list[str]  # what its folder may hold
    example: str  # the name of such a folder


@cache
def _content(file: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(__file__).with_name(file).read_text("utf-8"))
    return content


@cache
def _all() -> dict[str, DatasetInfo]:
    return {name: DatasetInfo(name, **entry) for name, entry in _content("catalogue.json").items()}


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


def published(dataset: str) -> dict[str, str]:
    """Return {class: split} as in the paper of the data set; empty if there is no such list."""
    lists = _content("classes.json").get(dataset, {})
    return {name: split for split, names in lists.items() for name in names}

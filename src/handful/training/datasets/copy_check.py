"""Whether a copy of a data set can be read, and holds as much as was published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from handful.training.datasets import check_archives, dataset_info, list_datasets, read_pictures

ARCHIVE_SUFFIXES = (".tgz", ".gz")
MAX_LISTED_FILES = 20


def check_copy(path: Path, name: str | None = None, *, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Compare a copy of a data set with what was published.

    Parameters
    ----------
    path : Path
        The folder or file of the copy, or an archive of it as it was downloaded.
    name : str, optional
        The name of the data set. None: it is recognised by its files.
    progress : callable
        Called with the number of pictures read and the number of all pictures.

    Returns
    -------
    dict
        `archives`: for each archive in it, whether its MD5 is the published one. If the copy is unpacked: what
        `PictureSet.describe` gives, skipped files as `passed_over`, and `as_published`: for each split, whether it has
        as many classes and pictures as were published, or None where no such numbers are known.
    """
    infos = list_datasets() if name is None else [dataset_info(name)]
    archives = {archive: good for info in infos for archive, good in check_archives(path, info).items()}
    report: dict[str, Any] = {"archives": archives}
    if path.is_file() and path.suffix in ARCHIVE_SUFFIXES:
        if not archives:
            raise ValueError(f"{path} is not an archive of a known data set: unpack it and give the folder")
        return report
    pictures = read_pictures(path, name, progress=progress)
    report |= pictures.describe()
    report["passed_over"] = [str(skipped) for skipped in pictures.skipped[:MAX_LISTED_FILES]]
    report["as_published"] = None
    published = dataset_info(pictures.name)
    if published.classes:
        report["as_published"] = {
            split: counts["classes"] == published.classes.get(split)
            and counts["pictures"] == published.pictures.get(split, counts["pictures"])
            for split, counts in report["splits"].items()
        }
    return report

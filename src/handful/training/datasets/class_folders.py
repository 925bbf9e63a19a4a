"""Data sets as class folders, or as folders with lists of pictures; and which class is in which split.

The split of a class is that of the paper, that of the user's own file, or the folder that the class folder is in.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from handful.backbones.folders import LITTER, Skipped
from handful.backbones.pictures import find_pictures
from handful.training.datasets.gathering import Part, from_files
from handful.training.datasets.picture_set import SPLITS
from handful.utils.csv_file import records
from handful.utils.files import in_brief, read_text
from handful.utils.limits import JSON_BYTES

NAMES = {  # names of folders and files -> split
    "base": "base", "train": "base", "train_phase_train": "base", "val": "val", "valid": "val", "validation": "val",
    "novel": "novel", "test": "novel",
}  # fmt: skip
INSIDE = {  # subfolders that may hold the class folders
    "cub": ("images", "CUB_200_2011/images"),
    "cifar-fs": ("data", "cifar100/data", "cifar100"),
    "fc100": ("data", "cifar100/data", "cifar100"),
    "miniimagenet": ("images",),
}
CUB_CLASS = re.compile(r"\d{3}\.\w+")
WNID = re.compile(r"n\d{8}")
MINI_PICTURES = 600  # of each class
MAX_LIST_BYTES = 2**28  # of a list of pictures: some millions


# ---- which class is in which split


@lru_cache
def _lists() -> dict[str, dict[str, list[str]]]:
    classes: dict[str, dict[str, list[str]]] = json.loads(Path(__file__).with_name("classes.json").read_text())
    return classes


def published(dataset: str) -> dict[str, str] | None:
    """Return {class: split} as in the paper of the data set, or None if no list is needed.

    miniImageNet: Ravi & Larochelle (2017). tieredImageNet: Ren et al. (2018). CIFAR-FS: Bertinetto et al. (2019).
    FC100: Oreshkin et al. (2018), whole superclasses.
    """
    lists = _lists().get(dataset)
    return None if lists is None else {name: split for split, names in lists.items() for name in names}


def cub_split(classes: list[str]) -> dict[str, str]:
    """Return {class: split} by the rule of Chen et al. (2019).

    Of the sorted classes every second one is base; the others are val and novel in turn.
    """
    turns = ("base", "val", "base", "novel")
    return {name: turns[i % 4] for i, name in enumerate(sorted(classes))}


def read_split_file(path: Path) -> dict[str, str]:
    """Return {class: split} of a JSON {"base": [classes], "val": [...], "novel": [...]} or a CSV with class,split."""
    try:
        text = read_text(path, JSON_BYTES)
        pairs = _json_pairs(text) if path.suffix.lower() == ".json" else _csv_pairs(text)
        splits: dict[str, str] = {}
        for name, split_name in pairs:
            split = NAMES.get(split_name.strip().lower(), "")
            if not split:
                raise ValueError(
                    f"class {in_brief(name)} has the split {in_brief(split_name)}: {', '.join(SPLITS)} are splits"
                )
            if splits.setdefault(name, split) != split:
                raise ValueError(
                    f"class {in_brief(name)} is in {splits[name]} and in {split}: a class belongs to one split"
                )
        if not splits:
            raise ValueError('it names no class: give {"base": [classes], ...} or lines of class,split')
    except ValueError as error:
        raise ValueError(f"{path} cannot be used as splits: {error}") from None
    return splits


def _json_pairs(text: str) -> list[tuple[str, str]]:
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(names, list) for names in content.values()):
        raise ValueError('{"base": [classes], "val": [...], "novel": [...]} is needed')
    return [(str(name), split) for split, names in content.items() for name in names]


def _csv_pairs(text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for line, cells in records(text, ","):
        row = [cell.strip() for cell in cells]
        if not any(row) or (not pairs and list(map(str.lower, row)) == ["class", "split"]):
            continue
        if len(row) != 2:
            raise ValueError(f"line {line} has {len(row)} cells: two are needed, class,split")
        pairs.append((row[0], row[1]))
    return pairs


# ---- class folders


def class_root(path: Path, dataset: str) -> Path:
    """Return the folder that holds the class folders, or the folders of splits."""

    def fits(name: str) -> bool:
        if dataset == "cub":
            return bool(CUB_CLASS.fullmatch(name))
        return name in (published(dataset) or [name])

    for inside in ("", *INSIDE.get(dataset, ())):
        root = path / inside
        if root.is_dir() and any(fits(name) for _, name, _ in class_folders(root)):
            return root
    return path


def class_folders(root: Path) -> Iterator[tuple[str | None, str, Path]]:
    """Yield (split of the parent folder or None, class, folder) of root/class, or root/train/class, ..."""
    names = _subfolders(root)
    nested = [name for name in names if name.lower() in NAMES and _subfolders(root / name)]
    for name in nested:
        for inner in _subfolders(root / name):
            yield NAMES[name.lower()], inner, root / name / inner
    if not nested:
        for name in names:
            yield None, name, root / name


def _subfolders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted, without hidden ones and litter."""
    with os.scandir(folder) as entries:
        names = [e.name for e in entries if e.is_dir() and not e.name.startswith(".") and e.name.lower() not in LITTER]
    return sorted(names)


def read_class_folders(path: Path, dataset: str, own_splits: dict[str, str] | None) -> tuple[list[Part], list[Skipped]]:
    """Read the pictures of all classes with a split: from `own_splits`, as published, by folder, or all base."""
    root = class_root(path, dataset)
    folders = list(class_folders(root))
    if not folders:
        raise ValueError(
            f"{path} has no class folders: one folder for each class is needed, with its pictures, or "
            "train/, val/ and test/ with those"
        )
    splits = own_splits or _usual_split(root, dataset, folders)
    files: list[tuple[str, str, Path]] = []
    skipped: list[Skipped] = []
    unsplit: list[str] = []
    for by_folder, name, folder in folders:
        split = (by_folder or "base") if splits is None else splits.get(name)
        if split is None:
            unsplit.append(name)
            continue
        if own_splits is None and by_folder not in (None, split):
            raise ValueError(
                f"{folder}: class {name} is in {split} as published for {dataset}, not in {by_folder}: "
                "move it, or read the folder with dataset 'folder'"
            )
        pictures, passed = find_pictures(folder, within=path)
        skipped += passed
        if dataset == "miniimagenet" and len(pictures) > MINI_PICTURES:
            raise ValueError(
                f"{folder} has {len(pictures)} pictures, and miniImageNet {MINI_PICTURES} of each class: this is all "
                "of ImageNet. Put train.csv, val.csv and test.csv, that list its pictures, into the folder"
            )
        files += [(name, split, picture) for picture in pictures]
    if own_splits and (absent := sorted(set(own_splits) - {name for _, name, _ in folders})):
        raise ValueError(f"the split file names class {absent[0]!r}, but {root} has no folder of that name")
    names = ", ".join(unsplit[:3]) + (", ..." if len(unsplit) > 3 else "")
    if unsplit:
        skipped.append(Skipped(os.fspath(root), f"has {len(unsplit)} classes without a split, left out: {names}"))
    if not files:
        raise ValueError(f"{root}: no picture of a class with a split was found; its folders are {names}")
    parts = [[file for file in files if file[1] == split] for split in SPLITS]  # so that selecting one needs no copy
    return [from_files(part) for part in parts if part], skipped


def _usual_split(root: Path, dataset: str, folders: list[tuple[str | None, str, Path]]) -> dict[str, str] | None:
    """Return {class: split} as published, or None if the folders decide."""
    if dataset != "cub":
        return published(dataset)
    if any(split for split, _, _ in folders):
        return None
    birds = [name for _, name, _ in folders if CUB_CLASS.fullmatch(name)]
    if len(birds) != 200:
        raise ValueError(
            f"{root} has {len(birds)} folders like 001.Black_footed_Albatross, but CUB has 200, and the split depends "
            "on their order: unpack all of it, or give a split file"
        )
    return cub_split(birds)


# ---- lists of pictures


def split_lists(path: Path) -> dict[str, Path]:
    """Return {split: CSV file} of train.csv, val.csv and test.csv, in the folder or in a usual subfolder."""
    for folder in (path, path / "split", path / "splits", path / "csv_files"):
        lists = {split: folder / f"{name}.csv" for name, split in NAMES.items() if (folder / f"{name}.csv").is_file()}
        if lists:
            return lists
    return {}


def lists_are_of(path: Path, kind: re.Pattern[str]) -> bool:
    """Return whether the folder has lists whose first label matches the pattern."""
    first = next(iter(split_lists(path).values()), None)
    return first is not None and any(kind.fullmatch(label) for _, label in _rows(first)[:1])


def read_lists(path: Path) -> list[Part]:
    """Read miniImageNet from lists of filename,label. Pictures are in images/, in the folder, or in class folders."""
    parts = []
    for split, listing in split_lists(path).items():
        files = [(label, split, _listed_file(path, name, label, listing)) for name, label in _rows(listing)]
        if not files:
            raise ValueError(f"{listing} lists no picture: rows of filename,label are needed")
        parts.append(from_files(files))
    return parts


def _rows(listing: Path) -> list[tuple[str, str]]:
    """The filename and the label of each line."""
    try:
        lines = records(read_text(listing, MAX_LIST_BYTES), ",", blanks=True)
        columns = next(lines, (1, []))[1]
        name, label = (
            next((columns.index(c) for c in names if c in columns), None)
            for names in (("filename", "image_name"), ("label", "class_name"))
        )
        if name is None or label is None:
            raise ValueError(f"its columns are {in_brief(', '.join(columns))}: filename and label are needed")
        rows = []
        for line, cells in lines:
            if cells and (max(name, label) >= len(cells) or not cells[name] or not cells[label]):
                raise ValueError(f"line {line} lacks a filename or a label")
            rows += [(cells[name], cells[label])] if cells else []
    except ValueError as error:
        raise ValueError(f"{listing} cannot be used as a list of pictures: {error}") from None
    return rows


def _listed_file(path: Path, name: str, label: str, listing: Path) -> Path:
    what = f"{in_brief(name)} of class {in_brief(label)}"
    if Path(name).name != name or Path(label).name != label:
        raise ValueError(f"{listing} names {what}: plain names are needed, not paths")
    for place in (path / "images" / name, path / name, path / label / name, path / "images" / label / name):
        if os.path.isfile(place):  # also says no to a name that no file can have
            return place
    raise ValueError(f"{listing} lists {what}, but it is not in {path / 'images'}, nor in {path}")

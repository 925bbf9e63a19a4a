"""Data sets as class folders, or as folders with lists of pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from handful.backbones.folders import LITTER, Skipped
from handful.backbones.pictures import find_pictures
from handful.training.datasets.catalogue import published
from handful.training.datasets.gathering import Part, from_files
from handful.training.datasets.picture_set import SPLITS
from handful.utils.csv_file import records
from handful.utils.files import in_brief, parse_json, read_text
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
MAX_LIST_BYTES = 2**28  # of a list of pictures: some millions


def read_split_file(path: Path) -> dict[str, str]:
    """Return {class: split} of a JSON {"base": [classes], "val": [...], "novel": [...]} or a CSV with class,split."""
    splits: dict[str, str] = {}
    try:
        text = read_text(path, JSON_BYTES)
        if path.suffix.lower() == ".json":
            pairs = [(str(name), word) for word, names in parse_json(text, "it").items() for name in names]
        else:
            lines = [(line, cells) for line, cells in records(text, ",") if any(cells)]
            if wrong := [(line, len(cells)) for line, cells in lines if len(cells) != 2]:
                raise ValueError("line {} has {} cells: two are needed, class,split".format(*wrong[0]))
            pairs = [(name.strip(), word.strip()) for _, (name, word) in lines]
        for name, word in pairs[1:] if pairs[:1] == [("class", "split")] else pairs:
            split = NAMES.get(word.lower())
            if split is None:
                raise ValueError(f"class {in_brief(name)} has the split {in_brief(word)}, not {', '.join(SPLITS)}")
            if splits.setdefault(name, split) != split:
                raise ValueError(
                    f"class {in_brief(name)} is in {splits[name]} and {split}: a class belongs to one split"
                )
        if not splits:
            raise ValueError('it names no class: give {"base": [classes], ...} or lines of class,split')
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be used as splits: {error}") from None
    return splits


# ---- class folders


def class_root(path: Path, dataset: str) -> Path:
    """Return the folder that holds the class folders, or the folders of splits."""
    names = published(dataset)
    for inside in ("", *INSIDE.get(dataset, ())):
        root = path / inside
        classes = [name for _, name, _ in class_folders(root)] if root.is_dir() else []
        if any(CUB_CLASS.fullmatch(name) if dataset == "cub" else not names or name in names for name in classes):
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
        return sorted(e.name for e in entries if e.is_dir() and e.name[0] != "." and e.name.lower() not in LITTER)


def read_class_folders(path: Path, dataset: str, own_splits: dict[str, str] | None) -> tuple[list[Part], list[Skipped]]:
    """Read the pictures of all classes with a split: from `own_splits`, as published, by folder, or all base."""
    root = class_root(path, dataset)
    folders = list(class_folders(root))
    if not folders:
        raise ValueError(
            f"{path} has no class folders: one folder for each class is needed, with its pictures, or "
            "train/, val/ and test/ with those"
        )
    splits = own_splits or published(dataset)
    if dataset == "cub" and not splits and not any(split for split, _, _ in folders):
        birds = [name for _, name, _ in folders if CUB_CLASS.fullmatch(name)]
        if len(birds) != 200:
            raise ValueError(
                f"{root} has {len(birds)} folders like 001.Black_footed_Albatross, but CUB has 200, and the split "
                "depends on their order: unpack all of it, or give a split file"
            )
        turns = ("base", "val", "base", "novel")  # the rule of Chen et al. (2019)
        splits = {name: turns[i % 4] for i, name in enumerate(sorted(birds))}
    files: dict[str, list[tuple[str, Path]]] = {split: [] for split in SPLITS}  # one after the other in the result
    skipped: list[Skipped] = []
    unsplit: list[str] = []
    for by_folder, name, folder in folders:
        split = splits.get(name) if splits else by_folder or "base"
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
        files[split] += [(name, picture) for picture in pictures]
    if own_splits and (absent := sorted(set(own_splits) - {name for _, name, _ in folders})):
        raise ValueError(f"the split file names class {absent[0]!r}, but {root} has no folder of that name")
    names = ", ".join(unsplit[:3]) + (", ..." if len(unsplit) > 3 else "")
    if unsplit:
        skipped.append(Skipped(os.fspath(root), f"has {len(unsplit)} classes without a split, left out: {names}"))
    if not any(files.values()):
        raise ValueError(f"{root}: no picture of a class with a split was found; its folders are {names}")
    return [from_files(pictures, split) for split, pictures in files.items() if pictures], skipped


# ---- lists of pictures


def find_lists(path: Path, dataset: str) -> dict[str, Path]:
    """Return {split: CSV file} of train.csv, val.csv and test.csv of miniImageNet, in the folder or in split/."""
    for folder in (path, path / "split", path / "splits") if dataset == "miniimagenet" else ():
        lists = {split: folder / f"{name}.csv" for name, split in NAMES.items() if (folder / f"{name}.csv").is_file()}
        if lists and any(WNID.fullmatch(label) for _, label in _rows(next(iter(lists.values())))[:1]):
            return lists
    return {}


def read_lists(lists: dict[str, Path], dataset: str, wanted: set[str]) -> tuple[list[Part], list[Skipped]]:
    """Read lists of filename,label. Pictures are in images/, in the folder, or in class folders."""
    parts = []
    for split, listing in lists.items():
        above = (listing.parent, listing.parent.parent)
        files = []
        for name, label in _rows(listing):
            places = [folder / inside for folder in above for inside in ("images", ".", label, f"images/{label}")]
            file = next((place / name for place in places if os.path.isfile(place / name)), None)
            if file is None or {Path(name).name, Path(label).name} != {name, label}:
                what = f"{in_brief(name)} of class {in_brief(label)}"
                raise ValueError(f"{listing} lists {what}, but it is not in {places[0]}, nor beside the list")
            files.append((label, file))
        parts.append(from_files(files, split))
    return parts, []


def _rows(listing: Path) -> list[tuple[str, str]]:
    """The filename and the label of each line."""
    try:
        lines = [
            (line, cells) for line, cells in records(read_text(listing, MAX_LIST_BYTES), ",", blanks=True) if cells
        ]
        columns = lines[0][1] if lines else []
        if not {"filename", "label"} <= set(columns) or len(lines) < 2:
            raise ValueError("rows below the names of two columns, filename and label, are needed")
        if short := [line for line, cells in lines if len(cells) < len(columns)]:
            raise ValueError(f"line {short[0]} lacks a filename or a label")
    except ValueError as error:
        raise ValueError(f"{listing} cannot be used as a list of pictures: {error}") from None
    name, label = columns.index("filename"), columns.index("label")
    return [(cells[name], cells[label]) for _, cells in lines[1:]]

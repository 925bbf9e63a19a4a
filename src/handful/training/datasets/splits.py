"""The split of each class: as published, from the user's file, or from the names of folders and files."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from handful.training.datasets.picture_set import SPLITS
from handful.utils.csv_file import records
from handful.utils.files import in_brief, read_text
from handful.utils.limits import JSON_BYTES

NAMES = {  # names of folders and files -> split
    "base": "base",
    "train": "base",
    "train_phase_train": "base",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "novel": "novel",
    "test": "novel",
}


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
        if not pairs:
            raise ValueError('it names no class: give {"base": [classes], ...} or lines of class,split')
        return _one_split_each(pairs)
    except ValueError as error:
        raise ValueError(f"{path} cannot be used as splits: {error}") from None


def _one_split_each(pairs: list[tuple[str, str]]) -> dict[str, str]:
    splits: dict[str, str] = {}
    for name, split_name in pairs:
        split = NAMES.get(split_name.strip().lower())
        if split is None:
            raise ValueError(
                f"class {in_brief(name)} has the split {in_brief(split_name)}: {', '.join(SPLITS)} are splits"
            )
        if splits.setdefault(name, split) != split:
            raise ValueError(
                f"class {in_brief(name)} is in {splits[name]} and in {split}: a class belongs to one split"
            )
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
    with records(text, ",") as lines:
        rows = [(line, [cell.strip() for cell in cells]) for line, cells in lines if any(map(str.strip, cells))]
    if rows and list(map(str.lower, rows[0][1])) == ["class", "split"]:
        rows = rows[1:]
    for line, row in rows:
        if len(row) != 2:
            raise ValueError(f"line {line} has {len(row)} cells: two are needed, class,split")
    return [(name, split) for _, (name, split) in rows]

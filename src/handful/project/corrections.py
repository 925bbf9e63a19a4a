"""Corrections of labels in a file: as the report page gives them, as a check stores them, or written by hand.

JSON: {"corrections": [{"item": "a.png", "label": "cat"}, ...]}; other entries do not matter. CSV: the columns path and
label. An item is named as in labels.csv. The label "unknown" says that it belongs to none of the classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from handful.project.items import class_label
from handful.utils.csv_file import records, unescape
from handful.utils.files import class_name, in_brief, read_text

MAX_CORRECTIONS_BYTES = 2**24
MAX_CLASS_NAME_LENGTH = 200  # characters
COLUMNS = ("path", "label")


def read_corrections(paths: Sequence[Path]) -> dict[str, str]:
    """The class of each item in files, by its name in labels.csv; items that are only called wrong are left out."""
    readers = {".json": _json_pairs, ".csv": _csv_pairs}
    corrections: dict[str, str] = {}
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(
                f"there is no file {in_brief(path)}: give the corrections that the report page gave"
            )
        try:
            if path.suffix.lower() not in readers:
                raise ValueError("its name must end in .json or .csv")
            for item, label in readers[path.suffix.lower()](read_text(path, MAX_CORRECTIONS_BYTES)):
                name = clean_label(label, item)
                if corrections.setdefault(item, name) != name:
                    raise ValueError(f"{in_brief(item)} is called {in_brief(corrections[item])} and {in_brief(name)}")
        except ValueError as error:
            raise ValueError(f"{in_brief(path)} cannot be used as corrections: {error}") from None
    return corrections


def _json_pairs(text: str) -> Iterator[tuple[str, str]]:
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("its entries are nested too deeply") from None
    entries = document.get("corrections") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("it must be an object with a list `corrections`")
    for number, entry in enumerate(entries):
        item, label = (entry.get("item"), entry.get("label", "")) if isinstance(entry, dict) else (None, None)
        if not isinstance(item, str) or not (label is None or isinstance(label, str)):
            raise ValueError(f"entry {number} of `corrections` must be an object with the texts `item` and `label`")
        if label is not None:
            yield item, label


def _csv_pairs(text: str) -> Iterator[tuple[str, str]]:
    lines = records(text, ",")
    head = [unescape(cell.strip()) for cell in next(lines, (1, []))[1]]
    if missing := [name for name in COLUMNS if head.count(name) != 1]:
        raise ValueError(f"it must have one column {missing[0]!r}; the first line names the columns: path,label")
    for line, cells in lines:
        if cells and len(cells) != len(head):
            raise ValueError(f"line {line} has {len(cells)} cells, but the first line {len(head)}")
        if cells:
            row = dict(zip(head, map(unescape, cells), strict=True))
            yield row["path"], row["label"]


def clean_label(label: str, item: str) -> str:
    """What a person calls an item, as a class is named: "unknown" for no class; ValueError if no class can be."""
    if not label.strip():
        raise ValueError(f"{in_brief(item)} has a blank label: give the name of a class, or unknown")
    name = class_label(class_name(label.strip()))
    if len(name) > MAX_CLASS_NAME_LENGTH:
        raise ValueError(f"{in_brief(item)} has a label of more than {MAX_CLASS_NAME_LENGTH} characters")
    return name

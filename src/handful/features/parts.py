"""A feature set in a folder of Parquet files: part-00000.parquet, part-00001.parquet, ... hold its rows, in order.

`shards.json` gives the number of parts, so that an incomplete set is refused. A part may have a note about how it was
made. `base_mean.json` is the mean of the base classes, in a file of its own: another mean does not change the parts.
"""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from handful.features.feature_columns import ColumnChoice, Content
from handful.features.labels import NDArray
from handful.features.parquet_file import (
    MEAN_KEY,
    content_of,
    mean_of_json,
    mean_of_metadata,
    mean_to_json,
    open_parquet,
    read_feature_columns,
    write_rows,
)
from handful.features.table import FeatureTable
from handful.utils.extras import need_pyarrow
from handful.utils.files import parse_json, read_json, write_whole
from handful.utils.limits import check_bytes

PLAN = "shards.json"
BASE_MEAN = "base_mean.json"
NOTE_KEY = b"handful"  # in the metadata of a part
PART = re.compile(r"part-(\d{5}|[1-9]\d{5,8})\.parquet", re.ASCII)


def part_name(number: int) -> str:
    """The file name of a part."""
    return f"part-{number:05d}.parquet"


def part_numbers(folder: Path) -> list[int]:
    """The numbers of the parts in a folder."""
    matches = (PART.fullmatch(file.name) for file in folder.iterdir())
    return sorted(int(match[1]) for match in matches if match)


def is_sharded(path: str | Path) -> bool:
    """Whether a path is a folder of parts, also one that is not complete yet."""
    path = Path(path)
    return path.is_dir() and ((path / PLAN).is_file() or bool(part_numbers(path)))


def complete(folder: Path) -> range:
    """The numbers of the parts; raises ValueError if a part is missing."""
    numbers = part_numbers(folder)
    count = numbers[-1] + 1 if numbers else 0
    if (folder / PLAN).is_file():
        planned = read_json(folder / PLAN).get("shards")
        if not isinstance(planned, int) or isinstance(planned, bool) or planned < 1:
            raise ValueError(f"{PLAN} does not say how many parts there are: make the features again")
        if count > planned:
            raise ValueError(f"{part_name(count - 1)} is one too many, {PLAN} says {planned}: make the features again")
        count = planned
    if len(numbers) < count:
        first = next((i for i, number in enumerate(numbers) if number != i), len(numbers))
        raise ValueError(
            f"{part_name(first)} is missing, of {count} parts: run the command that makes them again, it continues "
            "where it stopped"
        )
    for name in map(part_name, numbers):
        if os.path.dirname(os.path.realpath(folder / name)) != os.path.realpath(folder):
            raise ValueError(f"{name} is a link to a file elsewhere: copy that file here")
    return range(count)


def read_sharded(folder: Path, choice: ColumnChoice) -> Content:
    """The columns of all parts of a folder."""
    need_pyarrow("a folder of Parquet parts")
    import pyarrow as pa

    tables: list[Any] = []
    for number in complete(folder):
        name = part_name(number)
        table = read_feature_columns(folder / name, choice, f"{name}: ")
        check_bytes(table.nbytes + sum(t.nbytes for t in tables), f"{name} and the parts before it")
        if tables and not table.schema.equals(tables[0].schema):
            raise ValueError(f"{name} has other columns, or of other types, than the parts before it: make it again")
        if tables and (table.schema.metadata or {}).get(MEAN_KEY) != (tables[0].schema.metadata or {}).get(MEAN_KEY):
            raise ValueError(f"{name} has another base mean than the parts before it: make it again")
        tables.append(table)
    content, mean = content_of(pa.concat_tables(tables)), mean_of_folder(folder)
    return content if mean is None else replace(content, base_mean=mean)


def count_rows(folder: Path) -> int:
    """The number of rows of all parts, from their footers: no row is read."""
    count = 0
    for number in complete(folder):
        with open_parquet(folder / part_name(number), where=f"{part_name(number)}: ") as file:
            count += file.metadata.num_rows
    return count


# ---- the mean of the base classes


def mean_of_shards(folder: Path) -> NDArray | None:
    """The mean of the base classes: the one stored in the folder, or else in its first part."""
    if (mean := mean_of_folder(folder)) is not None:
        return mean
    first = part_name(complete(folder)[0])
    with open_parquet(folder / first, where=f"{first}: ") as file:
        return mean_of_metadata(file.schema_arrow.metadata)


def mean_of_folder(folder: Path) -> NDArray | None:
    """The mean in `base_mean.json` of a folder, or None."""
    path = folder / BASE_MEAN
    return mean_of_json(path.read_bytes(), BASE_MEAN) if path.is_file() else None


def write_mean(folder: Path, mean: NDArray | None) -> None:
    """Store the mean of the base classes in a folder; None removes it."""
    if mean is None:
        (folder / BASE_MEAN).unlink(missing_ok=True)
    else:
        write_whole(folder / BASE_MEAN, mean_to_json(mean).encode())


# ---- one part


def write_part(table: FeatureTable, path: Path, note: dict[str, Any]) -> None:
    """Write a part, completely or not at all."""
    file = io.BytesIO()
    write_rows(table, file, {NOTE_KEY: json.dumps(note).encode()})
    write_whole(path, file.getbuffer())


def read_note(path: Path) -> dict[str, Any] | None:
    """The note of a part; None if there is no such part, or if handful did not write it."""
    if not path.is_file():
        return None
    try:
        with open_parquet(path) as file:
            return parse_json((file.metadata.metadata or {})[NOTE_KEY], "the note")
    except (OSError, KeyError, ValueError):
        return None

"""A feature set in a folder of Parquet files: part-00000.parquet, part-00001.parquet, ... are its rows, in order.

`shards.json` beside them says how many there are to be, so that a set of which some are still to be made is no set.
Each part is written whole or not at all, and may carry a note of what it was made from. `base_mean.json` is the mean of
the base classes, if it is known: of the whole set, so that another one changes no part.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from handful.features.columns import BASE_MEAN, Columns, damaged, mean_of_folder, mean_to_json, read_json, require
from handful.features.tables import MEAN, from_arrow, mean_of_schema, write_table
from handful.files import write_whole

PLAN = "shards.json"
NOTE = b"handful"  # the note's key in a part's metadata
PART = re.compile(r"part-(\d{5}|[1-9]\d{5,})\.parquet")


def part_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def part_numbers(folder: Path) -> list[int]:
    """Of the parts that are there."""
    names = (file.name for file in folder.iterdir())
    numbers = [int(found[1]) for found in map(PART.fullmatch, names) if found]
    return sorted(numbers)


def is_sharded(path: str | Path) -> bool:
    """Whether it is a folder of parts, or is to become one."""
    path = Path(path)
    return path.is_dir() and ((path / PLAN).is_file() or (path / part_name(0)).is_file() or bool(part_numbers(path)))


def read_shards(path: Path, embedding: str, label: str) -> Columns:
    table = read_parts(path, (embedding, label))
    return from_arrow(table, table.column_names, embedding, label)


def mean_of_shards(folder: Path) -> np.ndarray | None:
    """The base classes' mean of a folder of parts: of the folder, or else as its first part has it."""
    import pyarrow as pa
    from pyarrow.parquet import read_schema

    if (mean := mean_of_folder(folder)) is not None:
        return mean
    first = part_name(complete(folder)[0])
    try:
        return mean_of_schema(read_schema(folder / first))
    except (pa.ArrowException, OSError) as error:
        raise damaged("parquet", error, f"{first}: ") from None


def write_mean(folder: Path, mean: np.ndarray | None) -> None:
    """Say it of the folder; None: it is not known."""
    if mean is None:
        (folder / BASE_MEAN).unlink(missing_ok=True)
    else:
        write_whole(folder / BASE_MEAN, mean_to_json(mean).encode())


def read_parts(folder: Path, needed: tuple[str, str] | None = None) -> Any:
    """All parts as one `pyarrow.Table`: the columns of embeddings and labels and what a set has beside, or all.

    Its schema has the base classes' mean as that of a single file would.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    tables: list[Any] = []
    for number in complete(folder):
        name = part_name(number)
        try:
            with ParquetFile(folder / name) as file:
                there = file.schema_arrow.names
                if needed is not None:
                    require(there, needed, f"column of {name}")
                wanted = there if needed is None else (*needed, "path", "split")
                table = file.read(columns=[column for column in wanted if column in there])
        except (pa.ArrowException, OSError) as error:
            raise damaged("parquet", error, f"{name}: ") from None
        if tables and not table.schema.equals(tables[0].schema):
            first = ", ".join(f"{field.name} {field.type}" for field in tables[0].schema)
            other = ", ".join(f"{field.name} {field.type}" for field in table.schema)
            raise ValueError(f"{name} has other columns than the parts before it ({other}, not {first}): make it anew")
        if tables and (table.schema.metadata or {}).get(MEAN) != (tables[0].schema.metadata or {}).get(MEAN):
            raise ValueError(f"{name} has another base mean than the parts before it: make it anew")
        tables.append(table)
    whole = pa.concat_tables(tables)
    if (mean := mean_of_folder(folder)) is not None:
        said = {**(whole.schema.metadata or {}), MEAN: mean_to_json(mean).encode()}
        whole = whole.replace_schema_metadata(said)
    return whole


def complete(folder: Path) -> range:
    """The numbers of the parts; refused if one is missing."""
    there = part_numbers(folder)
    count = there[-1] + 1 if there else 0
    if (folder / PLAN).is_file():
        said = read_json(folder / PLAN).get("shards")
        if not isinstance(said, int) or said < 1:
            raise ValueError(f"{PLAN} does not say how many parts there are: make the features anew")
        if count > said:
            raise ValueError(f"{part_name(count - 1)} is one too many, {PLAN} says {said}: make the features anew")
        count = said
    if missing := sorted(set(range(count)) - set(there)):
        more = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        raise ValueError(
            f"{part_name(missing[0])}{more} missing, of {count} parts: run the command that makes them again, "
            "it goes on where it was"
        )
    return range(count)


def count_rows(folder: Path) -> int:
    """Of all parts, by what their ends say: no row is read."""
    import pyarrow as pa
    from pyarrow.parquet import read_metadata

    count = 0
    for number in complete(folder):
        try:
            count += read_metadata(folder / part_name(number)).num_rows
        except (pa.ArrowException, OSError) as error:
            raise damaged("parquet", error, f"{part_name(number)}: ") from None
    return count


def write_part(columns: Columns, path: Path, note: dict[str, Any], mark: str = "") -> None:
    """Whole or not at all: whoever dies on the way leaves no part; `mark` is for the scratch file's name."""
    file = io.BytesIO()
    write_table(columns, file, {NOTE: json.dumps(note).encode()})
    write_whole(path, file.getbuffer(), mark)


def read_note(path: Path) -> dict[str, Any] | None:
    """The note of a part; None where there is no such part, or none of ours."""
    import pyarrow as pa
    from pyarrow.parquet import read_metadata

    try:
        return json.loads((read_metadata(path).metadata or {})[NOTE])
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None

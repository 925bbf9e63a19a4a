"""Tables of any cells, as they are written: .csv, .tsv, .jsonl and .parquet files that may come from anyone.

Nothing is guessed about types and nothing is lost: cells of a CSV file stay text, those of a Parquet file keep their
type. What is odd about a file is said in sentences, or refused with the number of the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.features.arrow_table import is_carried
from handful.features.feature_columns import about_columns, other_columns
from handful.features.file_checks import MAX_COLUMNS, listed
from handful.features.labels import NDArray
from handful.features.parquet_file import read_columns
from handful.utils.csv_file import records
from handful.utils.encodings import decode
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.text import counted, shortened

SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (*SEPARATORS, *JSON_LINES, ".parquet")
OTHER_SEPARATORS = (";", "\t", "|")  # that are recognised in a header of one cell
ARCHIVES = {b"PK\x03\x04": "an Excel workbook or a zip file", b"\x1f\x8b": "a gzip file", b"PAR1": "a Parquet file"}
CELL_BYTES = 16  # of a cell in a list, without its text
HALF_CHARACTERS = re.compile("[\ud800-\udfff]")  # JSON can hold halves of characters, UTF-8 cannot
PEEK_BYTES = 2**18  # of a file from which its kind is guessed
MAX_PEEK_ROWS = 500
MAX_NAME_CHARACTERS = 1000  # of a column
MAX_NOTES = 20


class CellTable(NamedTuple):
    """The columns of a table by name, all of one length, and what is odd about its file, in sentences."""

    columns: dict[str, NDArray]
    notes: list[str]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def read_cells(path: Path) -> CellTable:
    """Read a table whole.

    Raises
    ------
    ValueError
        If it is damaged, too large, or has a line that does not fit its first line. The message does not name the file.
    """
    suffix = path.suffix.lower()
    size = path.stat().st_size
    if suffix == ".parquet":
        return _read_parquet(path, size)
    check_bytes(TEXT_EXPANSION * size, "the table", size)
    data = path.read_bytes()
    _check_archive(data)
    text, problem = decode(data)
    del data
    notes = [f"{problem[0].upper()}{problem[1:]}: save the file as UTF-8 if letters look wrong."] if problem else []
    if suffix in JSON_LINES:
        columns = _parse_json_lines(text, size)
    else:
        columns = _parse_csv(text, SEPARATORS[suffix], notes, size)
    return CellTable({name: _as_array(cells) for name, cells in columns.items()}, notes)


def peek_cells(path: Path) -> CellTable:
    """The first rows of a table, from which its kind is guessed. A file that cannot be read gives an empty table."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            return _read_parquet(path, path.stat().st_size)
        with path.open("rb") as file:
            data = file.read(PEEK_BYTES)
        _check_archive(data)
        if len(data) == PEEK_BYTES:
            data = data[: data.rfind(b"\n") + 1] or data
        text = decode(data).text
        columns = _parse_json_lines(text, PEEK_BYTES) if suffix in JSON_LINES else _peek_csv(text, SEPARATORS[suffix])
    except (OSError, ValueError):  # whoever reads it whole says what is wrong
        return CellTable({}, [])
    return CellTable({name: _as_array(cells) for name, cells in columns.items()}, [])


# ---- CSV


def _parse_csv(text: str, separator: str, notes: list[str], size: int) -> dict[str, list[Any]]:
    """The cells by column. Rows that are too short are filled with blanks; rows that are too long are refused."""
    separator = _separator(text, separator, notes)
    short, trailing = [], []
    with records(text, separator) as lines:
        first = next(lines, None)
        if first is None:
            raise ValueError("the table is empty: its first line must name the columns")
        names = _names(first[1], notes)
        rows: list[list[str]] = []
        for line, cells in lines:
            if not cells:
                continue  # an empty line
            if len(cells) > len(names):
                if any(cell.strip() for cell in cells[len(names) :]):
                    raise ValueError(
                        f"line {line} has {len(cells)} cells, but the first line has {len(names)}: "
                        "put quotes around a text that has the separator in it"
                    )
                trailing.append(line)
            elif len(cells) < len(names):
                short.append(line)
            rows.append(cells)
            if len(rows) % 10_000 == 0:
                check_bytes(CELL_BYTES * len(rows) * len(names), "the table", size)
    check_bytes(CELL_BYTES * len(rows) * len(names), "the table", size)
    if short:
        notes.append(
            f"{counted(len(short), 'row')} had fewer cells than the first line, the first in line {short[0]}: the "
            "missing cells are blank."
        )
    if trailing:
        notes.append(f"Blank cells beyond the last column were left out, the first in line {trailing[0]}.")
    return {name: [cells[k] if k < len(cells) else "" for cells in rows] for k, name in enumerate(names)}


def _peek_csv(text: str, separator: str) -> dict[str, list[Any]]:
    """The cells of the first lines, as far as they can be read."""
    rows: list[list[str]] = []
    try:
        with records(text, _separator(text, separator, [])) as lines:
            for _, cells in lines:
                rows.append(cells)
                if len(rows) > MAX_PEEK_ROWS:
                    break
    except ValueError:  # the last record may be cut off
        pass
    if not rows:
        return {}
    names = _names(rows[0], [])
    rows = [cells for cells in rows[1:] if len(cells) == len(names)]
    return {name: [cells[k] for cells in rows] for k, name in enumerate(names)}


def _separator(text: str, separator: str, notes: list[str]) -> str:
    """Another separator, if the first line has none of the usual one outside of quotes."""
    line = re.sub(r'"[^"\n]*"', "", text[: text.find("\n") + 1] or text)
    if separator not in line:
        for other in OTHER_SEPARATORS:
            if other in line:
                notes.append(f"The columns are separated by {other!r}.")
                return other
    return separator


def _names(cells: Sequence[str], notes: list[str]) -> list[str]:
    """The names of columns: each once, and none blank."""
    if len(cells) > MAX_COLUMNS:
        raise ValueError(f"there are {len(cells):,} columns, and {MAX_COLUMNS:,} at most are read")
    names: list[str] = []
    if long := [cell for cell in cells if len(cell) > MAX_NAME_CHARACTERS]:
        raise ValueError(
            f"the name of column {shortened(long[0], 40)!r} has {len(long[0]):,} characters: the first line must name "
            "the columns"
        )
    used = set(cells)
    numbers: dict[str, int] = {}
    for cell in cells:
        plain = cell if cell.strip() else "index"
        name, numbers[plain] = plain, numbers.get(plain, 0) + 1
        while numbers[plain] > 1 and (name := f"{plain}_{numbers[plain]}") in used:
            numbers[plain] += 1
        used.add(name)
        if name != cell and cell.strip() and len(notes) < MAX_NOTES:
            notes.append(f"There is more than one column {shortened(cell)!r}: one of them is called {name!r} now.")
        names.append(name)
    return names


# ---- other files


def _parse_json_lines(text: str, size: int) -> dict[str, list[Any]]:
    """One object in each line; its names are the columns. A list or an object in a cell stays JSON."""
    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for number, line in enumerate(re.split("\r\n|\n|\r", text), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number} is not JSON: {shortened(str(error), 200)}") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {number} holds {shortened(type(row).__name__)}: one object in each line is needed")
        rows.append({_whole_characters(name) if name.strip() else "index": _json_cell(row[name]) for name in row})
        if len(rows[-1]) < len(row):
            raise ValueError(f"line {number} has two names that are the same without odd characters: rename one")
        names |= dict.fromkeys(rows[-1])
    check_bytes(CELL_BYTES * len(rows) * len(names), "the table", size)
    _names(list(names), [])  # raises an error for too many or too long ones
    return {name: [row.get(name) for row in rows] for name in names}


def _json_cell(value: Any) -> Any:
    if isinstance(value, str):
        return _whole_characters(value)
    return json.dumps(value) if isinstance(value, list | dict) else value


def _whole_characters(text: str) -> str:
    return HALF_CHARACTERS.sub("\ufffd", text)


def _read_parquet(path: Path, size: int) -> CellTable:
    left: list[str] = []

    def choose(schema: Any) -> list[str]:
        left.extend(column.name for column in schema if not is_carried(column.type))
        return [column.name for column in schema if is_carried(column.type)]

    table = read_columns(path, choose, None)
    notes = [f"Columns of lists or of binary data are not carried along: {listed(left)}."] if left else []
    columns = other_columns(table, set(), about_columns(table.metadata))
    texts = (
        value for cells in columns.values() if cells.dtype.kind == "O" for value in cells if isinstance(value, str)
    )
    check_bytes(sum(map(len, texts)), "the texts", size)  # rows may share a text here, but not in what is written
    return CellTable(columns, notes)


def _as_array(cells: list[Any]) -> NDArray:
    array = np.empty(len(cells), object)
    array[:] = cells
    return array


def _check_archive(data: bytes) -> None:
    for start, what in ARCHIVES.items():
        if data.startswith(start):
            raise ValueError(f"the file is {what} by its content: save it as .csv, .jsonl or .parquet, under that name")

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

from handful.features.feature_columns import MAX_COLUMNS, listed, other_columns
from handful.features.labels import NDArray
from handful.features.parquet_file import columns_of, is_carried, read_arrow
from handful.features.table import free_name
from handful.utils.columns import object_array
from handful.utils.csv_file import records
from handful.utils.encodings import decode
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.text import counted, shortened

SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (*SEPARATORS, *JSON_LINES, ".parquet")
OTHER_SEPARATORS = (";", "\t", "|")  # that are recognised in a header of one cell
ARCHIVES = {b"PK\x03\x04": "an Excel workbook or a zip file", b"\x1f\x8b": "a gzip file", b"PAR1": "a Parquet file"}
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
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path)
    check_bytes(TEXT_EXPANSION * path.stat().st_size, "the table")
    text, problem = _text_of(path.read_bytes())
    notes = [f"{problem[0].upper()}{problem[1:]}: save the file as UTF-8 if letters look wrong."] if problem else []
    if path.suffix.lower() in JSON_LINES:
        return CellTable(_parse_json_lines(text), notes)
    return CellTable(_parse_csv(text, SEPARATORS[path.suffix.lower()], notes), notes)


def peek_cells(path: Path) -> CellTable:
    """The first rows of a table, from which its kind is guessed. A file that cannot be read gives an empty table."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            return _read_parquet(path)
        with path.open("rb") as file:
            data = file.read(PEEK_BYTES)
        if len(data) == PEEK_BYTES:
            data = data[: data.rfind(b"\n") + 1] or data
        text = _text_of(data).text
        if suffix in JSON_LINES:
            return CellTable(_parse_json_lines(text), [])
        return CellTable(_peek_csv(text, SEPARATORS[suffix]), [])
    except (OSError, ValueError):  # whoever reads it whole says what is wrong
        return CellTable({}, [])


def _text_of(data: bytes) -> Any:
    for start, what in ARCHIVES.items():
        if data.startswith(start):
            raise ValueError(f"the file is {what} by its content: save it as .csv, .jsonl or .parquet, under that name")
    return decode(data)


# ---- CSV


def _parse_csv(text: str, separator: str, notes: list[str]) -> dict[str, NDArray]:
    """The cells by column. Rows that are too short are filled with blanks; rows that are too long are refused."""
    short, trailing = [], []
    rows: list[list[str]] = []
    with records(text, _separator(text, separator, notes)) as lines:
        first = next(lines, None)
        if first is None:
            raise ValueError("the table is empty: its first line must name the columns")
        names = _names(first[1], notes)
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
    if short:
        notes.append(
            f"{counted(len(short), 'row')} had fewer cells than the first line, the first in line {short[0]}: the "
            "missing cells are blank."
        )
    if trailing:
        notes.append(f"Blank cells beyond the last column were left out, the first in line {trailing[0]}.")
    return {name: object_array(cells[k] if k < len(cells) else "" for cells in rows) for k, name in enumerate(names)}


def _peek_csv(text: str, separator: str) -> dict[str, NDArray]:
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
    names = _names(rows[0], []) if rows else []
    rows = [cells for cells in rows[1:] if len(cells) == len(names)]
    return {name: object_array(cells[k] for cells in rows) for k, name in enumerate(names)}


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
    if long := [cell for cell in cells if len(cell) > MAX_NAME_CHARACTERS]:
        raise ValueError(
            f"the name of column {shortened(long[0], 40)!r} has {len(long[0]):,} characters: the first line must name "
            "the columns"
        )
    names: dict[str, None] = {}
    for cell in cells:
        plain = cell if cell.strip() else "index"
        name = plain if plain not in names else free_name(plain, {*names, *cells})
        if name != plain and len(notes) < MAX_NOTES:
            notes.append(f"There is more than one column {shortened(cell)!r}: one of them is called {name!r} now.")
        names[name] = None
    return list(names)


# ---- other files


def _parse_json_lines(text: str) -> dict[str, NDArray]:
    """One object in each line; its names are the columns. A list or an object in a cell stays JSON."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(re.split("\r\n|\n|\r", text), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number} is not JSON: {shortened(str(error), 200)}") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {number} holds {shortened(type(row).__name__)}: one object in each line is needed")
        rows.append({_json_cell(name) if name.strip() else "index": _json_cell(row[name]) for name in row})
    names = _names(list(dict.fromkeys(name for row in rows for name in row)), [])
    return {name: object_array(row.get(name) for row in rows) for name in names}


def _json_cell(value: Any) -> Any:
    if isinstance(value, str):
        return HALF_CHARACTERS.sub("\ufffd", value)
    return json.dumps(value) if isinstance(value, list | dict) else value


def _read_parquet(path: Path) -> CellTable:
    left: list[str] = []

    def choose(schema: Any) -> list[str]:
        left.extend(column.name for column in schema if not is_carried(column.type))
        return [column.name for column in schema if is_carried(column.type)]

    columns = columns_of(read_arrow(path, choose))
    notes = [f"Columns of lists or of binary data are not carried along: {listed(left)}."] if left else []
    return CellTable(other_columns(columns), notes)

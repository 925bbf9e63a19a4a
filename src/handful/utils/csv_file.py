"""CSV files in which no cell is a formula for a spreadsheet, and which are read back exactly.

A spreadsheet computes a cell that begins with = + - @, a tab or a line break. So a class or a file called
`=HYPERLINK(...)` would run when somebody opens the table. Such text gets an apostrophe in front (as OWASP's "CSV
Injection" recommends). Text that already has apostrophes before such a character also gets one, so that the text that
is read back is exactly the text that was written. Numbers, and text that is a plain number such as -5, do not change.

    =1+1  ->  '=1+1        '=1+1  ->  ''=1+1        -5  ->  -5        don't  ->  don't
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from handful.utils.columns import Column, ColumnTable, NDArray
from handful.utils.text import shortened

FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # the last four are = + - @ of East Asian keyboards
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TEXT_COLUMNS = ("path", "label", "closest", "decision", "labelled_by", "nearest_1", "nearest_2", "nearest_3")
MISSING = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
     "NaN", "n/a", "nan", "null"]
)  # a missing number: the words that PyArrow's reader takes for one  # fmt: skip
WHOLE_NUMBERS = re.compile(r"[-+0-9 \t]+")
MAX_WHOLE_DIGITS = 19  # longer ones may not fit into 64 bits
ROWS_PER_BLOCK = 256  # rows of cells that are in memory as Python's texts: few enough for the processor's cache

_CSV_LOCK = Lock()


def escape(text: str) -> str:
    """Return the text as a cell that is not a formula; `unescape` is the inverse.

    >>> escape("=1+1"), escape("'=1+1"), escape("-5"), escape("a=b")
    ("'=1+1", "''=1+1", '-5', 'a=b')
    """
    return f"'{text}" if _is_formula(text) else text


def unescape(cell: str) -> str:
    """Return the text before `escape`. Only for files that handful wrote: in others an apostrophe is only that."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def _is_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None


def write_table(table: Any, path: Path | str, *, change: Callable[[str], str] = escape) -> None:
    """Write a `ColumnTable` or a `pyarrow.Table`; text and column names are escaped.

    Text is quoted and numbers are not; a missing value is an empty cell.
    """
    texts = [_cells(column, change) for column in table.columns]
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(_quoted(change(name)) for name in table.column_names) + "\n")
        file.writelines(",".join(row) + "\n" for row in zip(*texts, strict=True))


def read_table(path: Path | str) -> ColumnTable:
    """Read a CSV file that handful wrote.

    Columns of numbers become numbers. `path`, `label` and the other `TEXT_COLUMNS` stay text, even if all their cells
    look like numbers.
    """
    table = parse_table(path, TEXT_COLUMNS)
    columns = [
        Column([unescape(text) for text in column.to_pylist()]) if column.type.kind == "O" else column
        for column in table.columns
    ]
    return ColumnTable([unescape(name) for name in table.column_names], columns)


def parse_table(path: Path | str, texts: Sequence[str] = (), columns: Sequence[str] | None = None) -> ColumnTable:
    """Read a CSV file in UTF-8; ValueError if it is damaged.

    A column becomes numbers if all its cells are numbers or one of `MISSING`; any other stays text.

    Parameters
    ----------
    texts : the columns that stay text.
    columns : read only these; all by default.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text, at byte {error.start:,}") from None
    with records(text, ",") as rows:
        names = next(rows, (0, []))[1]
        if not names:
            raise ValueError("it is empty: its first line must name the columns")
        places = [k for k, name in enumerate(names) if columns is None or name in columns]
        cells_of: dict[int, list[str]] = {k: [] for k in places if names[k] in texts}
        numbers_of: dict[int, list[NDArray]] = {k: [] for k in places if names[k] not in texts}
        for block in _blocks(rows, len(names)):
            cells = list(zip(*block, strict=True))
            for k, column_cells in cells_of.items():
                column_cells += cells[k]
            for k in list(numbers_of):
                if (array := _numbers(cells[k])) is None:
                    del numbers_of[k]
                else:
                    numbers_of[k].append(array)
    parsed = {k: _joined(blocks) for k, blocks in numbers_of.items()}
    unread: dict[int, list[str]] = {k: [] for k in places if k not in cells_of and parsed.get(k) is None}
    if unread:
        with records(text, ",") as rows:  # again, because the text of what seemed to be numbers is not kept
            next(rows)
            for _, row in rows:
                for k, column_cells in unread.items() if row else ():
                    column_cells.append(row[k])
    read = {k: Column(cells) for k, cells in (cells_of | unread).items()}
    read |= {k: column for k, column in parsed.items() if column is not None}
    return ColumnTable([names[k] for k in places], [read[k] for k in places])


@contextmanager
def records(text: str, separator: str, blanks: bool = False) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """The records of a CSV file, each with the number of its first line; `blanks` may follow a separator."""
    stand_in = ""
    if "\0" in text and sys.version_info < (3, 11):  # where the module csv refuses it
        stand_in = next(chr(code) for code in range(0xE000, 0xF900) if chr(code) not in text)
        text = text.replace("\0", stand_in)

    def lines() -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=blanks)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                why = "a quote is never closed" if "end of data" in str(error) else shortened(str(error))
                raise ValueError(
                    f"line {line} cannot be read ({why}): write a quote inside of a quoted text twice"
                ) from None
            yield line, [cell.replace(stand_in, "\0") for cell in cells] if stand_in else cells

    with _CSV_LOCK:  # the limit is that of the whole process
        before = csv.field_size_limit(max(len(text), csv.field_size_limit()))
        try:
            yield lines()
        finally:
            csv.field_size_limit(before)


def to_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Return records, which all have the same fields, as the text of a CSV file."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    rows = [list(records[0]), *(record.values() for record in records)]
    writer.writerows([escape(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return out.getvalue()


def _cells(column: Any, change: Callable[[str], str]) -> list[str]:
    """The cells of a column, as they are in the file."""
    values = column.values if isinstance(column, Column) else column
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.dtype.itemsize < 8:
        return [str(text) for text in values.astype(str).tolist()]  # the shortest text that gives the same number
    plain = column.to_pylist()
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf" and not np.ma.isMaskedArray(values):
        return list(map(repr, plain))
    return [_cell(value, change) for value in plain]


def _cell(value: Any, change: Callable[[str], str]) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else _quoted(change(str(value)))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _blocks(rows: Iterator[tuple[int, list[str]]], width: int) -> Iterator[list[list[str]]]:
    """The rows that are not empty, some at a time; ValueError for a row that has more or fewer cells than the first."""
    block: list[list[str]] = []
    for line, cells in rows:
        if not cells:
            continue
        if len(cells) != width:
            raise ValueError(f"line {line} has {len(cells)} cells, but the first line has {width}")
        block.append(cells)
        if len(block) == ROWS_PER_BLOCK:
            yield block
            block = []
    if block:
        yield block


def _numbers(cells: Sequence[str]) -> NDArray | None:
    """Cells as numbers: int64 if all are whole, else float64; masked where one is missing. None if one is text."""
    joined = "".join(cells)
    if "_" in joined or not joined.isascii():  # Python would read 1_000 and the digits of all scripts
        return None
    try:
        if WHOLE_NUMBERS.fullmatch(joined) and all(len(cell) < MAX_WHOLE_DIGITS for cell in cells):
            return np.array(cells, np.int64)
        numbers = np.array(cells, np.float64)
    except ValueError:
        numbers = None
    if numbers is not None and not np.isnan(numbers).any():
        return numbers
    present = np.array([cell not in MISSING for cell in cells])
    if present.all():
        return numbers
    numbers = _numbers([cell for cell in cells if cell not in MISSING])
    if numbers is None:
        return None
    array: NDArray = np.ma.masked_all(len(cells), numbers.dtype)  # type: ignore[no-untyped-call]
    array[present] = numbers
    return array


def _joined(blocks: Sequence[NDArray]) -> Column | None:
    """The numbers of a column; None if it has no number at all."""
    if not blocks:
        return None
    if not any(isinstance(block, np.ma.MaskedArray) for block in blocks):
        return Column(np.concatenate(blocks))
    column = Column(np.ma.concatenate(blocks))  # type: ignore[no-untyped-call]
    return column if column.null_count < len(column) else None

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from handful.utils.columns import ColumnTable, NDArray, object_array
from handful.utils.text import shortened

FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # the last four are = + - @ of East Asian keyboards
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TEXT_COLUMNS = ("path", "label", "closest", "decision", "labelled_by", "nearest_1", "nearest_2", "nearest_3")
MISSING = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
     "NaN", "n/a", "nan", "null"]
)  # a missing number: the words that PyArrow's reader takes for one  # fmt: skip
WHOLE_NUMBERS = re.compile(rb"[-+0-9 \t]+")
MAX_WHOLE_DIGITS = 18  # longer ones may not fit into 64 bits
MAX_PACKED_LENGTH = 64  # of cells that may be numbers
ROWS_PER_BLOCK = 256  # rows of cells that are in memory as Python's texts: few enough for the processor's cache


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


# ---- read


def records(text: str, separator: str, blanks: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV file, each with the number of its first line; `blanks` may follow a separator."""
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # of the whole process, so it only grows
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
        yield line, cells


def parse(path: Path | str) -> list[tuple[str, NDArray]]:
    """The names and cells of the columns of a UTF-8 CSV file; short cells stay bytes [n], which take less memory."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text, at byte {error.start:,}") from None
    lines = records(text, ",")
    names = next(lines, (0, []))[1]
    if not names:
        raise ValueError("it is empty: its first line must name the columns")
    columns: list[list[NDArray]] = [[] for _ in names]
    rows = _of_width(lines, len(names))
    while block := list(islice(rows, ROWS_PER_BLOCK)):
        for blocks, cells in zip(columns, zip(*block, strict=True), strict=True):
            joined = "".join(cells)
            is_short = joined.isascii() and "\0" not in joined and max(map(len, cells)) <= MAX_PACKED_LENGTH
            blocks.append(np.array(cells, "S") if is_short else object_array(cells))
    return [(name, _joined(blocks)) for name, blocks in zip(names, columns, strict=True)]


def _of_width(lines: Iterable[tuple[int, list[str]]], width: int) -> Iterator[list[str]]:
    """The rows that are not empty; ValueError for one that has more or fewer cells than the first."""
    for line, cells in lines:
        if len(cells) == width:
            yield cells
        elif cells:
            raise ValueError(f"line {line} has {len(cells)} cells, but the first line has {width}")


def _joined(blocks: Sequence[NDArray]) -> NDArray:
    if not blocks or any(block.dtype == object for block in blocks):
        return object_array([text for block in blocks for text in texts_of(block)])
    return np.concatenate(blocks)


def texts_of(column: NDArray) -> list[str]:
    """The cells of a column as they are written."""
    texts: list[str] = (column.astype(str) if column.dtype.kind == "S" else column).tolist()
    return texts


def numbers_of(column: NDArray) -> NDArray | None:
    """The cells of a column as int64 or float64, masked where one is missing; None if they are no numbers."""
    if column.dtype.kind != "S" or (is_missing := np.isin(column, [word.encode() for word in MISSING])).all():
        return None
    cells = column[~is_missing] if is_missing.any() else column
    is_whole = WHOLE_NUMBERS.fullmatch(joined := b"".join(cells.tolist())) and cells.itemsize <= MAX_WHOLE_DIGITS
    try:
        numbers: NDArray = cells.astype(np.int64 if is_whole else np.float64)
    except ValueError:
        return None
    if b"_" in joined:  # Python would read 1_000
        return None
    if len(cells) == len(column):
        return numbers
    masked: NDArray = np.ma.masked_all(len(column), numbers.dtype)  # type: ignore[no-untyped-call]
    masked[~is_missing] = numbers
    return masked


def read_table(path: Path | str) -> ColumnTable:
    """Read a CSV file that handful wrote: columns of numbers become numbers, but for the `TEXT_COLUMNS`."""
    table: dict[str, Any] = {}
    for name, column in parse(path):
        numbers = None if name in TEXT_COLUMNS else numbers_of(column)
        table[unescape(name)] = list(map(unescape, texts_of(column))) if numbers is None else numbers
    return ColumnTable(table)


# ---- write


def write_table(table: Mapping[str, NDArray], path: Path | str, *, change: Callable[[str], str] = escape) -> None:
    """Write columns, with texts and names escaped and quoted; a missing value is an empty cell."""
    texts = [_cells(values, change) for values in table.values()]
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(_quoted(change(name)) for name in table) + "\n")
        file.writelines(",".join(row) + "\n" for row in zip(*texts, strict=True))


def _cells(values: NDArray, change: Callable[[str], str]) -> list[str]:
    if values.dtype.kind == "f" and values.dtype.itemsize < 8:
        return list(values.astype(str).tolist())  # the shortest text that gives the same number
    return [_cell(value, change) for value in values.tolist()]


def _cell(value: Any, change: Callable[[str], str]) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else _quoted(change(str(value)))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'

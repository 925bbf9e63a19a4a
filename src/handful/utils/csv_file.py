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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # the last four are = + - @ of East Asian keyboards
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TEXT_COLUMNS = ("path", "label", "closest", "decision", "labelled_by", "nearest_1", "nearest_2", "nearest_3")


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


def write_table(table: Any, path: Path) -> None:
    """Write a `pyarrow.Table`; text and column names are escaped."""
    from pyarrow import csv as arrow_csv

    arrow_csv.write_csv(_mapped(table, escape), path)


def read_table(path: Path) -> Any:
    """Read a CSV file that handful wrote as a `pyarrow.Table`.

    Columns of numbers become numbers. `path`, `label` and the other `TEXT_COLUMNS` stay text, even if all their cells
    look like numbers.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    multiline = arrow_csv.ParseOptions(newlines_in_values=True)  # file names may contain newlines
    as_text = arrow_csv.ConvertOptions(column_types=dict.fromkeys(TEXT_COLUMNS, pa.string()))
    return _mapped(arrow_csv.read_csv(path, parse_options=multiline, convert_options=as_text), unescape)


def to_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Return records, which all have the same fields, as the text of a CSV file."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    rows = [list(records[0]), *(record.values() for record in records)]
    writer.writerows([escape(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return out.getvalue()


def _mapped(table: Any, change: Any) -> Any:
    import pyarrow as pa

    columns = []
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = pa.array([None if text is None else change(text) for text in column.to_pylist()], column.type)
        columns.append(column)
    return pa.table(columns, names=[change(name) for name in table.column_names])

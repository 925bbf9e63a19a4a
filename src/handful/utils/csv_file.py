"""CSV files whose cells no spreadsheet takes for formulas, and which are read back exactly.

A spreadsheet computes a cell that begins with = + - @, a tab or a line break, so a class or a file called
`=HYPERLINK(...)` would be run by whoever opens the table. Such text gets an apostrophe before it (as OWASP's "CSV
Injection" says), and so does text that has apostrophes before such a character already: what is read back is
exactly what was written. Numbers are not text, and text that is a plain number, as -5, is left as it is.

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
    """The text as a cell that is no formula; `unescape` takes it back.

    >>> escape("=1+1"), escape("'=1+1"), escape("-5"), escape("a=b")
    ("'=1+1", "''=1+1", '-5', 'a=b')
    """
    return f"'{text}" if _is_formula(text) else text


def unescape(cell: str) -> str:
    """What `escape` was given. Only for files that handful wrote: in others an apostrophe is just an apostrophe."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def _is_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None


def write_table(table: Any, path: Path) -> None:
    """Write a `pyarrow.Table`; text and the names of columns are escaped."""
    from pyarrow import csv as arrow_csv

    arrow_csv.write_csv(_mapped(table, escape), path)


def read_table(path: Path) -> Any:
    """A CSV file that handful wrote, as a `pyarrow.Table` with its text as it was; columns of numbers are numbers.

    `path`, `label` and the other columns of text stay text, also where all of it looks like numbers.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    multiline = arrow_csv.ParseOptions(newlines_in_values=True)  # names of files may have them
    as_text = arrow_csv.ConvertOptions(column_types=dict.fromkeys(TEXT_COLUMNS, pa.string()))
    return _mapped(arrow_csv.read_csv(path, parse_options=multiline, convert_options=as_text), unescape)


def to_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Records of the same fields as the text of a CSV file."""
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

"""Tables of texts: one text in each row, with labels in some of them, and every other column carried along.

Cells are kept as they are written: those of a CSV file stay text, those of a Parquet file keep their type. What is odd
about a file is said in sentences, or refused with the number of the line.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from handful.features.feature_columns import listed, other_columns
from handful.features.labels import NDArray, check_missing_words, clean_labels
from handful.features.parquet_file import (
    NAMES_KEY,
    columns_of,
    is_carried,
    is_list_of_numbers,
    is_number,
    open_parquet,
    read_arrow,
)
from handful.features.table import FeatureTable, free_name
from handful.utils.columns import object_array
from handful.utils.csv_file import records
from handful.utils.files import parse_json
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.text import counted, decode, is_blank, shortened

SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (*SEPARATORS, *JSON_LINES, ".parquet")
OTHER_SEPARATORS = (";", "\t", "|")  # that are recognised in a header of one cell
ARCHIVES = {b"PK\x03\x04": "an Excel workbook or a zip file", b"\x1f\x8b": "a gzip file", b"PAR1": "a Parquet file"}
HALF_CHARACTERS = re.compile("[\ud800-\udfff]")  # JSON can hold halves of characters, UTF-8 cannot
PEEK_BYTES = 2**18  # of a file from which its kind is guessed
NAME_COLUMNS = ("path", "id")  # that may name the rows
MAX_NAME_CHARACTERS = 200  # of a row or a class
FEATURE_OPTIONS = ("embedding", "columns", "exclude")  # whoever gives one of them has a table of features
TEXT_NAMES = (
    "text", "texts", "sentence", "utterance", "message", "body", "content", "review", "comment", "question", "query",
    "description", "tweet", "post", "ticket", "email", "document", "abstract", "prompt", "summary", "title", "subject",
    "headline",
)  # fmt: skip
LABEL_NAMES = ("label", "labels")
OTHER_LABEL_NAMES = ("intent", "category", "class", "topic", "tag")  # used where the column of texts is sure
ID_NAMES = ("id", "ids", "index", "uuid", "guid", "path", "file", "url", "split", "date", "time")
NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*%?", re.ASCII)
WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")  # Thai, Lao, Japanese, Chinese
MAX_SAMPLED_CELLS = 500
MIN_WORDS = 3  # of a text that is language, in the median
MIN_NAMED_WORDS = 2  # of a text in a column that is called so
MIN_DISTINCT = 0.5  # of the cells
MAX_NUMBER_COLUMNS = 15  # beside texts; more of them are features
MIN_SERIES = 3  # columns of numbers called f0, f1, f2 are features


def read_text_table(path: str | Path, *, text: str | None = None, label: str | None = None) -> FeatureTable:
    """Read a table of texts; `text` and `label` are columns, by default found by names and looks."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    if not path.is_file() or path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{str(path)!r} is no table of texts: these are {', '.join(SUFFIXES)} files")
    try:
        notes: list[str] = []
        return _text_table(_read_cells(path, notes), notes, path, text, label)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None


def is_text_table(path: Path, options: Mapping[str, Any] | None = None) -> bool:
    """Whether a file is a table of texts, and not of features, by its first rows. options: of `features.read`."""
    suffix = path.suffix.lower()
    if not path.is_file() or suffix not in SUFFIXES or has_features(path, options):
        return False
    is_only_of_texts = suffix not in (".csv", ".parquet")  # features are not read from these
    return is_only_of_texts or holds_texts(peek_cells(path), (options or {}).get("label"))


def has_features(path: Path, options: Mapping[str, Any] | None = None) -> bool:
    """Whether a table has features for certain: the user named them, or it has lists of numbers or many numbers."""
    if any((options or {}).get(name) for name in FEATURE_OPTIONS):
        return True
    if path.suffix.lower() != ".parquet":
        return False
    try:
        with open_parquet(path) as file:
            schema = file.schema_arrow
    except (OSError, ValueError):
        return True  # whoever reads features says what is wrong
    if NAMES_KEY in (schema.metadata or {}) or sum(is_number(field.type) for field in schema) > MAX_NUMBER_COLUMNS:
        return True
    return any(is_list_of_numbers(field.type) for field in schema)


def _text_table(
    columns: dict[str, NDArray], notes: list[str], path: Path, text: str | None, label: str | None
) -> FeatureTable:
    if not (rows := max(map(len, columns.values()), default=0)):
        raise ValueError("the table has no rows: its first line names the columns, and the others are its rows")
    text_column, reason = find_text_column(columns, text, label)
    label_column = find_label_column(columns, text_column, label)
    texts = ["" if value is None else str(value) for value in columns[text_column].tolist()]
    found = "there is no column of labels" if label_column is None else f"the labels in {shortened(label_column)!r}"
    because = f", {reason}" if reason else ""
    notes = [f"The texts are in the column {shortened(text_column)!r}{because}; {found}.", *notes]
    labels = None
    if label_column is not None:
        cells = columns[label_column].tolist()
        if not all(cell is None or type(cell) is int for cell in cells):
            cells = [None if cell is None or cell != cell else str(cell) for cell in cells]
        labels = clean_labels(cells)
        check_missing_words(labels)
        if long := [name for name in labels.tolist() if len(str(name)) > MAX_NAME_CHARACTERS]:
            raise ValueError(f"{shortened(long[0], 40)!r} is too long for a label: name their column with --label")
    name_column = _find_names(columns, notes)
    paths = None if name_column is None else [str(value) for value in columns[name_column].tolist()]
    # `path` is the first column of every output
    others = {name: cells for name, cells in columns.items() if name != "path" or name_column != "path"}
    source = {"features": str(path), "text": text_column} | ({} if label_column is None else {"label": label_column})
    return FeatureTable(
        np.empty((rows, 0), np.float32), labels, paths, name=path.stem, others=others, texts=texts, source=source,
        notes=[f"{shortened(path.name)}: {note[0].lower()}{note[1:]}" for note in notes],
    )  # fmt: skip


def _find_names(columns: Mapping[str, NDArray], notes: list[str]) -> str | None:
    """The column that names the rows; None if there is none whose values are all there, short and distinct."""
    for name in NAME_COLUMNS:
        if name not in columns:
            continue
        values = ["" if value is None else str(value) for value in columns[name].tolist()]
        is_fit = all(value == value.strip()[:MAX_NAME_CHARACTERS] and not is_blank(value) for value in values)
        if is_fit and len(set(values)) == len(values):
            return name
        notes.append(f"The values of {name} are not all there, short and distinct: rows are named by their number.")
    return None


# ---- the cells of a file, by column


def peek_cells(path: Path) -> dict[str, NDArray]:
    """The first rows of a table, from which its kind is guessed. A file that cannot be read gives an empty table."""
    try:
        return _read_cells(path, [], PEEK_BYTES)
    except (OSError, ValueError):  # whoever reads it whole says what is wrong
        return {}


def _read_cells(path: Path, notes: list[str], max_bytes: int | None = None) -> dict[str, NDArray]:
    """The columns of a table, or of its beginning; what is odd about it is added to the notes."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parse_parquet(path, notes)
    if max_bytes is None:
        check_bytes(TEXT_EXPANSION * path.stat().st_size, "the table")
    with path.open("rb") as file:
        data = file.read(-1 if max_bytes is None else max_bytes)
    for start, what in ARCHIVES.items():
        if data.startswith(start):
            raise ValueError(f"the file is {what} by its content: save it as .csv, .jsonl or .parquet, under that name")
    if is_cut := len(data) == max_bytes:
        data = data[: data.rfind(b"\n") + 1] or data
    text, problem = decode(data)
    if problem:
        notes.append(f"{problem[0].upper()}{problem[1:]}: save the file as UTF-8 if letters look wrong.")
    return _parse_json_lines(text) if suffix in JSON_LINES else _parse_csv(text, SEPARATORS[suffix], notes, is_cut)


def _parse_csv(text: str, separator: str, notes: list[str], is_cut: bool) -> dict[str, NDArray]:
    """The cells by column. Rows that are too short are filled with blanks; rows that are too long are refused."""
    lines = records(text, _separator(text, separator, notes))
    first = next(lines, None)
    if first is None:
        raise ValueError("the table is empty: its first line must name the columns")
    names = _names(first[1], notes)
    short, trailing = [], []
    rows: list[list[str]] = []
    try:
        for line, cells in lines:
            if any(cell.strip() for cell in cells[len(names) :]):
                raise ValueError(
                    f"line {line} has {len(cells)} cells, but the first line has {len(names)}: "
                    "put quotes around a text that has the separator in it"
                )
            if not cells:
                continue  # an empty line
            if len(cells) < len(names):
                short.append(line)
            elif len(cells) > len(names):
                trailing.append(line)
            rows.append(cells)
    except ValueError:
        if not is_cut:  # the last record may be cut off
            raise
    if short:
        rows_in_words = f"{counted(len(short), 'row')} had fewer cells than the first line"
        notes.append(f"{rows_in_words}, the first in line {short[0]}: the missing cells are blank.")
    if trailing:
        notes.append(f"Blank cells beyond the last column were left out, the first in line {trailing[0]}.")
    return {name: object_array(cells[k] if k < len(cells) else "" for cells in rows) for k, name in enumerate(names)}


def _separator(text: str, separator: str, notes: list[str]) -> str:
    """Another separator, if the first line has none of the usual one outside of quotes."""
    line = re.sub(r'"[^"\n]*"', "", text[: text.find("\n") + 1] or text)
    other = next((other for other in OTHER_SEPARATORS if other in line), None)
    if separator in line or other is None:
        return separator
    notes.append(f"The columns are separated by {other!r}.")
    return other


def _names(cells: Sequence[str], notes: list[str]) -> list[str]:
    """The names of columns: each once, and none blank."""
    names: dict[str, None] = {}
    for cell in cells:
        plain = cell if cell.strip() else "index"
        name = plain if plain not in names else free_name(plain, {*names, *cells})
        if name != plain:
            notes.append(f"There is more than one column {shortened(cell)!r}: one of them is called {name!r} now.")
        names[name] = None
    return list(names)


def _parse_json_lines(text: str) -> dict[str, NDArray]:
    """One object in each line; its names are the columns. A list or an object in a cell stays JSON."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(re.split("\r\n|\n|\r", text), 1):
        if line.strip():
            row = parse_json(line, f"line {number}")
            rows.append({_json_cell(name) if name.strip() else "index": _json_cell(row[name]) for name in row})
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: object_array(row.get(name) for row in rows) for name in names}


def _json_cell(value: Any) -> Any:
    if isinstance(value, str):
        return HALF_CHARACTERS.sub("\ufffd", value)
    return json.dumps(value) if isinstance(value, list | dict) else value


def _parse_parquet(path: Path, notes: list[str]) -> dict[str, NDArray]:
    left: list[str] = []

    def choose(schema: Any) -> list[str]:
        left.extend(column.name for column in schema if not is_carried(column.type))
        return [column.name for column in schema if is_carried(column.type)]

    columns = other_columns(columns_of(read_arrow(path, choose)))
    if left:
        notes.append(f"Columns of lists or of binary data are not carried along: {listed(left)}.")
    return columns


# ---- which column holds texts, and which holds labels: by their names, and by how their cells look


class Look(NamedTuple):
    """How the cells of a column look."""

    cells: int = 0
    words: float = 0.0  # in the median
    numbers: float = 0.0  # share
    is_language: bool = False  # whether it looks like sentences

    @property
    def is_text(self) -> bool:
        """Whether it may hold texts: not only numbers."""
        return self.cells > 0 and self.numbers < 1


def look_at(cells: NDArray) -> Look:
    """How the cells of a column look, from a sample of those that are not blank."""
    values = [x for x in cells.tolist() if x is not None and not (isinstance(x, str) and is_blank(x))]
    sample: list[Any] = values[:: max(1, len(values) // MAX_SAMPLED_CELLS)][:MAX_SAMPLED_CELLS]
    if not sample:
        return Look()
    texts = [value[:10_000] if isinstance(value, str) else None for value in sample]
    numbers = sum(text is None or NUMBER.fullmatch(text) is not None for text in texts)
    words = median(0 if text is None else len(text.split()) + len(WITHOUT_SPACES.findall(text)) // 2 for text in texts)
    is_distinct = len({str(text) for text in texts}) >= MIN_DISTINCT * len(texts)
    is_language = words >= MIN_WORDS and is_distinct and numbers < len(texts) / 2
    return Look(len(values), words, numbers / len(texts), is_language)


def _looks(columns: Mapping[str, NDArray], label: str | None) -> dict[str, Look]:
    """How columns look that may hold texts: all but those of labels."""
    return {name: look_at(cells) for name, cells in columns.items() if name != label and _key(name) not in LABEL_NAMES}


def find_text_column(
    columns: Mapping[str, NDArray], text: str | None = None, label: str | None = None
) -> tuple[str, str]:
    """The column of texts, and why it is that one: "" if the user named it. `label` is never the one of texts."""
    names = list(columns)
    if text is not None:
        if text not in columns:
            raise ValueError(f"there is no column {shortened(text)!r}, only {listed(names)}: name one with --text")
        if (look := look_at(columns[text])).cells and not look.is_text:
            raise ValueError(
                f"column {shortened(text)!r} has only numbers: name a column of texts with --text, or leave it out if "
                f"numbers are the features (the columns are {listed(names)})"
            )
        return text, ""
    looks = _looks(columns, label)
    may_be = {name: look for name, look in looks.items() if look.is_text and look.numbers < 0.5}
    if name := _by_name(list(may_be), TEXT_NAMES):
        return name, "by its name"
    language = {name: look for name, look in may_be.items() if look.is_language}
    for usual in TEXT_NAMES:  # review_body, TicketText
        for name in language:
            if usual in re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).casefold()):
                return name, "by its name"
    if language:
        return max(language, key=lambda name: language[name].words), "because it looks like language"
    rest = [name for name in may_be if _key(name) not in (*ID_NAMES, *OTHER_LABEL_NAMES)]
    if len(rest) == 1:
        return rest[0], "because no other column may hold texts"
    if not may_be:
        raise ValueError(f"no column holds texts, they hold numbers or nothing: there are {listed(names)}")
    raise ValueError(f"it is not clear which column holds the texts: name it with --text; there are {listed(names)}")


def find_label_column(columns: Mapping[str, NDArray], text: str | None, label: str | None = None) -> str | None:
    """The column of labels: the one that the user named, or one with a usual name; None if there is none."""
    names = [name for name in columns if name != text]
    if label is not None and label not in columns:
        raise ValueError(f"there is no column {shortened(label)!r}, only {listed([*columns])}: name one with --label")
    if label is not None and label == text:
        raise ValueError(f"column {shortened(label)!r} cannot hold both the texts and the labels")
    return label or _by_name(names, LABEL_NAMES) or _by_name(names, OTHER_LABEL_NAMES)


def holds_texts(columns: Mapping[str, NDArray], label: str | None = None) -> bool:
    """Whether a table is one of texts: a column looks like language, and few are numbers, no f0, f1, f2."""
    looks = _looks(columns, label)
    numbers = [name for name, look in looks.items() if look.cells and look.numbers >= 0.5]
    series = Counter(stem for name in numbers if (stem := name.rstrip("0123456789")) != name)
    has_series = max(series.values(), default=0) >= MIN_SERIES
    if "embedding" in columns or len(numbers) > MAX_NUMBER_COLUMNS or has_series:
        return False
    if (not numbers and any(look.cells for look in looks.values())) or any(x.is_language for x in looks.values()):
        return True
    named = [look for name, look in looks.items() if _key(name) in TEXT_NAMES and (look.is_text or not look.cells)]
    has_words = any(look.words >= MIN_NAMED_WORDS for look in named)
    return has_words or (bool(named) and all(_key(name) in ID_NAMES for name in numbers))


def _by_name(names: Sequence[str], usual: Sequence[str]) -> str | None:
    keys = {_key(name): name for name in reversed(names)}
    return next((keys[key] for key in usual if key in keys), None)


def _key(name: str) -> str:
    return name.strip().casefold()

"""Tables of columns to feature tables: which columns are features, labels, paths and splits.

A mistake that nobody notices is worse than an error: one word among the numbers of a column, a file without a header,
labels in a column named `Label`. Columns that count or name the rows are not features either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import as_features
from handful.features.arrow_table import COLUMNS_KEY, LABEL, PATH, SPLIT, TEXT_KEY
from handful.features.base_mean import mean_of_metadata
from handful.features.file_checks import OPTIONS, OTHER_COLUMNS, ColumnChoice, class_names, listed, parse_json
from handful.features.labels import NDArray, check_missing_words, clean_labels
from handful.features.table import FeatureTable, free_name
from handful.utils.columns import Column, ColumnTable, object_array
from handful.utils.limits import check_bytes
from handful.utils.text import shortened

INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|\s*")  # names of the index of a frame in files of pandas
NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")  # also with a decimal comma
ID_NAME = re.compile(r"(.*[^a-z])?(ids?|idx|index|indices|uuid|guid|row|rowid|row[ _.-]?(id|number|num|nr|no))", re.I)
CAMEL_ID = re.compile(r".*[a-z](Id|ID|Index|Idx)")
LABEL_NAMES = ("labels", "class", "classes", "target", "targets", "y")  # in a table without a column `label`
MIN_COUNTED_ROWS = 5  # 1, 2, 3, 4 may be a feature by chance
MAX_NAME_LETTERS = 10_000  # of a column


def from_columns(table: ColumnTable, choice: ColumnChoice, *, stored: int | None = None) -> FeatureTable:
    """A feature table of all columns of a file. stored: bytes of the file, if it is one."""
    about = about_columns(table.metadata)
    if long := [name for name in table.column_names if len(name) > MAX_NAME_LETTERS]:
        raise ValueError(f"the name of column {shortened(long[0])!r} has {len(long[0]):,} letters: rename it")
    if not table.num_rows:
        raise ValueError("features is empty: the table has no rows")
    choice = stored_choice(choice, table.column_names, table.metadata)
    columns: list[str] | None = None
    set_aside: list[str] = []
    if choice.columns is None and (choice.embedding is not None or choice.embedding_column in table.column_names):
        features = _embeddings(table.column(choice.embedding_column), choice.embedding_column, stored)
        names = _stored_names(table.metadata)
        columns = names if names is not None and len(names) == features.shape[1] else None
        used = {choice.embedding_column}
    else:
        columns, features, set_aside = _columns_of_numbers(table, choice, stored)
        used = set(columns)
    flat = {key: name for key, name in ((LABEL, choice.label_column), (PATH, PATH), (SPLIT, SPLIT))
            if name in table.column_names}  # fmt: skip
    values = {key: _values(table.column(name), about.get(name), name) for key, name in flat.items()}
    for key in values.keys() & {PATH, SPLIT}:  # numbers that name rows
        values[key] = [str(value) if isinstance(value, float) and value == value else value for value in values[key]]
    labels = None if LABEL not in values else clean_labels(_plain_labels(values[LABEL]))
    if labels is not None and not _has_class_names(about.get(choice.label_column)):
        check_missing_words(labels)
    used |= set(flat.values())
    others = other_columns(table, used, about)
    return FeatureTable(
        features, labels, values.get(PATH), values.get(SPLIT), base_mean=mean_of_metadata(table.metadata),
        columns=columns, others=others, set_aside=set_aside, **_texts(table.metadata, others),
    )  # fmt: skip


def other_columns(table: ColumnTable, used: set[str], about: Any = None) -> dict[str, NDArray]:
    """The columns that are carried along: one text, number or date a row."""
    others: dict[str, NDArray] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in used or column.values.ndim > 1:
            continue
        if column.is_number and not column.null_count:
            values = column.to_numpy()
        else:
            values = object_array(_values(column, (about or {}).get(name), name))
        others[free_name(name.strip() or "index", others)] = values
    return others


def _values(column: Column, about: Any, name: str) -> list[Any]:
    values = column.to_pylist()
    if _has_class_names(about):
        return list(class_names(values, about["names"], f"column {name!r}", unlabelled=-1))
    return values


def _has_class_names(about: Any) -> bool:
    return isinstance(about, dict) and about.get("_type") == "ClassLabel" and bool(about.get("names"))


def _plain_labels(values: list[Any]) -> list[Any]:
    """True and False, dates and the like as texts."""
    plain = (str, bytes, int, float, type(None))
    return [value if isinstance(value, plain) and not isinstance(value, bool) else str(value) for value in values]


# ---- what a Parquet file says of its columns


def about_columns(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """What Hugging Face `datasets` noted of the columns; empty if it did not write the file."""
    text = metadata.get(b"huggingface")
    content = {} if text is None else parse_json(text, "the schema's metadata `huggingface`")
    info = content.get("info", {})
    about = info.get("features") or {} if isinstance(info, dict) else None
    if not isinstance(about, dict):
        raise ValueError("the schema's metadata `huggingface` has no object `info` with `features`: write it again")
    return about


def stored_choice(choice: ColumnChoice, columns: Sequence[str], metadata: Mapping[bytes, bytes] | None) -> ColumnChoice:
    """The choice, with the feature columns that a table of columns itself names, unless the user names others."""
    names = _stored_names(metadata or {})
    is_chosen = choice.columns is not None or choice.embedding is not None or choice.exclude
    if names is None or is_chosen or choice.embedding_column in columns:
        return choice
    return replace(choice, columns=tuple(names))


def _stored_names(metadata: Mapping[bytes, bytes]) -> list[str] | None:
    text = metadata.get(COLUMNS_KEY)
    if text is None:
        return None
    where = f"{COLUMNS_KEY.decode()} of the schema's metadata"
    try:
        names = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON, or is damaged: {shortened(str(error), 200)}") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{where} is not a list of texts: write the file again")
    return names


def _texts(metadata: Mapping[bytes, bytes], others: dict[str, NDArray]) -> dict[str, Any]:
    """The texts from which the features were made, if the file says which column holds them."""
    name = metadata.get(TEXT_KEY, b"").decode("utf-8", "replace")
    if name not in others:
        return {}
    return {"texts": [value if isinstance(value, str) else "" for value in others[name]], "source": {"text": name}}


# ---- features


def _embeddings(column: Column, name: str, stored: int | None) -> NDArray:
    """[n, D] of a column of lists of numbers, or of JSON lists; a text that occurs in several rows is parsed once."""
    if column.values.ndim == 2:
        return to_numpy(as_features(column.values, "features"))
    texts = column.to_pylist()
    rows: dict[Any, NDArray] = {}
    width = -1
    for i, text in enumerate(texts):
        if text in rows:
            continue
        try:
            row = np.asarray(json.loads(text))
        except (TypeError, ValueError, RecursionError):
            row = np.empty(0)
        if row.ndim != 1 or row.dtype.kind not in "iuf" or not len(row):
            raise ValueError(f"column {name!r} is text, but not a JSON list of numbers in row {i}")
        width = len(row) if width < 0 else width
        if len(row) != width:
            raise ValueError(f"column {name!r} has {width} numbers in row 0 but {len(row)} in row {i}")
        if not rows:
            check_bytes(8 * width * len(texts), f"column {name!r}", stored)
        rows[text] = row
    return np.stack([rows[text] for text in texts]).astype(np.float64)


def _columns_of_numbers(
    table: ColumnTable, choice: ColumnChoice, stored: int | None
) -> tuple[list[str], NDArray, list[str]]:
    """The columns that are features, their values [n, D], and columns that look like something else.

    They are the columns that the user named; or else all columns of numbers that do not look like ids, row numbers or
    labels.
    """
    columns = [*zip(table.column_names, table.columns, strict=True)]
    found: list[tuple[str, NDArray]] = []  # names may occur twice
    if choice.columns is not None:
        for name in choice.find_columns(table.column_names):
            for column in (column for other, column in columns if other == name):
                if not column.is_number:
                    raise ValueError(f"column {name!r} holds text: a feature is a number")
                found.append((name, column.to_numpy()))
    else:
        beside = (*OTHER_COLUMNS, choice.label_column)
        for name, column in columns:
            if name in beside or is_left_out(name, choice):
                continue
            if column.is_number:
                found.append((name, column.to_numpy()))
            elif not _is_id_name(name):
                _check_text(name, column)
    check_bytes(8 * table.num_rows * len(found), "the columns of numbers", stored)
    _check_names([name for name, _ in found])
    set_aside: list[str] = []
    if choice.columns is None:
        has_labels = choice.label_column in table.column_names
        odd = [looks_like_no_feature(name, x, has_labels) for name, x in found]
        set_aside = [name for (name, _), is_odd in zip(found, odd, strict=True) if is_odd]
        found = [each for each, is_odd in zip(found, odd, strict=True) if not is_odd]
        if set_aside and not found:
            raise ValueError(
                f"the only columns of numbers, {listed(set_aside)}, look like ids, row numbers or labels: if they are "
                f"features, name them with {OPTIONS['columns']}"
            )
    if not found:
        raise ValueError(
            f"there is no column {choice.embedding_column!r} and no column of numbers, only "
            f"{listed(table.column_names)}: name the right one with {OPTIONS['embedding']}"
        )
    stacked = np.column_stack([values for _, values in found])
    return [name for name, _ in found], to_numpy(as_features(stacked, "features")), set_aside


def _check_names(names: Sequence[str]) -> None:
    """ValueError if the first line of a file holds numbers; names 0, 1, 2, ... of a frame are names."""
    is_header = all(map(str.isdecimal, names)) and len(set(names)) == len(names)
    if names and all(map(NUMBER.fullmatch, names)) and not is_header:
        raise ValueError(f"the first line holds numbers, as {names[0]!r}: it must hold the names of the columns")


def is_left_out(name: str, choice: ColumnChoice) -> bool:
    """Whether a column is never a feature: the index of a frame, or excluded by the user."""
    return INDEX.fullmatch(name) is not None or choice.is_excluded(name)


def check_header(columns: Sequence[str], special: Sequence[str]) -> None:
    """Raise ValueError for names that are almost special ones, such as `Label`: likely mistakes."""
    if len(columns) == 1 and (mark := re.search(r"[;\t|]", columns[0])):
        raise ValueError(f"columns are separated by {mark[0]!r}: save it with commas, and a point in decimal numbers")
    for name in special:
        if columns.count(name) > 1:
            raise ValueError(f"there is more than one column {name!r}: rename all but one")
        alike = [column for column in columns if column.strip().casefold() == name.casefold()]
        if alike and name not in columns:
            raise ValueError(f"there is a column {alike[0]!r}, but no {name!r}: rename it")


def looks_like_no_feature(name: str, values: NDArray, has_labels: bool = True) -> bool:
    """Whether a column of numbers looks like ids, row numbers or labels, by its name or as it counts the rows.

    Examples
    --------
    >>> import numpy as np
    >>> looks_like_no_feature("image_id", np.array([7, 3])), looks_like_no_feature("refractive_index", np.array([1.5]))
    (True, False)
    >>> looks_like_no_feature("n", np.arange(1, 9))
    True
    """
    if not len(values) or not np.isfinite(values).all() or (values != np.floor(values)).any():
        return False
    if _is_id_name(name):
        return True
    if not has_labels and name.casefold() in LABEL_NAMES:
        return True
    return len(values) >= MIN_COUNTED_ROWS and values[0] in (0, 1) and bool((np.diff(values) == 1).all())


def _is_id_name(name: str) -> bool:
    return bool(ID_NAME.fullmatch(name) or CAMEL_ID.fullmatch(name))


def _check_text(name: str, column: Column) -> None:
    """A column of words is not a feature. Raise ValueError for numbers with a word among them, a likely mistake."""
    cells = [(row, cell) for row, cell in enumerate(column.to_pylist()) if isinstance(cell, str) and cell.strip()]
    words = [(row, cell) for row, cell in cells if not NUMBER.fullmatch(cell)]
    if len(cells) - len(words) < len(cells) / 2 or not cells:
        return
    if words:
        row, cell = words[0]
        raise ValueError(f"column {name!r} holds numbers, but {cell[:40]!r} in row {row}: repair or remove that row")
    if any("," in cell for _, cell in cells):
        raise ValueError(f"column {name!r} has numbers with a comma, as {cells[0][1]!r}: write them with a point")
    raise ValueError(
        f"column {name!r} holds numbers as text: make it numbers, or leave it out with exclude= (--exclude)"
    )

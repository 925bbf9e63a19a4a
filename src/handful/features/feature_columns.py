"""Columns of a file of features, whatever its kind, to a `FeatureTable` and back.

Readers hand over columns by name; here it is decided which of them are features, labels, paths and splits. A mistake
that nobody notices is worse than an error: one word among the numbers of a column, labels in a column named `Label`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import as_features
from handful.features.labels import NDArray, check_missing_words, clean_labels
from handful.features.table import FeatureTable, free_name
from handful.utils.columns import object_array
from handful.utils.text import shortened

EMBEDDING, LABEL, PATH, SPLIT = "embedding", "label", "path", "split"
OPTIONS = {  # in Python, of most commands, and of `handful label`
    "embedding": "embedding= (--embedding, or --set embedding=NAME)",
    "label": "label= (--label)",
    "columns": "columns= (--columns, or --set columns=NAMES)",
    "exclude": "exclude= (--exclude, or --set exclude=NAMES)",
}
INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|\s*")  # names of the index of a frame in files of pandas
NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")  # also with a decimal comma
ID_NAME = re.compile(r"(.*[^a-z])?(ids?|idx|index|indices|uuid|guid|row|rowid|row[ _.-]?(id|number|num|nr|no))", re.I)
CAMEL_ID = re.compile(r".*[a-z](Id|ID|Index|Idx)")
LABEL_NAMES = ("labels", "class", "classes", "target", "targets", "y")  # in a table without a column `label`
MIN_COUNTED_ROWS = 5  # 1, 2, 3, 4 may be a feature by chance


@dataclass(frozen=True)
class ColumnChoice:
    """The columns or arrays that the user named; None for the usual names. Patterns such as `f*` name several."""

    embedding: str | None = None
    label: str | None = None
    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()

    @property
    def embedding_column(self) -> str:
        """The name of the column of features."""
        return self.embedding or EMBEDDING

    @property
    def label_column(self) -> str:
        """The name of the column of labels."""
        return self.label or LABEL

    def is_never_a_feature(self, name: str) -> bool:
        """Whether a column is the label, path or split of rows, the index of a frame, or excluded by the user."""
        is_special = name in (LABEL, PATH, SPLIT, self.label_column) or INDEX.fullmatch(name) is not None
        return is_special or any(fnmatchcase(name, pattern) for pattern in self.exclude)

    def find_columns(self, names: Sequence[str]) -> list[str]:
        """The columns that match `columns`, in that order; each pattern must match at least one."""
        columns: dict[str, None] = {}
        for pattern in self.columns or ():
            matches = [name for name in names if name == pattern] or [n for n in names if fnmatchcase(n, pattern)]
            if not matches:
                raise ValueError(
                    f"there is no column {shortened(pattern)!r}, only {listed(names)}: "
                    f"name the right ones with {OPTIONS['columns']}"
                )
            columns |= dict.fromkeys(matches)
        return [name for name in columns if not any(fnmatchcase(name, pattern) for pattern in self.exclude)]


@dataclass(frozen=True)
class Content:
    """What a file holds: columns of numbers, masked where one is missing, of embeddings [n, D], or of objects."""

    columns: dict[str, NDArray]
    base_mean: Any = None
    names: Sequence[str] | None = None  # of the features, if they are stored in one column
    text: str | None = None  # the column of texts that the features are of
    written: Mapping[str, NDArray] = field(default_factory=dict)  # columns in the form in which they are carried along


# ---- checks of what a file has


def require(names: Sequence[str], name: str, what: str, option: str) -> None:
    """Raise ValueError unless `name` is there; `what` are columns, arrays or tensors."""
    if name not in names:
        there = f"there is no {what} {name!r}, only {listed(names)}"
        raise ValueError(f"{there}: name the right one with {OPTIONS[option]}")


def listed(names: Sequence[str]) -> str:
    """Some names for a message."""
    return shortened(", ".join(map(repr, names[:20])), 300) or "none"


def check_header(names: Sequence[str], choice: ColumnChoice) -> None:
    """Raise ValueError for names that are likely mistakes, such as two of one name, or `Label`."""
    if len(names) == 1 and (mark := re.search(r"[;\t|]", names[0])):
        raise ValueError(f"columns are separated by {mark[0]!r}: save it with commas, and a point in decimal numbers")
    for name in (choice.embedding_column, choice.label_column, PATH, SPLIT):
        if names.count(name) > 1:
            raise ValueError(f"there is more than one column {name!r}: rename all but one")
        alike = [column for column in names if column.strip().casefold() == name.casefold()]
        if alike and name not in names and choice.columns is None and name != SPLIT:
            raise ValueError(f"there is a column {alike[0]!r}, but no {name!r}: rename it")
    if choice.label is not None:
        require(names, choice.label, "column", "label")


# ---- from columns


def from_columns(content: Content, choice: ColumnChoice, name: str, source: str) -> FeatureTable:
    """The feature table of a file: every reader's columns become a table here."""
    columns, embedding = content.columns, choice.embedding_column
    if not any(map(np.size, columns.values())):
        raise ValueError("features is empty: the table has no rows")
    set_aside, feature_names = list[str](), content.names
    is_array = embedding in columns and columns[embedding].ndim != 1
    if is_array or (choice.columns is None and (choice.embedding is not None or embedding in columns)):
        require(list(columns), embedding, "column", "embedding")
        features, used = _embeddings(columns[embedding], embedding), {embedding}
        if feature_names is not None and len(feature_names) != features.shape[-1]:
            feature_names = None
    else:
        feature_names, set_aside = _feature_columns(columns, content.names, choice)
        stacked = np.column_stack([_filled(columns[name]) for name in feature_names])
        features, used = to_numpy(as_features(stacked, "features")), set(feature_names)
    labels = columns.get(choice.label_column)
    if labels is not None:
        labels = clean_labels(_plain(labels))
        check_missing_words(labels)
    used |= {choice.label_column, PATH, SPLIT}
    others = other_columns({n: content.written.get(n, values) for n, values in columns.items() if n not in used})
    is_text = content.text in others
    return FeatureTable(
        features, labels, _plain(columns.get(PATH)), _plain(columns.get(SPLIT)), name, content.base_mean,
        columns=feature_names, others=others, set_aside=set_aside,
        texts=[v if isinstance(v, str) else "" for v in others[str(content.text)]] if is_text else None,
        source={"features": source} | ({"text": content.text} if is_text else {}),
    )  # fmt: skip


def other_columns(columns: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The columns that are carried along: one text, number or date a row. Masked numbers become None."""
    others: dict[str, NDArray] = {}
    for name, values in columns.items():
        if values.ndim == 1:
            plain = object_array(values.tolist()) if np.ma.is_masked(values) else np.asarray(values)
            others[free_name(name.strip() or "index", others)] = plain
    return others


def _filled(numbers: NDArray) -> NDArray:
    """Numbers with NaN where one is missing."""
    return np.where(np.ma.getmaskarray(numbers), np.nan, np.ma.getdata(numbers)) if np.ma.isMA(numbers) else numbers


def _plain(values: NDArray | None) -> Any:
    """Labels and names of a file: True and False, dates and the like as texts."""
    if values is None or values.ndim != 1 or (values.dtype.kind in "iufUS" and not np.ma.isMA(values)):
        return values
    plain = (str, bytes, int, float, list, dict, type(None))  # lists are refused by who takes them
    return [v if isinstance(v, plain) and not isinstance(v, bool) else str(v) for v in values.tolist()]


def _embeddings(column: NDArray, name: str) -> NDArray:
    """[n, D] of a column of lists of numbers, or of JSON lists; a text that occurs in several rows is parsed once."""
    if column.dtype.kind != "O":
        return column
    rows: dict[Any, NDArray] = {}
    texts = column.tolist()
    for i, text in enumerate(texts):
        if text not in rows:
            try:
                rows[text] = np.asarray(json.loads(text), np.float64)
            except (TypeError, ValueError, RecursionError):
                rows[text] = np.empty(0)
            if rows[text].ndim != 1 or not len(rows[text]):
                raise ValueError(f"column {name!r} is text, but not a JSON list of numbers in row {i}")
            if len(rows[text]) != (width := len(rows[texts[0]])):
                raise ValueError(f"column {name!r} has {width} numbers in row 0 but {len(rows[text])} in row {i}")
    return np.stack([rows[text] for text in texts])


def _feature_columns(
    columns: Mapping[str, NDArray], stored: Sequence[str] | None, choice: ColumnChoice
) -> tuple[list[str], list[str]]:
    """The columns that are features (named by the user or the file, or all of numbers), and those set aside."""
    names = list(columns)
    chosen = choice.find_columns(names) if choice.columns is not None else None
    if chosen is None and not choice.exclude and stored is not None and set(stored) <= set(names):
        chosen = list(stored)
    numbers = [name for name, x in columns.items() if x.dtype.kind in "iuf" and x.ndim == 1]
    set_aside: list[str] = []
    if chosen is not None:
        if words := [name for name in chosen if name not in numbers]:
            raise ValueError(f"column {words[0]!r} holds text: a feature is a number")
        features = chosen
    else:
        for name, values in columns.items():
            if values.dtype == object and not choice.is_never_a_feature(name) and not _is_id_name(name):
                _check_text(name, values)
        may_be = [name for name in numbers if not choice.is_never_a_feature(name)]
        _check_names(may_be)
        has_labels = choice.label_column in columns
        set_aside = [name for name in may_be if looks_like_no_feature(name, _filled(columns[name]), has_labels)]
        features = [name for name in may_be if name not in set_aside]
        if set_aside and not features:
            raise ValueError(
                f"the only columns of numbers, {listed(set_aside)}, look like ids, row numbers or labels: if they are "
                f"features, name them with {OPTIONS['columns']}"
            )
    if not features:
        raise ValueError(
            f"there is no column {choice.embedding_column!r} and no column of numbers, only {listed(names)}: name the "
            f"right one with {OPTIONS['embedding']}"
        )
    return features, set_aside


def _check_names(names: Sequence[str]) -> None:
    """ValueError if the first line of a file holds numbers; names 0, 1, 2, ... of a frame are names."""
    plain = [name.partition("_")[0] for name in names]  # a second column of one name is called NAME_2
    is_header = all(map(str.isdecimal, names)) and len(set(names)) == len(names)
    if names and all(map(NUMBER.fullmatch, plain)) and not is_header:
        raise ValueError(f"the first line holds numbers, as {plain[0]!r}: it must hold the names of the columns")


def looks_like_no_feature(name: str, values: NDArray, has_labels: bool = True) -> bool:
    """Whether a column of numbers looks like ids, row numbers or labels, by its name or as it counts the rows."""
    if not len(values) or not np.isfinite(values).all() or (values != np.floor(values)).any():
        return False
    if _is_id_name(name) or (not has_labels and name.casefold() in LABEL_NAMES):
        return True
    return len(values) >= MIN_COUNTED_ROWS and values[0] in (0, 1) and bool((np.diff(values) == 1).all())


def _is_id_name(name: str) -> bool:
    return bool(ID_NAME.fullmatch(name) or CAMEL_ID.fullmatch(name))


def _check_text(name: str, values: NDArray) -> None:
    """A column of words is not a feature. Raise ValueError for numbers with a word among them, a likely mistake."""
    cells = [(row, cell) for row, cell in enumerate(values.tolist()) if isinstance(cell, str) and cell.strip()]
    words = [(row, cell) for row, cell in cells if not NUMBER.fullmatch(cell)]
    if len(cells) - len(words) < len(cells) / 2 or not cells:
        return
    if words:
        row, cell = words[0]
        raise ValueError(f"column {name!r} holds numbers, but {cell[:40]!r} in row {row}: repair or remove that row")
    if any("," in cell for _, cell in cells):
        raise ValueError(f"column {name!r} has numbers with a comma, as {cells[0][1]!r}: write them with a point")
    advice = f"make it numbers, or leave it out with {OPTIONS['exclude']}"
    raise ValueError(f"column {name!r} holds numbers as text: {advice}")


# ---- to columns


def to_columns(table: FeatureTable) -> Content:
    """The columns of a table by the names that they have in files. Unlabelled is None among texts, -1 among numbers."""
    columns: dict[str, NDArray] = {EMBEDDING: table.features}
    for name, values in ((LABEL, table.labels), (PATH, table.paths), (SPLIT, table.splits)):
        if values is not None:
            columns[name] = values if values.dtype.kind == "i" else object_array(values.tolist())
    for name, values in table.others.items():
        columns[free_name(name, (LABEL, PATH, SPLIT, *columns))] = values
    text = table.source.get("text") if table.texts is not None else None
    return Content(columns, table.base_mean, table.columns, text if text in columns else None)


def one_kind(values: NDArray, name: str) -> NDArray:
    """A column as tables hold it: values that have no common type become texts; ValueError for invalid Unicode."""
    if values.dtype.kind != "O":
        return values
    plain = values.tolist()
    kinds = {type(value) for value in plain} - {type(None)}
    if not kinds <= {str} and (len(kinds) == 1 or kinds == {int, float}):
        return values
    texts = [value if value is None else str(value) for value in plain]
    for row, text in enumerate(texts):
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            what = name if name in (LABEL, PATH, SPLIT) else f"column {name!r}: the text"
            raise ValueError(f"{what} {text!r} of row {row} is not valid Unicode: rename it, or write .npz") from None
    return object_array(texts)

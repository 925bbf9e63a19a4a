"""The answers in a folder of results, read from its table of labels. Anyone may have written it: it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.answers import Answers
from handful.core.checks import UNKNOWN_NAME
from handful.features.parquet_file import read_columns, values_of
from handful.project.job import Record, read_record
from handful.project.outputs import LABEL_FOLDER, holds_labels
from handful.utils.columns import Column
from handful.utils.csv_file import read_table
from handful.utils.extras import has_pyarrow
from handful.utils.files import in_brief, printable
from handful.utils.text import is_blank

TABLE, CSV_TABLE = "labels.parquet", "labels.csv"
FIRST_COLUMNS = ("path", "label", "closest", "confidence", "p_unknown", "outlier_score", "group")
SUM_TOLERANCE = 1e-3  # of the probabilities of a row
AGAIN = "label the pile again with `handful label`"


@dataclass(frozen=True, eq=False)
class StoredAnswers:
    """The answers of a folder of results, and what they are about.

    Parameters
    ----------
    record : Record
        The record in the folder.
    names : list of str
        The names of the items, as in the table.
    answers : Answers
        The answers; classes are names. Items that are examples are marked as such.
    others : mapping of str to list
        Columns of the items' own table; also that of texts.
    """

    record: Record
    names: list[str]
    answers: Answers
    others: Mapping[str, list[Any]]

    @property
    def text_column(self) -> str | None:
        """The column that holds the texts; None if items are no texts, or if the table has no such column."""
        column = self.record.text_column
        return column if column in self.others else None

    @cached_property
    def texts(self) -> list[str] | None:
        """The text of each item; None if items are no texts."""
        if self.text_column is None:
            return None
        return [text if isinstance(text, str) else "" for text in self.others[self.text_column]]


def read_answers(folder: Path) -> StoredAnswers:
    """Read the answers in a folder that `handful label` wrote.

    Raises
    ------
    ValueError
        If there are none, or if the table is damaged. The message says what to do.
    """
    record = read_record(folder)
    path = folder / TABLE
    if not path.is_file() or not has_pyarrow():
        path = folder / CSV_TABLE
    if not path.is_file():
        parts = holds_labels(folder / LABEL_FOLDER)
        why = "the labels of a pile in parts cannot be used here: label one part of it" if parts else AGAIN
        raise ValueError(f"{in_brief(folder)} has no {CSV_TABLE}: {why}")
    try:
        table = read_table(path) if path.name == CSV_TABLE else read_columns(path, lambda schema: schema.names, None)
        return _stored(record, table)
    except ValueError as error:
        raise ValueError(f"{in_brief(path)} is damaged ({error}): {AGAIN}") from None


def _stored(record: Record, table: Any) -> StoredAnswers:
    columns = {name: table.column(name) for name in table.column_names}
    names, labels = _texts(columns, "path"), _texts(columns, "label")
    if len(names) != record.items or len(set(names)) != len(names):
        raise ValueError(f"it has {len(set(names)):,} names of items, and the record says {record.items:,}")
    outlier_scores = _numbers(columns, "outlier_score")
    p_unknown = _numbers(columns, "p_unknown", 0, 1) if "p_unknown" in columns else None
    classes, probabilities = _class_columns(columns)
    is_unknown = np.array([label == UNKNOWN_NAME for label in labels], bool)
    if p_unknown is not None:
        outlier_scores, threshold = is_unknown.astype(float), 0.5  # labels may also be set aside for a precision
    else:
        threshold = outlier_scores[~is_unknown].max(initial=-np.inf)
    examples = _examples(record)
    is_example = np.array([name in examples for name in names], bool)
    is_example |= _without_text(columns, record.text_column, is_unknown)
    answers = Answers(
        probabilities, outlier_scores, np.array(classes, dtype=object), threshold,
        is_probability=p_unknown is not None, p_unknown=p_unknown, labelled=is_example & ~is_unknown,
        of_no_class=is_example & is_unknown,
    )  # fmt: skip
    if answers.labels.tolist() != labels:
        raise ValueError("its labels are not those that its probabilities say")
    used = {*FIRST_COLUMNS, *(f"p_{name}" for name in classes)}
    others = [name for name in columns if name not in used and not name.startswith("nearest_")]
    return StoredAnswers(record, names, answers, {name: values_of(columns[name]) for name in others})


def _without_text(columns: Mapping[str, Any], name: str | None, is_unknown: np.ndarray) -> np.ndarray:
    """Which rows have no text, where items are texts. Nobody is asked about them."""
    if name is None or name not in columns:
        return np.zeros(len(is_unknown), bool)
    texts = values_of(columns[name])
    is_empty = [text is None or (isinstance(text, str) and is_blank(text)) for text in texts]
    without_text: np.ndarray = np.array(is_empty, bool) & is_unknown
    return without_text


def _examples(record: Record) -> set[str]:
    """The names of the items of the pile that are examples."""
    marks = [] if record.job is None else [mark for items in record.job.promoted.values() for mark in items]
    return {printable(name) for name, _ in marks}


def _class_columns(columns: Mapping[str, Any]) -> tuple[list[str], np.ndarray]:
    """The classes and P(class | known) [n, N]: the columns p_<class> that follow the first ones and sum to 1."""
    start = max((place for place, name in enumerate(columns) if name in FIRST_COLUMNS or name.startswith("nearest_")))
    names = list(takewhile(lambda name: name.startswith("p_"), list(columns)[start + 1 :]))
    while names:
        with suppress(ValueError):  # the last ones may be columns of the items' own table
            probabilities = np.stack([_numbers(columns, name, 0, 1) for name in names], axis=1)
            if (abs(probabilities.sum(axis=1) - 1) < SUM_TOLERANCE).all():
                return [name.removeprefix("p_") for name in names], probabilities
        names.pop()
    raise ValueError("it has no columns p_<class> that sum to 1")


def _texts(columns: Mapping[str, Any], name: str) -> list[str]:
    if name not in columns:
        raise ValueError(f"it has no column {name}")
    texts = values_of(columns[name])
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"its column {name} is not text")
    return texts


def _numbers(columns: Mapping[str, Any], name: str, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    if name not in columns:
        raise ValueError(f"it has no column {name}")
    values = values_of(columns[name])
    if isinstance(columns[name], Column) and columns[name].type.kind == "i":  # a CSV file may hold only 0 and 1
        values = [float(value) for value in values if value is not None]
    if not all(isinstance(value, float) and low - SUM_TOLERANCE <= value <= high + SUM_TOLERANCE for value in values):
        raise ValueError(f"its column {name} is not of numbers from {low:g} to {high:g}")
    return np.array(values, np.float64)

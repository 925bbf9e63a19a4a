"""Answers as tables: one row for each item, in memory and as .csv or .parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.answers import Answers
from handful.features.arrow_table import arrow_table, one_kind
from handful.features.table import free_name
from handful.label.labelling import Labelled
from handful.label.summary import label_texts
from handful.utils import csv_file
from handful.utils.columns import ColumnTable, masked_numbers
from handful.utils.extras import has_pyarrow, need_pyarrow
from handful.utils.files import printable


def table_of(labelled: Labelled) -> ColumnTable:
    """A labelled pile as a table: the columns of `table_of_answers`, the group and the most similar examples.

    Groups of texts have a name too, made of their telling words.

    Parameters
    ----------
    labelled : Labelled
        What `label_items` or `predict_items` gave. The latter has no groups and no examples.

    Returns
    -------
    ColumnTable
        One row for each item.
    """
    columns: dict[str, Any] = {}
    nearest = labelled.nearest
    if nearest is not None and labelled.examples is not None:
        numbers = group_numbers(labelled)
        columns["group"] = masked_numbers([k or None for k in numbers], np.int64)
        if any(group.words for group in labelled.groups):
            by_number = {group.number: group.name for group in labelled.groups}
            columns["group_name"] = [by_number.get(k) for k in numbers]
        names = np.array([printable(name) for name in labelled.examples.names], dtype=object)
        for k in range(nearest.shape[1]):
            columns[f"nearest_{k + 1}"] = names[nearest[:, k]]
            columns[f"nearest_{k + 1}"][labelled.without_text] = None
    return table_of_answers(labelled, labelled.pile.names, columns, others=labelled.pile.others)


def table_of_answers(
    answers: Answers,
    names: Sequence[str],
    columns: Mapping[str, Any] | None = None,
    classes: Sequence[str] | None = None,
    others: Mapping[str, np.ndarray] | None = None,
) -> ColumnTable:
    """Answers as a table.

    The columns are: path; label; closest, the best known class; confidence, the probability of the label; p_unknown,
    calibrated so that about 80 % of the items with 0.8 are unknown (not where scores only rank); outlier_score, the
    method's own number, which decides the label; then `columns`; then p_<class>, P(class | known), for each class.

    Parameters
    ----------
    answers : Answers
        The answers for n items.
    names : sequence of str
        The names of the items.
    columns : mapping of str to array, optional
        More columns, or others of these names.
    classes : sequence of str, optional
        The classes that have a column p_<class>; all by default.
    others : mapping of str to array, optional
        Columns of the items' own table, which are carried along at the end.

    Returns
    -------
    ColumnTable
        One row for each item.

    Examples
    --------
    >>> answers = Answers(np.array([[0.6, 0.2]]), np.array([0.2]), np.array(["cat", "hen"]), 0.5, is_probability=True)
    >>> row = table_of_answers(answers, ["a.png"]).to_pylist()[0]
    >>> row["label"], round(row["confidence"], 2), round(row["p_cat"], 2)
    ('cat', 0.6, 0.75)
    """
    table: dict[str, Any] = {
        "path": [printable(name) for name in names],
        "label": label_texts(answers),
        "closest": [str(name) for name in answers.closest.tolist()],
        "confidence": answers.confidence.astype(np.float64),
    }
    if (p := answers.p_unknown) is not None:
        table["p_unknown"] = p.astype(np.float64)
    table["outlier_score"] = answers.outlier_scores.astype(np.float64)
    table |= columns or {}
    probabilities = answers.class_probabilities.astype(np.float64)
    for k, name in enumerate(answers.classes.tolist()):
        if classes is None or name in classes:
            table[f"p_{name}"] = probabilities[:, k]
    for name, values in (others or {}).items():
        table[free_name(printable(name), table)] = one_kind(values, name)
    return ColumnTable.of(table)


def group_numbers(labelled: Labelled) -> list[int]:
    """The group of each item, 0 where it is in none."""
    numbers = np.zeros(len(labelled.pile), int)
    for group in labelled.groups:
        numbers[group.items] = group.number
    return [int(number) for number in numbers]


def write_rows(table: ColumnTable, path: Path) -> None:
    """Write a table as .csv or .parquet, by the suffix of the path."""
    if path.suffix.lower() == ".csv":
        csv_file.write_table(table, path)
        return
    need_pyarrow("a Parquet file")
    from pyarrow import parquet

    parquet.write_table(arrow_table(table), path)


def table_files() -> list[str]:
    """The files of labels that can be written: labels.parquet only if PyArrow is installed."""
    return ["labels.csv", *["labels.parquet"] * has_pyarrow()]

"""Labels and texts of items in one form.

Labels are whole numbers (int64, -1 where a row has none) or texts (None where a row has none). Texts are compared as
people see them: without blanks around them, in one Unicode form (NFC). A blank text and "-1" mean unlabelled.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import MISSING_TEXTS, UNKNOWN, is_missing, label_array
from handful.utils.columns import object_array
from handful.utils.text import shortened

NDArray = np.ndarray[Any, Any]
WHOLE_NUMBER = re.compile(r"-?\d+(\.0)?", re.ASCII)  # pandas writes integers with .0 if some are missing
MISSING_WORDS = (*MISSING_TEXTS, "None", "null", "NULL", "#N/A")  # how programs write a missing value


def clean_labels(labels: Any) -> NDArray:
    """Labels of any kind as an array [n] that the estimators take: int64, strings, or objects if None is among these.

    >>> clean_labels([1.0, None, 2.0]), clean_labels([" hen", "", "owl"])
    (array([ 1, -1,  2]), array(['hen', None, 'owl'], dtype=object))
    """
    values = to_numpy(labels) if hasattr(labels, "dtype") else np.asarray(labels, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"labels have shape {values.shape}: one label for each row is needed")
    if values.dtype.kind in "SOT":
        values = decoded(values.astype(object), "label")
    values = label_array(values)
    if values.dtype.kind == "f":
        return _whole(values)
    return _clean_texts(values) if values.dtype.kind == "O" else values


def is_labelled(labels: NDArray) -> NDArray:
    """Which labels of `clean_labels` are not missing [n] bool."""
    if labels.dtype.kind == "O":
        return np.array([label is not None for label in labels], bool)
    return labels != UNKNOWN if labels.dtype.kind == "i" else np.ones(len(labels), bool)


def label_texts(labels: NDArray) -> list[str | None]:
    """Such labels as texts, None for unlabelled."""
    return [str(label) if there else None for label, there in zip(labels.tolist(), is_labelled(labels), strict=True)]


def numbers_if_whole(texts: Sequence[str | None]) -> NDArray | list[str | None]:
    """Texts of a file without types: as int64, -1 for blank, if all others are whole numbers (007 is a name)."""
    words = [text.strip() if text else "" for text in texts]
    if not any(words) or not all(WHOLE_NUMBER.fullmatch(word) for word in words if word):
        return list(texts)
    words = [word.removesuffix(".0") for word in words]
    if any(word and (str(int(word)) != word or len(word) > 18) for word in words):
        return list(texts)
    return np.array([int(word) if word else UNKNOWN for word in words], np.int64)


def check_missing_words(labels: NDArray) -> None:
    """Raise ValueError for labels such as "nan": a program wrote a missing label as text."""
    for row, label in enumerate(labels.tolist()):
        if label in MISSING_WORDS:
            raise ValueError(
                f"the label {label!r} of row {row} looks like a missing label: leave it blank, or rename that class"
            )


def clean_strings(values: Any, what: str) -> NDArray | None:
    """Paths or splits as an array of strings [n], "" where there is none; None stays None."""
    if values is None or (isinstance(values, np.ndarray) and values.dtype.kind == "U" and values.ndim == 1):
        return values
    values = np.asarray(values, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"{what}s have shape {values.shape}: one for each row is needed")
    values = decoded(values, what)
    values[is_missing(values)] = ""
    for row, value in enumerate(values):
        if not isinstance(value, str | int | float):
            raise ValueError(f"the {what} of row {row} is a {type(value).__name__}: strings are needed")
    strings: NDArray = values.astype(str)
    return strings


def decoded(values: NDArray, what: str) -> NDArray:
    """A copy with bytes as strings."""
    values = values.copy()
    for row, value in enumerate(values):
        if isinstance(value, bytes):
            try:
                values[row] = value.decode()
            except UnicodeDecodeError:
                raise ValueError(
                    f"the {what} of row {row} is {shortened(repr(value))}, which is not UTF-8: write it as text"
                ) from None
    return values


def _whole(values: NDArray) -> NDArray:
    """Whole numbers that are kept as floats, with NaN for unlabelled."""
    missing = np.isnan(values)
    fractional = ~missing & (values != np.floor(values)) | np.isinf(values)
    if fractional.any():
        row = int(fractional.argmax())
        raise ValueError(f"the label of row {row} is {values[row]}: labels are integers or strings")
    return label_array([UNKNOWN if gap else int(value) for value, gap in zip(values, missing, strict=True)])


def _clean_texts(values: NDArray) -> NDArray:
    texts: dict[Any, str | None] = {value: _clean(value) for value in values.tolist()}
    if all(text is None or WHOLE_NUMBER.fullmatch(text) for text in texts.values()):
        texts = {value: text and text.removesuffix(".0") for value, text in texts.items()}
    texts = {value: None if text == str(UNKNOWN) else text for value, text in texts.items()}
    result = object_array(texts[value] for value in values.tolist())
    return result if None in texts.values() else result.astype(str)


def _clean(value: str | None) -> str | None:
    return unicodedata.normalize("NFC", value.strip()).strip() or None if value is not None else None

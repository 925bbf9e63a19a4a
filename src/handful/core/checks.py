"""What a user hands in, checked and brought into one form: features as arrays of floats, labels as arrays of names.

Errors are for the person who gets them: what was wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from handful.core.arrays import Array, to_numpy
from handful.utils.text import shortened

UNKNOWN = -1  # the label of an unknown item among integer labels
UNKNOWN_NAME = "unknown"  # and among string labels
NONE_OF_THESE = -2  # in the y of `fit`: an example of no class; among strings, "unknown" means the same
MISSING_TEXTS = ("nan", "NaN", "<NA>", "NaT")  # NumPy and pandas turn a missing label to such a text


def is_no_class(label: Any) -> bool:
    """Whether a label says that an item belongs to none of the classes: "unknown" in any case, "-2", -2 or -1.

    >>> is_no_class("Unknown"), is_no_class(-1), is_no_class("cat"), is_no_class(0)
    (True, True, False, False)
    """
    if isinstance(label, str):
        return label.strip().casefold() in (UNKNOWN_NAME, str(NONE_OF_THESE))
    return label in (UNKNOWN, NONE_OF_THESE)


def is_no_label(label: Any) -> bool:
    """Whether a label says that an item has none: None, NaN or -1; among texts also a blank one, "nan" or "-1".

    >>> is_no_label(" "), is_no_label("nan"), is_no_label("-1"), is_no_label(None), is_no_label("unknown")
    (True, True, True, True, False)
    """
    if isinstance(label, str):
        return label.strip() in ("", str(UNKNOWN), *MISSING_TEXTS)
    return _is_missing(label) or label == UNKNOWN


def column_names(x: Any) -> list[str] | None:
    """The names of the columns of a frame; None for other features, and unless all names are strings."""
    names = list(x.columns if hasattr(x, "to_numpy") and hasattr(x, "columns") else getattr(x, "column_names", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def same_columns(names: Sequence[str] | None, others: Sequence[str] | None) -> list[int] | None:
    """The positions of `names` in `others` that reorder them, None for the same order; ValueError for other names."""
    if names is None or others is None or list(names) == list(others):
        return None
    if len(set(names)) == len(names) and sorted(names) == sorted(others):
        place = {name: i for i, name in enumerate(others)}
        return [place[name] for name in names]
    extra, absent = (
        ", ".join(repr(name) for name in dict.fromkeys(one) if name not in other)
        for one, other in ((others, set(names)), (names, set(others)))
    )
    as_these = f", as {shortened(extra)}" if extra else ""
    lacks = f"; it lacks {shortened(absent)}" if absent else ""
    detail = as_these + lacks or ", more than once each"
    raise ValueError(f"its columns of numbers are not those of the examples{detail}: give the same columns")


def as_features(x: Any, name: str, columns: Sequence[str] | None = None) -> Array:
    """Check features and give them as a floating array [n, D] or [B, n, D], with columns in this order."""
    try:
        if same_columns(columns, column_names(x)) is not None:
            x = x[columns] if hasattr(x, "to_numpy") else x.select(columns)  # pyarrow has only the second
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if is_torch_array(x):
        if "sparse" in str(x.layout):
            raise TypeError(f"{name} is sparse: dense features are needed, call .to_dense() on it")
        x = x.detach()  # a descent changes its parameters in place, no gradient passes it
    else:
        x = _numeric(x, name)
    if x.ndim == 1 and not len(x):
        raise ValueError(f"{name} is empty: it has no items")
    if x.ndim not in (2, 3):
        raise ValueError(
            f"{name} has {x.ndim} dimensions, shape {tuple(x.shape)}: rows of features are needed, "
            "[items, features], or [tasks, items, features] for a batch"
        )
    if 0 in x.shape:
        what = "items" if x.shape[-2] == 0 else "features" if x.shape[-1] == 0 else "tasks"
        raise ValueError(f"{name} is empty, shape {tuple(x.shape)}: it has no {what}")
    xp = array_namespace(x)
    if not xp.isdtype(x.dtype, "real floating"):
        if xp.isdtype(x.dtype, "complex floating"):
            raise ValueError(f"Complex data not supported: {name} has dtype {x.dtype}")
        wide = not xp.isdtype(x.dtype, "bool") and xp.iinfo(x.dtype).bits > 16
        x = xp.astype(x, xp.float64 if wide else xp.float32)
    elif x.dtype not in (xp.float32, xp.float64):
        x = xp.astype(x, xp.float32)  # half precision widens
    least = float(xp.finfo(x.dtype).smallest_normal)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        total = float(xp.sum(xp.vecdot(x, x)))  # one pass; only a strange sum needs a closer look
    if least <= total < np.inf:
        return x
    if total < least:
        largest = float(xp.max(xp.abs(x)))
        if 0 < largest < least:
            raise ValueError(
                f"{name} has only values so small that {x.dtype} loses digits: multiply all features by a constant"
            )
        return x
    if not bool(xp.all(xp.isfinite(x))):
        at = np.argwhere(~np.isfinite(to_numpy(x)))[0].tolist()
        where = (f"task {at[0]}, " if x.ndim == 3 else "") + f"row {at[-2]}, column {at[-1]}"
        value = "NaN" if np.isnan(to_numpy(x)[tuple(at)]) else "infinity"
        raise ValueError(f"{name} contains {value} at {where}: remove or repair that row")
    raise ValueError(
        f"{name} has values so large that their squares overflow {x.dtype}: divide all features by a constant"
    )


def as_labels(labels: Any) -> np.ndarray:
    """Support labels as an array of ints, floats or strings; no entry may be missing."""
    values = label_array(labels)
    if values.dtype.kind in "iuf":
        missing = ~np.isfinite(values) | (values == UNKNOWN) | (values == NONE_OF_THESE)
    else:
        texts, no_class = _read_texts(values)
        missing = is_missing(texts) | no_class
    if missing.any():
        at = np.argwhere(missing)[0].tolist()
        raise ValueError(
            f"support label {at[-1]}{f' of task {at[0]}' if len(at) == 2 else ''} is "
            f"{values.item(*at)!r}, which means unlabelled or unknown: every support item needs a class "
            f"({UNKNOWN}, {NONE_OF_THESE}, None, blank texts, {MISSING_TEXTS[0]!r} and {UNKNOWN_NAME!r} cannot be "
            "names of classes; give examples of no class as unknown=)"
        )
    return values if values.dtype.kind in "iuf" else values.astype(str)


def fit_labels(labels: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The y of `fit` as an array, where it marks an example of no class, and where it is no label.

    >>> fit_labels(["cat", None, NONE_OF_THESE, "unknown"])[0]
    array(['cat', None, 'unknown', 'unknown'], dtype=object)
    >>> fit_labels([3, -1, NONE_OF_THESE])
    (array([ 3, -1, -2]), array([False, False,  True]), array([False,  True, False]))
    """
    if hasattr(labels, "to_list") and to_numpy(labels).dtype.kind == "f":
        labels = np.array(labels.to_list(), dtype=object)  # whole numbers with gaps would be floats in NumPy
    values = label_array(labels)
    if values.dtype.kind in "iuf":
        return values, values == NONE_OF_THESE, (values == UNKNOWN) | np.isnan(values)
    texts, no_class = _read_texts(values)
    return texts, no_class, is_missing(texts)


def _read_texts(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels that are texts, None for those that mean no label; and which mean an example of no class."""
    no_label, no_class = (np.frompyfunc(test, 1, 1)(values).astype(bool) for test in (is_no_label, is_no_class))
    texts = values.copy()
    texts[no_label], texts[no_class] = None, UNKNOWN_NAME
    return texts, no_class


def label_array(labels: Any) -> np.ndarray:
    """Any sequence of labels as ints, floats, or objects (strings, None), in which -1 and -2 are None and "unknown"."""
    try:
        values = to_numpy(labels)
    except ValueError as error:
        raise ValueError(f"labels are not one for each item: {error}") from None
    if values.ndim == 0:
        raise ValueError(f"labels are a single {type(labels).__name__}: give a list or an array, one for each item")
    if values.dtype.kind == "U" and not isinstance(labels, np.ndarray):
        values = np.asarray(labels, dtype=object)  # NumPy would have turned numbers among them to text
    if values.dtype.kind in "OUST":
        values = values.astype(object)
        values[is_missing(values)] = None  # one of the many ways to say it; pandas' NA cannot be compared
        if any(isinstance(v, str) for v in values.flat):
            mean: dict[Any, Any] = {UNKNOWN: None, NONE_OF_THESE: UNKNOWN_NAME}
            as_text = np.frompyfunc(lambda v: mean.get(v, v) if isinstance(v, int | np.integer) else v, 1, 1)
            values = as_text(values)
        kinds = {type(v) for v in values.ravel()[~is_missing(values).ravel()]}
        if all(issubclass(k, (bool, int, np.integer, np.bool_)) for k in kinds) and kinds:
            return _int64(np.where(is_missing(values), UNKNOWN, values))
        if all(issubclass(k, (int, float, np.integer, np.floating)) for k in kinds) and kinds:
            return np.where(is_missing(values), np.nan, values).astype(np.float64)
        wrong = [k.__name__ for k in kinds if not issubclass(k, str)]
        if wrong:
            raise ValueError(
                f"labels are of several types or of an unknown label type ({', '.join(sorted(wrong))}): "
                "use all integers or all strings"
            )
        return values
    if values.dtype.kind in "biu":
        return _int64(values)
    if values.dtype.kind == "f":
        return values
    raise ValueError(f"labels have dtype {values.dtype}: use integers or strings")


def is_missing(values: np.ndarray) -> np.ndarray:
    """Where an object array of labels holds None or NaN."""
    with np.errstate(invalid="ignore"):  # on some Pythons the comparison of a NaN counts as an invalid operation
        is_absent: np.ndarray = np.frompyfunc(_is_missing, 1, 1)(values).astype(bool)
    return is_absent


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _int64(values: np.ndarray) -> np.ndarray:
    for extreme in (values.min(), values.max()) if values.size else ():
        if not -(2**63) <= int(extreme) < 2**63:
            raise ValueError(f"label {extreme} does not fit a 64-bit integer: use strings")
    return values.astype(np.int64)


def _numeric(x: Any, name: str) -> np.ndarray:
    """NumPy array from an array, list or frame; columns that are not numbers are named."""
    if hasattr(x, "columns") and hasattr(x, "to_numpy") and len(x):  # columns of an empty frame have no type
        for column in x.columns:
            kind = np.asarray(x[column].to_numpy()).dtype.kind
            if kind not in "biuf":
                raise ValueError(f"{name} has a column {column!r} that is not numeric: leave it out")
    if x is None:
        raise ValueError(f"{name} is missing: give its features, [items, features]")
    if hasattr(x, "to_numpy"):
        x = x.to_numpy()
    if hasattr(x, "toarray"):
        raise TypeError(f"{name} is sparse: dense features are needed, call .toarray() on it")
    try:
        if np.ma.is_masked(x):
            x = np.ma.filled(x.astype(np.float64), np.nan)
        x = np.asarray(x)
        if x.dtype.kind in "UST" or (x.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in x.flat)):
            raise ValueError("it holds text. Convert it to numbers first, for example with np.asarray(x, dtype=float)")
        if x.dtype.kind == "O":
            x = np.where(is_missing(x), np.nan, x).astype(np.float64)  # pandas' NA is no number
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a rectangular table of numbers: {error}") from None
    if x.dtype.kind not in "biufc":
        raise ValueError(f"{name} has dtype {x.dtype}: numbers are needed")
    return np.asarray(x)

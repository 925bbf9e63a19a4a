"""`FeatureTable`: features of items, with labels and names. Every reader returns one, and every stage takes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.arrays import to_numpy
from handful.core.checks import as_features
from handful.features.labels import NDArray, clean_labels, clean_strings, is_labelled, label_texts
from handful.utils.columns import object_array
from handful.utils.text import counted, shortened

MAX_LISTED_NAMES = 20  # in a message


class FeatureTable:
    """Features of items, one row for each, with labels, names and more.

    Everything is checked once, when the table is made. What is not known is None.

    Parameters
    ----------
    features : array [n, D]
        Finite numbers. They become float32, or stay float64.
    labels : array [n], optional
        Classes: whole numbers, or texts. -1, None, NaN and blank texts mean that the item has no label. The attribute
        is an array that the estimators take as it is: `handful.KDO().fit(table.features, table.labels)`.
    paths, splits : sequence of str [n], optional
        The name of each item (often the path of its file), and the split it belongs to; "" where there is none.
    name : str
        What messages and tables call it.
    base_mean : array [D], optional
        The mean feature of the base classes, for methods that centre on it.
    columns : sequence of str [D], optional
        The names of the features, if each had a column of its own.
    others : mapping of str to array [n]
        Other columns (id, text, date, ...). They are carried along to every output, and are never features.
    set_aside : sequence of str
        Columns of numbers among `others` that look like ids or row numbers, so that they were not used as features.
    files, hashes : sequence [n], optional
        The picture of each item and a hash of its content.
    texts : sequence of str [n], optional
        The text of each item, where items are texts; "" where a row has none.
    skipped : sequence of (str, str)
        Files that gave no item, and why.
    source : mapping
        How the features were made: the backbone, or the file they were read from.
    base : Path, optional
        The base file of the backbone.
    opener : callable, optional
        Opens a file of `files` safely, by its path.
    notes : sequence of str
        What a reader guessed, and what was odd, in sentences.

    Examples
    --------
    >>> FeatureTable([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["hen", "hen", None])
    <FeatureTable features: 3 items of 1 classes, 1 without a label, 2 features>
    """

    def __init__(
        self,
        features: Any,
        labels: Any = None,
        paths: Any = None,
        splits: Any = None,
        name: str = "features",
        base_mean: Any = None,
        columns: Sequence[str] | None = None,
        others: Mapping[str, Any] | None = None,
        set_aside: Sequence[str] = (),
        files: Sequence[Path] | None = None,
        hashes: Sequence[str] | None = None,
        skipped: Sequence[tuple[str, str]] = (),
        source: Mapping[str, Any] | None = None,
        base: Path | None = None,
        opener: Callable[[str], int] | None = None,
        texts: Sequence[str] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.features = _clean_features(features)
        self.labels = None if labels is None else clean_labels(labels)
        self.paths = clean_strings(paths, "path")
        self.splits = clean_strings(splits, "split")
        self.name = name
        self.base_mean = checked_mean(base_mean, self.dimension)
        self.columns = columns
        self.others: Mapping[str, NDArray] = {key: _clean_column(values) for key, values in (others or {}).items()}
        self.set_aside, self.skipped, self.notes = set_aside, skipped, notes
        self.files, self.hashes, self.texts = files, hashes, texts
        self.source: Mapping[str, Any] = source or {}
        self.base, self.opener = base, opener
        rows = {key: getattr(self, key) for key in ("labels", "paths", "splits", "files", "hashes", "texts")}
        for key, values in {**rows, **self.others}.items():
            if values is not None and len(values) != len(self):
                counts = f"there are {len(self)} rows of features but {len(values)} {key}"
                raise ValueError(f"{counts}: one for each row is needed, in the same order")
        if columns is not None and len(columns) != self.dimension:
            raise ValueError(f"there are {self.dimension} features but {len(columns)} names of columns")

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        blank = len(self) - int(self.has_label.sum())
        size = f"{len(self):,} items of {len(self.classes):,} classes" + f", {blank:,} without a label" * (blank > 0)
        return f"<FeatureTable {self.name}: {size}, {self.dimension:,} features>"

    @property
    def dimension(self) -> int:
        """The number of features, D."""
        return int(self.features.shape[1])

    @cached_property
    def names(self) -> list[str]:
        """The names of rows: their path, or else their number. Two rows may have the same name."""
        return [f"row {i}" for i in range(len(self))] if self.paths is None else row_names(self.paths.tolist())

    @property
    def has_label(self) -> NDArray:
        """Which rows have a label [n] bool."""
        return np.zeros(len(self), bool) if self.labels is None else is_labelled(self.labels)

    @property
    def label_names(self) -> list[str | None]:
        """The labels as texts, None where a row has none."""
        return [None] * len(self) if self.labels is None else label_texts(self.labels)

    @property
    def classes(self) -> NDArray:
        """The classes of the labelled rows, sorted as in a task."""
        if self.labels is None:
            return np.empty(0, np.int64)
        labels = self.labels[self.has_label]
        return np.unique(labels.astype(str) if labels.dtype.kind == "O" else labels)

    @property
    def counts(self) -> dict[Any, int]:
        """Items of each class."""
        return {} if self.labels is None else counts_of(self.labels[self.has_label])

    @property
    def mean(self) -> NDArray:
        """Mean feature [D] float32, summed in float64: of base classes, the `base_mean` that methods take."""
        mean: NDArray = self.features.mean(axis=0, dtype=np.float64).astype(np.float32)
        return mean

    @property
    def about_columns(self) -> str:
        """Which columns are features and which are carried along, in words; "" if there is nothing to say."""
        parts = []
        if self.columns is not None:
            ends = self.columns if len(self.columns) < 4 else (self.columns[0], "...", self.columns[-1])
            parts.append(f"features: {counted(len(self.columns), 'column')} {' '.join(map(shortened, ends))}")
        if carried := [name for name in self.others if name not in self.set_aside]:
            parts.append(f"carried along: {_some(carried)}")
        if self.set_aside:
            parts.append(
                f"not used as features, because they look like ids, row numbers or labels: {_some(self.set_aside)} "
                "(if they are, name the features with columns=, --columns or --set columns=NAMES)"
            )
        return "; ".join(parts)

    def need_labels(self) -> NDArray:
        """Return the labels [n]; raises ValueError if the table has none."""
        if self.labels is None:
            there = f", only {_some([repr(name) for name in self.others])}" if self.others else ""
            advice = "name the right column or array with label= (--label), or write labels to it"
            raise ValueError(f"{self.name} has no labels{there}: {advice}")
        return self.labels

    def labelled(self) -> FeatureTable:
        """The rows that have a label; raises ValueError if no row has one."""
        self.need_labels()
        if not self.has_label.any():
            raise ValueError(f"{self.name} has no row with a label: give a few rows of each class a label")
        return self if self.has_label.all() else self.take(self.has_label)

    def of_split(self, split: str) -> FeatureTable | None:
        """The items of a split, in their order; None if there are none.

        Parameters
        ----------
        split : str
            The name of the split.
        """
        return self.take(self.splits == split) if self.splits is not None and split in self.splits else None

    def take(self, rows: NDArray | Sequence[int]) -> FeatureTable:
        """Some rows. `skipped` and `source` do not change.

        Parameters
        ----------
        rows : array of int or bool
            Their numbers, or a mask [n].
        """
        places = np.arange(len(self))[np.asarray(rows, None if len(rows) else np.int64)]
        table = copy(self)
        vars(table).pop("names", None)
        table.features = self.features[places]
        table.others = {name: values[places] for name, values in self.others.items()}
        for name in ("labels", "splits"):
            setattr(table, name, None if getattr(self, name) is None else getattr(self, name)[places])
        if table.labels is not None and table.labels.dtype.kind == "O" and table.has_label.all():
            table.labels = table.labels.astype(str)
        if not np.array_equal(places, np.arange(len(self))):  # rows keep their number as name
            table.paths = np.array(_at(self.names, places), str)
        table.files, table.hashes, table.texts = (_at(x, places) for x in (self.files, self.hashes, self.texts))
        return table

    def replace(self, **changes: Any) -> FeatureTable:
        """A copy with some attributes changed. They are checked.

        Parameters
        ----------
        **changes
            The attributes.
        """
        return FeatureTable(**{key: value for key, value in vars(self).items() if key != "names"} | changes)


def _at(values: Sequence[Any] | None, places: NDArray) -> list[Any] | None:
    return None if values is None else [values[i] for i in places.tolist()]


def concatenate(tables: Sequence[FeatureTable]) -> FeatureTable:
    """The rows of several tables, one table after the other; what not all tables have is left out.

    What does not belong to rows is taken from the first table.

    Parameters
    ----------
    tables : sequence of FeatureTable
        Tables with the same number of features.
    """
    first = tables[0]

    def joined(name: str) -> Any:
        parts = [getattr(table, name) for table in tables]
        return None if any(part is None for part in parts) else [value for part in parts for value in part]

    shared = [name for name in first.others if all(name in table.others for table in tables)]
    return first.replace(
        features=np.concatenate([table.features for table in tables]),
        paths=[name for table in tables for name in table.names],
        others={name: np.concatenate([table.others[name] for table in tables]) for name in shared},
        **{name: joined(name) for name in ("labels", "splits", "files", "hashes", "texts")},
    )


def row_names(paths: Sequence[str], start: int = 0) -> list[str]:
    """The paths; a row with a blank path is named by its number, from `start` on."""
    return [path if path.strip() else f"row {i}" for i, path in enumerate(paths, start)]


def counts_of(values: NDArray) -> dict[Any, int]:
    """The number of rows with each value, sorted by value."""
    names, counts = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def free_name(name: str, used_names: Iterable[str]) -> str:
    """The name, with a number added if it is used already: label_2."""
    used_names = set(used_names)
    numbered = (f"{name}_{number}" for number in count(2))
    return name if name not in used_names else next(each for each in numbered if each not in used_names)


def _clean_features(x: Any) -> NDArray:
    if isinstance(x, np.ndarray) and x.ndim == 2 and not x.size:
        return x.astype(np.float32)  # no items, or features that are not computed yet
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        x = x.astype(x.dtype.newbyteorder("=") if x.dtype.kind == "f" else np.float32, copy=False)
    x = to_numpy(as_features(x, "features"))
    if x.ndim != 2:
        raise ValueError(f"features have shape {x.shape}: rows of features are needed, [items, features]")
    return np.ascontiguousarray(x)  # tasks gather rows


def _clean_column(values: Any) -> NDArray:
    """A column as an array: numbers as they are, anything else as objects, which keep texts and None exactly."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biufO":
        return values
    return object_array(values.tolist() if isinstance(values, np.ndarray) else values)


def checked_mean(mean: Any, dimension: int) -> NDArray | None:
    """The mean of base classes as float32 [D], or None; ValueError if it does not belong to features of this size."""
    if mean is None:
        return None
    try:
        mean = np.asarray(to_numpy(mean) if hasattr(mean, "dtype") else mean, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"base_mean is not a row of numbers: {shortened(str(error), 200)}") from None
    if mean.shape != (dimension,):
        odd = f"base_mean has shape {mean.shape} but items have {dimension} features"
        raise ValueError(f"{odd}: give the mean feature of base classes by the same backbone")
    with np.errstate(over="ignore"):
        checked: NDArray = mean.astype(np.float32)
    if not np.isfinite(checked).all():
        raise ValueError("base_mean contains NaN or infinity")
    return checked


def _some(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > MAX_LISTED_NAMES else ""
    return ", ".join(map(shortened, names[:MAX_LISTED_NAMES])) + more

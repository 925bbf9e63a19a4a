"""What flows through handful: a `Task` goes into a method, a `Result` comes out.

A task is a support set (features and labels of a handful of examples per class) and a query set
(features of the pile). Inside, everything is batched: support [B, S, D], labels [B, S] as codes
0 .. N-1, query [B, Q, D]; a single task is a batch of one. Everything is checked here, once, at the
door; what lies behind it can trust its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from handful.arrays import Array, to_numpy

UNKNOWN = -1  # the label of an unknown item among integer labels
UNKNOWN_NAME = "unknown"  # and among string labels


class Task:
    """One few-shot open-set task, or a batch of B tasks of the same shape.

    support: [S, D] or [B, S, D]; labels: [S] or [B, S], ints or strings in any order, shots may
    be unequal; query: [Q, D] or [B, Q, D]. NumPy arrays, lists, pandas or polars frames, torch tensors
    (torch in means torch out). Columns of results follow `classes`, sorted.

    >>> task = Task([[0.0, 1.0], [1.0, 0.0]], ["hen", "cat"], [[0.9, 0.2]])
    >>> task.ways, task.classes.tolist(), task.labels.tolist()
    (2, ['cat', 'hen'], [[1, 0]])
    """

    def __init__(self, support: Any, labels: Any, query: Any, *, classes: Any = None):
        support, query = as_features(support, "support"), as_features(query, "query")
        self.single = support.ndim == 2
        if support.ndim != query.ndim or (support.ndim == 3 and support.shape[0] != query.shape[0]):
            raise ValueError(
                f"support has shape {tuple(support.shape)} and query {tuple(query.shape)}: give [S, D] and "
                "[Q, D] for one task, or [B, S, D] and [B, Q, D] for a batch of B tasks"
            )
        if support.shape[-1] != query.shape[-1]:
            raise ValueError(
                f"support has {support.shape[-1]} features per item and query has {query.shape[-1]}: "
                "both must come from the same backbone"
            )
        if is_torch_array(support) != is_torch_array(query):
            raise TypeError("support and query must both be torch tensors, or neither")
        if self.single:
            support, query = support[None], query[None]
        names = as_labels(labels)
        given, needed = names.shape, tuple(support.shape[:2])
        names = names[None] if names.ndim == 1 and self.single else names
        if names.shape != needed:
            raise ValueError(
                f"labels have shape {given} but there are {'' if self.single else f'{needed[0]} tasks of '}{needed[1]} "
                f"support items: one label for each, {needed[1:] if self.single else needed}"
            )
        dtype = _common_dtype(support, query)
        xp = array_namespace(support)
        self.support: Array = xp.astype(support, dtype, copy=False)
        self.query: Array = xp.astype(query, dtype, copy=False)
        self._classes, self.labels = _encode(names, classes)  # [B, N] names, [B, S] codes

    @classmethod
    def of_examples(cls, support: Any, labels: Any) -> Task:
        """A task with no pile: nothing to label, but a method can learn its classes from it."""
        task = cls(support, labels, support)
        task.query = task.query[:, :0]
        return task

    @property
    def batch(self) -> int:
        return self.support.shape[0]

    @property
    def ways(self) -> int:
        return self._classes.shape[1]

    @property
    def classes(self) -> np.ndarray:
        """Class names in the order of the columns: [N], or [B, N] for a batch."""
        return self._classes[0] if self.single else self._classes

    @property
    def shots(self) -> np.ndarray:
        """Examples per class: [B, N]."""
        return (self.labels[..., None] == np.arange(self.ways)).sum(axis=1)

    def __getitem__(self, tasks: slice | int) -> Task:
        """Some tasks of the batch, as a batch; or one of them, alone."""
        part = object.__new__(Task)
        part.single = self.single or not isinstance(tasks, slice)
        if not isinstance(tasks, slice):
            i = _number(tasks, self.batch)
            tasks = slice(i, i + 1)
        part.support, part.query = self.support[tasks], self.query[tasks]
        part.labels, part._classes = self.labels[tasks], self._classes[tasks]
        return part

    @staticmethod
    def stack(tasks: Sequence[Task]) -> Task:
        """Single tasks of one shape as a batch."""
        xp = array_namespace(tasks[0].support)
        whole = object.__new__(Task)
        whole.single = False
        whole.support = xp.concat([t.support for t in tasks], axis=0)
        whole.query = xp.concat([t.query for t in tasks], axis=0)
        whole.labels = np.concatenate([t.labels for t in tasks])
        whole._classes = np.concatenate([t._classes for t in tasks])
        return whole

    def __repr__(self) -> str:
        many = "" if self.single else f"{self.batch} tasks of "
        (shots,) = {tuple(x) for x in self.shots[:1].tolist()}
        examples = f"{shots[0]}" if len(set(shots)) == 1 else f"{min(shots)} to {max(shots)}"
        return (
            f"<Task: {many}{self.ways} classes with {examples} examples each, "
            f"{self.query.shape[1]} queries, {self.query.shape[2]} features>"
        )


@dataclass
class Result:
    """What a method says of each query. Arrays are [Q, ...], or [B, Q, ...] for a batch of tasks.

    probabilities: per known class, as the method defines them (EOL: P(class and known), so that a
    row's sum is P(known)); outlier_scores: high means more likely unknown; unknown: the decision;
    labels: the caller's own labels, `UNKNOWN` (-1) or "unknown" where unknown; closest: the best known
    class whether or not the item was called unknown.
    """

    probabilities: Array
    outlier_scores: Array
    unknown: Array
    classes: np.ndarray  # [N] or [B, N]
    threshold: Any  # the score above which an item is unknown: a number, or one a task
    outlier_share: Any  # the share of unknowns the method worked with: a number, or one a task
    made_by: dict[str, Any] = field(default_factory=dict)  # method, parameters, versions, seed
    state: dict[str, Any] = field(default_factory=dict, repr=False)  # what scoring new items needs,
    preparation: tuple[tuple[str, Any], ...] = ()  # and how to prepare them
    history: Array | None = None  # [steps + 1] or [B, steps + 1] losses, if asked for

    @property
    def closest(self) -> np.ndarray:
        xp = array_namespace(self.probabilities)
        best = to_numpy(xp.argmax(self.probabilities, axis=-1))
        return self.classes[best] if best.ndim == 1 else np.take_along_axis(self.classes, best, axis=-1)

    @property
    def labels(self) -> np.ndarray:
        return mark_unknown(self.closest, to_numpy(self.unknown))

    @property
    def confidence(self) -> Array:
        """How sure the decision is: P(class | known) of a known item, the score's rank of an unknown one."""
        xp = array_namespace(self.probabilities)
        known = xp.sum(self.probabilities, axis=-1)  # 0 where a method is certain of an unknown
        best = xp.max(self.probabilities, axis=-1) / xp.where(known > 0, known, 1.0)
        order = xp.argsort(xp.argsort(self.outlier_scores, axis=-1), axis=-1)
        rank = xp.astype(order + 1, self.probabilities.dtype) / order.shape[-1]
        return xp.where(self.unknown, rank, best)

    def to_arrow(self) -> Any:
        """One row an item: label, unknown, confidence, outlier_score, p_<class> (a `pyarrow.Table`)."""
        import pyarrow as pa

        if self.unknown.ndim == 2:
            raise ValueError("a table is of one task: take result[i] of a batch first")
        columns = {
            "label": self.labels,
            "closest": self.closest,
            "unknown": to_numpy(self.unknown),
            "confidence": to_numpy(self.confidence),
            "outlier_score": to_numpy(self.outlier_scores),
        }
        probabilities = to_numpy(self.probabilities)
        columns |= {f"p_{name}": probabilities[:, j] for j, name in enumerate(self.classes)}
        return pa.table({name: pa.array(np.asarray(x).tolist()) for name, x in columns.items()})

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def __len__(self) -> int:
        return len(self.unknown)

    def __getitem__(self, i: int) -> Result:
        """The i-th task of a batch."""
        if self.unknown.ndim == 1:
            raise TypeError("this is the result of one task; only a batch of tasks can be indexed")
        i = _number(i, len(self))
        return Result(
            self.probabilities[i], self.outlier_scores[i], self.unknown[i], self.classes[i],
            _pick(self.threshold, i), _pick(self.outlier_share, i), self.made_by,
            state={name: value[i : i + 1] for name, value in self.state.items()},
            preparation=tuple((kind, _own(value, i)) for kind, value in self.preparation),
            history=None if self.history is None else self.history[i],
        )  # fmt: skip

    def __repr__(self) -> str:
        unknown = to_numpy(self.unknown)
        tasks = f"{len(unknown)} tasks of " if unknown.ndim == 2 else ""
        share = f", {unknown.mean():.0%} unknown" if unknown.size else ""
        return (
            f"<Result: {tasks}{unknown.shape[-1]} items{share}, "
            f"{self.classes.shape[-1]} classes, by {self.made_by.get('method', '?')}>"
        )


def mark_unknown(labels: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    """`labels` with -1 or "unknown" where unknown."""
    if labels.dtype.kind in "iuf":
        return np.where(unknown, UNKNOWN, labels)
    return np.where(unknown, UNKNOWN_NAME, labels)


def as_features(x: Any, name: str) -> Array:
    """Check features and give them as a NumPy array or torch tensor, [n, D] or [B, n, D], floating."""
    x = _dense(x, name) if is_torch_array(x) else _numeric(x, name)
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
    with np.errstate(over="ignore", invalid="ignore"):
        plausible = bool(xp.isfinite(xp.sum(x)))  # one pass, nothing written; only a strange sum needs a closer look
    if not plausible and not bool(xp.all(xp.isfinite(x))):
        at = np.argwhere(~np.isfinite(to_numpy(x)))[0].tolist()
        where = (f"task {at[0]}, " if x.ndim == 3 else "") + f"row {at[-2]}, column {at[-1]}"
        value = "NaN" if np.isnan(to_numpy(x)[tuple(at)]) else "infinity"
        raise ValueError(f"{name} contains {value} at {where}: remove or repair that row")
    return x


def as_labels(labels: Any) -> np.ndarray:
    """Support labels as an array of ints, floats or strings; no entry may be missing."""
    values = label_array(labels)
    if values.dtype.kind in "iuf":
        missing = np.argwhere(~np.isfinite(values) | (values == UNKNOWN))
    else:
        missing = np.argwhere(is_missing(values) | (values == UNKNOWN_NAME))
    if len(missing):
        at = missing[0].tolist()
        raise ValueError(
            f"support label {at[-1]}{f' of task {at[0]}' if len(at) == 2 else ''} is "
            f"{values.item(*at)!r}, which means unlabelled or unknown: every support item needs a class "
            f"({UNKNOWN}, None and {UNKNOWN_NAME!r} cannot be names of classes)"
        )
    return values if values.dtype.kind in "iuf" else values.astype(str)


def label_array(labels: Any) -> np.ndarray:
    """Any sequence of labels as NumPy: ints, floats, or an object array of strings and None."""
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
    missing = np.frompyfunc(lambda v: v is None or type(v).__name__ in ("NAType", "NaTType") or v != v, 1, 1)
    return missing(values).astype(bool)


def _int64(values: np.ndarray) -> np.ndarray:
    for extreme in (values.min(), values.max()) if values.size else ():
        if not -(2**63) <= int(extreme) < 2**63:
            raise ValueError(f"label {extreme} does not fit a 64-bit integer: use strings")
    return values.astype(np.int64)


def _encode(names: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Names [B, S] to sorted classes [B, N] and codes [B, S]."""
    pairs = [np.unique(row, return_inverse=True) for row in names]
    if classes is not None:
        declared = np.unique(as_labels(classes)).tolist()
        for i, (found, _) in enumerate(pairs):
            absent = [c for c in declared if c not in found.tolist()]
            strange = [c for c in found.tolist() if c not in declared]
            where = "the support set" + (f" of task {i}" if len(pairs) > 1 else "")
            if strange:
                raise ValueError(f"label {strange[0]!r} in {where} is not among the classes {declared}")
            if absent:
                raise ValueError(f"class {absent[0]!r} has no example in {where}: give it at least one")
    ways = [len(found) for found, _ in pairs]
    for i, n in enumerate(ways):
        if n != ways[0]:
            raise ValueError(
                f"task {i} has examples of {n} classes and task 0 of {ways[0]}: tasks of one batch need the "
                "same number of classes; solve tasks of different shape with handful.solve_each"
            )
    return np.stack([found for found, _ in pairs]), np.stack([codes.reshape(-1) for _, codes in pairs])


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
        if x.dtype.kind == "O":
            x = np.where(is_missing(x), np.nan, x)  # pandas' NA is no number
        x = x.astype(np.float64) if x.dtype.kind in "OUST" else x
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a rectangular table of numbers: {error}") from None
    if x.dtype.kind not in "biufc":
        raise ValueError(f"{name} has dtype {x.dtype}: numbers are needed")
    return x


def _dense(x: Array, name: str) -> Array:
    """A torch tensor without its graph: a descent changes its parameters in place, no gradient passes it."""
    if "sparse" in str(x.layout):
        raise TypeError(f"{name} is sparse: dense features are needed, call .to_dense() on it")
    return x.detach()


def _common_dtype(a: Array, b: Array) -> Any:
    xp = array_namespace(a)
    return xp.result_type(a.dtype, b.dtype)


def _number(i: int, batch: int) -> int:
    """Counted from the front, and checked."""
    if not -batch <= index(i) < batch:
        raise IndexError(f"there is no task {i}: they are {batch}, counted from 0")
    return index(i) % batch


def _own(value: Any, i: int) -> Any:
    """Task i's part of what a preparation step learned: [B, ...] or shared by all, [1, ...]."""
    return value[i : i + 1] if np.ndim(value) == 3 and len(value) > 1 else value


def _pick(value: Any, i: int) -> Any:
    return value[i] if np.ndim(value) else value

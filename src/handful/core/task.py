"""What goes into a method: a `Task`.

A task is a support set (features and labels of a handful of examples per class) and a query set
(features of the pile); it may also have examples that belong to none of the classes. Inside, everything is batched:
support [B, S, D], labels [B, S] as codes 0 .. N-1, query [B, Q, D], unknown [B, U, D]; a single task is a batch of one.
Everything is checked here, once; code behind it can trust its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import index
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from handful.core.arrays import Array, scale_to_one
from handful.core.checks import as_features, as_labels, column_names

LARGE_PILE_BYTES = 256 << 20  # a pile in memory that is better not copied


class Task:
    """One few-shot open-set task, or a batch of B tasks of the same shape.

    Arrays may be NumPy arrays, lists, pandas or polars frames, or torch tensors; from torch tensors come torch tensors.
    Columns of frames are matched by their names, if all of these are strings.

    Parameters
    ----------
    support : array [S, D] or [B, S, D]
        Features of the examples.
    labels : array [S] or [B, S]
        The class of each example: integers or strings, in any order. Classes may have different numbers of
        examples.
    query : array [Q, D] or [B, Q, D]
        Features of the pile.
    classes : sequence, optional
        The classes that must be there. A label that is not among them, and a class without an example, are errors.
    unknown : array [U, D] or [B, U, D], optional
        Features of examples that belong to none of the classes.

    Examples
    --------
    >>> task = Task([[0.0, 1.0], [1.0, 0.0]], ["hen", "cat"], [[0.9, 0.2]])
    >>> task.ways, task.classes.tolist(), task.labels.tolist()
    (2, ['cat', 'hen'], [[1, 0]])
    """

    def __init__(self, support: Any, labels: Any, query: Any, *, classes: Any = None, unknown: Any = None):
        columns = column_names(support)
        support, query = as_features(support, "support"), as_features(query, "query", columns)
        self.single = support.ndim == 2
        if support.ndim != query.ndim or (support.ndim == 3 and support.shape[0] != query.shape[0]):
            raise ValueError(
                f"support has shape {tuple(support.shape)} and query {tuple(query.shape)}: give [S, D] and "
                "[Q, D] for one task, or [B, S, D] and [B, Q, D] for a batch of B tasks"
            )
        _check_dimension(support, query)
        if is_torch_array(support) != is_torch_array(query):
            raise TypeError("support and query must both be torch tensors, or neither")
        if self.single:
            support, query = support[None], query[None]
        names = as_labels(labels)
        labels_shape, needed = names.shape, tuple(support.shape[:2])
        names = names[None] if names.ndim == 1 and self.single else names
        if names.shape != needed:
            raise ValueError(
                f"labels have shape {labels_shape} but there are "
                f"{'' if self.single else f'{needed[0]} tasks of '}{needed[1]} support items: "
                f"one label for each, {needed[1:] if self.single else needed}"
            )
        xp = array_namespace(support)
        dtype = xp.result_type(support.dtype, query.dtype)
        self.support: Array = xp.astype(support, dtype, copy=False)
        self.query: Array = xp.astype(query, dtype, copy=False)
        self._classes, self.labels = _encode(names, classes)  # [B, N] names, [B, S] codes
        self.unknown: Array = self.support[:, :0] if unknown is None else self._check_unknown(unknown, columns)

    def _check_unknown(self, unknown: Any, columns: list[str] | None) -> Array:
        """Examples of no class as [B, U, D], of the same kind as the support."""
        if np.ndim(unknown) and not len(unknown):
            return self.support[:, :0]
        rows = as_features(unknown, "unknown", columns)
        if is_torch_array(rows) != is_torch_array(self.support):
            raise TypeError("support and unknown must both be torch tensors, or neither")
        rows = rows[None] if self.single and rows.ndim == 2 else rows
        if rows.ndim != 3 or (rows.shape[0], rows.shape[2]) != (self.batch, self.support.shape[2]):
            needed = "[U, D]" if self.single else f"[{self.batch}, U, D]"
            raise ValueError(
                f"unknown has shape {tuple(np.shape(unknown))}: give examples of no class as {needed}, with the "
                f"{self.support.shape[2]} features per item that the support has"
            )
        return array_namespace(rows).astype(rows, self.support.dtype, copy=False)

    @classmethod
    def of_examples(cls, support: Any, labels: Any, unknown: Any = None) -> Task:
        """A task without a pile: there is nothing to label, but a method can learn its classes from it."""
        task = cls(support, labels, support, unknown=unknown)
        task.query = task.query[:, :0]
        return task

    @classmethod
    def with_large_pile(cls, support: Any, labels: Any, query: np.ndarray, unknown: Any = None) -> Task:
        """One task whose pile is neither copied nor checked here: `handful.solving.blocks` reads it block by block."""
        task = cls.of_examples(support, labels, unknown)
        if is_torch_array(task.support):
            raise TypeError("support is a torch tensor and query is not: give NumPy arrays")
        if not task.single:
            raise ValueError("support holds a batch of tasks: a large pile belongs to one task, [S, D]")
        _check_dimension(task.support, query)
        task.query = query[None]
        return task

    @property
    def is_large(self) -> bool:
        """Whether it is one task whose pile is read block by block, and not copied."""
        return self.single and is_large_pile(self.query[0])

    @property
    def batch(self) -> int:
        """How many tasks there are."""
        return int(self.support.shape[0])

    @property
    def ways(self) -> int:
        """How many classes a task has."""
        return int(self._classes.shape[1])

    @property
    def all_classes(self) -> np.ndarray:
        """Class names in the order of the columns, [B, N], also for one task."""
        return self._classes

    @property
    def classes(self) -> np.ndarray:
        """Class names in the order of the columns: [N], or [B, N] for a batch."""
        return self._classes[0] if self.single else self._classes

    @property
    def shots(self) -> np.ndarray:
        """Examples per class: [B, N]."""
        values: np.ndarray = np.sum(self.labels[..., None] == np.arange(self.ways), axis=1)
        return values

    @cached_property
    def is_extreme(self) -> bool:
        """Whether features are so large or so small that a preparation scales them first."""
        return scale_to_one(self.support) is not None

    def __getitem__(self, tasks: slice | int) -> Task:
        """Some tasks of the batch, as a batch; or one of them, alone."""
        part = object.__new__(Task)
        part.single = self.single or not isinstance(tasks, slice)
        if not isinstance(tasks, slice):
            if not -self.batch <= index(tasks) < self.batch:
                raise IndexError(f"there is no task {tasks}: there are {self.batch}, counted from 0")
            i = index(tasks) % self.batch
            tasks = slice(i, i + 1)
        part.support, part.query, part.unknown = self.support[tasks], self.query[tasks], self.unknown[tasks]
        part.labels, part._classes = self.labels[tasks], self._classes[tasks]
        part.is_extreme = self.is_extreme  # all parts of a batch are prepared by the same steps
        return part

    @staticmethod
    def stack(tasks: Sequence[Task]) -> Task:
        """A batch of single tasks of the same shape.

        Parameters
        ----------
        tasks : sequence of Task
            The tasks.
        """
        xp = array_namespace(tasks[0].support)
        whole = object.__new__(Task)
        whole.single = False
        whole.support = xp.concat([t.support for t in tasks], axis=0)
        whole.query = xp.concat([t.query for t in tasks], axis=0)
        whole.unknown = xp.concat([t.unknown for t in tasks], axis=0)
        whole.labels = np.concatenate([t.labels for t in tasks])
        whole._classes = np.concatenate([t._classes for t in tasks])
        return whole

    def __repr__(self) -> str:
        many = "" if self.single else f"{self.batch} tasks of "
        (shots,) = {tuple(x) for x in self.shots[:1].tolist()}
        examples = f"{shots[0]}" if len(set(shots)) == 1 else f"{min(shots)} to {max(shots)}"
        of_no_class = f"{self.unknown.shape[1]} examples of no class, " if self.unknown.shape[1] else ""
        return (
            f"<Task: {many}{self.ways} classes with {examples} examples each, {of_no_class}"
            f"{self.query.shape[1]} queries, {self.query.shape[2]} features>"
        )


def _encode(names: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Names [B, S] to sorted classes [B, N] and codes [B, S]."""
    pairs = [np.unique(row, return_inverse=True) for row in names]
    if classes is not None:
        declared = np.unique(as_labels(classes)).tolist()
        for i, (present, _) in enumerate(pairs):
            absent = [c for c in declared if c not in present.tolist()]
            undeclared = [c for c in present.tolist() if c not in declared]
            where = "the support set" + (f" of task {i}" if len(pairs) > 1 else "")
            if undeclared:
                raise ValueError(f"label {undeclared[0]!r} in {where} is not among the classes {declared}")
            if absent:
                raise ValueError(f"class {absent[0]!r} has no example in {where}: give it at least one")
    ways = [len(present) for present, _ in pairs]
    for i, n in enumerate(ways):
        if n != ways[0]:
            raise ValueError(
                f"task {i} has examples of {n} classes and task 0 of {ways[0]}: tasks of one batch need the "
                "same number of classes; solve tasks of different shape with handful.solve_each"
            )
    return np.stack([present for present, _ in pairs]), np.stack([codes.reshape(-1) for _, codes in pairs])


def is_large_pile(query: Any) -> bool:
    """Whether a pile [Q, D] is better not copied: a memory-mapped array, or one of `LARGE_PILE_BYTES`."""
    if not isinstance(query, np.ndarray) or query.ndim != 2 or not query.size or query.dtype.kind not in "fiub":
        return False
    return isinstance(query, np.memmap) or query.nbytes >= LARGE_PILE_BYTES


def _check_dimension(support: Array, query: Array) -> None:
    if support.shape[-1] != query.shape[-1]:
        raise ValueError(
            f"support has {support.shape[-1]} features per item and query has {query.shape[-1]}: "
            "both must come from the same backbone"
        )

"""What flows through handful: a `Task` goes into a method, a `Result` comes out.

A task is a support set (features and labels of a handful of examples per class) and a query set
(features of the pile). Inside, everything is batched: support [B, S, D], labels [B, S] as codes
0 .. N-1, query [B, Q, D]; a single task is a batch of one. Everything is checked here, once, at the
door; what lies behind it can trust its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from handful.core.answers import Answers, mark_unknown
from handful.core.arrays import Array, as_like, scale_to_one, to_numpy
from handful.core.checks import UNKNOWN, UNKNOWN_NAME, as_features, as_labels  # noqa: F401  # imported from here

if TYPE_CHECKING:
    from handful.solving.groups import Group, Promoted


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

    @classmethod
    def in_pieces(cls, support: Any, labels: Any, pile: Any) -> Task:
        """One task whose pile is read in pieces: `pile` is a `handful.Shards`, which is checked as it is read."""
        task = cls.of_examples(support, labels)
        if is_torch_array(task.support):
            raise TypeError("support is a torch tensor and the pile is read in pieces: give NumPy arrays")
        if not task.single:
            raise ValueError("support holds a batch of tasks: a pile that is read in pieces is of one task, [S, D]")
        if task.support.shape[-1] != pile.dimension:
            raise ValueError(
                f"support has {task.support.shape[-1]} features per item and the pile has {pile.dimension}: "
                "both must come from the same backbone"
            )
        task.query = pile
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

    @cached_property
    def is_extreme(self) -> bool:
        """Whether features are so large or so small that a preparation scales them first."""
        return scale_to_one(self.support) is not None

    def __getitem__(self, tasks: slice | int) -> Task:
        """Some tasks of the batch, as a batch; or one of them, alone."""
        part = object.__new__(Task)
        part.single = self.single or not isinstance(tasks, slice)
        if not isinstance(tasks, slice):
            i = _number(tasks, self.batch)
            tasks = slice(i, i + 1)
        part.support, part.query = self.support[tasks], self.query[tasks]
        part.labels, part._classes = self.labels[tasks], self._classes[tasks]
        part.is_extreme = self.is_extreme  # all parts of a batch are prepared by the same steps
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
    state: dict[str, Any] = field(default_factory=dict, repr=False)  # what scoring new items needs: arrays [B, ...]
    history: Array | None = None  # [steps + 1] or [B, steps + 1] losses, if asked for
    task: Task | None = field(default=None, repr=False)  # what was solved
    outlier_share_interval: np.ndarray | None = None  # [2] or [B, 2], where the share was estimated: 4 in 5 are in it

    @cached_property
    def _answers(self) -> Answers:
        return Answers(
            self.probabilities, self.outlier_scores, self.classes, self.threshold,
            is_probability=self.made_by.get("score") == "probability", outlier_share=self.outlier_share,
            shots=None if self.task is None else self.task.shots.mean(axis=1),
        )  # fmt: skip

    @property
    def class_probabilities(self) -> Array:
        """P(class | known): rows sum to 1."""
        return self._answers.class_probabilities

    @property
    def closest(self) -> np.ndarray:
        return self._answers.closest

    @property
    def labels(self) -> np.ndarray:
        return mark_unknown(self.closest, to_numpy(self.unknown))

    @property
    def confidence(self) -> Array:
        """How sure the decision is: `handful.core.answers` has the definition."""
        return as_like(self._answers.confidence, self.probabilities)

    @property
    def p_unknown(self) -> np.ndarray | None:
        """P(unknown), calibrated: among items with 0.8 about 80 % are unknown. None where scores only rank."""
        return None if self.task is None else self._answers.p_unknown

    @cached_property
    def groups(self) -> list[Group]:
        """The unknown items as groups that look alike, candidates for new classes, the largest first. Of one task."""
        from handful.solving.groups import groups_of

        return groups_of(self)

    def promote(self, names: dict[int, Any], examples: int = 5) -> Promoted:
        """Groups made into classes: a task whose support also has each group's most central items, `examples` at most.

        names: by group number, in the kind that the classes are; two groups of one name become one class. ::

            new = result.promote({1: "wheel"})
            again = handful.solve("eol", new.task, outlier_share=new.outlier_share)
            dict(zip(new.rest, again.labels))  # by their place in the old pile
        """
        from handful.solving.groups import promote

        return promote(self, names, examples)

    def to_arrow(self) -> Any:
        """One row an item: label, unknown, confidence, outlier_score, p_unknown, p_<class> (a `pyarrow.Table`)."""
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
        if self.p_unknown is not None:
            columns["p_unknown"] = self.p_unknown
        probabilities = to_numpy(self.class_probabilities)
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
            history=None if self.history is None else self.history[i],
            task=None if self.task is None else self.task[i],
            outlier_share_interval=None if self.outlier_share_interval is None else self.outlier_share_interval[i],
        )  # fmt: skip

    def __repr__(self) -> str:
        unknown = to_numpy(self.unknown)
        tasks = f"{len(unknown)} tasks of " if unknown.ndim == 2 else ""
        share = f", {unknown.mean():.0%} unknown" if unknown.size else ""
        return (
            f"<Result: {tasks}{unknown.shape[-1]} items{share}, "
            f"{self.classes.shape[-1]} classes, by {self.made_by.get('method', '?')}>"
        )


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


def _common_dtype(a: Array, b: Array) -> Any:
    xp = array_namespace(a)
    return xp.result_type(a.dtype, b.dtype)


def _number(i: int, batch: int) -> int:
    """Counted from the front, and checked."""
    if not -batch <= index(i) < batch:
        raise IndexError(f"there is no task {i}: they are {batch}, counted from 0")
    return index(i) % batch


def _pick(value: Any, i: int) -> Any:
    return value[i] if np.ndim(value) else value

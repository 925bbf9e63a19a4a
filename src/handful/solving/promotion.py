"""Groups of unknowns become classes of a new task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from handful.core.arrays import as_like, to_numpy
from handful.core.checks import is_no_class, is_no_label
from handful.core.parameters import AUTO
from handful.core.task import Task
from handful.solving.groups import Group


class Promoted(NamedTuple):
    """A task with groups for classes; `rest`: where the items of its pile were in the old one, [Q']."""

    task: Task
    rest: np.ndarray
    outlier_share: float | str  # the share of before, less the groups that are classes now


def promote(
    task: Task,
    groups: Sequence[Group],
    unknown: np.ndarray,
    names: dict[int, Any],
    examples: int | None = None,
    outlier_share: float | None = None,
    join: bool = False,
) -> Promoted:
    """See `Result.promote`; outlier_share: the share of before; with None it is estimated anew."""
    by_number = {group.number: group for group in groups}
    check_examples(examples)
    check_names(names, by_number, task.classes.tolist(), join)
    picked = {number: by_number[number].exemplars(examples) for number in names}
    taken = np.concatenate(list(picked.values()))
    rest = np.setdiff1d(np.arange(len(unknown)), taken)
    if not len(rest):
        raise ValueError("nothing of the pile is left to solve: make fewer of its items examples")
    query = to_numpy(task.query[0])
    labels = [*task.classes[task.labels[0]].tolist()]
    labels += [names[number] for number, rows in picked.items() for _ in rows]
    support = np.concatenate([to_numpy(task.support[0]), query[taken]])
    part = sum(by_number[number].size for number in names) / int(unknown.sum())
    share: float | str = AUTO if outlier_share is None else lower_share(outlier_share, part, len(rest) / len(unknown))
    examples_now, pile = as_like(support, task.support), as_like(query[rest], task.query)  # torch in, torch out
    return Promoted(Task(examples_now, labels, pile), rest, share)


def lower_share(share: float, part: float, kept: float) -> float:
    """An outlier share without this part of the unknowns, of a pile of which so much is left; never 0 or 1."""
    return min(0.99, max(0.01, share * (1 - part) / kept))


def check_examples(examples: int | None) -> None:
    """Raise ValueError unless it is None or a whole number from 1."""
    if examples is not None and (isinstance(examples, bool) or not isinstance(examples, int) or examples < 1):
        raise ValueError(f"examples is {examples!r}: give how many items of a group become examples, at least 1")


def check_names(
    names: Mapping[Any, Any], groups: Mapping[Any, Any], classes: Sequence[Any], join: bool = False
) -> None:
    """Refuse groups that are not there, and names that no class can have or that, without `join`, one has."""
    if not names:
        raise ValueError("no group is named: give the number of one and a name for its class, as {1: 'wheel'}")
    numbers = isinstance(classes[0], int | float)
    for number, name in names.items():
        if number not in groups:
            whole = [key for key in groups if isinstance(key, int)]
            there = f"they are numbered 1 to {len(whole)}" if whole else "there are none"
            raise ValueError(f"there is no group {number}: {there}")
        if isinstance(name, bool) or not isinstance(name, (int | float | np.number) if numbers else str):
            kind = "numbers" if numbers else "text"
            raise TypeError(f"group {number} is to be called {name!r}, but the classes are {kind}: name it by {kind}")
        if is_no_class(name) or is_no_label(name):
            raise ValueError(f"group {number} cannot be called {name!r}, which means unknown or unlabelled")
        if name in classes and not join:
            raise ValueError(
                f"there is a class {name!r} already: give group {number} another name, or say that it joins this class "
                "(in Python join=True, on the command line --join)"
            )

"""The labels that somebody gives to items: which are missing, and whether they are of the kind of a model's classes."""

from __future__ import annotations

import numpy as np

from handful.core.checks import UNKNOWN, is_missing


def is_unlabelled(y: np.ndarray) -> np.ndarray:
    """Where an item has no label: -1 among numbers, None among texts.

    >>> is_unlabelled(np.array(["cat", None], dtype=object))
    array([False,  True])
    """
    return y == UNKNOWN if y.dtype.kind in "iuf" else is_missing(y)


def same_kind(names: np.ndarray, classes: np.ndarray, source: str) -> np.ndarray:
    """The names of classes as an array of the type of `classes`, texts or numbers.

    Parameters
    ----------
    names : array [n]
        Names without missing ones.
    classes : array [N]
        The classes of a model.
    source : str
        Where the names come from, for the message.

    Raises
    ------
    ValueError
        If some are texts and the classes are numbers, or the other way round.

    Examples
    --------
    >>> same_kind(np.array([3.0, 1.0]), np.array([1, 2]), "y")
    array([3, 1])
    """
    if not len(names):
        return classes[:0]
    is_number, needs_number = (array.dtype.kind in "iuf" for array in (names, classes))
    if is_number != needs_number:
        kinds = "texts", "numbers"
        raise ValueError(
            f"{names.tolist()[0]!r} in {source} is no name for a class of this model, whose classes are "
            f"{kinds[needs_number]}, such as {classes.tolist()[0]!r}: give {kinds[needs_number]}"
        )
    if not is_number:
        return names.astype(str)
    if classes.dtype.kind in "iu" and (names != np.floor(names)).any():
        raise ValueError(f"{source} has labels that are no whole numbers, and those of this model are: give whole ones")
    return names.astype(classes.dtype)

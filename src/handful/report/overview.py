"""What a picture of a result shows, as plain numbers: notebooks and matplotlib draw the same.

Counts and the histogram are of all items. Only the map of a large pile is of a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.core.answers import Answers
from handful.core.arrays import to_numpy
from handful.report.assembly import GroupOfUnknowns
from handful.report.plane import on_plane
from handful.utils.shares_in_words import about, percent, right_in_words, span

BINS = 40
UNKNOWN_CODE = -1  # of an unknown item on the map
FAR = 3.0  # a threshold farther away than so many times the range of the scores is beyond the histogram


@dataclass(frozen=True)
class Histogram:
    """How many items have which outlier score.

    Parameters
    ----------
    edges : array [bins + 1]
        The ends of the bins.
    known, unknown : array [bins] of int
        Items with a label and items called unknown, in each bin.
    threshold : float
        Items with a higher score are unknown; it may lie beyond the edges.
    """

    edges: np.ndarray
    known: np.ndarray
    unknown: np.ndarray
    threshold: float


@dataclass(frozen=True)
class ShareOfUnknowns:
    """What is believed of the share of unknowns.

    Parameters
    ----------
    estimate : float
        The share that the method worked with.
    interval : (float, float)
        The share should lie in it four times in five.
    edges : array [G + 1]
        Ends of the ranges of shares, from 0 to 1; of none, if there is no posterior.
    density : array [G]
        How probable each range is, divided by its width.
    """

    estimate: float
    interval: tuple[float, float]
    edges: np.ndarray
    density: np.ndarray


@dataclass(frozen=True)
class ItemMap:
    """Some items of the pile, and the examples, on a plane.

    Parameters
    ----------
    rows : array [m] of int
        The items, by their place in the pile.
    places : array [m, 2]
        Where they are, from 0 to 1 in both directions.
    codes : array [m] of int
        The number of each item's class; -1 where it is unknown.
    example_places, example_codes : array [S, 2], array [S] of int
        The same for the examples.
    """

    rows: np.ndarray
    places: np.ndarray
    codes: np.ndarray
    example_places: np.ndarray
    example_codes: np.ndarray


@dataclass(frozen=True)
class Overview:
    """The result of one task in numbers.

    Parameters
    ----------
    method : str
        What made it.
    classes : sequence of str
        The names of the classes.
    counts : array [N] of int
        How many items got each class.
    unknown, set_aside : int
        How many items are unknown, and how many of these only because their label is too unsure.
    codes : array [n] of int
        The class of each item; -1 where it is unknown.
    confidence : array [n]
        How sure each answer is.
    histogram : Histogram
        The outlier scores.
    sentences : sequence of str
        What is expected of the labels and of the share, in words.
    share : ShareOfUnknowns, optional
        If the share was estimated.
    items : ItemMap, optional
        The map.
    groups : sequence, optional
        The groups of unknowns; None if nobody looked for them.
    """

    method: str
    classes: Sequence[str]
    counts: np.ndarray
    unknown: int
    set_aside: int
    codes: np.ndarray
    confidence: np.ndarray
    histogram: Histogram
    sentences: Sequence[str]
    share: ShareOfUnknowns | None = None
    items: ItemMap | None = None
    groups: Sequence[GroupOfUnknowns] | None = None

    def members(self, code: int) -> np.ndarray:
        """The items of a class, the surest first."""
        rows = np.flatnonzero(self.codes == code)
        return rows[np.argsort(-self.confidence[rows], kind="stable")]


def make_overview(
    answers: Answers,
    method: str,
    *,
    interval: Any = None,
    posterior: tuple[Any, Any] | None = None,
    groups: Sequence[GroupOfUnknowns] | None = None,
    features: Callable[[np.ndarray], Any] | None = None,
    examples: tuple[Any, Any] | None = None,
    max_points: int = 800,
) -> Overview:
    """The overview of the answers of one task.

    Parameters
    ----------
    answers : Answers
        The answers for the n items.
    method : str
        What made them.
    interval : array [2], optional
        The interval of the share of unknowns, if it was estimated.
    posterior : (array [G], array [G]), optional
        Shares, ascending, and P(share > g) for each.
    groups : sequence, optional
        The groups of unknowns.
    features : callable, optional
        Gives the features [m, D] of some items; without it there is no map.
    examples : (array [S, D], array [S] of int), optional
        The features of the examples, and their classes by number.
    max_points : int
        Items on the map, at most.

    Returns
    -------
    Overview
        What the pictures show.

    Examples
    --------
    >>> answers = Answers(np.array([[0.6, 0.2], [0.1, 0.1]]), np.array([0.2, 0.8]), np.array(["cat", "hen"]), 0.5,
    ...                   is_probability=True)
    >>> overview = make_overview(answers, "eol")
    >>> overview.counts.tolist(), overview.unknown
    ([1, 0], 1)
    """
    unknown = to_numpy(answers.unknown)
    codes = np.where(unknown, UNKNOWN_CODE, to_numpy(answers.probabilities).argmax(axis=-1))
    classes = [str(name) for name in answers.classes.tolist()]
    return Overview(
        method,
        classes,
        np.bincount(codes[~unknown], minlength=len(classes)),
        int(unknown.sum()),
        int(answers.set_aside.sum()),
        codes,
        to_numpy(answers.confidence),
        histogram(to_numpy(answers.doubts), unknown, float(answers.threshold), answers.is_probability),
        _sentences(answers, interval),
        None if interval is None else _share(float(answers.outlier_share), interval, posterior),
        None if features is None else _map(features, examples, codes, max_points),
        groups,
    )


def histogram(scores: np.ndarray, unknown: np.ndarray, threshold: float, is_probability: bool) -> Histogram:
    """The outlier scores of all items in `BINS` bins; a score that is not finite counts in the bin at its end."""
    finite = scores[np.isfinite(scores)].astype(np.float64)
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if is_probability:
        low, high = min(low, 0.0), max(high, 1.0)
    elif np.isfinite(threshold) and low - FAR * (high - low) < threshold < high + FAR * (high - low):
        low, high = min(low, threshold), max(high, threshold)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    inside = np.clip(np.nan_to_num(scores.astype(np.float64), nan=high, posinf=high, neginf=low), low, high)
    known, above = (np.histogram(inside[mask], edges)[0] for mask in (~unknown, unknown))
    return Histogram(edges, known, above, threshold)


def _sentences(answers: Answers, interval: Any) -> list[str]:
    by_class = answers.expected_precision_by_class or {}
    labels, right = sum(e.labels for e in by_class.values()), sum(e.right for e in by_class.values())
    sentences = [right_in_words(labels, right)] if by_class else []
    share = answers.outlier_share
    if interval is not None:
        between = span(float(share), list(interval), int((~answers.is_given).sum()))
        sentences.append(f"Estimated share of unknowns: {about(float(share))}{between}")
    elif share is not None:
        sentences.append(f"Share of unknowns: {percent(float(share))}")
    return [f"{sentence}." for sentence in sentences if sentence]


def _share(estimate: float, interval: Any, posterior: tuple[Any, Any] | None) -> ShareOfUnknowns:
    ends = float(interval[0]), float(interval[1])
    if posterior is None:
        return ShareOfUnknowns(estimate, ends, np.empty(0), np.empty(0))
    edges = np.array([0.0, *posterior[0], 1.0])
    above = np.array([1.0, *to_numpy(posterior[1]), 0.0])
    return ShareOfUnknowns(estimate, ends, edges, np.maximum(-np.diff(above), 0.0) / np.diff(edges))


def _map(
    features: Callable[[np.ndarray], Any], examples: tuple[Any, Any] | None, codes: np.ndarray, max_points: int
) -> ItemMap | None:
    if not len(codes):
        return None
    rows, parts, example_codes = _sample(len(codes), max_points), [], np.empty(0, int)
    parts.append(to_numpy(features(rows)))
    if examples is not None:
        own = _sample(len(examples[1]), max_points // 2)
        parts.append(to_numpy(examples[0])[own])
        example_codes = np.asarray(examples[1])[own]
    places = on_plane(np.concatenate(parts))
    places = places - places.min(axis=0)
    places /= max(float(places.max()), 1e-12)  # one scale for both directions
    places += (1 - places.max(axis=0)) / 2
    return ItemMap(rows, places[: len(rows)], codes[rows], places[len(rows) :], example_codes)


def _sample(n: int, most: int) -> np.ndarray:
    """Numbers below n, ascending: all, or a random sample that is always the same."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))

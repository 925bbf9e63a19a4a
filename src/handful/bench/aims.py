"""Aims for a method that estimates the share of unknowns itself, and whether the results meet them.

A comparison is met unless the whole 95 % interval of the mean difference, over the same tasks, is below zero. A limit
is met if the mean is within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.bench.runner import Results
from handful.bench.share import AUTO, TOLD, lead, protocols_of
from handful.bench.tables import plain
from handful.core.metrics import mean_and_half_width

WORDS = {True: "met", False: "missed", None: "not measured"}
ERROR_WITHIN = {5: 6.0, 1: 10.0}  # percent points, by shots
FALSE_UNKNOWN_WITHIN = 5.0  # percent, in tasks without unknowns


@dataclass(frozen=True)
class Line:
    """One kind of tasks. `limit` is the largest allowed mean; None: the mean is a lead and should not be below 0."""

    shots: int
    share: float
    mean: float
    half_width: float
    limit: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the aim is met here; None if it was not measured."""
        if self.limit is not None:
            return None if np.isnan(self.mean) else bool(self.mean <= self.limit)
        return None if np.isnan(self.half_width) else bool(self.mean + self.half_width >= 0)

    def __str__(self) -> str:
        half = "" if np.isnan(self.half_width) else f" ± {self.half_width:.1f}"
        number = f"{self.mean:{'+' if self.limit is None else ''}.1f}{half}"
        return f"{WORDS[self.met]}: {self.shots}-shot, {self.share:.0%} unknown: {number}"


@dataclass(frozen=True)
class Aim:
    """A statement that the results should support, with a line for each setting."""

    statement: str
    lines: list[Line]

    @property
    def met(self) -> bool | None:
        """Whether all lines are met; None if one was not measured and none is missed."""
        verdicts = [line.met for line in self.lines]
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True

    @property
    def word(self) -> str:
        """The verdict as text, such as "missed (14 of 15 met)"."""
        met = [line.met for line in self.lines].count(True)
        return WORDS[self.met] + (f" ({met} of {len(self.lines)} met)" if self.lines else "")

    @property
    def worst(self) -> Line | None:
        """The line that misses its aim by most, or meets it by least."""
        measured = [line for line in self.lines if line.met is not None]
        return min(measured, key=_slack, default=None)

    def record(self) -> dict[str, Any]:
        """Return the aim with its lines as plain data for JSON."""
        lines = [
            {
                "shots": x.shots, "share": x.share, "mean": plain(x.mean), "half_width_95": plain(x.half_width),
                "limit": x.limit, "met": x.met,
            }
            for x in self.lines
        ]  # fmt: skip
        return {"aim": self.statement, "met": self.met, "lines": lines}


def check_aims(results: Sequence[Results]) -> list[Aim]:
    """Return all aims, checked on the results for each number of shots."""
    errors = [
        Aim(
            f"The share is estimated within {limit:g} points at {shots} shot{'s' * (shots > 1)}, mean absolute error",
            [
                _line(result, column, np.abs(result[column, AUTO]["share_error"]), limit)
                for result in results
                for column, protocol in protocols_of(result).items()
                if protocol.shots == shots
            ],
        )
        for shots, limit in ERROR_WITHIN.items()
    ]
    alarms = Aim(
        f"At most {FALSE_UNKNOWN_WITHIN:g} % of the knowns are called unknown where nothing is unknown",
        [
            _line(result, column, result[column, AUTO]["false_unknown"], FALSE_UNKNOWN_WITHIN)
            for result in results
            for column, protocol in protocols_of(result).items()
            if not protocol.outliers
        ],
    )
    return [
        Aim(f"{AUTO} is at or above {TOLD} in AUROC", _leads(results, TOLD, "auroc")),
        Aim(f"{AUTO} is not below SimpleShot in accuracy", _leads(results, "SimpleShot", "accuracy")),
        *errors,
        alarms,
    ]


def to_markdown(aims: Sequence[Aim]) -> str:
    """Return the aims as a Markdown section, for the start of the page."""
    lines = ["## Aims", "", "In percent points ± the half-width of the 95 % interval of the mean over tasks.", ""]
    for aim in aims:
        lines += [f"### {aim.statement}: **{aim.word}**", ""]
        lines += [f"- {line}" for line in aim.lines] + ([""] if aim.lines else [])
    return "\n".join(lines) + "\n"


def _leads(results: Sequence[Results], row: str, figure: str) -> list[Line]:
    """Return the leads of Auto over a row where the figure is defined; [] if the row was not run."""
    return [
        _line(result, column, lead(result, column, row, figure))
        for result in results
        if row in result.benchmark.contenders
        for column in result.benchmark.columns
        if not np.isnan(result[column, row][figure]).all()
    ]


def _line(results: Results, column: str, values: np.ndarray, limit: float | None = None) -> Line:
    protocol = protocols_of(results)[column]
    mean, half = mean_and_half_width(values)
    return Line(protocol.shots, protocol.outlier_share, float(mean), float(half), limit)


def _slack(line: Line) -> float:
    return line.mean + line.half_width if line.limit is None else line.limit - line.mean

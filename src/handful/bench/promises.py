"""Precision promised against precision found: whether labels that are kept for a precision reach it.

`Answers.at_precision` keeps labels by their probabilities alone. Here the truth of each pile is known. Labels are
counted, not averaged by pile: of all labels that were kept in all piles of a feature set, the part that was expected to
be right is what was promised, and the part that is right is what was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from handful.core.answers import Answers
from handful.core.arrays import to_numpy

PRECISIONS = (0.8, 0.9, 0.95)
NO_PRECISION = "none"
LEVELS = {NO_PRECISION: None} | {f"{100 * value:g}": value for value in PRECISIONS}  # by the ending of their columns
HEAD = ("Asked", "Promised", "Found", "Found minus promised", "Items labelled", "Worst feature set", "Its difference")
NOTE = (
    "Precision of labels, in percent of all labels of all piles: what was asked for, what the probabilities of the "
    "kept labels promise, and what was found. Asked none: every item that is not called unknown has a label."
)


def count_labels(answers: Answers, truth: np.ndarray) -> dict[str, float]:
    """Count the labels of one pile at each precision, those that should be right and those that are.

    Parameters
    ----------
    answers : Answers
        Of one task.
    truth : array [n]
        The column of the class of each item, -1 for an unknown one.

    Returns
    -------
    dict of str to float
        labels_at_80, expected_at_80, right_at_80, ...; "none" is for the labels without a precision. All are nan for a
        method without probabilities.

    Examples
    --------
    >>> answers = Answers(np.array([[0.9, 0.0], [0.3, 0.3]]), np.array([0.1, 0.2]), np.array(["cat", "hen"]), 0.5,
    ...                   is_probability=True)
    >>> counts = count_labels(answers, np.array([0, -1]))
    >>> counts["labels_at_none"], counts["labels_at_80"], counts["right_at_80"]
    (2.0, 1.0, 1.0)
    """
    counts: dict[str, float] = {}
    best = to_numpy(answers.probabilities).argmax(axis=-1)
    for ending, precision in LEVELS.items():
        numbers = [np.nan] * 3
        if answers.p_closest is not None:
            kept = answers if precision is None else answers.at_precision(precision)
            is_label = ~to_numpy(kept.unknown)
            numbers = [is_label.sum(), answers.p_closest[is_label].sum(), (best == truth)[is_label].sum()]
        names = ("labels", "expected", "right")
        counts |= {f"{name}_at_{ending}": float(n) for name, n in zip(names, numbers, strict=True)}
    return counts


def promised_and_found(records: Iterable[Mapping[str, Any]], ending: str) -> dict[str, float]:
    """Return in percent the precision promised and found over the labels of some piles, and the items labelled.

    Parameters
    ----------
    records : iterable of mapping
        What `count_labels` gives, with the number of items of the pile as "items".
    ending : str
        A key of `LEVELS`.
    """
    rows = [r for r in records if not np.isnan(r[f"labels_at_{ending}"])]
    labels, expected, right = (sum(r[f"{name}_at_{ending}"] for r in rows) for name in ("labels", "expected", "right"))
    items = sum(r["items"] for r in rows)
    return {
        "promised": 100 * expected / labels if labels else float("nan"),
        "found": 100 * right / labels if labels else float("nan"),
        "labelled": 100 * labels / items if items else float("nan"),
    }


def figures(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return promised and found for each method, each precision, and each feature set; "all" is for all of them.

    Parameters
    ----------
    records : sequence of mapping
        The records of `handful.bench.domains`.
    """
    domains = list(dict.fromkeys(r["domain"] for r in records))
    rows = []
    for method in dict.fromkeys(r["method"] for r in records):
        own = [r for r in records if r["method"] == method]
        if all(np.isnan(r[f"labels_at_{NO_PRECISION}"]) for r in own):
            continue
        for ending, precision in LEVELS.items():
            for domain in ("all", *domains):
                numbers = promised_and_found((r for r in own if domain in ("all", r["domain"])), ending)
                rows.append({"method": method, "asked": precision, "domain": domain, **numbers})
    return rows


def tables(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return Markdown: for each method and precision, all labels and the feature set that is furthest below."""
    rows = figures(records)
    lines = ["## Precision promised and found", "", NOTE, ""]
    for method in dict.fromkeys(row["method"] for row in rows):
        lines += [f"### {method}", "", _line(HEAD), _line(["---"] * len(HEAD))]
        for precision in LEVELS.values():
            own = [row for row in rows if row["method"] == method and row["asked"] == precision]
            whole, *parts = own
            gaps = {row["domain"]: row["found"] - row["promised"] for row in parts}
            gaps = {domain: gap for domain, gap in gaps.items() if not np.isnan(gap)}
            worst = min(gaps, key=lambda domain: gaps[domain], default="")
            asked = "none" if precision is None else f"{100 * precision:g}"
            numbers = [whole["promised"], whole["found"]]
            texts = [*map(_text, numbers), _text(whole["found"] - whole["promised"], "+"), _text(whole["labelled"])]
            lines.append(_line([asked, *texts, worst, _text(gaps.get(worst, float("nan")), "+")]))
        lines.append("")
    return lines


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each method: what was promised and found at each precision."""
    lines: dict[str, list[str]] = {}
    for row in figures(records):
        if row["domain"] == "all" and row["asked"] is not None:
            numbers = f"promised {_text(row['promised'])}, found {_text(row['found'])}"
            lines.setdefault(row["method"], []).append(f"{100 * row['asked']:g} asked, {numbers}")
    return [f"{method}, precision: {'; '.join(parts)}" for method, parts in lines.items()]


def _text(value: float, sign: str = "") -> str:
    return "\N{EN DASH}" if np.isnan(value) else f"{value:{sign}.1f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

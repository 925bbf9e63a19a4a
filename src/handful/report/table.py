"""A result as a short HTML table, which a notebook shows at the end of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from handful.core.answers import Answers
from handful.core.arrays import to_numpy
from handful.core.checks import UNKNOWN_NAME
from handful.report.html_page import escape
from handful.utils.shares_in_words import about, percent, right_in_words, span

MAX_CLASSES, MAX_GROUPS, MAX_TASKS = 12, 12, 20  # rows of a table
MAX_NAME = 60  # characters
MAX_ITEMS = 5  # of a group, by their numbers


def result_table(answers: Answers, method: str, share_interval: Any = None, groups: Sequence[Any] | None = None) -> str:
    """The answers of one task as HTML: what is expected of them, the labels with their counts, and the groups."""
    n, unknown = len(answers), to_numpy(answers.unknown)
    codes = to_numpy(answers.probabilities).argmax(axis=-1)[~unknown]
    counts = np.bincount(codes, minlength=len(answers.classes))
    by_class, names = answers.expected_precision_by_class or {}, answers.classes.tolist()
    order = np.sort(np.argsort(-counts, kind="stable")[:MAX_CLASSES]).tolist()
    rows = [
        [_short(names[code]), f"{counts[code]:,}", percent(counts[code] / max(n, 1)), _right(by_class.get(names[code]))]
        for code in order
    ]
    rows.append([UNKNOWN_NAME, f"{unknown.sum():,}", percent(unknown.sum() / max(n, 1)), ""])
    notes = []
    if left := len(names) - len(order):
        notes.append(f"{left:,} more class{'es' * (left > 1)} with {counts.sum() - counts[order].sum():,} items.")
    if set_aside := answers.set_aside.sum():
        notes.append(f"{set_aside:,} of the unknown were set aside because their label is too unsure.")
    if groups is None:
        notes.append("The groups of unknowns are not computed yet: result.groups finds them.")
    title = title_of(answers, method)
    parts = [_paragraphs(_expected(answers, share_interval)), _table("Label,Items,Of all,Should be right", rows)]
    return _fragment(title, *parts, _paragraphs(notes), groups_table(groups) if groups else "")


def title_of(answers: Answers, method: str) -> str:
    """How many items of one task are labelled and unknown, in words."""
    n, unknown = len(answers), to_numpy(answers.unknown).sum()
    return f"{n:,} items: {n - unknown:,} labelled, {unknown:,} unknown, by {method}"


def groups_table(groups: Sequence[Any]) -> str:
    """Groups of unknowns as HTML, a row for each: its name, how many items it has, and the most typical ones."""
    if not groups:
        return _fragment("No groups of unknowns")
    rows = []
    for group in groups[:MAX_GROUPS]:
        kinds = f", looks like {len(group.parts)} kinds" if len(group.parts) > 1 else ""
        items = ", ".join(map(str, group.items[:MAX_ITEMS].tolist())) + ", …" * (group.size > MAX_ITEMS)
        rows.append([_short(group.name, 2 * MAX_NAME), f"{group.size:,} items{kinds}", items])
    left = groups[MAX_GROUPS:]
    notes = [f"{len(left):,} smaller groups, {sum(group.size for group in left):,} items."] if left else []
    title = f"{len(groups):,} group{'s' * (len(groups) != 1)} of unknowns, {sum(g.size for g in groups):,} items"
    return _fragment(title, _table("Group,Size,Most typical items", rows), _paragraphs(notes))


def batch_table(answers: Answers, method: str, share_intervals: Any = None) -> str:
    """The answers of a batch of tasks as HTML, a row for each task. share_intervals: [B, 2], if they were estimated."""
    unknown = to_numpy(answers.unknown)
    tasks, rows = len(unknown), []
    shares = np.broadcast_to(answers.outlier_share, tasks).tolist()
    for i, row in enumerate(unknown[:MAX_TASKS]):
        share = percent(shares[i])
        if share_intervals is not None:
            share = about(shares[i]) + span(shares[i], share_intervals[i].tolist())
        rows.append([f"task {i}", f"{(~row).sum():,}", f"{row.sum():,}", share])
    notes = [f"{tasks - MAX_TASKS:,} more tasks."] if tasks > MAX_TASKS else []
    notes.append("result[i] is the result of one task.")
    labelled = f"{(~unknown).sum():,} labelled, {unknown.sum():,} unknown"
    title = f"{tasks:,} tasks, {unknown.size:,} items: {labelled}, by {method}"
    return _fragment(title, _table("Task,Labelled,Unknown,Share of unknowns", rows), _paragraphs(notes))


def _expected(answers: Answers, share_interval: Any) -> list[str]:
    """What is expected of the labels and of the share, with their intervals, in sentences."""
    by_class = answers.expected_precision_by_class or {}
    labels, right = sum(e.labels for e in by_class.values()), sum(e.right for e in by_class.values())
    sentences = []
    if words := right_in_words(labels, right):
        interval = answers.expected_precision_interval
        sentences.append(words + ("" if interval is None else span(right / labels, interval.tolist())))
    share = answers.outlier_share
    if share_interval is not None:
        between = span(float(share), list(share_interval), int((~answers.is_given).sum()))
        sentences.append(f"Estimated share of unknowns: {about(float(share))}{between}")
    elif share is not None:
        sentences.append(f"Share of unknowns: {percent(float(share))}")
    return [f"{sentence}." for sentence in sentences]


def _right(expected: Any) -> str:
    return percent(expected.precision) if expected is not None and expected.labels else ""


def _short(name: object, most: int = MAX_NAME) -> str:
    text = str(name)
    return text if len(text) <= most else text[: most - 1] + "…"


def _table(columns: str, rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in columns.split(","))
    body = "".join(f"<tr>{''.join(f'<td><bdi>{escape(cell)}</bdi></td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _paragraphs(sentences: Sequence[str]) -> str:
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _fragment(title: str, *parts: str) -> str:
    return f'<div class="handful"><p><b>{escape(title)}</b></p>{"".join(parts)}</div>'

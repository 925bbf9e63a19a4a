"""A labelled pile in numbers and words, for a pile in memory and for one in parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from handful.core import decide
from handful.core.answers import Answers, ExpectedLabels
from handful.core.checks import UNKNOWN_NAME
from handful.core.parameters import is_auto
from handful.estimators.classifier import FewShotClassifier
from handful.features import FeatureTable
from handful.solving.groups import WORDS_IN_NAME, Group
from handful.utils.shares_in_words import about, is_low, percent, right_in_words, span

EXPECTED_HEAD = ("Class", "Labels", "Should be right", "Precision")
ADVISED_PRECISION = 0.9  # that a warning names


def total_of(expected: Mapping[Any, ExpectedLabels]) -> ExpectedLabels:
    """The labels of all classes together."""
    return ExpectedLabels(sum(e.labels for e in expected.values()), sum(e.right for e in expected.values()))


def expected_in_words(expected: Mapping[Any, ExpectedLabels], has_examples: bool = False) -> str:
    """How many labels should be right, in a sentence; "" if there are none. Labels of examples do not count."""
    total = total_of(expected)
    if not total.labels:
        return ""
    words = right_in_words(*total)
    if has_examples:
        words = f"Without the examples: {words[0].lower()}{words[1:]}"
    advice = f": check them, or ask for --precision {ADVISED_PRECISION:g}" if is_low(*total) else ""
    return f"{words}{advice}."


def expected_rows(expected: Mapping[Any, ExpectedLabels]) -> list[list[str]]:
    """The rows of a table with the columns `EXPECTED_HEAD`: classes that have labels, as text."""
    return [
        [str(name), str(e.labels), f"about {e.right:.{0 if e.right >= 10 else 1}f}", percent(e.precision)]
        for name, e in expected.items()
        if e.labels
    ]


def expected_numbers(expected: Mapping[Any, ExpectedLabels] | None, set_aside: int) -> dict[str, Any]:
    """What is expected of the labels, for JSON: null where the method gives no probabilities, or without labels."""
    total = total_of(expected or {})
    return {
        "set_aside": set_aside,
        "expected_precision": total.precision if total.labels else None,
        "expected_in_words": expected_in_words(expected or {}) or None,
        "expected_by_class": None if expected is None else {str(name): e._asdict() for name, e in expected.items()},
    }


MAX_LISTED_GROUPS = 12  # groups whose sizes a sentence lists one by one
MAX_NAMED_GROUPS = 6  # groups whose words a sentence lists


def groups_in_words(groups: Sequence[Group], unknown: int) -> list[str]:
    """How many groups there are, the largest first, what their texts speak of, and which look like several kinds."""
    if not groups:
        return []
    sizes = [group.size for group in groups]
    listed = _listed(sizes) if len(sizes) <= MAX_LISTED_GROUPS else f"{sizes[-1]} to {sizes[0]}"
    fall = f"about {len(sizes)} groups of {listed}" if len(sizes) > 1 else f"one group of {listed}"
    outside = unknown - sum(sizes)
    alone = f"; {outside} belong{'s' * (outside == 1)} to none" if outside else ""
    lines = [f"The {unknown} unknowns fall into {fall}{alone}."]
    if named := [group for group in groups if group.words]:
        words = [f"group {g.number} ({', '.join(g.words[:WORDS_IN_NAME])})" for g in named[:MAX_NAMED_GROUPS]]
        lines.append(f"By their words: {', '.join(words)}{', and more' * (len(named) > len(words))}.")
    return lines + [
        f"Group {group.number} looks like {group.kinds} kinds, of {_listed(list(map(_kind_in_words, group.split())))}."
        for group in groups
        if group.kinds > 1
    ]


def _kind_in_words(kind: Group) -> str:
    return f"{kind.size} ({', '.join(kind.words[:WORDS_IN_NAME])})" if kind.words else str(kind.size)


def _listed(sizes: Sequence[object]) -> str:
    """Numbers as in "12, 8 and 3"."""
    return " and ".join(filter(None, (", ".join(map(str, sizes[:-1])), str(sizes[-1]))))


def label_texts(answers: Answers) -> list[str]:
    """The labels as text, whatever the classes are."""
    rows = zip(answers.closest.tolist(), answers.unknown.tolist(), strict=True)
    return [UNKNOWN_NAME if unknown else str(name) for name, unknown in rows]


@dataclass(frozen=True)
class Outcome:
    """A labelled pile in numbers and words."""

    model: FewShotClassifier
    examples: FeatureTable | None
    decision: str  # how the threshold was chosen, in words
    size: int
    counts: Mapping[Any, int]  # items by class
    pile_labels: Mapping[int, str] = field(default_factory=dict)  # the class of items that are examples too, by row
    expected: Mapping[Any, ExpectedLabels] | None = None  # by class; None where the method gives no probabilities
    set_aside: int = 0  # items that are unknown only because their label is too unsure
    is_share_kept: bool = False  # the share is that of earlier results, less promoted groups
    noun: str = "item"  # what one of the items is called
    precision_interval: np.ndarray | None = None  # of the labels that are right; None where it is not known

    @property
    def unknown(self) -> int:
        """The number of items that are called unknown."""
        return self.size - sum(self.counts.values())

    @property
    def share(self) -> dict[str, Any]:
        """How much of the pile is unknown: see `share_of`."""
        return share_of(self.model) | ({"outlier_share_told": False} if self.is_share_kept else {})

    @property
    def numbers(self) -> dict[str, Any]:
        """What --json and results.json list."""
        return {
            "items": self.size,
            "unknown": self.unknown,
            "labels": {str(name): self.counts.get(name, 0) for name in self.model.classes_.tolist()},
            **expected_numbers(self.expected, self.set_aside),
            **self.share,
            "threshold": self.model.threshold_,
            "decided": self.decision,
        }

    @property
    def sentences(self) -> list[str]:
        """What happened, in words."""
        n, unknown = self.size, self.unknown
        per_class = ", ".join(f"{self.counts.get(name, 0)} {name}" for name in self.model.classes_.tolist())
        lines = []
        if self.examples is not None:
            shown = Counter(name for name in self.examples.label_names if name is not None)
            lines.append(self._examples_in_words(shown, shown.pop(UNKNOWN_NAME, 0)))
        were = "was" if n - unknown == 1 else "were"
        part = percent(unknown / n)
        unsure = f", {self.set_aside} of them because their label is too unsure" if self.set_aside else ""
        lines.append(
            f"{n - unknown} {were} labelled ({per_class}) and {unknown} set aside as unknown ({part}){unsure}."
        )
        if expected := expected_in_words(self.expected or {}, bool(self.pile_labels)):
            lines.append(expected)
        if share := self._share_in_words():
            lines.append(share)
        if expected and self.precision_interval is not None:
            labels = sum(e.labels for e in (self.expected or {}).values())
            low, high = (f"{round(labels * end):,}" for end in self.precision_interval)
            span = low if low == high else f"{low} to {high}"
            how = "" if self.examples is None else "; `handful check` measures it"
            lines.append(f"Of the labels {span} are right, four times in five{how}.")
        return [*lines, self.decision]

    def _examples_in_words(self, per_class: Mapping[str, int], none: int) -> str:
        """per_class: examples of each class; none: examples of none of them."""
        fewest, most = min(per_class.values()), max(per_class.values())
        shots = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        classes = "1 class was" if len(per_class) == 1 else f"{len(per_class)} classes were"
        each = f"{shots} example{'s' * (shots != '1')}{' each' * (len(per_class) > 1)}"
        if none:
            others = "none of them" if len(per_class) > 1 else "other things"
            each += f", and {none} example{'s' * (none != 1)} of {others}"
        return f"{classes} shown by {each}; the pile holds {self.size} {self.noun}{'s' * (self.size != 1)}."

    def _share_in_words(self) -> str:
        share, interval, is_set = share_of(self.model).values()
        if self.examples is None or (not is_set and interval is None):  # the method has no use for it
            return ""
        if self.is_share_kept:
            return (
                f"{about(share).capitalize()} of the pile look unknown, as before the groups became classes, less them."
            )
        if is_set:
            return f"About {percent(share)} of the pile are unknown, as --outlier-share says."
        n = self.size - len(self.pile_labels)
        if n < decide.MIN_PILE_ITEMS:
            small = f"{n} item{'s are' if n != 1 else ' is'} too few to show how much of a pile is unknown"
            return f"{small}: {about(share)} was taken; --outlier-share sets it by hand."
        estimate = f"{about(share).capitalize()} of the pile look unknown{span(share, interval, n)}"
        return f"{estimate}, as estimated from the pile itself; --outlier-share sets it by hand."


def share_of(model: FewShotClassifier) -> dict[str, Any]:
    """The share of unknowns in the pile: as the user set it, as estimated (with an interval), or as labelled."""
    share = model.get_params(deep=False)["outlier_share"]
    interval = model.outlier_share_interval_
    return {
        "outlier_share": model.outlier_share_ if is_auto(share) else share,
        "outlier_share_interval": None if interval is None else list(interval),
        "outlier_share_told": not is_auto(share),
    }


MAX_SHARE_SWING = 0.10  # of the pile: more or fewer unknowns than the promoted groups explain
MAX_CHANGED = 0.05  # of the pile: items in none of the groups that have another label now
MIN_FOUND = 0.5  # of a group: its items that have the name of its class now


def swings(before: Sequence[str], after: Sequence[str], groups: Mapping[str, Sequence[int]]) -> list[str]:
    """What a promotion has changed more than it explains, in words. groups: promoted rows, by their class."""
    old, new = np.asarray(before, dtype=object), np.asarray(after, dtype=object)
    is_asked_for = (old == UNKNOWN_NAME) & np.isin(new.astype(str), list(groups))
    unknown, unknown_now = (int((labels == UNKNOWN_NAME).sum()) for labels in (old, new))
    lines, expected = [], unknown
    for name, items in groups.items():
        rows = np.asarray(list(items), int)
        is_asked_for[rows] = True
        expected -= len(rows)
        found = int((new[rows] == name).sum())
        if found < MIN_FOUND * len(rows):
            lines.append(f"Only {found} of the {len(rows)} items that should be {name} were labelled so.")
    if abs(unknown_now - expected) > MAX_SHARE_SWING * len(old):
        lines.append(
            f"{unknown_now} items are unknown now; about {max(0, expected)} were expected, which is {unknown} less the "
            "groups that are classes now."
        )
    changed = int(((new != old) & ~is_asked_for).sum())
    if changed > MAX_CHANGED * len(old):
        part = percent(changed / len(old))
        lines.append(f"{changed} items that are in none of these groups have another label now ({part} of the pile).")
    return lines

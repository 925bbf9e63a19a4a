"""A labelled pile in numbers and words, for a pile in memory and for one in parts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import handful
from handful.core import decide
from handful.core.answers import Answers, ExpectedLabels
from handful.core.checks import UNKNOWN_NAME
from handful.core.parameters import is_auto
from handful.estimators.classifier import FewShotClassifier
from handful.features import FeatureTable
from handful.label.expectations import expected_in_words
from handful.utils.shares_in_words import about, percent, span


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
    def sentences(self) -> list[str]:
        """What happened, in words."""
        n, unknown = self.size, self.unknown
        per_class = ", ".join(f"{self.counts.get(name, 0)} {name}" for name in self.model.classes_.tolist())
        lines = []
        if self.examples is not None:
            shown = Counter(name for name in self.examples.label_names if name is not None)
            lines = self._examples_in_words(shown, shown.pop(UNKNOWN_NAME, 0))
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
            lines.append(f"Of the labels {low} to {high} are right, four times in five; `handful check` measures it.")
        return [*lines, self.decision]

    def _examples_in_words(self, per_class: Mapping[str, int], none: int) -> list[str]:
        """per_class: examples of each class; none: examples of none of them."""
        fewest, most = min(per_class.values()), max(per_class.values())
        shots = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        classes = "1 class was" if len(per_class) == 1 else f"{len(per_class)} classes were"
        each = f"{shots} example{'s' * (shots != '1')}{' each' * (len(per_class) > 1)}"
        if none:
            others = "none of them" if len(per_class) > 1 else "other things"
            each += f", and {none} example{'s' * (none != 1)} of {others}"
        return [f"{classes} shown by {each}; the pile holds {self.size} {self.noun}{'s' * (self.size != 1)}."] + [
            f"The classes {first} and {second} have almost the same name and are treated as two: if they are one "
            "class, give them the same name."
            for first, second in almost_alike(per_class)
        ]

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


def almost_alike(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that differ only in upper and lower case, in blanks or in a final ".0": likely mistakes.

    >>> almost_alike(["cat", "1", "Cat", "1.0", "dog"])
    [('cat', 'Cat'), ('1', '1.0')]
    """
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        form = unicodedata.normalize("NFKC", "".join(name.split())).casefold()
        form = re.sub(r"(\d)\.0+$", r"\1", form)
        if form in first:
            pairs.append((first[form], name))
        first.setdefault(form, name)
    return pairs


def share_of(model: FewShotClassifier) -> dict[str, Any]:
    """The share of unknowns in the pile: as the user set it, as estimated (with an interval), or as labelled."""
    share = model.get_params(deep=False)["outlier_share"]
    interval = model.outlier_share_interval_
    return {
        "outlier_share": model.outlier_share_ if is_auto(share) else share,
        "outlier_share_interval": None if interval is None else list(interval),
        "outlier_share_told": not is_auto(share),
    }


def made_by(model: FewShotClassifier, source: Mapping[str, Any]) -> dict[str, Any]:
    """How labels were made. source: what made the features."""
    return {
        "handful": handful.__version__,
        "method": model._method,
        "parameters": {k: v for k, v in model.parameters_.items() if k != "history"},
        "threshold": model.threshold_,
        **({"min_confidence": model.min_confidence_} if model.min_confidence_ else {}),
        **share_of(model),
        **source,
    }

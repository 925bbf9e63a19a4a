"""What came of labelling, whether the pile is in memory or in parts: the answer to each item, and all in words."""

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
from handful.core.answers import mark_unknown
from handful.core.checks import UNKNOWN_NAME
from handful.core.parameters import is_auto
from handful.estimators.classifier import FewShotClassifier
from handful.features import FeatureTable
from handful.solving import get_solver
from handful.utils.shares_in_words import about, percent, span


class Answers:
    """What a model says of some items; who inherits this has the arrays."""

    model: FewShotClassifier
    probabilities: np.ndarray  # [n, N] P(class | known)
    scores: np.ndarray  # [n], high means unknown: what the decision is made by

    @property
    def unknown(self) -> np.ndarray:
        return self.scores > self.model.threshold_

    @property
    def closest(self) -> np.ndarray:
        """The likeliest class of each item, known or not."""
        return self.model.classes_[self.probabilities.argmax(axis=1)]

    @property
    def labels(self) -> np.ndarray:
        return mark_unknown(self.closest, self.unknown)

    @property
    def confidence(self) -> np.ndarray:
        """How sure the answer is: P(class) of a known item, P(unknown) of an unknown one, if that is a probability."""
        return self._sure(self.unknown)

    @property
    def otherwise(self) -> np.ndarray:
        """How sure the other answer would be: unknown of a known item, its closest class of an unknown one."""
        return self._sure(~self.unknown)

    def _sure(self, unknown: np.ndarray) -> np.ndarray:
        best = self.probabilities.max(axis=1)
        if not self.is_probability:
            return best
        calibrated = self.p_unknown
        p = self.scores if calibrated is None else calibrated
        return np.where(unknown, p, best * (1 - p))

    @property
    def p_unknown(self) -> np.ndarray | None:
        """P(unknown) [n], calibrated on the pile; None where there is no pile, or scores only rank."""
        return None

    @property
    def is_probability(self) -> bool:
        return get_solver(self.model._method).info.score == "probability"


def marked(answers: Answers) -> list[str]:
    """The labels as text, whatever the classes are."""
    rows = zip(answers.closest.tolist(), answers.unknown.tolist(), strict=True)
    return [UNKNOWN_NAME if unknown else str(name) for name, unknown in rows]


@dataclass(frozen=True)
class Outcome:
    """A labelled pile in numbers and words."""

    model: FewShotClassifier
    examples: FeatureTable | None
    decision: str  # how the threshold was found, in words
    size: int
    counts: Mapping[Any, int]  # of the items that were given each class
    given: Mapping[int, str] = field(default_factory=dict)  # items of the pile that are examples too, and their class

    @property
    def unknown(self) -> int:
        return self.size - sum(self.counts.values())

    @property
    def sentences(self) -> list[str]:
        """What happened, in words."""
        n, unknown = self.size, self.unknown
        found = ", ".join(f"{self.counts.get(name, 0)} {name}" for name in self.model.classes_.tolist())
        lines = []
        if self.examples is not None:
            given = Counter(name for name in self.examples.label_names if name is not None)
            shots = (
                f"{min(given.values())}"
                if len(set(given.values())) == 1
                else f"{min(given.values())} to {max(given.values())}"
            )
            classes = "1 class was" if len(given) == 1 else f"{len(given)} classes were"
            each = f"{shots} example{'s' * (shots != '1')}{' each' * (len(given) > 1)}"
            lines.append(f"{classes} shown by {each}; the pile holds {n} item{'s' * (n != 1)}.")
            lines += [
                f"The classes {first} and {second} have almost the same name, and were taken for two: give them one "
                "name if they are one."
                for first, second in almost_alike(given)
            ]
        was = "was" if n - unknown == 1 else "were"
        part = percent(unknown / n)
        lines.append(f"{n - unknown} {was} labelled ({found}) and {unknown} set aside as unknown ({part}).")
        if said := self._share_in_words():
            lines.append(said)
        return [*lines, self.decision]

    def _share_in_words(self) -> str:
        share, interval, told = share_of(self.model).values()
        if self.examples is None or (not told and interval is None):  # the method has no use for it
            return ""
        if told:
            return f"About {percent(share)} of the pile were said to be unknown (--outlier-share)."
        n = self.size - len(self.given)
        if n < decide.ENOUGH:
            small = f"{n} item{'s are' if n != 1 else ' is'} too few to show how much of a pile is unknown"
            return f"{small}: {about(share)} was taken; --outlier-share sets it by hand."
        said = f"{about(share).capitalize()} of the pile look unknown{span(share, interval)}"
        return f"{said}, as estimated from the pile itself; --outlier-share sets it by hand."


def almost_alike(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that differ in the case of letters, in blanks or in a last ".0" alone: likely mistakes.

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
    """How much of the pile is unknown: as told, as estimated (with an interval), or what was called so."""
    told = model.get_params(deep=False)["outlier_share"]
    interval = model.outlier_share_interval_
    return {
        "outlier_share": model.outlier_share_ if is_auto(told) else told,
        "outlier_share_interval": None if interval is None else list(interval),
        "outlier_share_told": not is_auto(told),
    }


def made_by(model: FewShotClassifier, source: Mapping[str, Any]) -> dict[str, Any]:
    """How labels were made; source: what made the features."""
    return {
        "handful": handful.__version__,
        "method": model._method,
        "parameters": {k: v for k, v in model.parameters_.items() if k != "history"},
        "threshold": model.threshold_,
        **share_of(model),
        **source,
    }

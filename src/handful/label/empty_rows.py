"""Rows of a pile that have no text: they stay in every table, are called unknown, and are no part of what is solved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from handful.estimators.classifier import FewShotClassifier
from handful.features import FeatureTable
from handful.solving import get_solver
from handful.utils.text import is_blank

NO_TEXT = "has a label but no text: it is no example"


def rows_without_text(items: FeatureTable) -> list[int]:
    """The rows that have no text, where items are texts: they are unknown, and no part of what is solved."""
    return [] if items.texts is None else [row for row, text in enumerate(items.texts) if is_blank(text)]


def highest_score(model: FewShotClassifier, scores: np.ndarray) -> float:
    """An outlier score for rows without a text: above the threshold, and not below any other."""
    if get_solver(model._method).info.score == "probability":
        return 1.0
    return float(np.nextafter(max(scores.max(initial=model.threshold_), model.threshold_), np.inf))


def skip_empty(pile: FeatureTable, rows: Sequence[int]) -> FeatureTable:
    """The pile, which says that rows without a text are no examples."""
    if not rows:
        return pile
    return pile.replace(skipped=[*pile.skipped, *((pile.names[row], NO_TEXT) for row in rows)])

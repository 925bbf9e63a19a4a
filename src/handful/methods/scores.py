"""Outlier scores that are computed from class probabilities: high where the classifier is unsure."""

from __future__ import annotations

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array


def maxprob(probabilities: Array) -> Array:
    """Minus the largest class probability (Hendrycks and Gimpel 2017), as in the EOL paper for closed-set methods."""
    return -array_namespace(probabilities).max(probabilities, axis=-1)


def entropy(probabilities: Array) -> Array:
    """The entropy of the class probabilities."""
    xp = array_namespace(probabilities)
    return -xp.sum(probabilities * xp.log(probabilities + FLOOR), axis=-1)


SCORES = {"maxprob": maxprob, "entropy": entropy}

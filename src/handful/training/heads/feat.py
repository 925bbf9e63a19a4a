"""The head of FEAT and SnaTCHer-F: attention over prototypes, which minimises the cross-entropy of known queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from handful.core.arrays import class_prototypes
from handful.methods import feat
from handful.training.heads.head import Arrays, BaseItems, Head, Scores, cross_entropy

TEMPERATURE = 0.2  # initial T: cosines times 10


def start(items: BaseItems, rng: np.random.Generator) -> Arrays:
    """Return random attention whose output is 0, which leaves prototypes unchanged."""
    d = items.dimension
    return {
        "attention": rng.normal(scale=d**-0.5, size=(d, d)), "output": np.zeros((d, d)),
        "gain": np.ones(d), "shift": np.zeros(d), "log_temperature": np.full(1, np.log(TEMPERATURE)),
    }  # fmt: skip


def score(arrays: Mapping[str, Any], support: Any, labels: np.ndarray, query: Any) -> Scores:
    """Return the logits of the adapted prototypes."""
    return feat.logits(query, feat.adapt(class_prototypes(support, labels), arrays), arrays), None


HEAD = Head(start, score, cross_entropy, lambda dimension: 0.4 / dimension, ("log_temperature", 1))

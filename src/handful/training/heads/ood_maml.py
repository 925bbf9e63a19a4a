"""The head of OOD-MAML: the start of the detectors, fake outliers and step sizes, learned through the inner steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from handful.core.arrays import unit
from handful.methods import ood_maml
from handful.methods.meta_bce import rejection
from handful.training.heads.head import (
    Arrays,
    BaseItems,
    Head,
    Scores,
    Tasks,
    one_class_loss,
    pair_loss,
    start_rejection,
    start_tasks,
)

RANK = 32  # of the projection
FAKES = 3  # as in the published code
FAKE_STEP = 0.1  # initial step size of a fake, whose length is 1
RATES = (2.0, 5.0, 10.0, 20.0, 50.0)  # the initial rate of the weights is one of these
BIASES = (0.0, -1.0, -2.0, -4.0)  # the initial bias is one of these
BIAS_RATE = 0.1  # as in the published code


def start(items: BaseItems, rng: np.random.Generator) -> Arrays:
    """Return w = 0 and random fakes, with the rate and the bias that suit base classes best."""
    d = items.dimension
    arrays = {
        "down": rng.normal(scale=d**-0.5, size=(d, RANK)), "up": np.zeros((RANK, d)), "weight": np.zeros(d),
        "bias": np.zeros(1), "fakes": unit(rng.normal(size=(FAKES, d))),
        "log_fake_steps": np.full(FAKES, np.log(FAKE_STEP)), "log_rates": np.zeros(2), "rejection": np.zeros(1),
    }  # fmt: skip
    arrays = {name: value.astype(np.float32) for name, value in arrays.items()}
    tasks = start_tasks(items, rng)

    def score_tasks(batch: Tasks) -> Scores:
        return score(arrays, items.features[batch.support], batch.labels, items.features[batch.query])

    losses = {}
    for rate in RATES:
        for bias in BIASES:
            arrays |= _constants(rate, bias)
            losses[rate, bias] = sum(float(pair_loss(score_tasks(batch)[0], batch.truth)) for batch in tasks)
    arrays |= _constants(*min(losses, key=losses.__getitem__))
    return arrays | {"rejection": start_rejection((score_tasks(batch)[1], batch) for batch in tasks)}


def _constants(rate: float, bias: float) -> Arrays:
    return {"log_rates": np.log(np.array([rate, BIAS_RATE], np.float32)), "bias": np.full(1, bias, np.float32)}


def score(arrays: Mapping[str, Any], support: Any, labels: np.ndarray, query: Any) -> Scores:
    """Return the logits of the adapted detectors, and how surely the best of them rejects."""
    s = ood_maml.logits(ood_maml.adapt(support, labels, arrays), query, arrays)
    return s, rejection(s, arrays)


HEAD = Head(start, score, one_class_loss, lambda dimension: min(0.2 / dimension, 1e-3))

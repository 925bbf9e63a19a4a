"""Validation of a network during training, on few-shot open-set tasks of classes that it is not trained on."""

from __future__ import annotations

import numpy as np

from handful.core.metrics import figures
from handful.features import FeatureTable, Protocol, draw
from handful.solving import solve_task

VALIDATION_TASKS = 200
SHOTS = 1, 5


def fitting_protocol(labels: np.ndarray, shots: int) -> Protocol | None:
    """Return the protocol closest to the paper's (5 ways, 5 outlier classes, 15 queries) that these classes allow.

    None if they allow no task at all.
    """
    counts = np.unique(labels, return_counts=True)[1]
    ways = min(5, len(counts) // 2) if len(counts) < 10 else 5
    queries = min(15, int(counts.min()) - shots)
    return Protocol(ways, shots, queries, min(5, len(counts) - ways), queries) if ways >= 2 and queries >= 1 else None


def validate(features: FeatureTable, base_mean: np.ndarray, seed: int) -> dict[str, float]:
    """Return accuracy and AUROC of SimpleShot in percent, and `figure`, their mean, which early stopping uses.

    The tasks are the same at every call, so that epochs can be compared.
    """
    means: dict[str, float] = {}
    for shots in SHOTS:
        if (protocol := fitting_protocol(features.need_labels(), shots)) is None:
            continue
        episodes = draw(features.features, features.need_labels(), protocol, seed=seed, tasks=VALIDATION_TASKS)
        result = solve_task(episodes.task, method="simpleshot", base_mean=base_mean)
        values = figures(result.probabilities, result.outlier_scores, episodes.truth)
        means[f"accuracy_{shots}"], means[f"auroc_{shots}"] = (
            100 * float(np.mean(values[k])) for k in ("accuracy", "auroc")
        )
    return means | ({"figure": float(np.mean(list(means.values())))} if means else {})

"""The problem that the benchmarks of speed solve: their tasks, and what EOL is told about them.

Both sides of a comparison are told everything here. Nothing is left to a default, which may change on one side only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import metrics as sklearn_metrics

from handful.engines.loss import PARAMETERS
from handful.features import FeatureTable

WAYS, SHOTS, QUERIES = 5, 5, 150
B, TAU, STEPS, LEARNING_RATE = 0.5, 10.0, 50, 0.01  # the paper's symbols
YARDSTICK: dict[str, Any] = {"b": B, "tau": TAU, "steps": STEPS, "learning_rate": LEARNING_RATE}  # of `_yardstick.eol`
EOL: dict[str, Any] = {  # the same for `handful.solve(..., method="eol")`
    "b": B, "temperature": TAU, "steps": STEPS, "learning_rate": LEARNING_RATE,
    "marginal_weight": "ways", "learn": PARAMETERS, "lambda_ce": 1.0, "lambda_co": 1.0, "lambda_ma": 1.0,
}  # fmt: skip
PREPARATION = "task, l2"  # of the features, on both sides


def gaussian_tasks(batch: int, dimension: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Support [B, 25, D], labels [B, 25], query [B, 150, D], half of it from 5 unknown classes."""
    rng = np.random.default_rng(dimension)
    centres = rng.standard_normal((batch, 2 * WAYS, dimension), dtype=np.float32)

    def draw(classes: np.ndarray) -> np.ndarray:
        noise = rng.standard_normal((batch, len(classes), dimension), dtype=np.float32)
        return centres[:, classes] + 2 * noise

    labels = np.arange(WAYS * SHOTS) % WAYS
    return draw(labels), np.tile(labels, (batch, 1)), draw(np.arange(QUERIES) % (2 * WAYS))


def gaussian_classes(classes: int = 20, items: int = 250, dimension: int = 1280, noise: float = 3.0) -> FeatureTable:
    """Clusters, and how far their items lie from their centres."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((classes, 1, dimension), dtype=np.float32)
    features = centres + noise * rng.standard_normal((classes, items, dimension), dtype=np.float32)
    return FeatureTable(features.reshape(-1, dimension), np.repeat(np.arange(classes), items), name="Gaussian classes")


def small_classes(classes: int = 20, items: int = 250) -> FeatureTable:
    """Clusters of 64 features that overlap a little: what a quick run takes where no features are given."""
    return gaussian_classes(classes, items, dimension=64, noise=1.8)


def figures_by_scikit_learn(probabilities: np.ndarray, scores: np.ndarray, truth: np.ndarray) -> tuple[float, ...]:
    """Accuracy, AUROC, AUPR and Prec@0.9 of one task; `truth` is -1 for an unknown."""
    known = truth >= 0
    precision, recall, _ = sklearn_metrics.precision_recall_curve(~known, scores)
    return (
        sklearn_metrics.accuracy_score(truth[known], probabilities[known].argmax(axis=1)),
        sklearn_metrics.roc_auc_score(~known, scores),
        sklearn_metrics.auc(recall, precision),
        precision[recall >= 0.9][-1],
    )

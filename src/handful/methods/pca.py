"""Principal components as detector. Inductive, a plain detector.

Standardises every feature by the examples, finds the examples' leading directions, and scores an item by its distance
to the tips of these unit vectors, each divided by the share of variance it explains. Since the tips lie close to the
examples' centre, this is for the most part the distance to that centre in standardised features: good when all examples
form one cloud. Several classes are several clouds, and what lies between them looks most usual. With few examples the
variances are guesses. The number of `components` hardly matters. Use it for comparison.

Shyu, Chen, Sarinnapakorn, Chang: "A Novel Anomaly Detection Scheme Based on Principal Component Classifier", 2003.
The score is the distance to the leading directions of the support, each weighted by its variance. It comes from PyOD. A
support of one item, or of copies of one, has no directions: then the score is the distance to that item.
"""

from __future__ import annotations

import numpy as np

from handful.core.arrays import Array, as_like, to_numpy
from handful.core.parameters import Count, Whole
from handful.methods._pyod import detect
from handful.methods.registry import BY_SHOTS, Info, Solution, register

INFO = Info(
    name="pca",
    estimator="PCA",
    title="Principal components",
    authors="Shyu, Chen, Sarinnapakorn, Chang",
    year=2003,
    paper="A Novel Anomaly Detection Scheme Based on Principal Component Classifier (ICDM workshops 2003)",
    setting="detector",
    summary="Outlier score: distance to the leading directions of the examples. Classes as SimpleShot.",
    new_items="by the directions of the examples",
    by_shots={"components": {"1": 2, "5": 1}},
    extra="ood",
)


@register(INFO)
def pca(
    support: Array, labels: Array, query: Array, *, components: Count = BY_SHOTS, random_state: Whole = 0
) -> Solution:
    """Score queries by the principal components of the examples.

    Parameters
    ----------
    components : int, default 2 (1 shot) or 1 (5 shots)
        Number of directions.
    random_state : int, default 0
        Seed of the decomposition, which is random for large features.
    """
    x = to_numpy(support).astype(np.float64)
    rank = _rank(x)
    task_options = [{"n_components": int(min(components, max(1, r)))} for r in rank]
    solution = detect("pca", support, labels, query, task_options, whiten=True, random_state=random_state)
    if not rank.all():
        from_mean = np.linalg.norm(to_numpy(query) - x.mean(axis=1, keepdims=True), axis=-1)
        scores = np.where(rank[:, None] > 0, to_numpy(solution.outlier_scores), from_mean)
        solution.outlier_scores = as_like(scores, query)
    return solution


def _rank(x: np.ndarray) -> np.ndarray:
    """How many directions items [B, S, D] span, [B]: PyOD divides by the variance of each, which may not be 0."""
    centred = x - x.mean(axis=1, keepdims=True)
    transposed = centred.swapaxes(1, 2)
    gram = transposed @ centred if x.shape[2] < x.shape[1] else centred @ transposed  # the smaller has the same rank
    return np.asarray(np.linalg.matrix_rank(gram, tol=1e-12 * (x * x).sum(axis=(1, 2)), hermitian=True))

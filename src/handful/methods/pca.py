"""Principal components as detector. Inductive, a plain detector.

Shyu, Chen, Sarinnapakorn, Chang: "A Novel Anomaly Detection Scheme Based on Principal Component Classifier", 2003.
The score is the distance to the leading directions of the support, each weighted by its variance; from PyOD.
"""

from __future__ import annotations

from handful.arrays import Array
from handful.methods._pyod import detect
from handful.methods.registry import BY_SHOTS, Solution, register
from handful.parameters import Number


@register(
    "pca",
    rules={
        "components": Number(1, closed=True, whole=True, optional=True),
        "random_state": Number(0, closed=True, whole=True),
    },
)
def pca(support: Array, labels: Array, query: Array, *, components: int = BY_SHOTS, random_state: int = 0) -> Solution:
    """components: how many directions; random_state: of the decomposition, which is randomised for large features."""
    components = min(components, *support.shape[1:])
    options = {"n_components": components, "whiten": True, "random_state": random_state}
    return detect("pca", support, labels, query, **options)

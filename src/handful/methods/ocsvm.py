"""One-class support vector machine. Inductive, a plain detector.

Schölkopf, Platt, Shawe-Taylor, Smola, Williamson: "Estimating the Support of a High-Dimensional Distribution",
2001. The score is the signed distance to the surface that holds the support; from PyOD.
"""

from __future__ import annotations

from handful.arrays import Array
from handful.methods._pyod import detect
from handful.methods.registry import BY_SHOTS, Solution, register
from handful.parameters import OneOf


@register("ocsvm", rules={"kernel": OneOf(("poly", "linear", "rbf", "sigmoid", None))})
def ocsvm(support: Array, labels: Array, query: Array, *, kernel: str = BY_SHOTS) -> Solution:
    """kernel: as in scikit-learn."""
    return detect("ocsvm", support, labels, query, kernel=kernel, shrinking=True)

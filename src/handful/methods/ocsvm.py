"""One-class support vector machine. Inductive, a plain detector.

Learns a surface around the examples, all classes taken as one, and scores an item by its signed distance to it. With
the `kernel` of the published comparison, "poly", it is not trained at all: the kernel's values are far below the
solver's tolerance, so that it stops before its first step, and only the first half of the examples counts, in the order
they were given. The picture shows it: much of the last class is called unknown. A `tolerance` of 1e-12 trains it, as
does `kernel="rbf"`, and both rank unknowns much better. Half of the examples lie outside the surface by construction,
so only the order of the scores means something. kNN is simpler and no worse.

Schölkopf, Platt, Shawe-Taylor, Smola, Williamson: "Estimating the Support of a High-Dimensional Distribution",
2001. The score is the signed distance to a surface around the support. It comes from PyOD.
"""

from __future__ import annotations

from typing import Annotated

from handful.core.arrays import Array
from handful.core.parameters import OneOf, Positive
from handful.methods._pyod import detect
from handful.methods.registry import BY_SHOTS, Info, Solution, register

INFO = Info(
    name="ocsvm",
    estimator="OCSVM",
    title="One-class SVM",
    authors="Schölkopf, Platt, Shawe-Taylor, Smola, Williamson",
    year=2001,
    paper="Estimating the Support of a High-Dimensional Distribution (Neural Computation 2001)",
    setting="detector",
    summary="Outlier score: signed distance to the surface that holds the examples. Classes as SimpleShot.",
    new_items="by the surface around the examples",
    by_shots={"kernel": {"1": "linear", "5": "poly"}},
    extra="ood",
)


@register(INFO)
def ocsvm(
    support: Array,
    labels: Array,
    query: Array,
    *,
    kernel: Annotated[str, OneOf(("poly", "linear", "rbf", "sigmoid"))] = BY_SHOTS,
    tolerance: Positive = 1e-3,
) -> Solution:
    """Score queries by a one-class support vector machine of the examples.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid"}, default "linear" (1 shot) or "poly" (5 shots)
        The kernel k, as in scikit-learn.
    tolerance : float, default 0.001
        Tolerance of the solver. With the default, that of the published figures, a polynomial kernel on many features
        is not trained, because its values are too small. 1e-12 trains it.
    """
    return detect("ocsvm", support, labels, query, kernel=kernel, tol=tolerance, shrinking=True)

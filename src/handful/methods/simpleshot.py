"""SimpleShot: the nearest class mean. Inductive, closed-set.

Centres and normalises features, averages each class's examples and gives an item to the class whose mean has the
largest cosine. There is nothing to train and nothing to tune, items are judged one by one, and with five examples per
class accuracy is within two or three points of the most elaborate methods. Begin here. Its outlier score is doubt
between classes: an item halfway between two classes is found, an item that is like one class a little and like the
others not at all is not. A higher `temperature` leaves the classes as they are and ranks unknowns somewhat worse. For
unknowns use it in a pair: `simpleshot+knn`.

Wang, Chao, Weinberger, van der Maaten: "SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot
Learning", 2019. With c_j the class means of the prepared support::

    p_ij = softmax_j(tau cos(q_i, c_j)),    outlier score o_i = -max_j p_ij
"""

from __future__ import annotations

from handful.core.arrays import Array, class_prototypes, cosine_to, softmax
from handful.core.parameters import Positive
from handful.methods.registry import Info, Solution, maxprob, register

INFO = Info(
    name="simpleshot",
    estimator="SimpleShot",
    title="SimpleShot",
    authors="Wang, Chao, Weinberger, van der Maaten",
    year=2019,
    paper="SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot Learning (arXiv 1911.04623)",
    setting="closed-set",
    summary="The nearest class mean by cosine. Outlier score: minus the largest class probability.",
    new_items="by the class means",
)


@register(INFO)
def simpleshot(support: Array, labels: Array, query: Array, *, temperature: Positive = 1.0) -> Solution:
    """Solve tasks by the cosine to the class means.

    Parameters
    ----------
    temperature : float, default 1.0
        The temperature tau: cosines are multiplied by it before the softmax.
    """
    means = class_prototypes(support, labels)
    p = softmax(temperature * cosine_to(query, means))  # [B, Q, N]
    return Solution(p, maxprob(p))

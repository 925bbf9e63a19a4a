"""SimpleShot: the nearest class mean. Inductive, closed-set.

Wang, Chao, Weinberger, van der Maaten: "SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot
Learning", 2019. With c_j the class means of the prepared support::

    p_ij = softmax_j(tau cos(q_i, c_j)),    outlier score o_i = -max_j p_ij
"""

from __future__ import annotations

from array_api_compat import array_namespace

from handful.arrays import Array, class_means, one_hot, softmax, unit
from handful.methods.registry import Solution, register
from handful.parameters import Number


@register("simpleshot", rules={"temperature": Number(0)})
def simpleshot(support: Array, labels: Array, query: Array, *, temperature: float = 1.0) -> Solution:
    """Softmax of the cosine to the class means; unsure means outlier."""
    xp = array_namespace(support)
    means = class_means(support, one_hot(labels, int(labels.max()) + 1, like=support))
    p = softmax(temperature * (unit(query) @ xp.matrix_transpose(unit(means))))  # [B, Q, N]
    return Solution(p, -xp.max(p, axis=-1))

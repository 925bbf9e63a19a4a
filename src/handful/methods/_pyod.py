"""What the four detectors from PyOD share: fitted on a task's support, scored on its whole query set at once.

PyOD knows one data set at a time, so here, and only here, a loop runs over tasks. Classes come from SimpleShot.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from handful.core.arrays import Array, as_like, to_numpy
from handful.methods.contract import Solution
from handful.methods.simpleshot import simpleshot


def detect(
    module: str, support: Array, labels: Array, query: Array, each: Sequence[dict[str, Any]] = (), **options: Any
) -> Solution:
    """Scores of the detector in pyod.models.<module>; its class is the one named like the module, case aside.

    `options` are for all tasks, `each` are those of its own that each task has.
    """
    probabilities = simpleshot(support, labels, query).probabilities
    scores = [
        detector(module, **options, **own).fit(s).decision_function(q) if len(q) else np.empty(0)
        for s, q, own in zip(to_numpy(support), to_numpy(query), each or [{}] * len(support), strict=True)
    ]
    return Solution(probabilities, as_like(np.stack(scores), query))


def detector(module: str, **options: Any) -> Any:
    try:
        models = import_module(f"pyod.models.{module}")
    except ImportError as error:
        raise ImportError(f"{module} comes from PyOD: pip install 'handful[ood]' ({error})") from None
    (name,) = (n for n in vars(models) if n.lower() == module and isinstance(getattr(models, n), type))
    return getattr(models, name)(**options)

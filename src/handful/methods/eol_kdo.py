"""EOL + KDO: the mean of two opposite methods, over the shares of outliers that may be true. Transductive, open-set.

The handful project, 2026. EOL learns a scale and a shift for each class, which fine-grained classes need. KDO's density
of the outliers keeps prototypes from drifting onto clusters of them, which helps where outliers are few. Where one of
them fails, the other seldom does::

    P(outlier) = mean of both,   P(class | known) = mean of both

KDO averages over the posterior of the share (`handful.engines.share`). EOL is solved at two shares, between which three
fifths of the posterior lie, and averaged. A share that is given is used by both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, class_count, with_unknown
from handful.core.parameters import Number
from handful.engines.share import MAX_QUERIES
from handful.engines.share_statistics import TRIED_SHARES
from handful.methods import eol, kdo
from handful.methods.contract import Info, Solution
from handful.methods.registry import register

INFO = Info(
    name="eol_kdo",
    estimator="EOLKDO",
    title="EOL + KDO",
    authors="The handful project",
    year=2026,
    paper="none: docs/reference/methods.md has the equations",
    paradigm="transductive",
    setting="open-set",
    preparation=("signed(0.6)", "l2", "task", "l2"),
    score="probability",
    summary="EOL and KDO, averaged: one of them seldom fails where the other does.",
    new_items="by the learned prototypes and the densities where they ended",
    state={
        "prototypes": "1 E N D",
        "eta": "1 E N",
        "delta": "1 E N",
        "refined": "1 E N D",
        "b": "1 E",
        **kdo.INFO.state,
    },
)


EOL_LEVELS = (0.2, 0.8)  # of the posterior: the shares that EOL is solved at


def _mean(answers: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The mean of several answers: of P(outlier), and of P(class | known)."""
    classes: Array = 0.0
    outlier: Array = 0.0
    for p, o in answers:
        known = array_namespace(p).sum(p, axis=-1, keepdims=True)  # not 1 - outlier, which may round to 0
        classes = classes + p / at_least(known, FLOOR) / len(answers)
        outlier = outlier + o / len(answers)
    return (1 - outlier)[..., None] * classes, outlier


def score_new(
    state: dict[str, Array], items: Array, *, neighbours: int = 10, temperature: float = 10.0, **_: Any
) -> tuple[Array, Array]:
    """Score new items by the prototypes of EOL and the final densities of KDO."""
    runs = [{name: state[name][:, i] for name in eol.INFO.state} for i in range(state["b"].shape[1])]
    by_eol = _mean([eol.score_new(run, items, temperature=temperature) for run in runs])
    return _mean([by_eol, kdo.score_new(state, items, neighbours=neighbours)])


@register(
    INFO,
    kernels=("prepare", "descent", "density"),
    score_new=score_new,
    chunk_factor=1 / 2,
    estimates_share=True,
    max_queries=MAX_QUERIES,
    rules=kdo.RULES
    | {"temperature": Number(0), "steps": Number(0, closed=True, whole=True), "learning_rate": Number(0)},
)
def eol_kdo(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    *,
    outlier_share: Any = "auto",
    neighbours: int = 10,
    passes: int = 11,
    temperature: float = 10.0,
    steps: int = 50,
    learning_rate: float = 0.01,
    backend: str = "auto",
) -> Solution:
    """Solve tasks by EOL and by KDO, and average the two.

    Parameters
    ----------
    support : array [B, S, D]
        Prepared features of the examples.
    labels : array of int [B, S]
        The class of each example, from 0 to N - 1.
    query : array [B, Q, D]
        Prepared features of the pile.
    unknown : array [B, U, D], optional
        Prepared features of examples of no class, which both take.
    outlier_share : float, array [B] or "auto", default "auto"
        How much of the pile is unknown, or one share for each task. "auto" averages over the shares that may be true.
    neighbours : int, default 10
        Number of neighbours that each item is smoothed over.
    passes : int, default 11
        Number of passes of KDO over the pile where the share is given.
    temperature : float, default 10.0
        The temperature tau of EOL.
    steps : int, default 50
        Number of steps of Adam in EOL.
    learning_rate : float, default 0.01
        Step size of Adam in EOL.
    backend : {"auto", "array", "fast"}, default "auto"
        How to compute: "array" is NumPy or torch, "fast" is the fused kernel, "auto" chooses one of them.

    Returns
    -------
    Solution
        Class probabilities, outlier scores, and what scores new items.
    """
    xp = array_namespace(support)
    examples, codes = with_unknown(support, labels, unknown)
    items, belief = kdo.smooth_and_believe(
        examples, codes, query, class_count(labels), outlier_share, neighbours, passes, backend
    )
    shares: list[Any] = [outlier_share]
    if belief.posterior is not None:
        shares = list(np.clip(belief.posterior.quantiles(EOL_LEVELS), TRIED_SHARES[0], TRIED_SHARES[-1]).T)
    runs = eol.eol_at_shares(
        support, labels, query, unknown, shares=shares, temperature=temperature, steps=steps,
        learning_rate=learning_rate, backend=backend,
    )  # fmt: skip
    by_eol = _mean([(run.probabilities, run.outlier_scores) for run in runs])
    state = {name: xp.stack([run.state[name] for run in runs], axis=1) for name in eol.INFO.state}
    return Solution(
        *_mean([by_eol, kdo.answer(belief.end.probabilities, belief.weights)]), state | kdo.state_of(items, belief),
        belief.outlier_share, steps, share_interval=belief.interval, is_calibrated=belief.interval is not None,
        share_posterior=belief.above,
    )  # fmt: skip

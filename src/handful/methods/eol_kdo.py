"""EOL + KDO: EOL on smoothed features and KDO, averaged. Transductive, open-set.

The handful project, 2026. EOL learns a scale and a shift for each class, which fine-grained classes need. KDO's density
of the outliers keeps prototypes from drifting onto clusters of them, which helps where outliers are few. Both take the
same smoothed features y (`handful.engines.neighbours`) and the same share of outliers::

    outlier log-odds = (log-odds of EOL + log-odds of KDO) / 2,   P(class | known) = mean of the two
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, class_count, sigmoid
from handful.core.parameters import Number, OneOf
from handful.engines.density import densities, kernels
from handful.engines.infomax import BACKENDS
from handful.engines.neighbours import smooth
from handful.engines.share import MAX_QUERIES
from handful.methods import eol, kdo
from handful.methods.contract import Info, Solution
from handful.methods.registry import register

INFO = Info(
    name="eol_kdo",
    estimator="EOLKDO",
    title="EOL + KDO",
    authors="The handful project",
    year=2026,
    paper="none: docs/methods.md has the equations",
    paradigm="transductive",
    setting="open-set",
    preparation=("signed(0.6)", "l2", "task", "l2"),
    score="probability",
    summary="EOL on features smoothed over each item's nearest, averaged with KDO.",
    new_items="smoothed over the items of the task, by the learned prototypes and the densities where they ended",
    state={
        "prototypes": "1 N D",
        "eta": "1 N",
        "delta": "1 N",
        "refined": "1 N D",
        "b": "1",
        "items": "1 I D",
        "smooth": "1 I D",
        "degrees": "1 I",
        "assignments": "1 1 M I",
        "bias": "1 1 M",
        "floor": "1",
        "beta": "1",
    },
)


def _blend(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """The mean of two answers: of their outlier log-odds, and of their P(class | known)."""
    xp = array_namespace(first[0])
    odds, classes = 0.0, 0.0
    for p, outlier in (first, second):
        known = xp.sum(p, axis=-1, keepdims=True)  # not 1 - outlier, which may round to 0
        odds = odds + (xp.log(at_least(outlier, FLOOR)) - xp.log(at_least(known[..., 0], FLOOR))) / 2
        classes = classes + p / at_least(known, FLOOR) / 2
    return sigmoid(-odds)[..., None] * classes, sigmoid(odds)


def score_new(
    state: dict[str, Array], items: Array, *, neighbours: int = 10, temperature: float = 10.0, **_: Any
) -> tuple[Array, Array]:
    """Smooth new items over those of the task; score them by the prototypes of EOL and the final densities of KDO."""
    y = kdo.neighbours_of(state, neighbours).of_new(items)
    by_eol = eol.score_new(state, y, temperature=temperature)
    return _blend(by_eol, kdo.score_new(state, items, neighbours=neighbours))


@register(
    INFO,
    score_new=score_new,
    chunk_factor=1 / 2,
    estimates_share=True,
    max_queries=MAX_QUERIES,
    rules=kdo.RULES
    | {"temperature": Number(0), "steps": Number(0, closed=True, whole=True), "learning_rate": Number(0)}
    | {"backend": OneOf(BACKENDS)},
)
def eol_kdo(
    support: Array,
    labels: Array,
    query: Array,
    *,
    outlier_share: Any = "auto",
    neighbours: int = 10,
    passes: int = 11,
    temperature: float = 10.0,
    steps: int = 50,
    learning_rate: float = 0.01,
    backend: str = "auto",
) -> Solution:
    """Solve tasks by EOL on smoothed features and by KDO, and average the two.

    Parameters
    ----------
    support : array [B, S, D]
        Prepared features of the examples.
    labels : array of int [B, S]
        The class of each example, from 0 to N - 1.
    query : array [B, Q, D]
        Prepared features of the pile.
    outlier_share : float, array [B] or "auto", default "auto"
        How much of the pile is unknown, or one share for each task. "auto" estimates it from the examples and the pile.
    neighbours : int, default 10
        Number of neighbours that each item is smoothed over.
    passes : int, default 11
        Number of passes of KDO over the pile.
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
    n_support = support.shape[1]
    items = smooth(support, query, neighbours)
    y = items.smooth
    kernel = kernels(items, labels, class_count(labels))
    outlier_share, interval = kdo.find_share(outlier_share, kernel, labels)
    by_eol = eol.eol(
        y[:, :n_support], labels, y[:, n_support:], outlier_share=outlier_share, temperature=temperature, steps=steps,
        learning_rate=learning_rate, backend=backend,
    )  # fmt: skip
    end = densities(kernel, kdo.as_column(outlier_share, support), passes)
    state = by_eol.state | kdo.state_of(items, end)
    answer = _blend((by_eol.probabilities, by_eol.outlier_scores), kdo.answer(end.logits[:, 0]))
    return Solution(*answer, state, outlier_share, steps, share_interval=interval)

"""EOL + KDO: two opposite methods, and a verdict on what each item shows in its pile. Transductive, open-set.

This is the default. It combines two methods that fail in different places. EOL learns a scale and a shift for each
class, which classes that look alike need; KDO compares each item with a density of the unknowns, which keeps prototypes
from drifting onto clusters of them. Nobody has to know the share of unknowns: both methods are solved at shares that
may be true, and averaged by how probable these are. This first opinion is weighed with what else an item shows in its
pile, by weights that were learned on many feature sets. Of more than 2,000 items it solves a sample and scores the rest
by its result.

The handful project, 2026. Where one of the two fails, the other seldom does, so the first opinion is the mean of both::

    P(outlier) = mean of both,   P(class | known) = mean of both

KDO averages over the posterior of the share (`handful.engines.share`). EOL is solved at two shares, between which three
fifths of the posterior lie, and averaged. A share that is given is used by both.

Each example is then hidden in the pile (`handful.engines.hidden`), and the first opinion is weighed with what else an
item shows there (`handful.engines.evidence`, `handful.engines.verdict`). Every answer comes from that verdict:
P(unknown), its mean as the estimate of the share, the interval, and how sure a label is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, as_like, at_least, class_count, sigmoid, to_numpy, with_unknown
from handful.core.parameters import Count, OutlierShare, Positive, Whole, inner_share, is_auto
from handful.engines.density import OUTLIER_FLOOR
from handful.engines.evidence import Evidence, describe, look, look_at_new
from handful.engines.hidden import Hidden, hide_each
from handful.engines.share import MAX_QUERIES
from handful.engines.share_statistics import TRIED_SHARES, interpolate
from handful.engines.verdict import judge, sharpened
from handful.methods import eol, kdo
from handful.methods.registry import Backend, Info, Solution, register

INFO = Info(
    name="eol_kdo",
    estimator="EOLKDO",
    title="EOL + KDO",
    authors="The handful project",
    year=2026,
    paper="none: docs/reference/methods.md has the equations",
    paradigm="transductive",
    preparation=("signed(0.6)", "l2", "task", "l2"),
    score="probability",
    summary="EOL and KDO, which seldom fail together, and a verdict on what else an item shows in its pile.",
    new_items="by the learned prototypes, the densities where they ended, and what they show among the stored items",
    state={
        **{name: f"1 E{axes.removeprefix('1')}" for name, axes in eol.INFO.state.items()},  # at E shares
        **kdo.INFO.state,
        "codes": "1 S",
        "seen.odds": "1 I",
        "seen.mass": "1 I N",
        "seen.links": "1 I N",
        "seen.ridge": "1 I N",
        "seen.within": "1 N",
        "seen.mean": "1",
        "seen.spread": "1",
        "seen.sorted_odds": "1 Q",
        "seen.sorted_ridge": "1 Q",
        "verdict.weights": "1 F",
        "verdict.constant": "1",
        "verdict.power": "1",
    },
)


EOL_LEVELS = (0.2, 0.8)  # of the posterior: the shares that EOL is solved at
SEEN = "seen."  # the prefix of what new items are compared with


def _first_opinion(by_eol: Sequence[tuple[Array, Array]], by_kdo: tuple[Array, Array]) -> tuple[np.ndarray, np.ndarray]:
    """P(class | known) and P(unknown): the mean of KDO and of the mean of EOL's runs."""
    classes, p_unknown = _mean([_mean(by_eol), by_kdo])
    return to_numpy(classes).astype(np.float64), to_numpy(p_unknown).astype(np.float64)


def _mean(answers: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The mean of several answers: of P(class | known), and of P(outlier)."""
    classes: Array = 0.0
    outlier: Array = 0.0
    for p, o in answers:
        known = array_namespace(p).sum(p, axis=-1, keepdims=True)  # not 1 - outlier, which may round to 0
        classes = classes + p / at_least(known, FLOOR) / len(answers)
        outlier = outlier + o / len(answers)
    return classes, outlier


@dataclass
class Opinion:
    """The first opinion on a batch of piles, the mean of EOL and KDO, and what the verdict is made of."""

    classes: np.ndarray  # [B, Q, N], P(class | known)
    p_unknown: np.ndarray  # [B, Q]
    evidence: Evidence  # what the items show
    pile: np.ndarray  # [B, P], what the pile shows
    hidden: Hidden  # where hidden examples landed
    belief: kdo.Belief  # of the share
    state: dict[str, Array]  # what scores new items by EOL and KDO


def opinion(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    *,
    outlier_share: Any = "auto",
    neighbours: int = 10,
    passes: int = 11,
    backend: str = "auto",
    **descent: Any,
) -> Opinion:
    """The first opinion and the evidence; the parameters are those of `eol_kdo`."""
    xp, ways = array_namespace(support), class_count(labels)
    examples, codes = with_unknown(support, labels, unknown)
    items, belief = kdo.smooth_and_believe(examples, codes, query, ways, outlier_share, neighbours, passes, backend)
    shares: list[Any] = [outlier_share]
    if belief.posterior is not None:
        shares = list(np.clip(belief.posterior.quantiles(EOL_LEVELS), TRIED_SHARES[0], TRIED_SHARES[-1]).T)
    runs = eol.eol_at_shares(support, labels, query, unknown, shares, backend=backend, **descent)
    by_eol = [(run.probabilities, run.outlier_scores) for run in runs]
    classes, p_unknown = _first_opinion(by_eol, kdo.answer(belief.end.probabilities, belief.weights))
    state = {name: xp.stack([run.state[name] for run in runs], axis=1) for name in eol.INFO.state}

    end, codes = belief.end, to_numpy(codes)
    h = to_numpy(end.h)
    evidence = look(h, codes, ways, p_unknown, classes, backend)
    share = np.array(np.broadcast_to(inner_share(belief.outlier_share), (len(h),)), np.float64)
    beta, floor, pressure = (to_numpy(part).astype(np.float64) for part in (end.beta, end.floor, end.pressure))
    if pressure.shape[1] > 1:  # one for each share that was tried
        pressure = interpolate(share[:, None], np.array(TRIED_SHARES), pressure)
    hidden = hide_each(h, codes, ways, beta, floor / OUTLIER_FLOOR, share, pressure[:, 0], backend)
    interval = belief.interval if belief.interval is not None else np.stack([share, share], axis=1)
    pile = describe(evidence, codes, classes, p_unknown, share, interval, hidden)
    return Opinion(classes, p_unknown, evidence, pile, hidden, belief, state | kdo.state_of(items, belief))


def score_new(
    state: dict[str, Array], items: Array, *, neighbours: int = 10, temperature: float = 10.0, **_: Any
) -> tuple[Array, Array]:
    """The verdict on new items: by EOL, by KDO, and by what they show among the items of the pile."""
    runs = [{name: state[name][:, i] for name in eol.INFO.state} for i in range(state["b"].shape[1])]
    by_eol = [eol.score_new(run, items, temperature=temperature) for run in runs]
    classes, p_unknown = _first_opinion(by_eol, kdo.score_new(state, items, neighbours=neighbours))
    y_new, smooth = kdo.neighbours_of(state, neighbours).of_new(items), state["smooth"]
    h = to_numpy(y_new @ array_namespace(items).matrix_transpose(smooth))
    carried = {name.removeprefix(SEEN): to_numpy(value) for name, value in state.items() if name.startswith(SEEN)}
    seen = look_at_new(h, to_numpy(state["codes"]), p_unknown, classes, carried)
    weights, constant, power = (to_numpy(state[f"verdict.{name}"]) for name in ("weights", "constant", "power"))
    p_unknown = sigmoid((seen @ weights[..., None])[..., 0] + constant[:, None])
    return _answer(sharpened(classes, power), p_unknown, items)


def _answer(classes: np.ndarray, p_unknown: np.ndarray, like: Array) -> tuple[Array, Array]:
    return as_like(classes * (1 - p_unknown)[..., None], like), as_like(p_unknown, like)


@register(INFO, score_new=score_new, chunk_factor=4, estimates_share=True, max_queries=MAX_QUERIES)
def eol_kdo(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    *,
    outlier_share: OutlierShare = "auto",
    neighbours: Count = 10,
    passes: Count = 11,
    temperature: Positive = 10.0,
    steps: Whole = 50,
    learning_rate: Positive = 0.01,
    backend: Backend = "auto",
) -> Solution:
    """Solve tasks by EOL and by KDO, and weigh the mean of the two with what else each item shows in its pile.

    Parameters
    ----------
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
    backend : {"auto", "array"}, default "auto"
        How to compute: "auto" uses the kernels in C where they are there, "array" NumPy or torch alone.
    """
    told = None if is_auto(outlier_share) else np.broadcast_to(inner_share(outlier_share), (len(query),))
    seen = opinion(
        support, labels, query, unknown, outlier_share=outlier_share, neighbours=neighbours, passes=passes,
        temperature=temperature, steps=steps, learning_rate=learning_rate, backend=backend,
    )  # fmt: skip
    above = None if seen.belief.above is None else to_numpy(seen.belief.above)
    verdict = judge(seen.evidence.items, seen.pile, seen.classes, seen.hidden, above, told)
    carried = {SEEN + name: value for name, value in seen.evidence.carried.items()}
    learned = {"weights": verdict.weights, "constant": verdict.constant, "power": verdict.power}
    numbers = carried | {f"verdict.{name}": value for name, value in learned.items()}
    state = seen.state | {name: as_like(value, query) for name, value in numbers.items()}
    state["codes"] = with_unknown(support, labels, unknown)[1]
    share = outlier_share if told is not None else verdict.share if query.shape[1] else seen.belief.outlier_share
    return Solution(
        *_answer(verdict.classes, verdict.p_unknown, query), state, share, steps, share_interval=verdict.interval,
        is_calibrated=True, share_posterior=verdict.above,
        examples={"p_own": seen.hidden.p_own, "rank": seen.hidden.rank}, precision_spread=verdict.spread,
    )  # fmt: skip

"""The verdict on each item: P(unknown) from what it shows in its pile, the same weights for every pile.

EOL and KDO rank the unknowns of a pile well, but where they end is uncertain. So their answer is one piece of evidence
among others (`handful.engines.evidence`), which are weighed by a logistic model::

    z_i = a + sum_f (u_f + v_f estimate + w_f log classes) x_if + sum_p c_p y_p,   P(unknown) = sigmoid(z_i)

with x the numbers of the item and y those of its pile. Its mean over the pile is one estimate of the share. Another one
is the median of a posterior over shares, as in `handful.engines.share_posterior`, whose main number is that mean: it
knows the pile as a whole, above all one without unknowns. z is shifted until the mean of P(unknown) is halfway between
the two, which is then the estimate; the posterior gives the interval. A share that is told shifts z until the mean of
P(unknown) is that share. In piles of under 20 items the shift is smaller, and under five EOL and KDO decide alone.

P(class | known) is raised to a power t and normalised again, because EOL and KDO are too sure where the features are
poor, and hidden examples show it (`handful.engines.hidden`)::

    log t = weighted sum of: how much surer hidden examples are than right, 1 - P(own class), shots, classes

How far the part of the labels that is right may be below and above what is expected, in log-odds, is learned likewise:
the 10 and 90 % quantiles are weighted sums of what the pile shows.

The weights were learned from random piles of many feature sets (benchmarks/learn_verdict.py), each pile weighing alike;
docs/explanation/verdict.md shows them at work. They are data, in verdict.json beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from handful.core.arrays import FLOOR, sigmoid
from handful.core.decide import shift_of
from handful.engines.evidence import ITEM, PILE, log_odds
from handful.engines.hidden import Hidden
from handful.engines.share import Share
from handful.engines.share_posterior import Posterior
from handful.engines.share_statistics import TRIED_SHARES

SHIPPED = Path(__file__).with_name("verdict.json")
USUAL_CLASSES = 1.5  # log of the number of classes
MODIFIERS = ("estimate", "log classes")
COLUMNS = (*ITEM, *PILE, *(f"{name} x {by}" for by in MODIFIERS for name in ITEM))
POWERS = ("always", "too sure", "not its own", "hidden", "log shots", "log classes")
SPREADS = (*POWERS, "interval")
MIN_ITEMS = 5  # of a pile that shows anything
FEW_HIDDEN = 5  # so many hidden examples count half
MAX_LOG_POWER = 2.0


@dataclass(frozen=True, eq=False)
class Weights:
    """What the evidence weighs."""

    constant: float  # a
    columns: np.ndarray  # for each of `COLUMNS`
    powers: np.ndarray  # for each of `POWERS`
    spreads: np.ndarray  # for each of `SPREADS`, at the low and at the high end
    share: Posterior

    def of_pile(self, pile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The weights of the numbers of an item [B, F] and the constant [B], from the numbers of the pile [B, P]."""
        own, of_pile, *by = np.split(self.columns, np.cumsum([len(ITEM), len(PILE), len(ITEM)]))
        factors = modifiers(pile)
        weights = own + sum(factors[:, i, None] * part for i, part in enumerate(by))
        return weights, self.constant + pile @ of_pile

    @classmethod
    def from_json(cls, text: str) -> Weights:
        """Read a document such as verdict.json."""
        content = json.loads(text)
        columns, powers = content["weights"], content["power"]
        spreads = [[content[end][name] for name in SPREADS] for end in ("low", "high")]
        return cls(
            float(content["constant"]), np.array([columns[name] for name in COLUMNS], float),
            np.array([powers[name] for name in POWERS], float), np.array(spreads, float),
            Posterior.from_json(json.dumps(content["share"])),
        )  # fmt: skip


@cache
def shipped() -> Weights:
    """The weights that come with handful."""
    return Weights.from_json(SHIPPED.read_text("utf-8"))


_chosen: list[Weights] = []


def current() -> Weights:
    """The weights in use: the shipped ones, or those of `using`."""
    return _chosen[-1] if _chosen else shipped()


@contextmanager
def using(weights: Weights | None) -> Iterator[None]:
    """Use other weights in this process for a while; None changes nothing."""
    if weights is None:
        yield
        return
    _chosen.append(weights)
    try:
        yield
    finally:
        _chosen.remove(weights)


@dataclass
class Verdict:
    """The answers for a batch of piles."""

    p_unknown: np.ndarray  # [B, Q]
    classes: np.ndarray  # P(class | known), [B, Q, N]
    above: np.ndarray | None  # P(share > g) for each of `TRIED_SHARES`, [B, G]; None if the share was told
    spread: np.ndarray  # the interval of the precision of labels about the expected one, in log-odds, [B, 2]
    weights: np.ndarray  # what gave these answers: of the items' numbers [B, F],
    constant: np.ndarray  # with the shift [B],
    power: np.ndarray  # and t [B]

    @property
    def share(self) -> np.ndarray:
        """The estimate of the share, [B]."""
        return np.asarray(self.p_unknown.mean(axis=1))

    @property
    def interval(self) -> np.ndarray | None:
        """The interval that should hold the share four times in five [B, 2]; None if it was told."""
        if self.above is None:
            return None
        low, high = Share(self.above).interval.T
        if not self.p_unknown.shape[1]:
            return np.stack([low, high], axis=1)
        return np.stack([np.minimum(low, self.share), np.maximum(high, self.share)], axis=1)


def judge(
    items: np.ndarray,
    pile: np.ndarray,
    classes: np.ndarray,
    hidden: Hidden,
    above: np.ndarray | None,
    told: np.ndarray | None,
) -> Verdict:
    """Weigh the evidence of a batch of piles; `above` is what KDO believes of the share, `told` the share [B]."""
    chosen = current()
    weights, constant = chosen.of_pile(pile)
    shown = power_columns(pile, hidden)
    power = np.exp(np.clip(shown @ chosen.powers, -MAX_LOG_POWER, MAX_LOG_POWER))
    if items.shape[1] < MIN_ITEMS:  # nothing to compare with: EOL and KDO decide alone
        weights, constant, power = weights * 0, constant * 0, power * 0 + 1
        weights[:, ITEM.index("log-odds")] = 1
    odds = (items @ weights[..., None])[..., 0] + constant[:, None]
    p_unknown: np.ndarray = sigmoid(odds)
    believed, target = None if told is not None else above, told
    if believed is not None and items.shape[1] >= MIN_ITEMS:
        believed = chosen.share.above(share_columns(pile, p_unknown, believed, hidden))
        target = (p_unknown.mean(axis=1) + Share(believed).estimate) / 2
    if target is not None:
        shift = shift_of(p_unknown, target, np.inf)
        constant, p_unknown = constant + shift, sigmoid(odds + shift[:, None])
    spread = spread_columns(shown, believed) @ chosen.spreads.T
    return Verdict(p_unknown, sharpened(classes, power), believed, spread, weights, constant, power)


def modifiers(pile: np.ndarray) -> np.ndarray:
    """The factors of the numbers of an item, by the numbers of its pile, [B, 2]."""
    factors = pile[:, [PILE.index(name) for name in MODIFIERS]] - np.array([0.0, USUAL_CLASSES])
    return np.asarray(factors)


def sharpened(classes: np.ndarray, power: np.ndarray) -> np.ndarray:
    """P(class | known) [B, M, N] raised to a power [B], normalised again."""
    p = np.maximum(classes / np.maximum(classes.max(axis=-1, keepdims=True), FLOOR), FLOOR) ** power[:, None, None]
    p /= p.sum(axis=-1, keepdims=True)
    return np.asarray(p)


def power_columns(pile: np.ndarray, hidden: Hidden) -> np.ndarray:
    """The numbers `POWERS` of each task, [B, 6]."""
    is_seen = np.isfinite(hidden.rank)
    count = np.maximum(is_seen.sum(axis=1), 1)
    given_known = hidden.p_own / np.maximum(1 - hidden.p_unknown, FLOOR)
    too_sure = np.where(is_seen, hidden.certainty - (given_known >= hidden.certainty - 1e-6), 0).sum(axis=1) / count
    missing = np.where(is_seen, 1 - hidden.p_own, 0).sum(axis=1) / count
    trust = is_seen.sum(axis=1) / (is_seen.sum(axis=1) + FEW_HIDDEN)
    shots, classes = pile[:, PILE.index("log shots")], pile[:, PILE.index("log classes")]
    return np.stack([np.ones_like(shots), trust * too_sure, trust * missing, trust, shots, classes], axis=1)


def spread_columns(shown: np.ndarray, believed: np.ndarray | None) -> np.ndarray:
    """The numbers `SPREADS` of each task [B, 7]: those of `POWERS`, and the width of the interval of the share."""
    width = np.zeros((len(shown), 1)) if believed is None else np.diff(Share(believed).interval, axis=1)
    return np.concatenate([shown, width], axis=1)


def share_columns(pile: np.ndarray, p_unknown: np.ndarray, above: np.ndarray, hidden: Hidden) -> dict[str, np.ndarray]:
    """What a pile shows of its share, by the verdict on its items: numbers at each of `TRIED_SHARES`, [B, G]."""
    g = np.array(TRIED_SHARES)
    of = {name: pile[:, i, None] for i, name in enumerate(PILE)}
    mean, odds_of_g = p_unknown.mean(axis=1)[:, None], log_odds(g)
    few, many = np.exp(-of["log shots"]), of["log items"] - 4.5
    is_seen = np.isfinite(hidden.rank)
    trust = (is_seen.sum(axis=1) / (is_seen.sum(axis=1) + FEW_HIDDEN))[:, None]
    own = np.where(is_seen, np.nan_to_num(hidden.p_own), 0).sum(axis=1) / np.maximum(is_seen.sum(axis=1), 1)
    main = {
        "estimate": log_odds(mean, 0.005) - odds_of_g, "share - g": mean - g, "before": log_odds(above),
        "log-odds of g": np.broadcast_to(odds_of_g, above.shape),
    }  # fmt: skip
    columns = {"g": np.broadcast_to(g, above.shape)}
    for name, values in main.items():
        columns |= {name: values, f"{name} / shots": values * few, f"{name} x log items": values * many}
    columns |= {
        "hidden: rank": trust * (of["hidden: rank"] - (1 - g) / 2),
        "hidden: rank at 70 %": trust * (of["hidden: rank at 70 %"] - 0.7 * (1 - g)),
        "hidden: own": trust * own[:, None] + 0 * g, "hidden: own x g": trust * own[:, None] * (g - 0.5),
        "hidden: log-odds": trust * of["hidden: log-odds"] + 0 * g,
        "hidden: log-odds x g": trust * of["hidden: log-odds"] * (g - 0.5),
        "hidden": trust + 0 * g, "hidden x g": trust * (g - 0.5),
    }  # fmt: skip
    for name in ("log shots", "nothing hidden", "log items", "log classes", "spread", "certainty"):
        columns |= {name: of[name] + 0 * g, f"{name} x g": of[name] * (g - 0.5)}
    return columns

"""One labelling of the pile from the labels given so far: solved, kept, and seen at any threshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np

from handful.core.decide import ENOUGH
from handful.utils.shares_in_words import about, percent, span
from handful.workbench.domain.pile import Pile
from handful.workbench.domain.run_arrays import pack, read_facts, unpack

NONE = -1  # no label, no decision
UNKNOWN = 0  # the class of what belongs to none
BINS = 40  # of the histogram


@dataclass(frozen=True)
class Run:
    """What the method said of the items that had no label, n of them, and N classes that had examples."""

    id: int
    made: str
    threshold: float  # of the scores: above it, an item is unknown
    facts: dict[str, Any]  # method, share and its interval, groups, what was left out
    classes: np.ndarray  # [N] their numbers
    ids: np.ndarray  # [n]
    probabilities: np.ndarray  # [n, N] P(class | known)
    scores: np.ndarray  # [n]
    p_unknown: np.ndarray  # [n] calibrated; NaN where scores only rank
    previous: np.ndarray  # [n] what the run before decided, NONE where it did not
    map_ids: np.ndarray  # [m]
    flat: np.ndarray  # [m, 2] places on a plane

    @property
    def unknown(self) -> np.ndarray:
        return self.scores > self.threshold

    @property
    def decisions(self) -> np.ndarray:
        return np.where(self.unknown, UNKNOWN, self.classes[self.probabilities.argmax(axis=1)])

    @property
    def confidence(self) -> np.ndarray:
        """P(class) of a known item, P(unknown) of an unknown one; P(class | known) where scores only rank."""
        best = self.probabilities.max(axis=1)
        sure = np.where(self.unknown, self.p_unknown, best * (1 - self.p_unknown))
        return np.where(np.isnan(self.p_unknown), best, sure)

    @property
    def changed(self) -> np.ndarray:
        return (self.previous != NONE) & (self.previous != self.decisions)

    def at(self, threshold: float) -> Run:
        return replace(self, threshold=threshold)

    def packed(self) -> bytes:
        return pack(vars(self))

    @classmethod
    def unpacked(cls, number: int, made: str, threshold: float, facts: str, arrays: bytes) -> Run:
        """`ValueError` if it is no run that `packed` has packed."""
        return cls(number, made, threshold, read_facts(facts), **unpack(arrays))

    def histogram(self) -> dict[str, Any]:
        low, high = float(self.scores.min()), float(self.scores.max())
        if self.facts["is_probability"]:
            low, high = 0.0, 1.0
        elif low == high:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, BINS + 1)
        known, unknown = (np.histogram(self.scores[x], edges)[0].tolist() for x in (~self.unknown, self.unknown))
        return {"edges": edges.tolist(), "known": known, "unknown": unknown, "threshold": self.threshold}

    def counts(self) -> dict[str, int]:
        unknown = int(self.unknown.sum())
        return {"labelled": len(self.ids) - unknown, "unknown": unknown, "changed": int(self.changed.sum())}

    def sentence(self) -> str:
        """What came out, in words."""
        count, facts = self.counts(), self.facts
        parts = [f"{count['labelled']:,} labelled, {count['unknown']:,} unknown"]
        if facts["again"]:
            parts[0] += f", {count['changed']:,} changed since the last run"
        share, interval = facts["share"], (facts["share_low"], facts["share_high"])
        if facts["share_told"]:
            parts.append(f"You said that {about(share)} of the pile are unknown")
        elif len(self.ids) < ENOUGH:
            parts.append(f"The pile is too small to show how much of it is unknown: {percent(share)} was taken")
        else:
            between = "" if None in interval else span(share, interval)
            parts.append(f"{about(share)[0].upper()}{about(share)[1:]} of the pile look unknown{between}")
        if facts["left_out"]:
            names, one = ", ".join(facts["left_out"]), len(facts["left_out"]) == 1
            parts.append(f"Left out, as no example {'of it' if one else 'of them'} is given: {names}")
        return ". ".join(parts) + "."


@dataclass(frozen=True)
class Seen:
    """A run beside the items of a pile, by their rows; NONE or NaN where the run says nothing."""

    decision: np.ndarray  # [n]
    confidence: np.ndarray
    p_unknown: np.ndarray
    score: np.ndarray
    changed: np.ndarray  # bool
    group: np.ndarray  # 0 for none
    place: np.ndarray  # [n] the row in the run's arrays, NONE
    groups: dict[int, np.ndarray]  # rows, the most central first

    @classmethod
    def of(cls, run: Run | None, pile: Pile, classes: Any) -> Seen:
        n = len(pile)
        decision, place, group = np.full(n, NONE), np.full(n, NONE), np.zeros(n, int)
        confidence, p_unknown, score = (np.full(n, np.nan) for _ in range(3))
        changed = np.zeros(n, bool)
        groups: dict[int, np.ndarray] = {}
        if run is not None:
            rows = np.array([pile.row.get(item, NONE) for item in run.ids.tolist()], int)
            here = np.flatnonzero(rows >= 0)
            rows = rows[here]
            said = run.decisions
            said[~np.isin(said, [UNKNOWN, *classes])] = NONE  # its class was deleted since
            decision[rows], place[rows], changed[rows] = said[here], here, run.changed[here]
            confidence[rows], score[rows] = run.confidence[here], run.scores[here]
            p_unknown[rows] = run.p_unknown[here]
            for number, items in enumerate(run.facts["groups"], 1):
                members = np.array([pile.row[item] for item in items if item in pile.row], int)
                members = members[decision[members] == UNKNOWN]
                if len(members):
                    groups[number], group[members] = members, number
        return cls(decision, confidence, p_unknown, score, changed, group, place, groups)


def solve_pile(
    pile: Pile,
    given: np.ndarray,
    classes: dict[int, str],
    before: Run | None,
    *,
    method: str,
    outlier_share: float | str,
    step: Callable[[int], None],
) -> Run:
    """Label what has no label; `step` is called between the parts of the work, 0 to 3, and may raise to stop it."""
    from handful.label.labelling import label_items
    from handful.label.pile_report import flat_map

    step(0)
    usable = pile.ready & pile.there
    shown = np.flatnonzero(usable & (given > UNKNOWN))
    rest = np.flatnonzero(usable & (given == NONE))
    check_enough(given[usable], classes)
    if not len(rest):
        raise ValueError("every picture has a label: there is nothing left to label")
    named = [classes[code] for code in given[shown].tolist()]
    examples = pile.items(shown, named)
    labelled = label_items(examples, pile.items(rest), method=method, outlier_share=outlier_share)
    step(1)
    groups = [pile.ids[rest[group.items]].tolist() for group in labelled.groups]
    step(2)
    flat = np.array(flat_map(labelled.pile, examples, range(len(rest))), np.float32)
    number = {name: code for code, name in classes.items()}
    columns = np.array([number[str(name)] for name in labelled.model.classes_.tolist()], np.int64)
    share, interval = labelled.share, labelled.share["outlier_share_interval"] or (None, None)
    has = set(given[shown].tolist())
    facts = {
        "method": labelled.model._method,
        "is_probability": labelled.is_probability,
        "share": float(share["outlier_share"]), "share_low": interval[0], "share_high": interval[1],
        "share_told": share["outlier_share_told"],
        "groups": groups,
        "left_out": [name for code, name in classes.items() if code not in has],
        "again": before is not None,
    }  # fmt: skip
    p = labelled.p_unknown
    run = Run(
        0, datetime.now(timezone.utc).isoformat(timespec="seconds"), float(labelled.model.threshold_), facts, columns,
        pile.ids[rest], labelled.probabilities.astype(np.float32), np.asarray(labelled.scores, np.float64),
        np.full(len(rest), np.nan) if p is None else p, _previous(before, pile.ids[rest]),
        pile.ids[np.concatenate([rest, shown])], flat,
    )  # fmt: skip
    step(3)
    return run


def check_enough(given: np.ndarray, classes: dict[int, str]) -> None:
    """Without an example there is nothing to go by."""
    if not classes:
        raise ValueError("there are no classes yet: add one and give it a few examples first")
    if not (given > UNKNOWN).any():
        raise ValueError("no class has an example yet: label a few pictures of each class first")


def _previous(before: Run | None, ids: np.ndarray) -> np.ndarray:
    if before is None:
        return np.full(len(ids), NONE)
    said = dict(zip(before.ids.tolist(), before.decisions.tolist(), strict=True))
    return np.array([said.get(item, NONE) for item in ids.tolist()], np.int64)
